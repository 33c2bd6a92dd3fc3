/** One suite for both stores: a file, and Postgres. Each store here is a process of its own to the others. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type PostgresServer, skipPostgres, startPostgres } from '../../../test/support/postgres.ts'
import type { RepeatableAnswer } from '../../core/shared-answer.ts'
import type { RunNews, StoredResponse } from '../../core/stored-response.ts'
import type { SharedDatabase } from '../sql/shared-database.ts'
import type { Emit, ThreadCall } from '../thread/thread-program.ts'
import type { Limits, StoreEvents, StoreMethods } from './store-queries.ts'
import { program } from './store-thread.ts'

type Store = StoreMethods & { readonly news: RunNews[]; readonly close: () => Promise<void> }
type Place = { readonly folder: string; readonly database: SharedDatabase | null }

const ENGINES: readonly {
  name: string
  skip: string | false
  start: () => Promise<{ place: () => Place; remove: () => Promise<void> }>
}[] = [
  {
    name: 'SQLite',
    skip: false,
    start: async () => {
      const folders: string[] = []
      return {
        place() {
          const folder = mkdtempSync(join(tmpdir(), 'headgate-stores-'))
          folders.push(folder)
          return { folder, database: null }
        },
        async remove() {
          for (const folder of folders) rmSync(folder, { recursive: true, force: true })
        },
      }
    },
  },
  {
    name: 'Postgres',
    skip: skipPostgres,
    start: async () => {
      const server: PostgresServer = await startPostgres()
      return {
        place: () => ({ folder: '', database: { url: server.newDatabase(), migrate: 'auto' } }),
        remove: () => server.remove(),
      }
    },
  },
]

const LIMITS: Limits = { keepDays: 10, maxMegabytes: 1, answerMegabytes: 1 }
const CALL = { onCancel: null }

const response = (id: string, more: Partial<StoredResponse> = {}): StoredResponse => ({
  id,
  owner: 'me',
  previous: null,
  status: 'completed',
  created: 1_700_000_000,
  input: `[{"id":"msg_${id}"}]`,
  response: `{"id":"${id}"}`,
  events: null,
  items: [`msg_${id}`],
  maker: null,
  users: [],
  ...more,
})
const run = (id: string, more: Partial<StoredResponse> = {}) =>
  response(id, { status: 'queued', items: [], isRun: true, ...more })

const answer = (body: string): RepeatableAnswer => ({
  id: 'req_1',
  status: 200,
  headers: { 'content-type': 'application/json' },
  body: new TextEncoder().encode(body),
  cost: 5,
})

for (const engine of ENGINES)
  describe(`stored responses: ${engine.name}`, { skip: engine.skip }, () => {
    let started: Awaited<ReturnType<typeof engine.start>>
    const opened: Store[] = []
    let processes = 0
    before(async () => {
      started = await engine.start()
    })
    after(async () => {
      for (const store of opened) await store.close()
      await started.remove()
    })

    const open = async (place: Place, limits = LIMITS): Promise<Store> => {
      const news: RunNews[] = []
      const emit: Emit<StoreEvents> = (event, value) => {
        if (event === 'news') news.push(value as RunNews)
      }
      // PIDs of the file's processes must be alive.
      const worker = `${[process.ppid, process.pid][processes % 2]}.${++processes}@${hostname()}`
      const service = await program({ ...place, worker, limits }, emit)
      const store = { ...service.methods, news, close: async () => await service.close?.() }
      opened.push(store)
      // Creates the tables.
      await store.probe(null, CALL)
      return store
    }
    const put = (store: Store, stored: StoredResponse) => store.put(stored, CALL)
    const two = async () => {
      const place = started.place()
      return [await open(place), await open(place)] as const
    }
    const until = async (what: string, is: () => boolean) => {
      for (const end = performance.now() + 60_000; !is(); await sleep(20))
        assert.ok(performance.now() < end, `${what} within 60 s`)
    }

    test('a response is read unchanged by another process', async () => {
      const [one, other] = await two()
      const whole = response('whole', {
        previous: 'plain',
        status: 'incomplete',
        input: '[{"x":"\\u0000 \0 \u{1f600}"}]',
        events: '{"type":"a"}\n{"type":"b"}',
        items: ['fc_3', 'msg_1', 'rs_2'],
        maker: { instance: 'one', key: 'a1f3', model: 'm', id: 'resp_theirs' },
        users: ['eve 4711', 'other'],
      })
      await put(one, response('plain'))
      await put(one, whole)
      assert.deepEqual(await other.get({ id: 'whole', owner: 'me' }), whole)
      assert.equal((await other.holding({ item: 'rs_2', owner: 'me' }))?.id, 'whole')
      const turns = await other.turns({ id: 'whole', owner: 'me' })
      assert.deepEqual(
        turns.map(({ id }) => id),
        ['whole', 'plain'],
      )
    })

    test('owners are isolated from each other', async () => {
      const [one, other] = await two()
      await put(one, response('a'))
      await put(one, response('a', { owner: 'you', response: '{"yours":true}' }))
      assert.equal((await other.get({ id: 'a', owner: 'me' }))?.response, '{"id":"a"}')
      assert.equal((await other.get({ id: 'a', owner: 'you' }))?.response, '{"yours":true}')
      for (const owner of ['', 'another']) {
        assert.equal(await other.get({ id: 'a', owner }), undefined)
        assert.equal(await other.holding({ item: 'msg_a', owner }), undefined)
        assert.deepEqual(await other.turns({ id: 'a', owner }), [])
        assert.equal(await other.delete({ id: 'a', owner }, CALL), false)
        assert.equal(await other.ask({ id: 'a', owner, asked: 'stop' }, CALL), false)
      }
      assert.equal(await other.delete({ id: 'a', owner: 'me' }, CALL), true)
      assert.equal(await one.get({ id: 'a', owner: 'me' }), undefined)
      assert.equal(await one.holding({ item: 'msg_a', owner: 'me' }), undefined)
    })

    test('many turns are read in parts, newest first, and a cycle ends', async () => {
      const [one, other] = await two()
      const ids = Array.from({ length: 70 }, (_, at) => `t${at}`)
      await Promise.all(ids.map((id, at) => put(one, response(id, { previous: ids[at - 1] ?? null }))))
      const turns = await other.turns({ id: 't69', owner: 'me' })
      assert.deepEqual(
        turns.map(({ id }) => id),
        ids.toReversed().slice(0, 64),
      )
      await put(one, response('x', { previous: 'y' }))
      await put(one, response('y', { previous: 'x' }))
      assert.ok((await other.turns({ id: 'x', owner: 'me' })).length >= 2)
    })

    test('a run is stopped and followed by another process', async () => {
      const [one, other] = await two()
      await put(one, run('r'))
      await put(one, run('r', { status: 'in_progress' }))
      assert.equal((await other.get({ id: 'r', owner: 'me' }))?.status, 'in_progress')
      assert.equal(await other.ask({ id: 'r', owner: 'me', asked: 'follow' }, CALL), true)
      await until('the process is to store events', () => one.news.some(({ follow }) => follow.length === 1))
      await one.addEvents({ id: 'r', owner: 'me', from: 0, lines: '{"a":1}\n{"a":2}' }, CALL)
      await one.addEvents({ id: 'r', owner: 'me', from: 2, lines: '{"a":3}' }, CALL)
      const lines = ['{"a":1}', '{"a":2}', '{"a":3}']
      assert.deepEqual(await other.events({ id: 'r', owner: 'me', from: 0 }), { isRunning: true, lines })
      assert.deepEqual(await other.events({ id: 'r', owner: 'me', from: 2 }), { isRunning: true, lines: ['{"a":3}'] })
      assert.deepEqual(await other.events({ id: 'r', owner: 'me', from: 3 }), { isRunning: true, lines: [] })
      assert.deepEqual(await other.events({ id: 'r', owner: 'you', from: 0 }), { isRunning: false, lines: [] })
      assert.equal(await other.ask({ id: 'r', owner: 'me', asked: 'stop' }, CALL), true)
      await until('the process is to stop', () => one.news.some(({ stop }) => stop[0]?.id === 'r'))
      await put(one, run('r', { status: 'cancelled', events: lines.join('\n') }))
      assert.equal((await other.get({ id: 'r', owner: 'me' }))?.status, 'cancelled')
      assert.equal(await other.ask({ id: 'r', owner: 'me', asked: 'stop' }, CALL), false)
      assert.deepEqual(await other.events({ id: 'r', owner: 'me', from: 0 }), { isRunning: false, lines: [] })
    })

    test('a run that another process has deleted is stopped, and not stored again', async () => {
      const [one, other] = await two()
      await put(one, run('r'))
      assert.equal(await other.delete({ id: 'r', owner: 'me' }, CALL), true)
      await until('the process is to stop', () => one.news.some(({ stop }) => stop[0]?.id === 'r'))
      await put(one, run('r', { status: 'completed' }))
      assert.equal(await other.get({ id: 'r', owner: 'me' }), undefined)
    })

    test('a name is claimed once, and its answer is repeated', async () => {
      const [one, other] = await two()
      const claim = (store: Store, fingerprint = 'f') => store.claim({ name: 'n', fingerprint }, CALL)
      const states = await Promise.all([claim(one), claim(other)])
      assert.deepEqual(states.map(({ state }) => state).sort(), ['claimed', 'held'])
      const [holder, waiting] = states[0].state === 'claimed' ? [one, other] : [other, one]
      assert.deepEqual(await claim(waiting, 'g'), { state: 'held', fingerprint: 'f' })
      // What another process has not claimed it can neither keep nor release.
      await waiting.keep({ name: 'n', answer: answer('wrong'), ms: 60_000 }, CALL)
      await waiting.release('n')
      assert.equal((await claim(waiting)).state, 'held')
      await holder.keep({ name: 'n', answer: answer('right \0\ud83d\ude00'), ms: 60_000 }, CALL)
      const kept = await claim(waiting)
      assert.ok(kept.state === 'kept')
      assert.deepEqual(
        { ...kept, left: 0 },
        { state: 'kept', fingerprint: 'f', answer: answer('right \0\ud83d\ude00'), left: 0 },
      )
      assert.ok(kept.left > 0 && kept.left <= 60_000, String(kept.left))
    })

    test('a released name, and one whose answer has expired, is claimed again', async () => {
      const [one, other] = await two()
      await one.claim({ name: 'n', fingerprint: 'f' }, CALL)
      await one.release('n')
      assert.equal((await other.claim({ name: 'n', fingerprint: 'g' }, CALL)).state, 'claimed')
      await other.keep({ name: 'n', answer: answer('x'), ms: 0 }, CALL)
      assert.equal((await one.claim({ name: 'n', fingerprint: 'h' }, CALL)).state, 'claimed')
    })

    test('a name that was claimed for a request which no longer waits is free', async () => {
      const [one, other] = await two()
      const call: ThreadCall = { onCancel: null }
      const claiming = one.claim({ name: 'n', fingerprint: 'f' }, call).catch(() => null)
      call.onCancel?.()
      await claiming
      const found = () => other.claim({ name: 'n', fingerprint: 'f' }, CALL)
      for (const end = performance.now() + 60_000; (await found()).state !== 'claimed'; await sleep(50))
        assert.ok(performance.now() < end, 'the name is held')
    })

    test('what a process has in progress ends with it', {
      skip: engine.name === 'SQLite' && 'the file knows PIDs',
    }, async () => {
      const [one, other] = await two()
      await put(one, run('r'))
      await one.claim({ name: 'n', fingerprint: 'f' }, CALL)
      await one.close()
      const stored = await other.get({ id: 'r', owner: 'me' })
      assert.equal(stored?.status, 'failed')
      assert.match(stored?.response ?? '', /The gateway stopped while this response was in progress/)
      assert.equal((await other.claim({ name: 'n', fingerprint: 'f' }, CALL)).state, 'claimed')
    })
  })
