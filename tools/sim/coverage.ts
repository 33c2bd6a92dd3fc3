/** Coverage over many seeds: the situations that must occur. A simulation without a failure proves nothing about it. */
import type { FailureKind } from '../../src/core/failure.ts'
import type { Breach } from './invariants.ts'
import type { Result } from './run.ts'
import { MODES } from './upstreams.ts'

/** Failures that an attempt can meet here. Excluded: those of the edge, of other endpoints and of very large responses. */
const ATTEMPTS: readonly FailureKind[] = [
  'refused',
  'dns',
  'connect_timeout',
  'tls',
  'reset',
  'not_http',
  'not_json',
  'timeout',
  'no_first_content',
  'status',
  'error_in_stream',
  'redirect',
  'malformed',
  'truncated',
  'stalled',
  'empty',
  'conflict',
  'overloaded',
  'model_missing',
  'token_rate',
  'rate_limited',
  'quota',
  'auth',
  'permission',
  'incompatible',
  'content_policy',
  'context_length',
]

/** Further failures that a request can end with. */
const REQUESTS: readonly FailureKind[] = [
  'no_target',
  'unconfigured',
  'unknown_model',
  'invalid_json',
  'missing_parameter',
  'deadline',
  'shutdown',
  'client_gone',
  'budget_exceeded',
  'client_limit',
]

export const SOMETIMES: readonly string[] = [
  ...Object.keys(MODES).map((mode) => `mode: ${mode}`),
  ...ATTEMPTS.map((kind) => `attempt: ${kind}`),
  ...REQUESTS.map((kind) => `client error: ${kind}`),
  'sent: retry-after',
  'skipped: retry_budget',
  'skipped: circuit',
  'skipped: budget',
  'skipped: rate_limited',
  'circuit: closed→open',
  'circuit: open→half_open',
  'circuit: half_open→closed',
  'circuit: half_open→open',
  'circuit: early probe',
  // A successful early probe.
  'circuit: open→closed',
  'circuit of endpoint: →open',
  'circuit of model: →open',
  'circuit of deployment: →open',
  'key: active→quota_exhausted',
  'key: quota_exhausted→active',
  'key: active→suspended',
  'key: suspended→active',
  'key: suspended→disabled',
  'key: disabled→active',
  'ends: answered',
  'ends: refused',
  'ends: interrupted',
  'ends: client_gone',
  'left: waiting',
  'left: in the middle',
  'shutdown: with requests in progress',
  'refusal: warming',
  'hedge',
  'hedge of a probe',
  'continued',
  'shared: joined',
  'shared: stored',
  'shared: coalesced',
  'client error: idempotency_key_reused',
]

/** Results of many runs, serialisable so that processes can merge theirs. */
export type Tally = {
  seeds: number
  /** Processor time in s. */
  busy: number
  requests: number
  attempts: number
  events: number
  /** Number of seeds by situation. */
  seen: { [what: string]: number }
  /** How often each key was the first choice, by the number of equal keys. */
  shares: { [keys: number]: number[] }
  failed: { readonly seed: number; readonly breach: Breach }[]
}

export const emptyTally = (): Tally => ({
  seeds: 0,
  busy: 0,
  requests: 0,
  attempts: 0,
  events: 0,
  seen: {},
  shares: {},
  failed: [],
})

/** Maximum failed seeds that are kept. */
const MAX_FAILED = 100

export const count = (tally: Tally, { seed, breach, requests, attempts, events, seen, shares }: Result): void => {
  tally.seeds++
  tally.requests += requests
  tally.attempts += attempts
  tally.events += events
  for (const what of seen) tally.seen[what] = (tally.seen[what] ?? 0) + 1
  for (const [keys, chosen] of shares) {
    const row = tally.shares[keys] ?? Array.from({ length: keys }, () => 0)
    row[chosen] = (row[chosen] ?? 0) + 1
    tally.shares[keys] = row
  }
  if (breach && tally.failed.length < MAX_FAILED) tally.failed.push({ seed, breach })
}

export const sum = (tallies: readonly Tally[]): Tally => {
  const all = emptyTally()
  for (const one of tallies) {
    all.seeds += one.seeds
    all.busy += one.busy
    all.requests += one.requests
    all.attempts += one.attempts
    all.events += one.events
    for (const [what, times] of Object.entries(one.seen)) all.seen[what] = (all.seen[what] ?? 0) + times
    for (const [keys, row] of Object.entries(one.shares)) {
      const known = all.shares[Number(keys)] ?? row.map(() => 0)
      all.shares[Number(keys)] = known.map((times, at) => times + (row[at] ?? 0))
    }
    all.failed.push(...one.failed)
  }
  all.failed.sort((a, b) => a.seed - b.seed)
  return all
}

export const missing = ({ seen }: Tally): readonly string[] => SOMETIMES.filter((what) => !seen[what])

/** Keys whose share differs from the others by more than five standard deviations. */
export const uneven = ({ shares }: Tally): readonly string[] =>
  Object.entries(shares).flatMap(([keys, row]) => {
    const n = Number(keys)
    const total = row.reduce((all, one) => all + one, 0)
    const expected = total / n
    const sigma = Math.sqrt((total * (n - 1)) / (n * n))
    return total > 200 && row.some((one) => Math.abs(one - expected) > 5 * sigma)
      ? [`first choices of ${n} equal keys: ${row.join(', ')}`]
      : []
  })
