/**
 * The circuit breaker of one deployment, model or endpoint, as a pure function of state, event and time. The caller stores
 * the returned state. Times are in ms of the monotonic clock. There are no timers: an open circuit whose time is over is
 * reported as half-open, and becomes half-open when the first probe is admitted.
 */
import type { CircuitRules } from '../../core/settings.ts'
import { doubled } from '../retry/backoff.ts'

/** The outcomes in one twelfth of the window. `at`: its start. */
export type Bucket = { readonly at: number; readonly successes: number; readonly failures: number }

/** The outcomes in the window. `latest`: of the current bucket, apart so that an outcome copies no list; null: none yet. */
type Outcomes = { readonly earlier: readonly Bucket[]; readonly latest: Bucket | null }
const NO_OUTCOMES: Outcomes = { earlier: [], latest: null }

type Tally = { readonly successes: number; readonly failures: number }

/** The slot of a probe in flight. It is free again at `expires`, so that a lost probe cannot keep the circuit half-open. */
type ProbeSlot = { readonly id: number; readonly expires: number }

/** How long the upstream has failed: since when the circuit has not been closed, and how many probes have failed since. */
type Outage = { readonly from: number; readonly failedProbes: number }

/**
 * The circuit is open at another gateway: until `until` one request at a time tries it here, and its outcome decides. Requests
 * without another target use it all the same. `probe`: the slot of the request that tries.
 */
type CircuitDoubt = { readonly until: number; readonly probe: ProbeSlot | null; readonly nextId: number }

/** The state of a circuit. */
export type Breaker =
  | {
      readonly state: 'closed'
      readonly generation: number
      readonly outcomes: Outcomes
      /** Failures since the last complete answer. */
      readonly consecutiveFailures: number
      /** Absent: the usual case. Any success removes it. */
      readonly doubt?: CircuitDoubt
    }
  | {
      readonly state: 'open'
      readonly generation: number
      readonly since: number
      readonly until: number
      readonly outage: Outage
      /** The outcomes in the window when it opened. */
      readonly tally: Tally
      readonly why: OpenedBy
      /** When the last early probe started, and its slot. */
      readonly lastEarly: number | null
      readonly early: ProbeSlot | null
    }
  | {
      readonly state: 'half_open'
      readonly generation: number
      readonly since: number
      readonly outage: Outage
      readonly tally: Tally
      readonly probes: readonly ProbeSlot[]
      readonly nextId: number
    }

/** Why a circuit opened. */
export type OpenedBy = 'error_threshold' | 'consecutive_failures' | 'probe_failed'

/**
 * The permission for one attempt, which is returned with its outcome. Every change of state increments the generation, and
 * the outcome of a permit of another generation changes nothing.
 */
export type CircuitPermit = {
  readonly generation: number
  readonly probe: boolean
  readonly early: boolean
  /** For a probe: the id of its slot. */
  readonly slot: number
  /** The start of the bucket in which its success was counted; null: not counted. */
  readonly countedIn: number | null
}

/** The result of requesting an attempt. `permit` is null if it was refused. */
export type CircuitAdmission = {
  readonly breaker: Breaker
  readonly permit: CircuitPermit | null
  /** If refused: the earliest time at which an attempt may be admitted. */
  readonly retryAt: number | null
}

const BUCKETS = 12
/** How long a probe's slot is kept after the attempt's time limit. */
const GRACE = 1_000
/** How long a probe's slot is kept if attempts have no time limit. */
const UNLIMITED = 30_000
/** Minimum time between early probes. */
const EARLY_LEAST = 10_000

/** A closed circuit without outcomes. */
export const closedBreaker = (generation = 0): Breaker => ({
  state: 'closed',
  generation,
  outcomes: NO_OUTCOMES,
  consecutiveFailures: 0,
})

/** The state as reported at `now`. `retryAt`: when an attempt may be admitted; null: now. */
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

/** Requests an attempt. Closed circuits admit all; half-open ones admit `rules.probes` at a time; open ones refuse. */
export const admit = (breaker: Breaker, now: number, rules: CircuitRules): CircuitAdmission => {
  switch (breaker.state) {
    case 'closed': {
      const { doubt, generation } = breaker
      if (!doubt || now >= doubt.until) return admitClosed(breaker)
      if (isActive(doubt.probe, now)) return { breaker, permit: null, retryAt: doubt.probe.expires }
      const probe = { id: doubt.nextId, expires: expiry(now, rules) }
      return {
        breaker: { ...breaker, doubt: { ...doubt, probe, nextId: doubt.nextId + 1 } },
        permit: { ...plain, generation, probe: true, slot: probe.id },
        retryAt: null,
      }
    }
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

/** Admits an attempt at a closed circuit, whatever other gateways say. */
export const admitClosed = (breaker: Extract<Breaker, { state: 'closed' }>): CircuitAdmission => ({
  breaker,
  permit: { ...plain, generation: breaker.generation },
  retryAt: null,
})

/** The circuit has opened at another gateway. An outcome here decides about it, or `until` passes. */
export const doubted = (breaker: Breaker, until: number): Breaker => {
  if (breaker.state !== 'closed') return breaker
  const { doubt } = breaker
  if (doubt && doubt.until >= until) return breaker
  return { ...breaker, doubt: { until, probe: doubt?.probe ?? null, nextId: doubt?.nextId ?? 1 } }
}

/** The circuit has closed at another gateway: if it is open here, it admits its next probe now. */
export const trusted = (breaker: Breaker, now: number): Breaker =>
  breaker.state === 'closed' ? withoutDoubt(breaker) : probedNow(breaker, now)

/**
 * Requests an attempt when all circuits that a request could use are open. An early probe is admitted once in a tenth of
 * the reset time, but not within ten seconds of the opening or of the previous early probe. With a reset time of ten
 * seconds or less this equals `admit`.
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
 * Counts a success when the first content has arrived. Counting at the end would keep a circuit half-open during a long
 * stream, and long streams would be missing from the error rate. A successful probe closes the circuit; its permit then
 * belongs to the new generation.
 */
export const commit = (
  breaker: Breaker,
  permit: CircuitPermit,
  now: number,
  rules: CircuitRules,
): { readonly breaker: Breaker; readonly permit: CircuitPermit } => {
  if (permit.generation !== breaker.generation || permit.countedIn !== null) return { breaker, permit }
  const base = breaker.state === 'closed' ? breaker : fresh(breaker.generation + 1)
  const outcomes = addOutcomes(base.outcomes, now, rules, SUCCESS)
  return {
    breaker: { state: 'closed', generation: base.generation, outcomes, consecutiveFailures: base.consecutiveFailures },
    permit: { ...plain, generation: base.generation, countedIn: bucketStart(now, rules) },
  }
}

/** The answer is complete: resets the count of consecutive failures. Counts the success if `commit` has not. */
export const complete = (breaker: Breaker, permit: CircuitPermit, now: number, rules: CircuitRules): Breaker => {
  // The usual case: counted, and without a failure before it.
  if (permit.countedIn !== null && breaker.state === 'closed' && breaker.consecutiveFailures === 0) return breaker
  const committed = commit(breaker, permit, now, rules)
  if (
    committed.permit.generation !== committed.breaker.generation ||
    committed.breaker.state !== 'closed' ||
    committed.breaker.consecutiveFailures === 0
  )
    return committed.breaker
  return { ...committed.breaker, consecutiveFailures: 0 }
}

/** Counts a failure of the upstream. If the attempt's success was counted, it is removed: a broken answer counts once, as a failure. */
export const failed = (breaker: Breaker, permit: CircuitPermit, now: number, rules: CircuitRules): Breaker => {
  if (permit.generation !== breaker.generation) return breaker
  switch (breaker.state) {
    case 'closed': {
      const { doubt, generation } = breaker
      const kept = permit.countedIn === null ? breaker.outcomes : uncountSuccess(breaker.outcomes, permit.countedIn)
      const outcomes = addOutcomes(kept, now, rules, FAILURE)
      const run = breaker.consecutiveFailures + 1
      const tally = sum(outcomes, now, rules)
      // What another gateway has found is confirmed by one failure.
      const isConfirmed = doubt && (now < doubt.until || isActive(doubt.probe, now))
      const why = isConfirmed ? 'probe_failed' : trip(tally, run, rules)
      return why
        ? open({ generation: generation + 1, outage: { from: now, failedProbes: 0 }, tally, why }, now, rules)
        : { ...breaker, outcomes, consecutiveFailures: run }
    }
    case 'half_open': {
      const { tally, outage } = breaker
      const longer = { ...outage, failedProbes: outage.failedProbes + 1 }
      return open({ generation: breaker.generation + 1, outage: longer, tally, why: 'probe_failed' }, now, rules)
    }
    case 'open':
      // An early probe failed: the circuit stays open until the same time.
      return freeSlot(breaker, permit)
    default:
      throw new Error(`unknown phase ${JSON.stringify(breaker satisfies never)}`)
  }
}

/** An outcome that is neither (rate limit, client error, client disconnect): only frees the slot of a probe. */
export const release = (breaker: Breaker, permit: CircuitPermit, _now: number, _rules: CircuitRules): Breaker =>
  permit.generation === breaker.generation && permit.probe ? freeSlot(breaker, permit) : breaker

/** A failure that another circuit counts. Removes the success counted for the attempt, because the answer broke off. */
export const withdraw = (breaker: Breaker, permit: CircuitPermit, now: number, rules: CircuitRules): Breaker =>
  breaker.state === 'closed' && permit.generation === breaker.generation && permit.countedIn !== null
    ? { ...breaker, outcomes: uncountSuccess(breaker.outcomes, permit.countedIn) }
    : release(breaker, permit, now, rules)

/** Closes the circuit, whatever its outcomes were. Outcomes of attempts in flight no longer count. */
export const closedNow = (breaker: Breaker): Breaker =>
  breaker.state === 'closed' ? withoutDoubt(breaker) : fresh(breaker.generation + 1)

const withoutDoubt = (breaker: Extract<Breaker, { state: 'closed' }>): Breaker => {
  if (!breaker.doubt) return breaker
  const { doubt: _, ...rest } = breaker
  return rest
}

/** Lets an open circuit admit its next probe now. */
export const probedNow = (breaker: Breaker, now: number): Breaker =>
  breaker.state === 'open' ? { ...breaker, until: Math.min(breaker.until, now) } : breaker

/** The counts for the status page: of the window, or of the window at opening while not closed. `errorRate` in percent. */
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
  const { successes, failures } = breaker.state === 'closed' ? sum(breaker.outcomes, now, rules) : breaker.tally
  return { successes, failures, errorRate: percent(successes, failures), openedAt: openedAt(breaker) }
}

const plain: CircuitPermit = { generation: 0, probe: false, early: false, slot: 0, countedIn: null }

const fresh = (generation: number): Extract<Breaker, { state: 'closed' }> => ({
  state: 'closed',
  generation,
  outcomes: NO_OUTCOMES,
  consecutiveFailures: 0,
})

type Opening = {
  readonly generation: number
  readonly outage: Outage
  readonly tally: Tally
  readonly why: OpenedBy
}

const open = ({ generation, outage, tally, why }: Opening, now: number, rules: CircuitRules): Breaker => ({
  state: 'open',
  generation: generation,
  since: now,
  until: now + probeWait(outage, now, rules),
  outage,
  tally,
  why,
  lastEarly: null,
  early: null,
})

/**
 * How long (ms) an open circuit waits for its next probe: `firstProbe`, doubled by each failed probe. Not longer than the
 * outage so far, so that an upstream is used again soon after a short one, and not longer than `resetTimeout`.
 */
const probeWait = ({ from, failedProbes }: Outage, now: number, { firstProbe, resetTimeout }: CircuitRules): number => {
  if (firstProbe === 0) return resetTimeout
  const longest = Math.max(firstProbe, now - from)
  return Math.min(doubled(failedProbes, firstProbe, longest), resetTimeout)
}

const halfOpen = ({ generation, since, outage, tally }: Extract<Breaker, { state: 'open' }>): Breaker => ({
  state: 'half_open',
  generation: generation + 1,
  since,
  outage,
  tally,
  probes: [],
  nextId: 1,
})

const openedAt = (breaker: Breaker): number | null => (breaker.state === 'closed' ? null : breaker.since)

const isActive = (slot: ProbeSlot | null, now: number): slot is ProbeSlot => slot !== null && now < slot.expires

const expiry = (now: number, { timeout }: CircuitRules): number => now + (timeout === 0 ? UNLIMITED : timeout) + GRACE

/** When a slot for a probe is free; null: now. */
const slotFreeAt = (probes: readonly ProbeSlot[], now: number, rules: CircuitRules): number | null => {
  const ends: number[] = []
  for (const slot of probes) if (isActive(slot, now)) ends.push(slot.expires)
  if (ends.length < rules.probes) return null
  // After a configuration change that allows fewer probes, more than one has to end first.
  return ends.sort((a, b) => a - b)[ends.length - rules.probes] ?? null
}

const freeSlot = (breaker: Breaker, { slot }: CircuitPermit): Breaker => {
  if (breaker.state === 'closed' && breaker.doubt?.probe?.id === slot)
    return { ...breaker, doubt: { ...breaker.doubt, probe: null } }
  if (breaker.state === 'half_open') return { ...breaker, probes: breaker.probes.filter(({ id }) => id !== slot) }
  // Keep the id of the last early probe, so that ids stay unique; its slot is free at once.
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

/** Half a bucket before the oldest start in the window: starts are products of a fraction and have rounding errors. */
const oldest = (now: number, rules: CircuitRules): number =>
  bucketStart(now, rules) - ((BUCKETS - 0.5) * rules.window) / BUCKETS

const sum = ({ earlier, latest }: Outcomes, now: number, rules: CircuitRules): Tally => {
  const from = oldest(now, rules)
  let successes = 0
  let failures = 0
  for (const bucket of latest ? [...earlier, latest] : earlier)
    if (bucket.at > from) {
      successes += bucket.successes
      failures += bucket.failures
    }
  return { successes, failures }
}

const SUCCESS: Tally = { successes: 1, failures: 0 }
const FAILURE: Tally = { successes: 0, failures: 1 }

const addOutcomes = (
  { earlier, latest }: Outcomes,
  now: number,
  rules: CircuitRules,
  { successes, failures }: Tally,
): Outcomes => {
  const at = bucketStart(now, rules)
  if (latest?.at === at)
    return { earlier, latest: { at, successes: latest.successes + successes, failures: latest.failures + failures } }
  const from = oldest(now, rules)
  const kept = (latest ? [...earlier, latest] : earlier).filter((bucket) => bucket.at > from)
  return { earlier: kept, latest: { at, successes, failures } }
}

/** Removes a success from its bucket, if the bucket is still in the window. */
const uncountSuccess = ({ earlier, latest }: Outcomes, at: number): Outcomes => {
  const uncounted = (bucket: Bucket) =>
    bucket.at === at && bucket.successes > 0 ? { ...bucket, successes: bucket.successes - 1 } : bucket
  return { earlier: earlier.map(uncounted), latest: latest && uncounted(latest) }
}
