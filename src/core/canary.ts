/** Canaries: a target of a route that receives a growing share of its sessions while it does as well as the others. */

export type CanaryRules = {
  /** The place of the target in `targets`, from 0. */
  readonly target: number
  /** Percent of the sessions, ascending. */
  readonly steps: readonly number[]
  /** ms of each step, at least. */
  readonly every: number
  /** Points of failures, and percent of the time to first content, above the others; 0: not judged. */
  readonly stop: { readonly errors: number; readonly firstContent: number }
}

/** `step`: from 0. `since`: when it began, in ms since 1970. `reason`: why it is stopped; empty otherwise. */
export type CanaryState = {
  readonly status: 'running' | 'paused' | 'stopped'
  readonly step: number
  readonly since: number
  readonly reason: string
}

/** As `canaryStateText` writes it: `running:2:1764288000000`. */
export const CANARY_STATE = /^(running|paused|stopped):([0-9]{1,2}):([0-9]{1,15})$/

/** The state without its reason, for the store of decisions. */
export const canaryStateText = ({ status, step, since }: CanaryState): string => `${status}:${step}:${since}`

/** Undefined: not a state. */
export const canaryStateOf = (text: string, reason: string): CanaryState | undefined => {
  const [, status, step, since] = CANARY_STATE.exec(text) ?? []
  if (status !== 'running' && status !== 'paused' && status !== 'stopped') return undefined
  return { status, step: Number(step), since: Number(since), reason }
}
