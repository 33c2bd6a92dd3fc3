/**
 * The circuit that guards one deployment, model or endpoint. Pure: a function of (state, event, time); whoever asks
 * stores what comes back. Times are ms of the monotonic clock. No timers: an open circuit whose time is over *reads*
 * as half open, and becomes it when the first probe is admitted.
 */
import type { CircuitRules } from '../../core/settings.ts'

/** Outcomes of one twelfth of the window, from `at` on. */
export type Bucket = { readonly at: number; readonly successes: number; readonly failures: number }

type Tally = { readonly successes: number; readonly failures: number }

/** A probe under way. It stops counting at `expires`, so that a lost one cannot hold the circuit half open for ever. */
type ProbeSlot = { readonly id: number; readonly expires: number }

export type Breaker =
  | {
      readonly state: 'closed'
      readonly generation: number
      readonly buckets: readonly Bucket[]
      /** Failures since an answer last completed. */
      readonly consecutiveFailures: number
    }
  | {
      readonly state: 'open'
      readonly generation: number
      readonly since: number
      readonly until: number
      /** What was in the window when it opened. */
      readonly tally: Tally
      readonly why: OpenedBy
      /** When an early probe last began, and the probe itself while it is under way. */
      readonly lastEarly: number | null
      readonly early: ProbeSlot | null
    }
  | {
      readonly state: 'half_open'
      readonly generation: number
      readonly since: number
      readonly tally: Tally
      readonly probes: readonly ProbeSlot[]
      readonly nextId: number
    }

export type OpenedBy = 'error_threshold' | 'consecutive_failures' | 'probe_failed'

/**
 * Permission for one attempt, handed back with its outcome. The generation makes outcomes of an older phase harmless:
 * every change of phase counts it up, and a permit of another generation changes nothing.
 */
export type CircuitPermit = {
  readonly generation: number
  readonly probe: boolean
  readonly early: boolean
  /** Of a probe: which of the slots is its own. */
  readonly slot: number
  /** Once its success is booked: the start of the bucket it is booked in. */
  readonly countedIn: number | null
}

export type CircuitAdmission = {
  readonly breaker: Breaker
  readonly permit: CircuitPermit | null
  /** When refused: the soonest moment at which it may be admitted. */
  readonly retryAt: number | null
}

const BUCKETS = 12
/** A probe's slot outlives the attempt's own time limit by this much. */
const GRACE = 1_000
/** How long a slot is kept for a probe when attempts have no time limit. */
const UNLIMITED = 30_000
/** Early probes are never closer together than this. */
const EARLY_LEAST = 10_000

/** A fresh circuit. */
export const closedBreaker = (generation = 0): Breaker => ({
  state: 'closed',
  generation,
  buckets: [],
  consecutiveFailures: 0,
})

/** How it reads now. `retryAt` is null when an attempt would be admitted at this moment. */
export const phase = (
  breaker: Breaker,
  now: number,
  rules: CircuitRules,
): { readonly state: 'closed' | 'open' | 'half_open'; readonly retryAt: number | null } => {
  switch (breaker.state) {
    case 'closed':
      return { state: 'closed', retryAt: null }
    case 'open':
      if (now >= breaker.until) return { state: 'half_open', retryAt: null }
      return { state: isActive(breaker.early, now) ? 'half_open' : 'open', retryAt: breaker.until }
    case 'half_open':
      return { state: 'half_open', retryAt: slotFreeAt(breaker.probes, now, rules) }
    default:
      throw new Error(`unknown phase ${JSON.stringify(breaker satisfies never)}`)
  }
}

/** Asks to make an attempt. */
export const admit = (breaker: Breaker, now: number, rules: CircuitRules): CircuitAdmission => {
  switch (breaker.state) {
    case 'closed':
      return { breaker, permit: { ...plain, generation: breaker.generation }, retryAt: null }
    case 'open':
      if (now < breaker.until) return { breaker, permit: null, retryAt: breaker.until }
      return admit(halfOpen(breaker), now, rules)
    case 'half_open': {
      const full = slotFreeAt(breaker.probes, now, rules)
      if (full !== null) return { breaker, permit: null, retryAt: full }
      const { nextId: id, generation } = breaker
      const probes = [...breaker.probes.filter((slot) => isActive(slot, now)), { id, expires: expiry(now, rules) }]
      return {
        breaker: { ...breaker, probes, nextId: id + 1 },
        permit: { ...plain, generation, probe: true, slot: id },
        retryAt: null,
      }
    }
    default:
      throw new Error(`unknown phase ${JSON.stringify(breaker satisfies never)}`)
  }
}

/**
 * Asks to make an attempt when every circuit a request could use is open: one request may probe before the time is
 * over, once in a tenth of it, but never within ten seconds of the opening or of the early probe before. So with a
 * reset of ten seconds or less this is plain `admit`.
 */
export const admitEarly = (breaker: Breaker, now: number, rules: CircuitRules): CircuitAdmission => {
  if (breaker.state !== 'open' || now >= breaker.until) return admit(breaker, now, rules)
  const spacing = Math.max(EARLY_LEAST, rules.resetTimeout / 10)
  const next = (breaker.lastEarly ?? breaker.since) + spacing
  const free = isActive(breaker.early, now) ? Math.max(next, breaker.early.expires) : next
  if (now < free) return { breaker, permit: null, retryAt: Math.min(free, breaker.until) }
  const id = (breaker.early?.id ?? 0) + 1
  return {
    breaker: { ...breaker, lastEarly: now, early: { id, expires: expiry(now, rules) } },
    permit: { ...plain, generation: breaker.generation, probe: true, early: true, slot: id },
    retryAt: null,
  }
}

/**
 * The first content is here: the success is booked now, not at the end, or a probe on a long stream would keep the
 * circuit half open for minutes and healthy long streams would be missing from the ratio. Closes a circuit that was
 * being probed; the permit then belongs to the new phase.
 */
export const commit = (
  breaker: Breaker,
  permit: CircuitPermit,
  now: number,
  rules: CircuitRules,
): { readonly breaker: Breaker; readonly permit: CircuitPermit } => {
  if (permit.generation !== breaker.generation || permit.countedIn !== null) return { breaker, permit }
  const base = breaker.state === 'closed' ? breaker : fresh(breaker.generation + 1)
  const buckets = addOutcomes(base.buckets, now, rules, { successes: 1, failures: 0 })
  return {
    breaker: { ...base, buckets },
    permit: { ...plain, generation: base.generation, countedIn: bucketStart(now, rules) },
  }
}

/** The answer came to its end: only this ends a run of failures. Books the success if `commit` has not. */
export const complete = (breaker: Breaker, permit: CircuitPermit, now: number, rules: CircuitRules): Breaker => {
  const booked = commit(breaker, permit, now, rules)
  if (
    booked.permit.generation !== booked.breaker.generation ||
    booked.breaker.state !== 'closed' ||
    booked.breaker.consecutiveFailures === 0
  )
    return booked.breaker
  return { ...booked.breaker, consecutiveFailures: 0 }
}

/** A failure of health. Takes back the success booked for the same attempt: an answer that broke off counts once, as a failure. */
export const failed = (breaker: Breaker, permit: CircuitPermit, now: number, rules: CircuitRules): Breaker => {
  if (permit.generation !== breaker.generation) return breaker
  switch (breaker.state) {
    case 'closed': {
      const kept = permit.countedIn === null ? breaker.buckets : uncountSuccess(breaker.buckets, permit.countedIn)
      const buckets = addOutcomes(kept, now, rules, { successes: 0, failures: 1 })
      const run = breaker.consecutiveFailures + 1
      const tally = sum(buckets, now, rules)
      const why = trip(tally, run, rules)
      return why
        ? open({ generation: breaker.generation + 1, tally, why }, now, rules)
        : { ...breaker, buckets, consecutiveFailures: run }
    }
    case 'half_open':
      return open({ generation: breaker.generation + 1, tally: breaker.tally, why: 'probe_failed' }, now, rules)
    case 'open':
      // An early probe failed: as open as before, and until the same moment.
      return freeSlot(breaker, permit)
    default:
      throw new Error(`unknown phase ${JSON.stringify(breaker satisfies never)}`)
  }
}

/** No verdict (a rate limit, the request's own fault, a client that left): only the probe's place becomes free. */
export const release = (breaker: Breaker, permit: CircuitPermit, _now: number, _rules: CircuitRules): Breaker =>
  permit.generation === breaker.generation && permit.probe ? freeSlot(breaker, permit) : breaker

/**
 * A failure that is another circuit's: this one is not charged. The answer broke off all the same, so a success booked
 * for it is taken back.
 */
export const withdraw = (breaker: Breaker, permit: CircuitPermit, now: number, rules: CircuitRules): Breaker =>
  breaker.state === 'closed' && permit.generation === breaker.generation && permit.countedIn !== null
    ? { ...breaker, buckets: uncountSuccess(breaker.buckets, permit.countedIn) }
    : release(breaker, permit, now, rules)

/** For the status page. While not closed: what was in the window when it opened. `errorRate` in percent. */
export const counts = (
  breaker: Breaker,
  now: number,
  rules: CircuitRules,
): {
  readonly successes: number
  readonly failures: number
  readonly errorRate: number
  readonly openedAt: number | null
} => {
  const { successes, failures } = breaker.state === 'closed' ? sum(breaker.buckets, now, rules) : breaker.tally
  return { successes, failures, errorRate: percent(successes, failures), openedAt: openedAt(breaker) }
}

const plain: CircuitPermit = { generation: 0, probe: false, early: false, slot: 0, countedIn: null }

const fresh = (generation: number): Extract<Breaker, { state: 'closed' }> => ({
  state: 'closed',
  generation,
  buckets: [],
  consecutiveFailures: 0,
})

type Opening = { readonly generation: number; readonly tally: Tally; readonly why: OpenedBy }

const open = ({ generation, tally, why }: Opening, now: number, rules: CircuitRules): Breaker => ({
  state: 'open',
  generation: generation,
  since: now,
  until: now + rules.resetTimeout,
  tally,
  why,
  lastEarly: null,
  early: null,
})

const halfOpen = ({ generation, since, tally }: Extract<Breaker, { state: 'open' }>): Breaker => ({
  state: 'half_open',
  generation: generation + 1,
  since,
  tally,
  probes: [],
  nextId: 1,
})

const openedAt = (breaker: Breaker): number | null => (breaker.state === 'closed' ? null : breaker.since)

const isActive = (slot: ProbeSlot | null, now: number): slot is ProbeSlot => slot !== null && now < slot.expires

const expiry = (now: number, { timeout }: CircuitRules): number => now + (timeout === 0 ? UNLIMITED : timeout) + GRACE

/** Null: there is a place for a probe. Otherwise the moment at which enough places have expired. */
const slotFreeAt = (probes: readonly ProbeSlot[], now: number, rules: CircuitRules): number | null => {
  const ends: number[] = []
  for (const slot of probes) if (isActive(slot, now)) ends.push(slot.expires)
  if (ends.length < rules.probes) return null
  // With fewer probes allowed than before (a new configuration) more than one has to end first.
  return ends.sort((a, b) => a - b)[ends.length - rules.probes] ?? null
}

const freeSlot = (breaker: Breaker, { slot }: CircuitPermit): Breaker => {
  if (breaker.state === 'half_open') return { ...breaker, probes: breaker.probes.filter(({ id }) => id !== slot) }
  // The number of the last early probe stays known, so that two never share one; its place is free at once.
  if (breaker.state === 'open' && breaker.early?.id === slot)
    return { ...breaker, early: { id: slot, expires: Number.NEGATIVE_INFINITY } }
  return breaker
}

const percent = (successes: number, failures: number): number =>
  failures === 0 ? 0 : (100 * failures) / (successes + failures)

const trip = ({ successes, failures }: Tally, run: number, rules: CircuitRules): OpenedBy | null => {
  if (rules.consecutiveFailures > 0 && run >= rules.consecutiveFailures) return 'consecutive_failures'
  const enough = successes + failures >= rules.minRequests
  return enough && percent(successes, failures) >= rules.errorThreshold ? 'error_threshold' : null
}

const bucketStart = (now: number, { window }: CircuitRules): number => {
  const width = window / BUCKETS
  return Math.floor(now / width) * width
}

/** The oldest start still in the window, half a bucket earlier: starts are products of a fraction and may be a hair off. */
const oldest = (now: number, rules: CircuitRules): number =>
  bucketStart(now, rules) - ((BUCKETS - 0.5) * rules.window) / BUCKETS

const sum = (buckets: readonly Bucket[], now: number, rules: CircuitRules): Tally => {
  const from = oldest(now, rules)
  let successes = 0
  let failures = 0
  for (const bucket of buckets)
    if (bucket.at > from) {
      successes += bucket.successes
      failures += bucket.failures
    }
  return { successes, failures }
}

const addOutcomes = (buckets: readonly Bucket[], now: number, rules: CircuitRules, more: Tally): readonly Bucket[] => {
  const at = bucketStart(now, rules)
  const last = buckets.at(-1)
  if (last && last.at === at)
    return buckets.with(-1, {
      at,
      successes: last.successes + more.successes,
      failures: last.failures + more.failures,
    })
  const from = oldest(now, rules)
  return [...buckets.filter((bucket) => bucket.at > from), { at, ...more }]
}

/** A bucket that has left the window took its successes with it. */
const uncountSuccess = (buckets: readonly Bucket[], at: number): readonly Bucket[] =>
  buckets.map((bucket) =>
    bucket.at === at && bucket.successes > 0 ? { ...bucket, successes: bucket.successes - 1 } : bucket,
  )
