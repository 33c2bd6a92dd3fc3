/** Incidents in the journal and in the database, of one gateway and of several that share it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answered, closers, count, ENDED, folderOf, given, OWN, storeAll } from '../../test/support/bookkeeping.ts'
import { onEachEngine, onPostgres } from '../../test/support/ledger-engines.ts'
import { NOON } from '../../test/support/ledger-records.ts'
import type { Incident } from '../core/incident.ts'
import type { IncidentNoted } from '../core/journal.ts'
import { decodeLine, encodeIncident } from './journal/journal-record.ts'
import { UsageReader } from './reading/usage-reader.ts'

const incident = (id: string, more: Partial<Incident> = {}): Incident => ({
  ...{ id, providers: ['groq'], models: ['llama'], base_url: null, begin: NOON, end: null, ended_by: null },
  ...{ cause: 'status', request: 'req_a', failures: 1, rerouted: 2, lost: 3, ...more },
})
const noted = (id: string, more: Partial<Incident> = {}): IncidentNoted => ({
  type: 'incident',
  at: NOON,
  incident: incident(id, more),
})
const RANGE = { from: NOON - 1_000, to: NOON + 1_000 }
const LIMITS = { keepDays: 1_000, keepHours: 1_000, maxMegabytes: 1_000 }

type Options = ReturnType<typeof folderOf>['options']
const listed = async ({ folder, database, timezone }: Options, range = RANGE) => {
  const reader = new UsageReader({
    ...{ folder, database, timezone, keepHours: () => 1_000, date: Date.now, flush: async () => null },
    names: { key: () => null, team: () => null },
  })
  closers.push(() => reader.close())
  const found = await reader.incidents(range)
  assert.ok(found.ok, JSON.stringify(found))
  return found.value
}

test('incidents: a record is read as it was written, and its names are bounded', () => {
  const whole = noted('inc_a', { base_url: 'https://x.test/v1', end: NOON + 5, ended_by: 'recovered' })
  assert.deepEqual(decodeLine(encodeIncident(whole)), whole)
  const names = Array.from({ length: 500 }, () => 'm'.repeat(3_000))
  const line = encodeIncident(noted('inc_b', { providers: names, models: names, cause: 'x'.repeat(9_000) }))
  assert.ok(line.length < 32_000, String(line.length))
  assert.ok(decodeLine(line))
})

onEachEngine((engine) => {
  test('incidents: the last record of one counts, and one that lasts ends with its process', async () => {
    const { open, write, options } = given(engine)
    write(ENDED, [
      ...answered(1),
      noted('inc_a'),
      noted('inc_b'),
      noted('inc_a', { end: NOON + 7, ended_by: 'recovered', lost: 9 }),
    ])
    write(OWN, [noted('inc_c')])
    await storeAll(open())
    const found = new Map((await listed(options)).map((one) => [one.id, one]))
    assert.deepEqual(found.get('inc_a'), {
      ...incident('inc_a', { end: NOON + 7, ended_by: 'recovered', lost: 9 }),
      nodes: ['n1'],
    })
    assert.equal(found.get('inc_b')?.ended_by, 'restart')
    assert.deepEqual(found.get('inc_c'), { ...incident('inc_c'), nodes: ['n1'] })
    assert.deepEqual(await listed(options, { from: 0, to: NOON }), [], 'it has not begun')
  })

  test('incidents: only the last ten thousand are kept', async () => {
    const { open, write, reading } = given(engine)
    const bookkeeper = open()
    write(
      OWN,
      count(10_010).map((n) => noted(`inc_${n}`, { begin: NOON + n, end: NOON + n, ended_by: 'recovered' })),
    )
    await storeAll(bookkeeper)
    await bookkeeper.sweep(LIMITS, NOON)
    const rows = reading((all) => all('SELECT count(*) n, min(began) first FROM incident'))
    assert.deepEqual(rows, [{ n: 10_000, first: NOON + 11 }])
  })
})

onPostgres((engine) => {
  test('incidents: gateways that share the database list those of each other, with their names', async () => {
    const one = given(engine)
    const other = folderOf(engine, { node: 'n2' })
    one.write(OWN, [noted('inc_a')])
    other.write(OWN, [noted('inc_b', { providers: ['house'] })])
    for (const gateway of [one, other]) await storeAll(gateway.open())
    for (const gateway of [one, other])
      assert.deepEqual((await listed(gateway.options)).map(({ id, nodes, end }) => [id, ...nodes, end]).sort(), [
        ['inc_a', 'n1', null],
        ['inc_b', 'n2', null],
      ])
  })
})
