/** Several gateways that store their usage in one database. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { testBudget } from '../../../test/support/accounts.ts'
import {
  answered,
  checkSums,
  closers,
  count,
  ENDED,
  folderOf,
  given,
  OWN,
  storeAll,
} from '../../../test/support/bookkeeping.ts'
import { onPostgres } from '../../../test/support/ledger-engines.ts'
import { closedRecord, endedRecord, NOON, openedRecord } from '../../../test/support/ledger-records.ts'
import { LEASE_KINDS } from '../../gateway/accounts/lease-book.ts'
import { nodeName, storedNames } from '../journal/node-name.ts'
import { Bookkeeper } from './bookkeeper.ts'
import { MERGE_AFTER } from './ledger-steps.ts'

const LIMITS = { keepDays: 1_000, keepHours: 1_000, maxMegabytes: 1_000 }
const DAY = 86_400_000

test('the parts of ended processes are kept until the leases of all of them have lapsed', () => {
  assert.ok(MERGE_AFTER > LEASE_KINDS.budget.lapse)
})

test('node name: it is kept in the data folder and differs between folders', () => {
  const folders = [1, 2].map(() => mkdtempSync(join(tmpdir(), 'headgate-node-')))
  closers.push(() => {
    for (const folder of folders) rmSync(folder, { recursive: true })
  })
  const [one = '', other = ''] = folders.map(nodeName)
  assert.notEqual(one, other)
  assert.ok(one.startsWith(hostname().slice(0, 5)), one)
  assert.deepEqual(folders.map(nodeName), [one, other])
  const path = join(folders[0] ?? '', 'node-name')
  assert.equal(readFileSync(path, 'utf8'), `${one}\n`)
  writeFileSync(path, 'a/b')
  assert.throws(() => nodeName(folders[0] ?? ''), { message: 'the file node-name of the data folder contains no name' })
})

test('node name: names of one gateway are in its range, and in that of no other', () => {
  const [one, other] = [storedNames('a', true), storedNames('a-1', true)]
  assert.equal(one.own(one.stored('x.1-0')), 'x.1-0')
  assert.equal(one.own(other.stored('x.1-0')), null)
  const isIn = ({ range: [from, to] }: typeof one, name: string) => name >= from && name < to
  assert.ok(isIn(one, one.stored('x')) && isIn(other, other.stored('x')))
  assert.ok(!isIn(one, other.stored('x')) && !isIn(other, one.stored('x')))
  const file = storedNames('local', false)
  assert.equal(file.own(file.stored('x')), 'x')
})

/** The records of an answered request of a gateway. */
const answeredBy = (name: string) => (call: number) => {
  const request = `${name}_${call}`
  return [openedRecord(call, { request }), closedRecord(call), endedRecord(call, { request })]
}

onPostgres((engine) => {
  const two = () => {
    const one = given(engine)
    return [one, folderOf(engine, { node: 'n2' })] as const
  }

  test('two gateways whose processes have the same name store each record once', async () => {
    const [one, other] = two()
    const [first, second] = [one.open(), other.open()]
    one.write(ENDED, count(300).flatMap(answeredBy('one')))
    other.write(ENDED, count(200).flatMap(answeredBy('other')))
    // A process that runs in both.
    one.write(OWN, [...answeredBy('own')(1), openedRecord(2)])
    other.write(OWN, [...answeredBy('its')(1), openedRecord(2)])
    // In turn: a bookkeeper blocks its thread while it waits for the transaction of another.
    for (let isLeft = true; isLeft; ) isLeft = [await first.step(), await second.step()].includes(true)
    assert.deepEqual(checkSums(engine, ''), { attempts: 502, requests: 502, cost: 502 * 70 })
    const nodes = one.reading((all) => all('SELECT node, count(*) n FROM request GROUP BY node ORDER BY node'))
    assert.deepEqual(nodes, [
      { node: 'n1', n: 301 },
      { node: 'n2', n: 201 },
    ])
    // Of the others' usage everything is earlier usage; of the own run nothing.
    const sums = async (bookkeeper: Bookkeeper) =>
      (await bookkeeper.sums(NOON, [])).map((sum) => [sum.spent, sum.earlier])
    assert.deepEqual(await sums(first), [[502 * 70, 501 * 70]])
    assert.deepEqual(await sums(second), [[502 * 70, 501 * 70]])
    const [sum] = await second.sums(NOON, [])
    const recorded = Map.groupBy(sum?.recorded ?? [], ({ run }) => run.slice(0, run.indexOf('/')))
    assert.deepEqual(
      [...recorded].map(([node, parts]) => [node, parts.reduce((total, { spent }) => total + spent, 0)]).sort(),
      [
        ['n1', 301 * 70],
        ['n2', 201 * 70],
      ],
    )
    assert.equal(one.reading((all) => all('SELECT process FROM open_call WHERE call = 2')).length, 2)
  })

  test('a bookkeeper neither ends nor removes what another gateway does', async () => {
    const [one, other] = two()
    const [first, second] = [one.open(), other.open()]
    // Of the process of n1 nothing runs here: n2 must not consider that.
    one.write(OWN, [...answered(1), openedRecord(2)])
    other.write(ENDED, answered(3))
    await storeAll(first)
    await storeAll(second)
    while (await second.sweep(LIMITS, other.options.process.start + MERGE_AFTER + 1));
    const sums = one.reading((all) => all('SELECT process FROM process_sum ORDER BY process'))
    assert.deepEqual(sums, [{ process: `n1/${OWN}` }])
    assert.equal(one.reading((all) => all('SELECT call FROM open_call')).length, 1)
    await second.close()
    // Nor does one that continues from the database.
    await storeAll(other.open())
    one.write(OWN, [closedRecord(2), endedRecord(2)])
    await storeAll(first)
    assert.deepEqual(checkSums(engine, ''), { attempts: 3, requests: 3, cost: 210 })
    assert.deepEqual(
      one.reading((all) => all('SELECT segment FROM journal')),
      [{ segment: `n1/${OWN}-1.jsonl` }],
    )
  })

  test('attempts of a gateway that is gone for a day cost their reservation; if it returns, nothing counts twice', async () => {
    const [one, other] = two()
    const [first, second] = [one.open(), other.open()]
    one.write(OWN, [...answered(1), openedRecord(2), openedRecord(3), openedRecord(3, { attempt: 1 }), closedRecord(3)])
    await storeAll(first)
    await storeAll(second)
    const age = (column: string, node: string, ms: number) =>
      one.reading((all) => all(`UPDATE gateway SET ${column} = ${column} - ${ms} WHERE node = '${node}'`))
    const swept = async () => {
      while (await second.sweep(LIMITS, NOON));
      return one.reading((all) => all('SELECT outcome, cost FROM attempt ORDER BY started, n'))
    }
    const open = [{ outcome: 'ok', cost: 70 }]
    assert.deepEqual(await swept(), open)
    age('seen', 'n1', DAY + 1_000)
    // n2 has just connected: after an outage of the database all gateways are late.
    assert.deepEqual(await swept(), open)
    age('since', 'n2', 601_000)
    const closed = [
      { outcome: 'ok', cost: 70 },
      { outcome: 'unknown', cost: 500 },
      { outcome: 'ok', cost: 70 },
      { outcome: 'unknown', cost: 500 },
    ]
    assert.deepEqual(await swept(), closed)
    assert.deepEqual(checkSums(engine, ''), { attempts: 4, requests: 3, cost: 1_140 })
    assert.deepEqual(
      one.reading((all) => all('SELECT node FROM gateway')),
      [{ node: 'n2' }],
    )
    one.write(OWN, [closedRecord(2), endedRecord(2), closedRecord(3, { attempt: 1 }), ...answered(4)])
    await first.step()
    assert.match(first.problem ?? '', /stored no usage for 24 hours/)
    await storeAll(first)
    assert.deepEqual(checkSums(engine, ''), { attempts: 5, requests: 4, cost: 1_210 })
    assert.equal(first.takeProgress().orphans, 2)
  })

  test('records that usage.db contains are not stored again', async () => {
    const { options, open, write, reading } = given(engine)
    const before = new Bookkeeper({ ...options, database: null }, () => {})
    write(OWN, count(10).flatMap(answered))
    await storeAll(before)
    await before.close()
    write(OWN, answered(11))
    await storeAll(open())
    assert.deepEqual(
      reading((all) => all('SELECT id FROM request')),
      [{ id: 'req_11' }],
    )
    checkSums(engine, '')
  })

  test('the period of a new budget is counted once, from the rows of all gateways', async () => {
    const [one, other] = two()
    const budget = testBudget(1_000_000, { id: 'bud_new', countFrom: 'period' })
    for (const [name, gateway] of [['one', one] as const, ['other', other] as const]) {
      gateway.write(OWN, count(5).flatMap(answeredBy(name)))
      await storeAll(gateway.open())
    }
    const [first, second] = [folderOf(engine, { node: 'n3' }).open(), folderOf(engine, { node: 'n4' }).open()]
    const counted = [{ budget, start: NOON }]
    const spent = async (bookkeeper: Bookkeeper) =>
      (await bookkeeper.sums(NOON, counted))
        .filter(({ counter }) => counter.startsWith('bud_new'))
        .map((sum) => sum.spent)
    assert.deepEqual(await spent(first), [700])
    assert.deepEqual(await spent(second), [700])
  })

  test('with database.migrate: never a missing or old schema is a problem, and nothing is created', async () => {
    const { options, reading, write } = given(engine)
    const database = { url: engine.server().url, migrate: 'never' as const }
    const bookkeeper = new Bookkeeper({ ...options, database }, () => {})
    closers.push(() => bookkeeper.close())
    write(OWN, answered(1))
    await bookkeeper.step()
    assert.equal(bookkeeper.problem, 'the schema headgate_usage does not exist; run: headgate db migrate')
    assert.deepEqual(
      reading((all) => all("SELECT 1 FROM pg_namespace WHERE nspname = 'headgate_usage'")),
      [],
    )
    await bookkeeper.close()
    const migrating = folderOf(engine, { node: 'n2' }).open()
    await storeAll(migrating)
    reading((all) => all('UPDATE schema_version SET version = 0'))
    await bookkeeper.step()
    assert.equal(bookkeeper.problem, 'the schema headgate_usage has version 0 (needed: 4); run: headgate db migrate')
    reading((all) => all('UPDATE schema_version SET version = 4'))
    await storeAll(bookkeeper)
    assert.deepEqual(checkSums(engine, ''), { attempts: 1, requests: 1, cost: 70 })
  })

  test('texts that are the same only in the database, which has no NUL, stop no batch', async () => {
    const { open, write, reading, checkSums } = given(engine)
    const tags = ['a\0', 'a\ufffd', '\ud800', '{"x":"\\u0000"}']
    write(
      ENDED,
      tags.flatMap((tag, call) => [openedRecord(call, { tag }), closedRecord(call), endedRecord(call, { tag })]),
    )
    const bookkeeper = open()
    await storeAll(bookkeeper)
    assert.deepEqual(checkSums(), { attempts: 4, requests: 4, cost: 280 })
    assert.equal(reading((all) => all("SELECT tag FROM usage_day WHERE tag LIKE 'a%'")).length, 1)
  })

  test('a batch is not stored after a failover to an earlier state: it is read again', async () => {
    const { events, open, write, reading, checkSums } = given(engine)
    const bookkeeper = open()
    write(OWN, count(10).flatMap(answered))
    await storeAll(bookkeeper)
    // The standby has not received the last commit.
    reading((all) => all('UPDATE journal SET position = 0 RETURNING 1'))
    for (const table of ['request', 'usage_day', 'usage_hour', 'budget_sum', 'process_sum'])
      reading((all) => all(`DELETE FROM ${table} RETURNING 1`))
    write(OWN, answered(11))
    await bookkeeper.step()
    assert.match(bookkeeper.problem ?? '', /earlier state of the journal/)
    await storeAll(bookkeeper)
    assert.deepEqual(checkSums(), { attempts: 11, requests: 11, cost: 770 })
    assert.deepEqual(
      events.map(({ event }) => event),
      ['ok', 'degraded', 'ok'],
    )
  })

  test('rows of a day without a partition are stored, and old days are dropped', async () => {
    const { open, write, reading } = given(engine)
    const bookkeeper = open()
    const old = NOON - 500 * DAY
    const on = (at: number, call: number) => [
      openedRecord(call, { at }),
      closedRecord(call, { at }),
      endedRecord(call, { received: at, at, request: `r_${call}` }),
    ]
    write(ENDED, [...on(old, 1), ...on(NOON, 2), ...on(NOON + DAY, 3)])
    await storeAll(bookkeeper)
    const places = () =>
      reading((all) => all('SELECT tableoid::regclass::text AS place FROM request ORDER BY received')).map(
        ({ place }) => String(place).replace(/^.*\./, ''),
      )
    const day = (at: number) => `request_${new Date(at).toISOString().slice(0, 10).replaceAll('-', '')}`
    assert.deepEqual(places(), ['request_rest', day(NOON), day(NOON + DAY)])
    while (await bookkeeper.sweep({ ...LIMITS, keepDays: 10 }, NOON + 11 * DAY));
    assert.deepEqual(places(), [day(NOON + DAY)])
  })

  test('a frozen or stopped server delays records; afterwards each is stored once', async () => {
    const { open, write } = given(engine)
    const server = engine.server()
    const bookkeeper = open()
    write(OWN, count(300).flatMap(answered))
    await bookkeeper.step()
    write(OWN, count(600).slice(300).flatMap(answered))
    server.pause()
    await bookkeeper.step()
    assert.equal(bookkeeper.problem, 'Postgres cannot be reached')
    assert.ok(bookkeeper.takeProgress().lagMs > 0)
    server.resume()
    while (bookkeeper.problem !== null) await bookkeeper.step()
    await storeAll(bookkeeper)
    await server.stop()
    write(OWN, count(900).slice(600).flatMap(answered))
    await bookkeeper.step()
    assert.doesNotMatch(bookkeeper.problem ?? assert.fail(), /127\.0\.0\.1|headgate@/)
    await server.start()
    while (bookkeeper.problem !== null) await bookkeeper.step()
    await storeAll(bookkeeper)
    assert.deepEqual(checkSums(engine, ''), { attempts: 900, requests: 900, cost: 63_000 })
  })
})
