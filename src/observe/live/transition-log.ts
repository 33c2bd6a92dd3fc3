/**
 * The last changes of circuits and of providers' keys in this process, for the pages that show them on a time axis. Always
 * recorded: they are rare, and an operator looks at them after the fact.
 */
import type { GatewayEvent } from '../../core/trace.ts'

/** A change of a circuit or of the state of a key. Plain JSON data, since workers exchange them. */
export type Transition = {
  /** Unique in this process. */
  readonly number: number
  /** ms since 1970. */
  readonly at: number
  readonly what: 'deployment' | 'model' | 'endpoint' | 'proxy' | 'answers' | 'provider' | 'key'
  /** The ID of the provider; null: a base URL or a proxy, which several providers may share. */
  readonly provider: string | null
  readonly credential: string | null
  readonly model: string | null
  /** The base URL, or the ID of a proxy. */
  readonly base_url: string | null
  readonly from: string
  readonly to: string
  readonly why: string | null
  /** ISO 8601. */
  readonly until: string | null
  /** The ID of the request that caused it. */
  readonly request: string | null
}

/** Transitions that are kept. */
const MOST = 2_000

export class TransitionLog {
  readonly #date: () => number
  #transitions: Transition[] = []
  #count = 0

  /** `date`: ms since 1970. */
  constructor(date: () => number) {
    this.#date = date
  }

  /** Keeps an event of a circuit or a key. */
  observe(event: GatewayEvent): void {
    const found = transitionOf(event)
    if (!found) return
    this.#transitions.push({ number: ++this.#count, at: this.#date(), ...found })
    // Half at once, so that few events copy the list.
    if (this.#transitions.length > MOST * 1.5) this.#transitions = this.#transitions.slice(-MOST)
  }

  /** Those from `from` until before `to` (ms since 1970), the oldest first; at most `limit`, the newest of them. */
  between({ from, to }: { readonly from: number; readonly to: number }, limit: number): readonly Transition[] {
    return this.#transitions.filter(({ at }) => at >= from && at < to).slice(-limit)
  }
}

/** The change that an event reports; null: it reports none. */
export const transitionOf = (event: GatewayEvent): Omit<Transition, 'number' | 'at'> | null => {
  if (event.event === 'key') {
    const { provider, key, from, to, until, why = null, request = null } = event
    return { what: 'key', provider, credential: key, model: null, base_url: null, from, to, why, until, request }
  }
  if (event.event !== 'circuit') return null
  const { what, name, from, to, why, request = null } = event
  return { what, ...placeOf(what, name), from, to, why, until: null, request }
}

/** The place of a circuit, from its name (see `core/target.ts`). IDs of providers and keys have no spaces. */
const placeOf = (what: Transition['what'], name: string) => {
  const [provider = '', ...rest] = name.split(' ')
  switch (what) {
    case 'endpoint':
    case 'proxy':
      return { provider: null, credential: null, model: null, base_url: name }
    case 'model':
      return { provider, credential: null, model: rest.join(' '), base_url: null }
    case 'deployment':
    case 'answers':
      return { provider, credential: rest[0] ?? null, model: rest.slice(1).join(' '), base_url: null }
    default:
      return { provider, credential: null, model: null, base_url: null }
  }
}
