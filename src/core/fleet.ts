/** The gateways that share a store. */

/** The state of a gateway. Plain JSON data. */
export type GatewayState = {
  readonly version: string
  readonly status: 'ok' | 'degraded' | 'draining'
  /** The components that do not work. */
  readonly problems: readonly string[]
  /** ms by which its usage in the database is late. */
  readonly lag_ms: number
  /** ISO 8601. */
  readonly started_at: string
  readonly requests_in_progress: number
  readonly processes: { readonly answered: number; readonly of: number }
}

/** A gateway. `seen_ms`: age of its last message; 0: this one. */
export type ListedGateway = GatewayState & { readonly node: string; readonly seen_ms: number }

/** What one process replies. `name`: within its gateway, such as `1/2`; null: its only process. */
export type NamedReply = { readonly name: string | null; readonly reply: string }

/** The replies of processes. `of`: how many there should be. */
export type NamedReplies = { readonly of: number; readonly replies: readonly NamedReply[] }

/** A call about a role that one of several gateways has at a time. */
export type RoleCall =
  /** Takes it, or keeps it: whether it has it now. */
  | { readonly do: 'claim' }
  | { readonly do: 'release' }
  /** What was saved with it. */
  | { readonly do: 'load' }
  | { readonly do: 'save'; readonly body: string }

export type RoleAnswer = boolean | string | null

/** How a query of the admin API is sent. `within`: ms to answer. `isKept`: a gateway that reads it late runs it all the same. */
export type AskOptions = { readonly within: number; readonly isKept: boolean }

/** The replies of the other processes, to one of them. */
export type OthersReplies = {
  /** The name of the one that asks; null: it is the only one. */
  readonly own: string | null
  /** How many processes there should be, the one that asks included. */
  readonly of: number
  readonly others: readonly NamedReply[]
  /** The gateways that share a store, that of the one that asks first; null: it shares none. */
  readonly gateways: readonly ListedGateway[] | null
}

/** Sends a query to the other processes of this gateway and of others. Null: the supervisor does not respond. */
export type AskProcesses = (ask: string, options: AskOptions) => Promise<OthersReplies | null>
