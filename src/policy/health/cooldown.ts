/**
 * Cooldowns: keys, models and endpoints that are not tried before a certain time, and why. They are independent of
 * circuits: a target is tried if its circuits admit it and none of its cooldowns is active. A success removes a cooldown.
 */
import { doubled, equalJitter } from '../retry/backoff.ts'

/** Why a cooldown started. */
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
  | 'resting'

/** A cooldown. Pure data; the caller stores it. */
export type Cooldown = {
  readonly why: CooldownReason
  /** ms of the monotonic clock. */
  readonly until: number
  /** An operator disabled the key or rests the provider, for this reason. */
  readonly decision?: string
  /** The upstream stated the end; absent: estimated. */
  readonly fromUpstream?: true
  /** How many cooldowns in a row, from 1: another starts when the first attempt after one fails. */
  readonly strikes: number
  /** When the first cooldown of the series started. */
  readonly since: number
  /** While a trial request is in flight: until when other requests wait for its result. */
  readonly trialUntil?: number
}

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** The duration in ms of the n-th cooldown in a row (from 1). `hint`: the wait in ms that the upstream requested. */
type Schedule = (strikes: number, hint: number | undefined, random: () => number) => number

const SCHEDULES: { readonly [why in CooldownReason]: Schedule } = {
  rate_limited: (strikes, hint, random) => hint ?? equalJitter(strikes - 1, SECOND, MINUTE, random),
  quota_exhausted: (strikes, hint) => hint ?? doubled(strikes - 1, 15 * MINUTE, 6 * HOUR),
  suspended: () => MINUTE,
  // The first strike was the suspension.
  disabled: (strikes) => doubled(strikes - 2, 5 * MINUTE, HOUR),
  model_denied: () => 10 * MINUTE,
  model_missing: () => 10 * MINUTE,
  overloaded: (strikes, hint, random) => Math.max(hint ?? 0, equalJitter(strikes - 1, SECOND, 30 * SECOND, random)),
  tls: () => MINUTE,
  redirect: () => MINUTE,
  // An operator chooses its end.
  resting: () => MINUTE,
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

/** Whether the cooldown forbids an attempt now. */
export const isCoolingDown = (cooldown: Cooldown | undefined, now: number): cooldown is Cooldown =>
  cooldown !== undefined && (now < cooldown.until || (cooldown.trialUntil !== undefined && now < cooldown.trialUntil))

/** Admits one trial request after a cooldown. Others wait for its result, at most `ms` milliseconds. */
export const startTrial = (cooldown: Cooldown, now: number, ms: number): Cooldown => ({
  ...cooldown,
  trialUntil: now + ms,
})

/** `suspended` and `disabled` are stages of the same cooldown. */
const family = (why: CooldownReason): CooldownReason => (why === 'disabled' ? 'suspended' : why)
