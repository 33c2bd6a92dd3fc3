import type { Mode, Played, Script } from './upstreams.ts'
import type { Claim } from './watch.ts'

/** One call upstream, as the upstream sees it. */
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
  /** Enough was sent for the answer to be known as complete. */
  finished: boolean
  /** The last of it was sent. */
  told: boolean
  /** Pieces of it that were written on while its client was full. */
  readOn: number
}
