/** What must be true after the scenario, one row each. Counts and bounds only: no row depends on how fast the machine is. */
import type { Exchange, Outcome } from './client.ts'
import { type Fault, redisStopped, upgraded } from './faults.ts'
import { LIMITS } from './fleet.ts'
import type { Part, Played } from './play.ts'
import { BILLED } from './provider.ts'

export type Expectation = {
  readonly name: string
  /** The fault that it is about; absent: it holds for each course. */
  readonly fault?: Fault
  /** What is wrong, a line each. */
  readonly check: (played: Played) => readonly string[]
  /** Why it does not hold yet: it is reported, and fails nothing. */
  readonly pending?: string
}

const problemsOf =
  (...kinds: readonly string[]) =>
  ({ outcomes }: Played): readonly string[] =>
    outcomes.flatMap(({ kind, name, problem }: Outcome) =>
      kinds.some((each) => kind.startsWith(each)) && problem !== null ? [`${name}: ${problem}`] : [],
    )

const sum = (counts: Iterable<number>): number => [...counts].reduce((total, count) => total + count, 0)

/** Calls that the provider has served to requests of a key. */
const callsOf = ({ served }: Played, key: string): number =>
  sum(Object.entries(served.calls).map(([name, count]) => (name.startsWith(`${key}-`) ? count : 0)))

/** Requests that were in progress when a gateway was killed: they may have a row without a call, or a second call. */
const sparedOf = ({ exchanges }: Played): ReadonlySet<string> =>
  new Set(exchanges.filter(({ spared }) => spared).map(({ name }) => name))

export const EXPECTATIONS: readonly Expectation[] = [
  {
    name: 'whole answers and streams: none fails, but those in progress at the killed gateway',
    check: problemsOf('whole', 'answer', 'stream', 'events'),
  },
  {
    name: 'conversations: none breaks; while their storage is away, turns are refused and can be repeated',
    check: problemsOf('conversation'),
  },
  {
    name: 'background responses: polled to their end at any gateway',
    check: problemsOf('background'),
  },
  {
    name: 'new keys: known to every gateway at once',
    check: ({ withNewKeys }) =>
      withNewKeys.length > 0 && withNewKeys.every((status) => status === 200)
        ? []
        : [`statuses ${withNewKeys.join(', ')}`],
  },
  { name: 'retries with an Idempotency-Key: both answers are the same', check: problemsOf('retry') },
  {
    name: 'retries with an Idempotency-Key: one call upstream, while gateways reach their storage',
    check: (played) => {
      const without = new Set(
        played.exchanges.filter(({ spared, without }) => spared || without.has('responses')).map(({ name }) => name),
      )
      const retries = Object.entries(played.served.calls).filter(
        ([name]) => name.startsWith('retry-') && !without.has(name),
      )
      const twice = retries.filter(([, count]) => count > 1).map(([name, count]) => `${name}: ${count} calls`)
      // A gateway does not wait for its storage longer than 3 s, which a busy machine may take.
      return twice.length <= retries.length / 20 ? [] : twice
    },
  },
  {
    name: 'limits and hard budgets: refusals name the limit',
    check: problemsOf('rate', 'slots', 'hard'),
  },
  {
    name: 'strict budgets: refused only while a store of counters is away',
    check: problemsOf('strict'),
  },
  {
    name: 'ledger: each call that the provider has served has one row',
    check: (played) => {
      const { served, stored } = played
      const spared = sparedOf(played)
      return [...new Set([...Object.keys(served.calls), ...stored.keys()])].flatMap((name) => {
        const [calls, rows] = [served.calls[name] ?? 0, stored.get(name) ?? 0]
        return calls === rows || (spared.has(name) && rows === calls + 1)
          ? []
          : [`${name}: ${calls} calls, ${rows} rows`]
      })
    },
  },
  {
    name: 'hard budgets: at most 1 % above their amount, whatever is away',
    check: (played) =>
      played.parts.flatMap(({ name, key }) => {
        const calls = callsOf(played, key)
        return calls > LIMITS.answers * 1.01 ? [`${name}: ${calls} answers of ${LIMITS.answers}`] : []
      }),
  },
  {
    name: 'hard budgets: spent without a fault, but for a reservation at each process',
    check: (played) => {
      const [first] = played.parts
      const calls = first ? callsOf(played, first.key) : 0
      return calls >= LIMITS.answers - PROCESSES ? [] : [`${calls} answers of ${LIMITS.answers}`]
    },
  },
  {
    name: 'hard budgets: a gateway that starts while Redis is away does not spend a used-up one again',
    fault: redisStopped,
    check: ({ startedWithout }) =>
      startedWithout.length > 0 && startedWithout.every((status) => status === 402 || status === 503)
        ? []
        : [`statuses ${startedWithout.join(', ')}`],
  },
  {
    name: 'strict budgets: what is shown as spent was billed',
    check: (played) => {
      const billed = callsOf(played, 'strict') * BILLED.cost
      const { spent, reserved } = played.strict
      const killed = [...sparedOf(played)].filter((name) => name.startsWith('strict-')).length
      const isShown = spent >= billed && spent <= billed + killed * 2 * BILLED.cost && reserved === 0
      return isShown ? [] : [`spent ${spent}, reserved ${reserved}, billed ${billed}`]
    },
  },
  {
    name: 'requests per minute: the limit and what time has refilled',
    check: (played) => {
      const { exchanges } = played
      const times = exchanges.filter(({ name }) => name.startsWith('rate-')).map(({ begun }) => begun)
      const refilled = ((Math.max(...exchanges.map(({ begun }) => begun)) - Math.min(...times)) / 60_000) * LIMITS.rate
      const calls = callsOf(played, 'rate')
      const most = Math.ceil((LIMITS.rate + refilled) * 1.01)
      return calls <= most ? [] : [`${calls} answers, at most ${most}`]
    },
  },
  {
    name: 'requests in progress: never more than the limit',
    check: ({ served }) => {
      const peak = served.peaks.slots ?? 0
      return peak > 0 && peak <= LIMITS.slots ? [] : [`${peak} at once, limit ${LIMITS.slots}`]
    },
    pending:
      'without Redis a gateway goes by its last answer, and one that has not used the limit before begins its part',
  },
  {
    name: 'a rolling upgrade: every gateway exits with 0',
    fault: upgraded,
    check: ({ exits }) =>
      exits.length > 0 && exits.every((code) => code === 0) ? [] : [`exit codes ${exits.join(', ')}`],
  },
  {
    name: 'a rolling upgrade: two versions run on the schemas that the next one has migrated',
    fault: upgraded,
    check: ({ schemas: [before = {}, next = {}] }) =>
      Object.keys(next).length > 0 && Object.entries(next).every(([name, at]) => at === (before[name] ?? 0) + 1)
        ? []
        : [`schemas ${JSON.stringify([before, next])}`],
  },
]

/** Of the fleet, each of which may be left with less than a reservation. */
const PROCESSES = 5

/** ms to the first byte after which an answer is counted as slow, by the kind of its request. */
const SLOW = 1_000

/** Requests, and ms to the first byte, of a part. For the report: nothing is asserted. */
export const figuresOf = (part: Part, played: Played): string => {
  const answers = played.exchanges.filter(
    ({ begun, status, name }: Exchange) =>
      begun >= part.begun && begun < part.ended && status === 200 && !name.startsWith('slots'),
  )
  const times = answers.map(({ first }) => first).toSorted((a, b) => a - b)
  const at = (share: number): string => (times[Math.floor(times.length * share)] ?? 0).toFixed(0)
  const seconds = ((part.ended - part.begun) / 1_000).toFixed(1)
  const kinds = Map.groupBy(answers, ({ name }) => name.split('-')[0] ?? '')
  const slow = [...kinds].flatMap(([kind, all]) => {
    const count = all.filter(({ first }) => first > SLOW).length
    return count === 0 ? [] : [`${count} of ${all.length} ${kind}`]
  })
  const slowest = slow.length === 0 ? '' : `; later than ${SLOW} ms: ${slow.join(', ')}`
  return `${part.name}: ${times.length} answers in ${seconds} s, first byte p50 ${at(0.5)} ms, p99 ${at(0.99)} ms${slowest}; budget ${callsOf(played, part.key)} of ${LIMITS.answers}`
}
