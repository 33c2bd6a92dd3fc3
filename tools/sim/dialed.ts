import type { Target } from '../../src/core/target.ts'
import type { AdmissionMode } from '../../src/gateway/health/upstream-health.ts'
import type { ReferenceToken } from './reference.ts'
import type { Mode, Script, ScriptPlayer } from './upstreams.ts'

/** The IDs of a target's circuits: of its endpoint, its model, its deployment, and of empty answers. */
export type Scopes = readonly [string, string, string, string]

/** A permit for a target, from its admission to its outcome. */
export type HeldPermit = {
  readonly target: Target
  readonly scopes: Scopes
  readonly how: AdmissionMode
  /** Empty if the circuits were ignored. */
  readonly tokens: readonly ReferenceToken[]
  dial: Dialed | null
  /** Its attempt has produced its first content. */
  hasOpened: boolean
  over: boolean
}

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
  /** Calls of the same request that were in flight together with this one. */
  readonly beside: Dialed[]
}

export const isProbe = ({ claim }: Dialed): boolean => claim?.tokens.some(({ kind }) => kind !== 'plain') === true

/**
 * Whether it is a probe that another attempt has overtaken. It continues to its first content, because its circuit needs the
 * outcome, and no longer belongs to its request.
 */
export const isLeft = (dial: Dialed): boolean =>
  isProbe(dial) && dial.claim?.hasOpened === false && dial.beside.some(({ claim }) => claim?.hasOpened)
