/**
 * Cool-downs: what must not be tried before a moment, and why. Gates stand beside the circuits and never move them; a
 * target is tried when its circuit admits it and none of its gates is shut. A success removes the gate.
 */
import { doubled, equalJitter } from '../retry/backoff.ts'

export type CooldownReason =
  | 'rate_limited'
  | 'quota_exhausted'
  | 'suspended'
  | 'disabled'
  | 'model_denied'
  | 'model_missing'
  | 'overloaded'
  | 'tls'
  | 'redirect'

export type Cooldown = {
  readonly why: CooldownReason
  /** ms of the monotonic clock. */
  readonly until: number
  /** The upstream said until when; otherwise it is a guess. */
  readonly fromUpstream?: true
  /** How many times it was shut again after its time was over. */
  readonly strikes: number
  /** When the series of strikes began. */
  readonly since: number
  /** Once its time is over, one request tries: the others keep waiting for its verdict until then. */
  readonly trialUntil?: number
}

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** How long for the n-th strike (from 1), if the upstream said `hint` or nothing. */
type Schedule = (strikes: number, hint: number | undefined, random: () => number) => number

const SCHEDULES: { readonly [why in CooldownReason]: Schedule } = {
  rate_limited: (strikes, hint, random) => hint ?? equalJitter(strikes - 1, SECOND, MINUTE, random),
  quota_exhausted: (strikes, hint) => hint ?? doubled(strikes - 1, 15 * MINUTE, 6 * HOUR),
  suspended: () => MINUTE,
  // Its first strike was the suspension.
  disabled: (strikes) => doubled(strikes - 2, 5 * MINUTE, HOUR),
  model_denied: () => 10 * MINUTE,
  model_missing: () => 10 * MINUTE,
  overloaded: (strikes, hint, random) => Math.max(hint ?? 0, equalJitter(strikes - 1, SECOND, 30 * SECOND, random)),
  tls: () => MINUTE,
  redirect: () => MINUTE,
}

/** Why a cooldown starts, and the wait in ms that the upstream requested, if any. */
export type CooldownCause = { readonly why: CooldownReason; readonly hintMs: number | undefined }

/**
 * Starts or extends a cooldown after a failure. Failures during a cooldown belong to the same burst: they may extend it,
 * but do not count as another strike. A key that is rejected again after its suspension is disabled.
 */
export const startCooldown = (
  before: Cooldown | undefined,
  { why, hintMs }: CooldownCause,
  now: number,
  random: () => number,
): Cooldown => {
  const series = before && family(before.why) === family(why) ? before : undefined
  // A hint of 0 after a rejection does not state when a retry may succeed.
  const hint = hintMs !== undefined && Number.isFinite(hintMs) && hintMs > 0 ? hintMs : undefined
  const sameBurst = before !== undefined && now < before.until
  if (sameBurst && series && hint === undefined) return before
  const strikes = Math.max(series ? series.strikes + (sameBurst ? 0 : 1) : 1, why === 'disabled' ? 2 : 1)
  const step = family(why) !== 'suspended' ? why : strikes > 1 ? 'disabled' : 'suspended'
  const until = now + SCHEDULES[step](strikes, hint, random)
  if (sameBurst && before.until >= until) return before
  return { why: step, until, ...(hint !== undefined && { fromUpstream: true }), strikes, since: series?.since ?? now }
}

/** Whether the target must not be tried now. */
export const isCoolingDown = (gate: Cooldown | undefined, now: number): gate is Cooldown =>
  gate !== undefined && (now < gate.until || (gate.trialUntil !== undefined && now < gate.trialUntil))

/** Admits one trial request after a cooldown. Others wait for its result, at most `ms` milliseconds. */
export const startTrial = (gate: Cooldown, now: number, ms: number): Cooldown => ({ ...gate, trialUntil: now + ms })

/** `suspended` and `disabled` are stages of the same cooldown. */
const family = (why: CooldownReason): CooldownReason => (why === 'disabled' ? 'suspended' : why)
