/** Outages of providers: one object for each, whatever number of circuits and probes it had. */

/** Plain JSON data: workers exchange it, and the journal has it. Times in ms since 1970. */
export type Incident = {
  readonly id: string
  /** Providers whose circuits opened: several if they share a base URL or a proxy. */
  readonly providers: readonly string[]
  /** Models whose circuits opened, at most 50; empty: only that of the base URL or the proxy. */
  readonly models: readonly string[]
  /** The base URL or the proxy whose circuit opened; null: only circuits of models. */
  readonly base_url: string | null
  /** When the first circuit opened. */
  readonly begin: number
  /** When the last one closed; null: it lasts. */
  readonly end: number | null
  /** `recovered`: a probe succeeded; `restart`: the process ended, and its circuits with it. */
  readonly ended_by: 'recovered' | 'operator' | 'restart' | 'removed' | null
  /** The kind of the failure that opened the first circuit. */
  readonly cause: string
  /** The ID of the request that had it. */
  readonly request: string | null
  /** Attempts at them that failed from then on. */
  readonly failures: number
  /** Requests that another target answered. */
  readonly rerouted: number
  /** Requests that failed. */
  readonly lost: number
}

/** An incident and the gateways that had it, by their names. */
export type NodeIncident = Incident & { readonly nodes: readonly string[] }
