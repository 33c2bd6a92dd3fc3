import type { Mode, Script, ScriptPlayer } from './upstreams.ts'
import type { HeldPermit } from './watch.ts'

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
  readonly claim: HeldPermit | null
  played: ScriptPlayer | null
  headAt: number | null
  /** Enough was sent to recognise the response as complete. */
  finished: boolean
  /** All of it was sent. */
  sent: boolean
  /** Pieces written while the client was full. */
  readOn: number
}
