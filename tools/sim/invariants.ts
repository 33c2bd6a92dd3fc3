/**
 * What must hold whatever happens. One row each: what it says, and what in this simulation looks whether it is so.
 * `absent`: why it cannot be looked at here yet; such a row is said to be unchecked, never counted as held.
 */
type Row = { readonly says: string } & ({ readonly how: string } | { readonly absent: string })

export const INVARIANTS = {
  0: {
    says: 'Nothing throws: no bug of ours reaches the border.',
    how: 'no `error` in the news, no rejected `handle`',
  },
  1: {
    says: 'A request makes no more attempts than it may, and none twice at one deployment but for a single repetition.',
    how: 'at each dial; keys that turned out dead are not counted, as the setting says',
  },
  2: {
    says: 'A request ends once: one head, one status, one terminator, and nothing behind it.',
    how: 'the reply refuses what is out of turn; what the client was sent is read again at the end',
  },
  3: {
    says: 'What a client was given is the beginning of what one attempt said; all of it, if it was said to be complete.',
    how: 'every word names its attempt and its place; read back from the client at the end of each request',
  },
  4: {
    says: 'No attempt begins after content went out, the client left, the deadline passed, or the process gave up.',
    how: 'at each dial',
  },
  5: {
    says: "What is the request's own fault, or refused for its content, is tried nowhere else and moves no state.",
    how: 'at each dial; counts and cool-downs before and after the verdict',
  },
  6: {
    says: 'A rate limit moves no circuit, and what said when to come back is not asked sooner.',
    how: 'counts before and after the verdict; each dial against the longest wait its upstreams have told',
  },
  7: {
    says: 'A refused or empty key is out alone: its siblings may be used in the same moment. Nothing rests without a cause.',
    how: "the siblings' cool-downs before and after; every refusal of the board against what upstreams said",
  },
  8: {
    says: 'An open circuit lets nothing through but a lawful early probe; a half-open one no more than its probes.',
    how: 'at each admission, against a reference circuit',
  },
  9: {
    says: 'An outcome of an earlier phase changes nothing.',
    how: 'phase and counts against a reference circuit after each outcome',
  },
  10: {
    says: 'Whatever opened closes again once its upstream is well and is asked.',
    how: 'at the end all upstreams are well, the longest reset and rest pass, and each deployment is asked once',
  },
  11: {
    says: 'A circuit opens exactly when its rule says so, and refuses only then.',
    how: 'phase against a reference circuit after each outcome; every refusal because of a circuit',
  },
  12: {
    says: 'Second and later attempts at a deployment stay within their share of its first tries and the floor.',
    how: 'each permission over the last second and the last ten; each repeat has one',
  },
  13: {
    says: 'While something untried may be tried, a request is not given up; and a whole answer is never taken for a failure.',
    how: 'at each refusal, against the reference circuits and the models of the route; at each verdict, against what the upstream said',
  },
  14: {
    says: 'What was begun is over at the end: no timer, call, claim or request is left, and gauges are zero.',
    how: 'load after each claim and outcome; everything when nothing more is to come',
  },
  15: {
    says: 'Each request is written down once, with one fact for each attempt that was made, in order.',
    how: 'the `request` news against the dials (there is no ledger beyond it yet)',
  },
  16: {
    says: 'A key reaches its own origin and nothing else; no answer, header or fact holds one.',
    how: 'at each dial; everything the client was sent and every failure in the news',
  },
  17: {
    says: 'Only whole answers are kept to be given again, and to whom they belong.',
    how: 'each answer that was joined or kept (`Idempotency-Key`, `coalesce`): whose, to what, and every word of it',
  },
  18: {
    says: 'A client that does not read holds its upstream back, and little is kept for it.',
    how: 'each piece from upstream while the client is full; characters written behind the first refusal',
  },
  19: {
    says: 'Every request ends by its time limit and a second.',
    how: 'at the end of each request',
  },
  20: {
    says: 'Equal keys that are well get equal shares.',
    how: 'first choices counted over all runs, within five standard deviations (no limit of concurrency per key exists)',
  },
  21: { says: 'Nobody of lower priority goes first.', absent: 'there are no priorities' },
  22: { says: 'Trouble of a shared store is not felt.', absent: 'there is no shared store' },
  23: {
    says: 'The wall clock may jump an hour either way.',
    how: 'the same seed without its jumps leaves the same trace',
  },
  24: {
    says: 'When the process gives up, every request ends at once: whole, or told why.',
    how: 'right after every live request was stopped',
  },
  25: {
    says: 'A client that leaves takes its upstream call with it in the same moment, unless the answer was over.',
    how: 'right after the client left',
  },
  26: { says: 'The same seed does the same.', how: 'two runs leave the same trace' },
  27: {
    says: 'Nobody is told to come back before anything can have changed, nor to wait longer than clients obey.',
    how: 'at each refusal, against what the board would say of every target',
  },
  28: {
    says: 'Whatever is streamed can be read: JSON or `[DONE]`, whole events, rising numbers.',
    how: 'everything a client was sent is parsed at its end',
  },
} as const satisfies { readonly [number: number]: Row }

export type InvariantNumber = keyof typeof INVARIANTS

export type Breach = { readonly invariant: InvariantNumber; readonly at: number; readonly what: string }

export const sentence = (number: InvariantNumber): string => INVARIANTS[number].says
