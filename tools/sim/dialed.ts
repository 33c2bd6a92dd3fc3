import type { Mode, Played, Script } from './upstreams.ts'
import type { Claim } from './watch.ts'

/** One call, from the upstream's side. */
export type Dialed = {
  readonly number: number
  readonly tag: string
  readonly at: number
  readonly provider: string
  readonly key: string
  readonly model: string
  readonly stream: boolean
  readonly mode: Mode
  readonly script: Script
  readonly claim: Claim | null
  played: Played | null
  headAt: number | null
  /** Enough was sent to recognise the response as complete. */
  finished: boolean
  /** All of it was sent. */
  told: boolean
  /** Pieces written while the client was full. */
  readOn: number
}
