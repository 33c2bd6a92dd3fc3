/** What a gateway with tapes has answered and recorded since its start. */
export type TapeState = {
  readonly mode: 'record' | 'replay' | 'strict'
  readonly folder: string
  /** The tape of requests that name none. */
  readonly name: string
  readonly normalise: readonly ('dates' | 'uuids' | 'paths')[]
  /** Answers from tapes, exchanges recorded, requests without one, and exchanges that could not be recorded. */
  readonly replayed: number
  readonly recorded: number
  readonly misses: number
  readonly failed: number
  readonly last_miss: string | null
  readonly tapes: readonly TapeFigures[]
}

/** `used`: exchanges that were replayed or recorded. `problems`: lines that cannot be used. */
type TapeFigures = {
  readonly name: string
  readonly exchanges: number
  readonly used: number
  readonly bytes: number
  readonly problems: readonly string[]
}
