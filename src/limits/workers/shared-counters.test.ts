/** Several workers that share limits and a budget through one supervisor, with messages as JSON. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { testBudget, testClient } from '../../../test/support/accounts.ts'
import type { Budget } from '../../core/accounts.ts'
import type { AccountCells, Reservation } from '../../gateway/accounts/authority.ts'
import { BudgetCounters } from '../../gateway/accounts/budget-counters.ts'
import { LimitCounters } from '../../gateway/accounts/limit-counters.ts'
import type { Charge, Demand } from '../../policy/accounts/attempt-admission.ts'
import { budgetScope } from '../../policy/accounts/budget-scope.ts'
import { isUnknown, SharedAuthority, SUPERVISOR_TIMEOUT } from '../shared-authority.ts'
import { SharedCounters } from './shared-counters.ts'

const AMOUNT = 1_000
const SLOTS = 7
const PER_MINUTE = 600
const KEY = testClient({ tokensPerMinute: PER_MINUTE, concurrent: SLOTS })
const BUDGET = testBudget(AMOUNT, { period: 'total' })

const json = <T>(value: T): T => JSON.parse(JSON.stringify(value))
const needs = (cost: number, tokens = 0): Demand => ({ first: true, tokens, cost })

/** A worker that serves requests of one key. */
class Worker {
  readonly authority: SharedAuthority
  readonly running: { readonly reservation: Reservation; readonly charge: Charge }[] = []
  readonly #limits = new LimitCounters()
  readonly #budgets: BudgetCounters
  readonly #now: () => number

  constructor(authority: SharedAuthority, now: () => number, budget: Budget) {
    this.authority = authority
    this.#now = now
    const scopes = [budgetScope(budget)]
    this.#budgets = new BudgetCounters(() => scopes)
    authority.follow((figures) => this.#budgets.show(figures))
  }

  cells(): AccountCells {
    const budgets = this.#budgets.cellsFor(KEY, null, null, 0)
    assert.ok(!('id' in budgets))
    return { ...this.#limits.cellsFor(KEY, this.#now()), budgets }
  }

  /** What refuses a request, or null. `charge`: what it will cost. */
  async start(demand: Demand, charge: Charge = demand): Promise<string | null> {
    const result = await this.authority.reserve(this.cells(), demand)
    if ('refusal' in result) {
      const { why, degraded, unavailable } = result.refusal
      return `${why}${degraded ? ' degraded' : ''}${unavailable ? ' unavailable' : ''}`
    }
    this.running.push({ reservation: result.reservation, charge })
    return null
  }

  end(): void {
    const request = this.running.shift()
    if (!request) return
    this.authority.settle(request.reservation, request.charge)
    this.authority.release(request.reservation)
  }
}

const given = (count: number, budget = BUDGET) => {
  const clock = { now: 1_000 }
  const now = () => clock.now
  const counters = new SharedCounters<Worker>({ now, date: () => 0 })
  counters.setBudgets({ budgets: [budget], whenUnknown: 'serve' })
  const sizes: number[] = []
  /** Messages that a stopped supervisor has not read. */
  const unread: (() => void)[] = []
  const supervisor = { stopped: false }
  const workers = Array.from({ length: count }, (): Worker => {
    const worker = new Worker(
      new SharedAuthority({
        of: () => count,
        timeout: () => SUPERVISOR_TIMEOUT,
        now,
        send: (operations) => {
          sizes.push(operations.length)
          const read = () =>
            counters.run(worker, json(operations), (answers) => worker.authority.onAnswers(json(answers)))
          if (supervisor.stopped) unread.push(read)
          else read()
        },
      }),
      now,
      budget,
    )
    return worker
  })
  const resume = () => {
    supervisor.stopped = false
    for (const read of unread.splice(0)) read()
  }
  const state = () => counters.budgets.states(0)[0]
  const sendFigures = () => {
    const figures = json(counters.takeChanged())
    for (const worker of workers) worker.authority.onFigures(figures, counters.takenBy(worker))
  }
  return { clock, counters, workers, sizes, supervisor, unread, resume, state, sendFigures }
}

/** What the ledger has of the counter. */
const spends = (spent: number | null) => (spent === null ? null : [{ counter: `${BUDGET.id}:`, periodStart: 0, spent }])

const refusals = (found: readonly (string | null | undefined)[]) => found.filter((one) => one !== null)

describe('shared limits', () => {
  test('requests at once at every worker are admitted exactly as long as there is room', async () => {
    const { workers, sizes } = given(3)
    const all = await Promise.all(Array.from({ length: 6 * SLOTS }, (_, at) => workers[at % 3]?.start(needs(1))))
    assert.equal(refusals(all).length, 5 * SLOTS)
    assert.equal(sizes.length, 3, 'one message for the requests of a worker in one turn')
    const { workers: others } = given(3)
    const paid = await Promise.all(Array.from({ length: 30 }, (_, at) => others[at % 3]?.start(needs(AMOUNT / 5))))
    assert.deepEqual(
      refusals(paid),
      Array.from({ length: 25 }, () => 'budget'),
    )
  })

  test('a slot that is free at one worker can be used at another', async () => {
    const { workers } = given(2)
    const [first, second] = workers
    for (let at = 0; at < SLOTS; at++) assert.equal(await first?.start(needs(0)), null)
    assert.equal(await second?.start(needs(0)), 'concurrent')
    first?.end()
    assert.equal(await second?.start(needs(0)), null)
  })

  test('a slot that is released before a request is free for it, in whichever order they are read', async () => {
    const { workers, supervisor, resume } = given(2)
    const [first, second] = workers
    for (let at = 0; at < SLOTS; at++) await first?.start(needs(0))
    supervisor.stopped = true
    const [next, more] = [second?.start(needs(0)), second?.start(needs(0))]
    await turn()
    first?.end()
    await turn()
    resume()
    assert.deepEqual([await next, await more], [null, 'concurrent'])
  })

  test('an overrun of tokens at one worker delays requests at all, and a limit of 0 for ever', async () => {
    const { workers, clock } = given(2)
    const [first, second] = workers
    assert.equal(await first?.start(needs(0, 10), { tokens: 2 * PER_MINUTE, cost: 0 }), null)
    first?.end()
    assert.equal(await second?.start(needs(0, 10)), 'tokens')
    clock.now += 70_000
    assert.equal(await second?.start(needs(0, 10)), null)
    const limits = testClient({ tokensPerMinute: 0 }).limits
    const cells = { ...new LimitCounters().cellsFor({ limits }, clock.now), budgets: [] }
    const result = await first?.authority.reserve(cells, needs(0, 1))
    assert.equal(result && 'refusal' in result && 'retryAfter' in result.refusal && result.refusal.retryAfter, Infinity)
  })

  for (const [what, spent, expected] of [
    ['what it has reserved if the ledger does not know', null, 700],
    ['what the ledger has', 550, 550],
  ] as const)
    test(`an ended worker is charged ${what}, and its slots are free at once`, async () => {
      const { workers, counters, state } = given(2)
      const [first, second] = workers
      for (let at = 0; at < SLOTS; at++) await first?.start(needs(100))
      first?.end()
      await turn()
      assert.ok(first)
      const ledger = Promise.withResolvers<Parameters<typeof spends>[0]>()
      const ending = counters.onExit(first, ledger.promise.then(spends))
      assert.deepEqual([state()?.spent, state()?.reserved], [100, 600])
      assert.equal(await second?.start(needs(301)), 'budget')
      for (let at = 0; at < SLOTS; at++) assert.equal(await second?.start(needs(0)), null)
      ledger.resolve(spent)
      await ending
      assert.deepEqual([state()?.spent, state()?.reserved], [expected, 0])
    })

  test('a larger reservation is granted while there is room', async () => {
    const { workers, state } = given(1)
    const [worker] = workers
    await worker?.start(needs(100))
    const reservation = worker?.running[0]?.reservation
    assert.ok(worker && reservation)
    assert.equal(await worker.authority.extend(reservation, 900), null)
    assert.equal(reservation.hold.cost, AMOUNT)
    assert.deepEqual(await worker.authority.extend(reservation, 1), { why: 'budget', id: BUDGET.id })
    assert.equal(state()?.reserved, AMOUNT)
    worker.end()
    await turn()
    assert.deepEqual([state()?.spent, state()?.reserved], [100, 0])
  })

  test('figures are those of all workers', async () => {
    const { workers } = given(2)
    const [first, second] = workers
    assert.ok(first && second)
    await first.start(needs(100, 60))
    const cells = second.cells()
    assert.equal(await second.authority.check(cells, needs(0)), null)
    assert.deepEqual(
      [cells.slots[0]?.live, cells.rates[0]?.bucket.level, cells.budgets[0]?.held],
      [1, PER_MINUTE - 60, 100],
    )
    assert.deepEqual(await second.authority.states(), [
      { budget: BUDGET.id, owner: '', periodStart: 0, spent: 0, reserved: 100 },
    ])
  })

  test('property: no limit is exceeded, and no request is refused while there is room', async () => {
    const step = fc.record({
      worker: fc.nat({ max: 3 }),
      action: fc.constantFrom('start', 'start', 'start', 'end', 'die'),
      cost: fc.integer({ min: 1, max: 60 }),
      less: fc.integer({ min: 0, max: 60 }),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
        const { workers, counters, state } = given(4)
        let spent = 0
        const held = () =>
          workers.flatMap(({ running }) => running).reduce((sum, { reservation }) => sum + reservation.hold.cost, 0)
        for (const { worker: index, action, cost, less } of steps) {
          const worker = workers[index]
          assert.ok(worker)
          if (action === 'end') {
            spent += worker.running[0]?.charge.cost ?? 0
            worker.end()
            await turn()
          } else if (action === 'die') {
            for (const { reservation } of worker.running.splice(0)) spent += reservation.hold.cost
            await counters.onExit(worker, Promise.resolve(null))
          } else {
            const live = workers.reduce((sum, { running }) => sum + running.length, 0)
            const hasRoom = live < SLOTS && spent + held() + cost <= AMOUNT
            const refusal = await worker.start(needs(cost), { tokens: 0, cost: Math.max(0, cost - less) })
            assert.equal(refusal === null, hasRoom, `${live} in progress, ${spent} spent, ${held()} held, ${cost}`)
          }
          assert.deepEqual([state()?.spent ?? 0, state()?.reserved ?? 0], [spent, held()])
        }
      }),
      { numRuns: 100 },
    )
  })
})

describe('a supervisor that does not answer', () => {
  test('its workers use their shares of what is left, and it counts them afterwards', async (context) => {
    context.mock.timers.enable({ apis: ['setTimeout'] })
    const { workers, supervisor, clock, resume, state } = given(2)
    const [first, second] = workers
    assert.ok(first && second)
    await first.start(needs(200))
    await second.start(needs(200))
    supervisor.stopped = true
    const [late, other] = [first.start(needs(100)), second.start(needs(100))]
    await turn()
    clock.now += 3_000
    context.mock.timers.tick(3_000)
    // When they were last answered, 800 and 600 were left, and 6 and 5 slots.
    assert.deepEqual([await late, await other], [null, null])
    assert.equal(await first.start(needs(301)), 'budget degraded', 'the share is 400')
    assert.equal(await first.start(needs(300)), null)
    assert.equal(await second.start(needs(201)), 'budget degraded', 'the share is 300')
    assert.equal(await second.start(needs(0)), null)
    assert.equal(await second.start(needs(0)), 'concurrent degraded', 'the share is 2 slots')
    assert.equal(await first.authority.states(), null)
    first.end()
    await turn()

    resume()
    assert.equal(state()?.spent, 200)
    assert.equal(state()?.reserved, 200 + 100 + 100 + 300)
    assert.equal(await second.start(needs(101)), 'budget')
    for (const worker of workers) while (worker.running.length > 0) worker.end()
    await turn()
    assert.deepEqual([state()?.spent, state()?.reserved], [900, 0])
    const slots = await Promise.all(Array.from({ length: SLOTS }, () => first.start(needs(0))))
    assert.deepEqual(refusals(slots), [], 'every slot is free')
    assert.equal(await second.start(needs(0)), 'concurrent')
  })

  test('late answers give a worker no second share', async (context) => {
    context.mock.timers.enable({ apis: ['setTimeout'] })
    const { workers, clock, supervisor, unread, resume, state } = given(2)
    const [first] = workers
    assert.ok(first)
    assert.equal(await first.start(needs(0)), null)
    supervisor.stopped = true
    const late = async (cost: number) => {
      const result = first.start(needs(cost))
      await turn()
      clock.now += 3_000
      context.mock.timers.tick(3_000)
      return result
    }
    assert.equal(await late(500), null, 'the share is 500')
    assert.equal(await first.start(needs(1)), 'budget degraded')
    // The supervisor reads its first message, and stops again.
    unread.shift()?.()
    assert.equal(await late(1), 'budget degraded', 'the share is used up')
    await turn()
    resume()
    assert.equal(state()?.reserved, 500)
    assert.equal(await first.start(needs(100)), null)
    supervisor.stopped = true
    assert.equal(await late(201), 'budget degraded')
    assert.equal(await late(200), null, 'the share of what was left at the last answer')
  })

  test('a worker that was never answered shares what was left when it was last informed', async (context) => {
    context.mock.timers.enable({ apis: ['setTimeout'] })
    const { workers, clock, supervisor, sendFigures, resume, state } = given(2)
    const [first, second] = workers
    assert.ok(first && second)
    assert.equal(await first.start(needs(600)), null)
    first.end()
    await turn()
    assert.equal(await first.start(needs(200)), null)
    sendFigures()
    supervisor.stopped = true
    const late = async (cost: number) => {
      const result = second.start(needs(cost))
      await turn()
      clock.now += 3_000
      context.mock.timers.tick(3_000)
      return result
    }
    assert.equal(await late(101), 'budget degraded', 'the share is 100')
    assert.equal(await second.start(needs(100)), null)
    assert.equal(await second.start(needs(1)), 'budget degraded')
    // Figures from before the share was used leave it as it is.
    second.authority.onFigures([], 0)
    assert.equal(await late(1), 'budget degraded')
    await turn()
    resume()
    assert.deepEqual([state()?.spent, state()?.reserved], [600, 300])
    // What it took is counted: another time it has a share of what is left now.
    sendFigures()
    supervisor.stopped = true
    assert.equal(await late(51), 'budget degraded')
    assert.equal(await second.start(needs(50)), null)
  })

  test('a hard budget whose earlier usage is not counted is unknown to all workers', async () => {
    const { workers, counters } = given(2)
    counters.setBudgets({ budgets: [BUDGET], whenUnknown: 'refuse' })
    for (const worker of workers) assert.equal(await worker.start(needs(1)), 'budget unavailable')
    for (const unrestored of counters.budgets.unrestored()) counters.budgets.restore(unrestored, [], [])
    assert.equal(await workers[0]?.start(needs(AMOUNT)), null)
    assert.equal(await workers[1]?.start(needs(1)), 'budget')
  })

  test('a process that Redis has not answered, or whose ledger is not read, spends no hard budget', async () => {
    let unknown: readonly string[] | null = null
    const sent: unknown[] = []
    const authority = new SharedAuthority({
      of: () => 1,
      timeout: () => 1_000,
      now: () => 0,
      send: (operations) => sent.push(...operations),
      isUnknown: (budget) => isUnknown({ unknown }, budget),
    })
    const worker = new Worker(authority, () => 0, BUDGET)
    authority.onLost()
    assert.equal(await worker.start(needs(1)), 'budget unavailable')
    unknown = [BUDGET.id]
    assert.equal(await worker.start(needs(1)), 'budget unavailable')
    unknown = []
    assert.equal(await worker.start(needs(1)), null)
    const soft = new Worker(authority, () => 0, { ...BUDGET, mode: 'soft' })
    unknown = null
    assert.equal(await soft.start(needs(1)), null)
  })

  test('a strict budget is refused after 50 ms, then at once, until it answers', async (context) => {
    context.mock.timers.enable({ apis: ['setTimeout'] })
    const { workers, clock, supervisor, resume, state } = given(2, { ...BUDGET, enforcement: 'strict' })
    const [first, second] = workers
    assert.ok(first && second)
    assert.equal(await first.start(needs(900)), null)
    supervisor.stopped = true
    // The second is without room, too.
    const waiting = [first.start(needs(100)), second.start(needs(200))]
    await turn()
    clock.now += 50
    context.mock.timers.tick(50)
    assert.deepEqual(await Promise.all(waiting), ['budget unavailable', 'budget unavailable'])
    assert.equal(await first.start(needs(0)), 'budget unavailable', 'without waiting again')
    await turn()

    resume()
    await turn()
    assert.equal(state()?.reserved, 900, 'what was granted too late is released')
    assert.equal(await second.start(needs(101)), 'budget')
    assert.equal(await second.start(needs(100)), null)
    assert.equal(await first.start(needs(1)), 'budget')
  })
})
