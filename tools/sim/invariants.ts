/**
 * The invariants of the routing code. Each row states a rule and how this simulation checks it. `unchecked`: why it cannot
 * be checked yet; such a row is reported as unchecked and never counts as held.
 */
type Row = { readonly rule: string } & ({ readonly check: string } | { readonly unchecked: string })

export const INVARIANTS = {
  0: {
    rule: 'Nothing throws.',
    check: 'no `error` event, and no rejected `handle`',
  },
  1: {
    rule: 'A request makes at most its maximum of attempts, and at most one retry at the same deployment.',
    check: 'at each call; keys that the provider rejects are not counted, as the setting states',
  },
  2: {
    rule: 'A request ends once: one header block, one status, one terminator, and nothing after it.',
    check: 'the response writer reports calls out of order; the whole response is parsed again at the end',
  },
  3: {
    rule: 'The client receives a prefix of the output of one attempt, or all of it if the response is complete.',
    check: 'each word encodes its attempt and its position; the response is parsed at the end of each request',
  },
  4: {
    rule: 'No attempt begins after content was sent, the client left, the deadline passed or shutdown began.',
    check: 'at each call',
  },
  5: {
    rule: 'A content refusal is not retried, a too long request only where it may fit. A failure of the request changes no health state.',
    check: 'at each call; counts and cooldowns before and after the outcome',
  },
  6: {
    rule: 'A rate limit does not count against a circuit, and its retry time is respected.',
    check: 'counts before and after the outcome; each call against the longest wait that the upstreams requested',
  },
  7: {
    rule: 'A rejected or exhausted key affects no other key. A cooldown always has a cause.',
    check: 'cooldowns of the other keys before and after; every refusal of a target against the upstream responses',
  },
  8: {
    rule: 'An open circuit admits only permitted early probes; a half-open one only its number of probes.',
    check: 'at each admission, against a reference circuit',
  },
  9: {
    rule: 'The outcome of an attempt that began in an earlier circuit state changes nothing.',
    check: 'state and counts against a reference circuit after each outcome',
  },
  10: {
    rule: 'Every open circuit closes again after its upstream has recovered and receives calls.',
    check: 'at the end all upstreams recover, the longest reset and cooldown pass, and each deployment is called once',
  },
  11: {
    rule: 'A circuit opens exactly when its rule requires it, and rejects only then.',
    check: 'state against a reference circuit after each outcome; every refusal because of a circuit',
  },
  12: {
    rule: 'Retries at a deployment stay within their share of first attempts plus the floor.',
    check: 'each permit over the last second and the last ten; each retry has one',
  },
  13: {
    rule: 'A request fails only if no untried target is available; and a complete response never counts as a failure.',
    check:
      'at each failed request, against the reference circuits and the models of the route; at each outcome, against the script of the upstream',
  },
  14: {
    rule: 'At the end no timer, call, permit or request is left, and all gauges are zero.',
    check: 'load after each permit and outcome; everything after the last event',
  },
  15: {
    rule: 'Each request is recorded once, with its attempts in order.',
    check: 'the `request` events against the calls (no other ledger exists yet)',
  },
  16: {
    rule: 'A key is sent only to its own origin; no response, header or trace contains one.',
    check: 'at each call; every response and every failure in the events',
  },
  17: {
    rule: 'Only complete responses are stored for reuse, and only for the client and request they belong to.',
    check: 'each joined or stored response (`Idempotency-Key`, `coalesce`): its client, its request and every word',
  },
  18: {
    rule: 'A client that does not read applies backpressure to its upstream, and few bytes are buffered for it.',
    check: 'each upstream piece while the client is full; characters written after the first `false`',
  },
  19: {
    rule: 'Every request ends within its time limit plus one second.',
    check: 'at the end of each request',
  },
  20: {
    rule: 'Healthy keys with equal weights receive equal shares.',
    check: 'first choices over all runs, within five standard deviations (no concurrency limit per key exists)',
  },
  21: { rule: 'Requests are served by priority.', unchecked: 'priorities do not exist' },
  22: { rule: 'Failures of a shared store have no effect.', unchecked: 'the simulator has no shared store' },
  23: {
    rule: 'The wall clock may jump by an hour in either direction.',
    check: 'the same seed without its jumps produces the same trace',
  },
  24: {
    rule: 'A forced shutdown ends every request at once: complete, or with an error.',
    check: 'right after all requests in flight were cancelled',
  },
  25: {
    rule: 'A client that disconnects cancels its upstream call at once, unless the response was complete. A probe that another attempt has overtaken belongs to its circuit.',
    check: 'right after the disconnect; that such a probe ends is part of 14',
  },
  26: { rule: 'The same seed produces the same trace.', check: 'two runs of a seed' },
  27: {
    rule: 'Retry-After is never sooner than a retry can succeed, nor later than clients wait.',
    check: 'at each failed request, against the state of every target',
  },
  28: {
    rule: 'Every stream is well-formed: JSON or `[DONE]`, complete events, increasing numbers.',
    check: 'every response is parsed at its end',
  },
  29: {
    rule: 'At rest nothing is reserved and no slot is in use; each attempt is charged once, as billed, and budgets are their sum.',
    check: 'budget counters and slots after the last event, against a journal in memory and what upstreams count',
  },
} as const satisfies { readonly [number: number]: Row }

export type InvariantNumber = keyof typeof INVARIANTS

/** A violated invariant. `at`: simulated time in ms. */
export type Breach = { readonly invariant: InvariantNumber; readonly at: number; readonly what: string }

export const ruleOf = (number: InvariantNumber): string => INVARIANTS[number].rule
