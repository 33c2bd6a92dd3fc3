import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type PostgresServer, skipPostgres, startPostgres } from '../../../test/support/postgres.ts'
import type { StoredResponse } from '../../core/stored-response.ts'
import { PostgresPool } from '../sql/postgres/pool.ts'
import { migrateShared } from '../sql/postgres/shared-schema.ts'
import { ResponseRows } from './response-rows.ts'
import { SharedClaims } from './shared-claims.ts'
import { SharedProcesses } from './shared-processes.ts'
import { SHARED_RESPONSES } from './shared-schema.ts'

const run: StoredResponse = {
  id: 'r',
  owner: 'me',
  previous: null,
  status: 'in_progress',
  created: 1,
  input: '[]',
  response: '{"id":"r","status":"in_progress"}',
  events: null,
  items: [],
  maker: null,
  isRun: true,
}

describe('processes that share responses', { skip: skipPostgres, concurrency: false }, () => {
  let server: PostgresServer
  const pools: PostgresPool[] = []
  before(async () => {
    server = await startPostgres()
  })
  after(async () => {
    for (const pool of pools) await pool.close()
    await server?.remove()
  })

  const place = async () => {
    const url = server.newDatabase()
    await migrateShared(url, SHARED_RESPONSES)
    return (worker: string) => {
      const pool = new PostgresPool({ url, schema: SHARED_RESPONSES.name, max: 1, applicationName: 'headgate test' })
      pools.push(pool)
      const options = { worker, limits: { keepDays: 1, maxMegabytes: 1, answerMegabytes: 1 } }
      const processes = new SharedProcesses(pool, worker)
      const responses = new ResponseRows(pool, options)
      const claims = new SharedClaims(pool, options)
      const begin = async (again?: string) => {
        await pool.transaction(async (tx) => {
          await processes.beatIn(tx)
          await responses.put(tx, { ...run, status: 'queued', again })
          await claims.claim(tx, { name: 'n', fingerprint: 'f' })
        })
        processes.started(run)
        processes.claimed('n')
      }
      const claim = () => pool.transaction((tx) => claims.claim(tx, { name: 'n', fingerprint: 'f' }))
      return { pool, processes, responses, claims, begin, claim }
    }
  }

  test('one whose count stands still is ended once, one that beats is not', async () => {
    const open = await place()
    const [one, other, third] = [open('one'), open('other'), open('third')]
    await one.begin()
    assert.equal(await other.processes.endGone(0), 0)
    assert.equal(await other.processes.endGone(9_999), 0)
    await one.processes.beat()
    assert.equal(await other.processes.endGone(12_000), 0)
    assert.equal((await other.claim()).state, 'held')
    await third.processes.endGone(0)
    const ended = await Promise.all([other.processes.endGone(22_000), third.processes.endGone(10_000)])
    assert.deepEqual(ended.toSorted(), [0, 1])
    const stored = await other.responses.get({ id: 'r', owner: 'me' })
    assert.equal(stored?.status, 'failed')
    assert.match(stored?.response ?? '', /"status":"failed".*The gateway stopped/)
    assert.equal((await other.claim()).state, 'claimed')
  })

  test('one that was only stopped learns that its response has ended, and stores nothing more', async () => {
    const open = await place()
    const [one, other] = [open('one'), open('other')]
    await one.begin()
    await other.processes.endGone(0)
    assert.equal(await other.processes.endGone(10_000), 1)
    assert.deepEqual(await one.processes.beat(), { stop: [{ id: 'r', owner: 'me' }], follow: [] })
    await one.pool.transaction((tx) => one.responses.put(tx, { ...run, status: 'completed' }))
    assert.equal((await other.responses.get({ id: 'r', owner: 'me' }))?.status, 'failed')
    await other.claim()
    await one.claims.keep({
      name: 'n',
      answer: { id: 'late', status: 200, headers: {}, body: new Uint8Array(1), cost: null },
      ms: 60_000,
    })
    assert.equal((await open('third').claim()).state, 'held')
  })

  test('a response that was to be stopped is cancelled', async () => {
    const open = await place()
    const [one, other] = [open('one'), open('other')]
    await one.begin()
    assert.equal(await other.responses.ask({ id: 'r', owner: 'me' }, 'stop'), true)
    await other.processes.endGone(0)
    await other.processes.endGone(10_000)
    assert.equal((await other.responses.get({ id: 'r', owner: 'me' }))?.status, 'cancelled')
  })

  test('one that was idle, and ended for it, is not ended when it begins again', async () => {
    const open = await place()
    const [one, other, third] = [open('one'), open('other'), open('third')]
    await one.begin()
    await one.claims.release('n')
    await one.responses.delete({ id: 'r', owner: 'me' })
    for (const { processes } of [other, third]) await processes.endGone(0)
    await other.processes.endGone(10_000)
    await one.begin()
    for (const { processes } of [other, third]) assert.equal(await processes.endGone(20_000), 0)
    assert.equal((await other.claim()).state, 'held')
  })

  test('what may run again is taken over once, until its processes were lost too often', async () => {
    const open = await place()
    const names = ['one', 'two', 'three', 'four']
    const processes = names.map(open)
    const [first] = processes
    await first?.begin('{"body":"x"}')
    for (const [at, { processes: mine }] of processes.entries()) {
      if (at === 0) continue
      await mine.endGone(0)
      const isLast = at === 3
      assert.equal(await mine.endGone(10_000), isLast ? 1 : 0)
      const other = open('another')
      const taken = await Promise.all([mine.take(), isLast ? other.processes.take() : []])
      assert.deepEqual(
        taken.flat().map(({ stored, again }) => [stored.id, stored.status, again]),
        isLast ? [] : [['r', 'queued', '{"body":"x"}']],
      )
    }
    const stored = await first?.responses.get({ id: 'r', owner: 'me' })
    assert.equal(stored?.status, 'failed')
    assert.match(stored?.response ?? '', /The gateway stopped/)
  })

  test('what a process leaves is taken by one of the others, whose end is stored, and that of the first is not', async () => {
    const open = await place()
    const [one, other, third] = [open('one'), open('other'), open('third')]
    await one.begin('{}')
    await one.processes.leave()
    assert.equal((await other.responses.get({ id: 'r', owner: 'me' }))?.status, 'queued')
    const taken = await Promise.all([other.processes.take(), third.processes.take()])
    assert.equal(taken.flat().length, 1)
    const taker = taken[0]?.length === 1 ? other : third
    const end = (place: typeof one, response: string) =>
      place.pool.transaction((tx) => place.responses.put(tx, { ...run, status: 'completed', response }))
    await end(one, '"first"')
    await end(taker, '"second"')
    const stored = await other.responses.get({ id: 'r', owner: 'me' })
    assert.deepEqual([stored?.status, stored?.response], ['completed', '"second"'])
    const { rows } = await one.pool.query('SELECT request, worker FROM response')
    assert.deepEqual(rows, [{ request: null, worker: null }])
  })

  for (const asked of ['follow', 'stop'] as const)
    test(`what others have asked to ${asked} does not run again`, async () => {
      const open = await place()
      const [one, other] = [open('one'), open('other')]
      await one.begin('{}')
      await other.responses.ask({ id: 'r', owner: 'me' }, asked)
      await one.processes.leave()
      assert.deepEqual(await other.processes.take(), [])
      const stored = await other.responses.get({ id: 'r', owner: 'me' })
      assert.equal(stored?.status, asked === 'stop' ? 'cancelled' : 'failed')
    })

  test('what was seen before a failed look does not count', async () => {
    const open = await place()
    const [one, other] = [open('one'), open('other')]
    await one.begin()
    await other.processes.endGone(0)
    await other.pool.query('ALTER TABLE process RENAME TO hidden')
    await assert.rejects(other.processes.endGone(10_000))
    await other.pool.query('ALTER TABLE hidden RENAME TO process')
    assert.equal(await other.processes.endGone(60_000), 0)
    assert.equal(await other.processes.endGone(70_000), 1)
  })

  test('responses are deleted after their days, and the largest owner makes room', async () => {
    const open = await place()
    const { pool, responses } = open('one')
    const put = (id: string, owner: string, size: number) =>
      pool.transaction((tx) =>
        responses.put(tx, {
          ...run,
          id,
          owner,
          status: 'completed',
          response: 'x'.repeat(size),
          isRun: undefined,
        } as never),
      )
    for (let at = 0; at < 10; at++) await put(`a${at}`, 'large', 200_000)
    await put('b', 'small', 100_000)
    await put('old', 'small', 1_000)
    await pool.query("UPDATE response SET touched = touched - interval '2 days' WHERE id = 'old'")
    assert.equal(await responses.get({ id: 'old', owner: 'small' }), undefined)
    await responses.sweep()
    await responses.makeRoom()
    const count = async () =>
      (await pool.query('SELECT owner, count(*) AS n FROM response GROUP BY owner ORDER BY owner')).rows
    assert.deepEqual(await count(), [
      { owner: 'large', n: 10 },
      { owner: 'small', n: 1 },
    ])
    // What is new stays for a minute.
    await pool.query("UPDATE response SET touched = touched - interval '2 minutes'")
    await responses.makeRoom()
    assert.deepEqual(await count(), [
      { owner: 'large', n: 4 },
      { owner: 'small', n: 1 },
    ])
  })
})
