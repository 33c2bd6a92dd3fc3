/** Limits and budgets of all workers in the supervisor, on a real ledger. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { testBudget } from '../../../test/support/accounts.ts'
import { answered, askOf, freeOf, newLease } from '../../policy/accounts/held-lease.ts'
import type { LedgerEvent } from '../../usage/bookkeeper/ledger-problems.ts'
import { USAGE_FILE } from '../../usage/journal/file.ts'
import { processName, segmentFile } from '../../usage/journal/segment-files.ts'
import type { AccountsFromSupervisor, AccountsFromWorker } from './account-messages.ts'
import { SharedAccounts, type SharedAccountsOptions } from './shared-accounts.ts'

const folder = mkdtempSync(join(tmpdir(), 'headgate-shared-accounts-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const LEDGER: AccountsFromWorker = {
  type: 'ledger',
  process: '1.1-1',
  options: {
    folder,
    journal: join(folder, 'journal'),
    database: null,
    node: 'local',
    timezone: 'UTC',
    syncs: false,
    interval: 250,
    limits: { keepDays: 90, keepHours: 30, maxMegabytes: 1_024 },
  },
}
const BUDGETS: AccountsFromWorker = {
  type: 'budgets',
  id: 1,
  budgets: [testBudget(1_000, { id: 'bud_a', period: 'total' })],
  whenUnknown: 'serve',
}
/** A supervisor with one worker. */
const given = (report: SharedAccountsOptions['report'] = () => {}) => {
  const waiting = new Map<string, (message: AccountsFromSupervisor) => void>()
  const worker = { send: (message: AccountsFromSupervisor) => waiting.get(message.type)?.(message) }
  const shared = new SharedAccounts({
    serving: () => [worker],
    report,
    onRestored: () => {},
    onTime: () => {},
    onLimits: () => {},
  })
  const send = (message: AccountsFromWorker) => shared.onMessage(worker, message)
  const answer = (type: AccountsFromSupervisor['type']) =>
    new Promise<AccountsFromSupervisor>((resolve) => waiting.set(type, resolve))
  const held = newLease('budget 0 bud_a:', 'budget')
  /** Whether a reservation is granted. */
  const isGranted = async (need: number) => {
    const leased = answer('leased')
    const ask = askOf(held, { limit: 1_000, refill: 0, need, want: 0, lapse: 60_000, life: 60_000, leaves: false })
    send({ type: 'lease', id: 1, asks: [ask] })
    const message = await leased
    if (message.type === 'leased' && message.reply.answers[0]) answered(held, ask, message.reply.answers[0])
    if (freeOf(held) < need) return false
    held.held += need
    return true
  }
  /** A correction, as the worker counts it that has stored it. */
  const correct = (amount: number) => {
    held.used += amount
    held.granted += amount
  }
  return { shared, worker, send, answer, isGranted, correct }
}
const ADJUSTMENT = {
  process: '1.1-1',
  id: 'adj_a',
  at: 0,
  budget: 'bud_a',
  counter: 'bud_a:',
  period_start: 0,
  key: null,
  amount: 850,
  reason: 'test',
  actor: 'test',
}

/** What this process has spent looks like that of one that has ended. */
const endProcess = () => {
  const database = new DatabaseSync(join(folder, USAGE_FILE))
  database.exec("UPDATE process_sum SET process = '1.1-0'")
  database.close()
}

test('what is stored as spent counts, and an adjustment at once', async () => {
  for (const run of ['first', 'second']) {
    const { shared, send, answer, isGranted, correct } = given()
    send(LEDGER)
    // A busy machine may start the thread of the ledger after the limit of an operation.
    for (let problem: string | null | false = ''; problem !== null; ) {
      const counted = answer('budgets_counted')
      send(BUDGETS)
      const message = await counted
      problem = message.type === 'budgets_counted' && message.problem
    }
    if (run === 'first') {
      assert.equal(await isGranted(151), true)
      const stored = answer('ledger_answer')
      send({ type: 'ledger_query', id: 1, query: { do: 'adjust', adjustment: ADJUSTMENT } })
      await stored
      correct(ADJUSTMENT.amount)
    } else assert.equal(await isGranted(151), false)
    assert.equal(await isGranted(149), run === 'second')
    await shared.close()
    endProcess()
  }
})

test('unreadable lines of a journal are reported', async () => {
  mkdirSync(join(folder, 'journal'), { recursive: true })
  const segment = segmentFile(processName({ start: 1, pid: 1, worker: 1 }), 1)
  writeFileSync(join(folder, 'journal', segment), 'no record\n')
  const { promise, resolve } = Promise.withResolvers<LedgerEvent>()
  const { shared, send } = given((event) => event.event === 'malformed' && resolve(event))
  send(LEDGER)
  const event = await promise
  assert.deepEqual(event.event === 'malformed' && [event.segment, event.lines], [segment, 1])
  await shared.close()
})

test('journals that workers cannot write are one report, until all of them can', async () => {
  const events: LedgerEvent[] = []
  let onStored = () => {}
  const { shared, worker, send } = given((event) => {
    events.push(event)
    onStored()
  })
  const stored = new Promise<void>((resolve) => (onStored = resolve))
  const others = [1, 2].map(() => ({ send() {} }))
  const report = (problem: string | null) => (one: typeof worker | (typeof others)[number]) =>
    shared.onMessage(one, { type: 'journal_problem', problem })
  // It may be known before the bookkeeper is loaded.
  report('no space')(worker)
  send(LEDGER)
  for (const one of others) report('no space')(one)
  await stored
  assert.deepEqual(events, [{ event: 'unwritable', reason: 'no space' }])
  report(null)(worker)
  const [first, second] = others
  report(null)(first ?? worker)
  assert.equal(events.length, 1)
  // The last one has ended.
  shared.onExit(second ?? worker)
  assert.deepEqual(events.slice(1), [{ event: 'ok' }])
  await shared.close()
})

test('without a ledger a budget begins as unspent', async () => {
  const { shared, send, answer, isGranted } = given()
  const counted = answer('budgets_counted')
  send(BUDGETS)
  await counted
  assert.equal(await isGranted(1_000), true)
  await shared.close()
})

test('the leases of a worker that has ended are given back, and what it had reserved is charged', async () => {
  const { shared, send, answer, isGranted, worker } = given()
  const counted = answer('budgets_counted')
  send(BUDGETS)
  await counted
  assert.equal(await isGranted(600), true)
  assert.equal(await isGranted(1), true)
  shared.onExit(worker)
  for (let used = 0; used !== 600; ) {
    const totals = answer('totals')
    send({ type: 'lease_totals', id: 1, of: 'store', counters: ['budget 0 bud_a:'] })
    const message = await totals
    used = (message.type === 'totals' && message.totals?.[0]?.used) || 0
  }
  await shared.close()
})
