/** Queries in the reading thread, on databases that the bookkeeper has filled. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEachEngine } from '../../../test/support/ledger-engines.ts'
import { closedRecord, endedRecord, NOON, openedRecord } from '../../../test/support/ledger-records.ts'
import { type UsageLedger, usageLedger } from '../../../test/support/usage-ledger.ts'
import type { Outcome } from '../../core/failure.ts'
import { type JournalRecord, NO_TOKENS, type RequestOutcome } from '../../core/journal.ts'
import { formatDollars, parseDollars } from '../../core/money.ts'
import { timeLetters } from '../../core/request-time.ts'
import { FAILED } from './filters.ts'
import {
  DIMENSIONS,
  type ExportQuery,
  type RequestEntry,
  type RequestFilter,
  type RequestSort,
  type RequestsQuery,
  type UsageQuery,
} from './queries.ts'

const HOUR = 3_600_000
const HALF_HOUR = HOUR / 2
const DAY = 24 * HOUR

const succeeded = <T>(outcome: Outcome<T>): T => {
  assert.ok(outcome.ok, outcome.ok ? '' : outcome.failure.message)
  return outcome.value
}
const nano = (text: string): number => succeeded(parseDollars(text, 'any'))

const usage = (query: Partial<UsageQuery>): UsageQuery => ({
  from: NOON - 10 * DAY,
  to: NOON + DAY,
  by: [],
  bucket: 'day',
  tz: null,
  filter: {},
  limit: 10_000,
  after: null,
  ...query,
})
const requests = (query: Partial<RequestsQuery>): RequestsQuery => ({
  from: NOON - 10 * DAY,
  to: NOON + 10 * DAY,
  filter: {},
  limit: 50,
  after: null,
  histogram: null,
  count: false,
  ...query,
})

/** A generator of the same numbers in each run. */
const randomOf = (seed: number) => () => {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
  return seed / 2_147_483_648
}

const OUTCOMES: readonly RequestOutcome[] = ['answered', 'answered', 'refused', 'interrupted', 'client_gone', 'unknown']

/** Requests over eight days with up to three attempts each, of several teams, keys, models, tags and outcomes. */
const mixedRecords = (count: number): readonly JournalRecord[] => {
  const random = randomOf(7)
  const one = <T>(...values: readonly T[]): T => values[Math.floor(random() * values.length)] as T
  const records: JournalRecord[] = []
  for (let call = 1; call <= count; call++) {
    const at = NOON - Math.floor(random() * 8 * DAY)
    const of = {
      key: one('key_a', 'key_b', null),
      team: one('team_a', 'team_b', null),
      style: one('chat', 'messages'),
      tag: one('search', null),
      route: one('fast', 'careful', null),
      client: one('claude-code', 'openai-sdk'),
    }
    const target = { provider: one('openai', 'groq'), model: one('gpt-5', 'llama') }
    const attempts = one(0, 1, 1, 1, 2, 3)
    for (let attempt = 0; attempt < attempts; attempt++) {
      records.push(openedRecord(call, { ...of, ...target, attempt, at: at + attempt }))
      records.push(
        closedRecord(call, {
          attempt,
          at: at + attempt + 50,
          outcome: attempt === attempts - 1 ? 'ok' : 'failed',
          tokens: {
            ...NO_TOKENS,
            input: Math.floor(random() * 5_000),
            output: Math.floor(random() * 500),
            cacheRead: 3,
          },
          usageSource: one('exact', 'exact', 'estimated'),
          cost: one(null, Math.floor(random() * 1e9)),
        }),
      )
    }
    const outcome = one(...OUTCOMES)
    const ended = { received: at, at: at + 100, outcome, status: outcome === 'answered' ? 200 : one(429, 503) }
    records.push(endedRecord(call, { ...of, ...target, ...ended, saved: one(0, 1_000) }))
  }
  return records
}

const CORRECT = `SELECT coalesce(sum(input), 0) input, coalesce(sum(output), 0) output, coalesce(sum(cost), 0) cost,
  count(*) attempts, count(*) FILTER (WHERE usage_source = 'estimated') estimated, count(*) FILTER (WHERE cost IS NULL) unpriced,
  coalesce(sum(CASE WHEN outcome NOT IN ('ok', 'client_gone') THEN cost END), 0) lost
  FROM attempt`

const sums = ({
  input,
  output,
  cost,
  attempts,
  estimated,
  unpriced,
  lost,
}: {
  readonly input: number
  readonly output: number
  readonly cost: string
  readonly attempts: number
  readonly estimated: number
  readonly unpriced: number
  readonly lost: string
}) => ({ input, output, cost: nano(cost), attempts, estimated, unpriced, lost: nano(lost) })

onEachEngine((engine) => {
  test('reading: usage by every dimension, bucket and zone adds up to the rows', async () => {
    await using ledger = usageLedger({ engine, now: NOON, timezone: 'Europe/Berlin' })
    await ledger.store(mixedRecords(3_000))
    const [correct] = ledger.all(CORRECT)
    const [requestRows] = ledger.all(
      "SELECT count(*) requests, count(*) FILTER (WHERE outcome IN ('refused','interrupted','unknown')) failed, count(*) FILTER (WHERE outcome = 'refused' AND status < 500) refused, sum(saved) saved FROM request",
    )
    for (const bucket of ['hour', 'day', 'none'] as const)
      for (const by of [
        [],
        ['team'],
        ['key', 'model'],
        ['provider', 'tag', 'style'],
        ['route'],
        ['client', 'route'],
      ] as const)
        for (const tz of [null, 'America/New_York', 'Asia/Kolkata', 'Pacific/Chatham']) {
          const what = JSON.stringify([bucket, by, tz])
          const report = succeeded(await ledger.reader.usage(usage({ bucket, by, tz })))
          assert.deepEqual(sums(report.total), correct, what)
          assert.deepEqual(
            {
              requests: report.total.requests,
              failed: report.total.failed,
              refused: report.total.refused,
              saved: nano(report.total.saved),
            },
            requestRows,
            what,
          )
          assert.equal(report.has_more, false)
          if (bucket === 'none' && by.length === 0) continue
          const added = report.data.reduce((total, row) => total + nano(row.cost), 0)
          assert.equal(added, correct?.cost, what)
          assert.equal(
            report.data.reduce((total, row) => total + row.requests, 0),
            requestRows?.requests,
            what,
          )
          assert.equal(
            new Set(report.data.map((row) => JSON.stringify([row.start, ...by.map((name) => row[name])]))).size,
            report.data.length,
            what,
          )
        }
  })

  test('reading: refusals of a sum that was begun before they were counted apart are unknown', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    const refused = (call: number, status: number, team: string) => [
      endedRecord(call, { outcome: 'refused', status, team, provider: null, model: null }),
    ]
    await ledger.store([...refused(1, 429, 'team_a'), ...refused(2, 503, 'team_b'), ...refused(3, 402, 'team_b')])
    const read = async () => {
      const { data, total } = succeeded(await ledger.reader.usage(usage({ bucket: 'day', by: ['team'] })))
      return [...data, total].map(({ failed, refused }) => [failed, refused])
    }
    assert.deepEqual(await read(), [
      [1, 1],
      [2, 1],
      [3, 2],
    ])
    ledger.all("UPDATE usage_day SET server_error = NULL WHERE team = 'team_b' RETURNING 1")
    await ledger.store(refused(4, 429, 'team_b'))
    assert.deepEqual(await read(), [
      [1, 1],
      [3, null],
      [4, null],
    ])
  })

  test('reading: usage filters by each dimension; an empty text is no value', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    await ledger.store(mixedRecords(1_000))
    for (const filter of [
      { team: ['team_a'] },
      { team: [''] },
      { key: ['key_a', 'key_b'] },
      { tag: ['search'] },
      { route: ['fast', ''] },
      { client: ['claude-code'] },
      { model: ['llama'], style: ['chat'] },
    ]) {
      const where = Object.entries(filter).map(
        ([name, values]) => `coalesce(${name}, '') IN (${values.map((one) => `'${one}'`)})`,
      )
      const [correct] = ledger.all(`SELECT count(*) requests, sum(cost) cost FROM request WHERE ${where.join(' AND ')}`)
      const { total } = succeeded(await ledger.reader.usage(usage({ filter })))
      assert.deepEqual({ requests: total.requests, cost: nano(total.cost) }, correct)
      assert.ok(total.requests > 0 && total.requests < 1_000)
    }
    const none = succeeded(await ledger.reader.usage(usage({ by: ['model'], filter: { model: [] } })))
    assert.deepEqual([none.data, none.total.requests], [[], 0], 'no value')
  })

  test('reading: days of a zone begin at its midnight, also where clocks change', async () => {
    // Clocks in Berlin go back on 2026-10-25 at 01:00 UTC: the day has 25 hours.
    const start = Date.parse('2026-10-24T22:00:00Z')
    await using ledger = usageLedger({ engine, now: start + 3 * DAY })
    const records = Array.from({ length: 50 }, (_, hour) =>
      endedRecord(hour, { received: start + (hour - 1) * HOUR, at: start + (hour - 1) * HOUR }),
    )
    await ledger.store(records)
    const query = usage({ from: start - HOUR, to: start + 2 * DAY, tz: 'Europe/Berlin' })
    const { data } = succeeded(await ledger.reader.usage(query))
    assert.deepEqual(
      data.map((row) => [row.start, row.requests]),
      [
        ['2026-10-24', 1],
        ['2026-10-25', 25],
        ['2026-10-26', 24],
      ],
    )
  })

  const pagesOf = async (ledger: UsageLedger, query: RequestsQuery, between: () => Promise<void> = async () => {}) => {
    const ids: string[] = []
    for (let after: RequestsQuery['after'] = null, page = 0; ; page++) {
      const found = succeeded(await ledger.reader.requests({ ...query, after }))
      ids.push(...found.data.map(({ id }) => id))
      assert.ok(found.data.length <= query.limit)
      if (found.next === null) return ids
      assert.ok(found.has_more)
      after = JSON.parse(Buffer.from(found.next, 'base64url').toString())
      if (page < 5) await between()
    }
  }

  test('reading: pages of requests have no gaps and no doubles while requests are stored', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    // Many share a time.
    const old = Array.from({ length: 500 }, (_, call) => endedRecord(call, { received: NOON - (call % 7), at: NOON }))
    await ledger.store(old)
    let next = 1_000
    const between = async () => {
      await ledger.store(
        Array.from({ length: 30 }, () => endedRecord(++next, { received: NOON + (next % 5) - 2, at: NOON + 9 })),
      )
    }
    for (const limit of [1, 7, 200]) {
      const before = ledger.all('SELECT id FROM request ORDER BY received DESC, id DESC').map(({ id }) => id)
      const ids = await pagesOf(ledger, requests({ limit }), between)
      assert.equal(new Set(ids).size, ids.length, 'no doubles')
      const found = new Set(ids)
      assert.deepEqual(
        before.filter((id) => !found.has(String(id))),
        [],
        'no gaps',
      )
    }
  })

  test('reading: requests are sorted by each value, with the rest last, in pages without gaps', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    await ledger.store(mixedRecords(200))
    const { data } = succeeded(await ledger.reader.requests(requests({ limit: 200 })))
    assert.equal(data.length, 200)
    const columns = {
      received_at: (row: RequestEntry) => Date.parse(row.received_at),
      first_content_ms: (row: RequestEntry) => row.first_content_ms,
      total_ms: (row: RequestEntry) => row.total_ms,
      cost: (row: RequestEntry) => (row.cost === null ? null : nano(row.cost)),
    }
    for (const [column, value] of Object.entries(columns))
      for (const descending of [true, false]) {
        const sort = `${descending ? '-' : ''}${column}` as RequestSort
        const sign = descending ? -1 : 1
        const expected = data.toSorted((one, other) => {
          const [a, b] = [value(one), value(other)]
          if (a !== b) return a === null ? 1 : b === null ? -1 : sign * (a - b)
          return sign * (one.received_at.localeCompare(other.received_at) || (one.id < other.id ? -1 : 1))
        })
        const ids = await pagesOf(ledger, requests({ limit: 17, sort }))
        assert.deepEqual(
          ids,
          expected.map(({ id }) => id),
          sort,
        )
      }
  })

  test('reading: pages of usage have no gaps and no doubles', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    await ledger.store(mixedRecords(500))
    for (const bucket of ['hour', 'day', 'none'] as const)
      for (const tz of [null, 'Asia/Kolkata']) {
        const query = usage({ by: ['team', 'key'], bucket, tz })
        const whole = succeeded(await ledger.reader.usage(query)).data
        const rows: unknown[] = []
        for (let after: UsageQuery['after'] = null; ; ) {
          const page = succeeded(await ledger.reader.usage({ ...query, limit: 3, after }))
          rows.push(...page.data)
          if (page.next === null) break
          after = JSON.parse(Buffer.from(page.next, 'base64url').toString())
        }
        assert.deepEqual(rows, whole, `${bucket} ${tz}`)
      }
  })

  test('reading: a request has the shape of the admin API, with its attempts and names', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    const decision = {
      by: 'route',
      plan: ['anthropic/claude', 'groq/gpt-5-mini'],
      more: 0,
      skipped: [{ target: 'mistral/small', key: null, why: 'unfit' }],
      dropped: ['top_k'],
      limit: null,
    }
    await ledger.store([
      openedRecord(1, { provider: 'anthropic', model: 'claude', at: NOON + 2 }),
      closedRecord(1, {
        message: 'No answer within 3000 ms.',
        outcome: 'failed',
        kind: 'timeout',
        status: null,
        usageSource: 'estimated',
        at: NOON + 3_001,
        firstContentMs: null,
      }),
      openedRecord(1, { attempt: 1, provider: 'groq', at: NOON + 3_001 }),
      closedRecord(1, { attempt: 1, at: NOON + 3_400 }),
      endedRecord(1, {
        received: NOON,
        at: NOON + 3_421,
        provider: 'groq',
        tags: '{"app":"search"}',
        trace: '00-a',
        decision: JSON.stringify(decision),
      }),
    ])
    const found = succeeded(await ledger.reader.request({ id: 'req_1', key: null, team: null }))
    assert.deepEqual(
      found?.attempts.map(
        ({ n, provider, credential, outcome, kind, message, started_ms, ended_ms, cost, usage: { source } }) => [
          n,
          provider,
          credential,
          outcome,
          kind,
          message,
          started_ms,
          ended_ms,
          cost,
          source,
        ],
      ),
      [
        [
          0,
          'anthropic',
          'a1f3',
          'failed',
          'timeout',
          'No answer within 3000 ms.',
          2,
          3_001,
          '0.000000070',
          'estimated',
        ],
        [1, 'groq', 'a1f3', 'ok', null, null, 3_001, 3_400, '0.000000070', 'exact'],
      ],
    )
    const { attempts: _attempts, ...request } = found ?? assert.fail()
    assert.deepEqual(request, {
      object: 'request',
      id: 'req_1',
      client_request_id: null,
      same_client_id: [],
      received_at: '2026-11-22T10:00:00.000Z',
      ended_at: '2026-11-22T10:00:03.421Z',
      style: 'chat',
      stream: true,
      asked: 'fast',
      route: 'fast',
      provider: 'groq',
      model: 'gpt-5-mini',
      key: { id: 'key_a', name: 'ci' },
      team: { id: 'team_a', name: null },
      end_user: null,
      client: 'openai-sdk',
      tags: { app: 'search' },
      outcome: 'answered',
      status: 200,
      code: null,
      message: null,
      trail: 'openai#a1f3:200',
      decision,
      cache: 'off',
      require: null,
      session: null,
      agent: null,
      guards: [],
      more_guards: 0,
      first_content_ms: 31,
      total_ms: 3_421,
      overhead_us: 120,
      usage: { input: 20, output: 10, cache_read: 0, cache_write: 0, reasoning: 0, source: 'estimated' },
      cost: '0.000000140',
      saved: '0.000000000',
      trace: '00-a',
      node: 'n1',
    })
  })

  test('reading: a client finds the requests of its own key alone, without credentials and nodes', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    // Two clients have given the same ID, at the same time.
    for (const [call, key] of [
      [1, 'key_a'],
      [2, 'key_b'],
    ] as const)
      await ledger.store([
        openedRecord(call, { key, model: `model-of-${key}`, at: NOON }),
        closedRecord(call, { at: NOON + 10 }),
        endedRecord(call, { clientRequestId: 'same', key, received: NOON, at: NOON + 20 }),
      ])
    for (const key of ['key_a', 'key_b']) {
      const found = succeeded(await ledger.reader.request({ id: 'same', key, team: null }))
      assert.deepEqual(
        found?.attempts.map(({ model }) => model),
        [`model-of-${key}`],
      )
      assert.doesNotMatch(JSON.stringify(found), /a1f3|n1|credential|node/)
    }
    for (const query of [
      { id: 'same', key: 'key_c' },
      { id: 'other', key: 'key_a' },
      { id: "' OR 1=1 --", key: 'key_a' },
    ])
      assert.equal(succeeded(await ledger.reader.request({ ...query, team: null })), null)
    assert.equal(succeeded(await ledger.reader.request({ id: 'same', key: null, team: ['team_b'] })), null)
  })

  test('reading: requests are found by the ID that clients gave, the newest first, and by their own', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    const own = (call: number) => `req_${timeLetters(NOON)}${'a'.repeat(12)}${String.fromCharCode(96 + call)}`
    for (const call of [1, 2, 3, 4])
      await ledger.store([
        openedRecord(call, { request: own(call), clientRequestId: 'mine' }),
        closedRecord(call),
        endedRecord(call, {
          request: own(call),
          clientRequestId: 'mine',
          ...(call === 4 && { key: 'key_b', team: 'team_b' }),
        }),
      ])
    // A client names its request as another one is stored.
    await ledger.store([endedRecord(5, { request: own(5), clientRequestId: own(1) })])
    const idsOf = async (id: string, of: { readonly key?: string; readonly team?: readonly string[] } = {}) => {
      const found = succeeded(await ledger.reader.request({ id, key: of.key ?? null, team: of.team ?? null }))
      return found && [found.id, found.client_request_id, found.same_client_id.map(({ id: other }) => other).join()]
    }
    assert.deepEqual(await idsOf('mine'), [own(4), 'mine', `${own(3)},${own(2)},${own(1)}`])
    assert.deepEqual(await idsOf('mine', { key: 'key_a' }), [own(3), 'mine', `${own(2)},${own(1)}`])
    assert.deepEqual(await idsOf('mine', { team: ['team_b'] }), [own(4), 'mine', ''])
    assert.deepEqual(await idsOf(own(2)), [own(2), 'mine', `${own(4)},${own(3)},${own(1)}`])
    assert.deepEqual(await idsOf(own(1)), [own(1), 'mine', `${own(4)},${own(3)},${own(2)}`])
    assert.deepEqual(await idsOf(own(5)), [own(5), own(1), ''])
    const listed = async (filter: RequestsQuery['filter']) =>
      succeeded(await ledger.reader.requests(requests({ filter }))).data.map(({ id }) => id)
    assert.deepEqual(await listed({ request_id: ['mine'] }), [own(4), own(3), own(2), own(1)])
    assert.deepEqual(await listed({ request_id: [own(1)] }), [own(5), own(1)])
    assert.deepEqual(await listed({ q: 'MINE' }), [own(4), own(3), own(2), own(1)])
    // Unlike `request_id`, not the one whose client gave the ID; an empty list finds no request.
    assert.deepEqual(await listed({ own_id: [own(1), own(3)] }), [own(3), own(1)])
    assert.deepEqual(await listed({ own_id: ['mine'] }), [])
    assert.deepEqual(await listed({ own_id: [] }), [])
    const many = Array.from({ length: 2_000 }, (_, at) => `req_${at}`)
    assert.deepEqual(await listed({ own_id: [...many, own(2)], team: ['team_a'] }), [own(2)])
  })

  test('reading: each filter finds its requests', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    const special = {
      team: 'team_x',
      key: 'key_x',
      provider: 'px',
      model: 'mx',
      asked: 'ax',
      route: 'rx',
      style: 'messages',
      endUser: 'ux',
      client: 'codex',
      outcome: 'refused',
      code: 'cx',
      cache: 'hit',
      status: 404,
      tags: '{"app":"a:b","%":"_"}',
      trail: 'Open%AI#1',
    } as const
    await ledger.store([
      endedRecord(1, { ...special, at: NOON + 9_000 }),
      openedRecord(2),
      closedRecord(2, {
        cost: 5_000_000_000,
        outcome: 'failed',
        kind: 'timeout',
        message: 'Cluster EU-2 is 100% busy',
      }),
      openedRecord(2, { attempt: 1 }),
      closedRecord(2, { attempt: 1 }),
      endedRecord(2),
      openedRecord(3, { key: null }),
      closedRecord(3, { outcome: 'abandoned' }),
      openedRecord(3, { attempt: 1, hedge: true }),
      closedRecord(3, { attempt: 1 }),
      endedRecord(3, { key: null, status: 500 }),
    ])
    const cases: readonly (readonly [RequestFilter, readonly number[]])[] = [
      [{}, [3, 2, 1]],
      [{ team: ['team_x'] }, [1]],
      [{ key: ['key_x', ''] }, [3, 1]],
      [{ provider: ['px'], model: ['mx'], asked: ['ax'], route: ['rx'], style: ['messages'], end_user: ['ux'] }, [1]],
      [{ client: ['codex'] }, [1]],
      [{ model: [] }, []],
      [{ any_model: ['ax'] }, [1]],
      [{ any_model: ['none', 'mx'] }, [1]],
      [{ outcome: ['refused'] }, [1]],
      [{ code: ['cx'] }, [1]],
      [{ cache: ['hit', 'shared'] }, [1]],
      [{ status: ['404'] }, [1]],
      [{ status: ['2xx', '5xx'] }, [3, 2]],
      [{ tag: ['app:a:b'] }, [1]],
      [{ tag: ['app:a'] }, []],
      [{ tag: ['%:_'] }, [1]],
      [{ fell_back: true }, [2]],
      [{ result: ['fell_back'] }, [2]],
      [{ result: ['answered', 'refused'] }, [3, 1]],
      [{ result: ['failed', 'cached', 'broke_off', 'client_left', 'unknown'] }, []],
      [{ fell_back: false }, [3, 1]],
      [{ min_ms: 5_000 }, [1]],
      [{ min_cost: 5_000_000_000 }, [2]],
      [{ q: 'open%ai' }, [1]],
      [{ q: '%' }, [2, 1]],
      [{ q: 'REQ_3' }, [3]],
      [{ q: 'UX' }, [1]],
      [{ q: '\\' }, []],
      [{ q: 'cluster eu-2' }, [2]],
      [{ q: '100% b' }, [2]],
      [{ q: 'TIMEOUT' }, [2]],
      [{ q: 'cluster_eu' }, []],
    ]
    for (const [filter, calls] of cases) {
      const page = succeeded(await ledger.reader.requests(requests({ filter, count: true })))
      assert.deepEqual(
        page.data.map(({ id }) => id),
        calls.map((call) => `req_${call}`),
        JSON.stringify(filter),
      )
      assert.deepEqual(page.count, { value: calls.length, exact: true })
    }
  })

  test('reading: a histogram counts each request once, from rows and from hourly sums', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    await ledger.store(mixedRecords(2_000))
    const outcomes = (filter: string) =>
      Object.fromEntries(
        ledger
          .all(`SELECT outcome, count(*) n FROM request WHERE ${filter} GROUP BY outcome`)
          .map(({ outcome, n }) => [outcome, n]),
      )
    for (const [filter, where] of [
      [{}, 'true'],
      [{ team: ['team_a'] }, "team = 'team_a'"],
      [{ min_ms: 1 }, 'total_ms >= 1'],
      [{ q: 'req_1' }, "id LIKE '%req_1%'"],
    ] as const)
      for (const [from, to] of [
        [NOON - 9 * DAY, NOON + HOUR],
        [NOON - 5 * HOUR - 1_234, NOON - 777],
        // Begins and ends within an hour that has a sum.
        [NOON - 5 * DAY - HALF_HOUR, NOON - DAY - HALF_HOUR],
        [NOON - DAY - HALF_HOUR - 30 * HOUR, NOON - DAY + HALF_HOUR],
      ] as const) {
        const page = succeeded(await ledger.reader.requests(requests({ from, to, filter, histogram: 60, count: true })))
        const { data, seconds } = page.histogram ?? assert.fail()
        const all = data.reduce((total, { answered, refused, interrupted, client_gone, unknown }) => {
          return total + answered + refused + interrupted + client_gone + unknown
        }, 0)
        assert.deepEqual(page.count, { value: all, exact: true }, `${JSON.stringify(filter)} ${from} ${to}`)
        const summary = succeeded(await ledger.reader.summary({ from, to, filter, compare: true }))
        assert.equal(summary.figures.requests, all)
        assert.ok(data.length <= 60 && data.length >= 9, `${data.length} buckets`)
        assert.ok(
          data.every(
            ({ start }, index) =>
              index === 0 || Date.parse(start) - Date.parse(data[index - 1]?.start ?? '') === seconds * 1_000,
          ),
        )
        const correct = outcomes(`${where} AND received >= ${from} AND received < ${to}`)
        for (const outcome of ['answered', 'refused', 'interrupted', 'client_gone', 'unknown'] as const)
          assert.equal(
            data.reduce((total, bucket) => total + bucket[outcome], 0),
            correct[outcome] ?? 0,
            outcome,
          )
        const [failed] = ledger.all(
          `SELECT count(*) n FROM request WHERE ${where} AND received >= ${from} AND received < ${to} AND ${FAILED}`,
        )
        assert.equal(
          data.reduce((total, bucket) => total + (bucket.failed ?? Number.NaN), 0),
          failed?.n,
        )
      }
  })

  test('reading: a summary has the figures of its range, and of the range before', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    await ledger.store(
      Array.from({ length: 200 }, (_, call) => [
        openedRecord(call, { at: NOON - 1_000 * call }),
        closedRecord(call, { cost: 1_000 }),
        endedRecord(call, {
          received: NOON - 1_000 * call,
          at: NOON - 1_000 * call + call + 1,
          outcome: call < 150 ? 'answered' : 'refused',
          firstContentMs: null,
        }),
      ]).flat(),
    )
    const query = { from: NOON - 99_000, to: NOON + 1, filter: {}, compare: true }
    const { figures, before, series } = succeeded(await ledger.reader.summary(query))
    assert.equal(figures.requests, 100)
    assert.equal(figures.answered_share, 1)
    assert.deepEqual([figures.p50_ms, figures.p95_ms], [50, 95])
    assert.equal(figures.first_content_p95_ms, null)
    assert.equal(figures.cost, '0.000100000')
    assert.equal(before?.requests, 99)
    assert.ok(series.length <= 120 && series.reduce((total, point) => total + point.requests, 0) === 100)
  })

  for (const [name, to] of [
    ['rows', NOON + 1_000],
    ['hourly sums', NOON + 2 * DAY],
  ] as const)
    test(`reading: refused requests and clients that left are no failures of the gateway, from ${name}`, async () => {
      await using ledger = usageLedger({ engine, now: NOON })
      const ends = [
        ...Array.from({ length: 6 }, () => ['answered', 200] as const),
        ['refused', 402],
        ['refused', 429],
        ['refused', 404],
        ['refused', 502],
        ['interrupted', 200],
        ['client_gone', 499],
      ] as const
      await ledger.store(
        ends.flatMap(([outcome, status], call) => [
          openedRecord(call),
          closedRecord(call),
          endedRecord(call, { outcome, status }),
        ]),
      )
      const { figures } = succeeded(await ledger.reader.summary({ from: NOON, to, filter: {}, compare: false }))
      assert.equal(figures.answered_share, 6 / 8)
      assert.deepEqual([figures.outcomes.refused, figures.outcomes.failed], [4, 1])
      await ledger.store(ends.slice(6, 9).map(([outcome, status], at) => endedRecord(90 + at, { outcome, status })))
      const later = succeeded(await ledger.reader.summary({ from: NOON, to, filter: {}, compare: false }))
      assert.deepEqual([later.figures.answered_share, later.figures.requests], [6 / 8, 15])
      if (name === 'rows') return
      ledger.all('UPDATE usage_hour SET server_error = NULL RETURNING 1')
      await ledger.store([endedRecord(99)])
      const old = succeeded(await ledger.reader.summary({ from: NOON, to, filter: {}, compare: false })).figures
      assert.deepEqual([old.answered_share, old.outcomes.failed, old.outcomes.refused], [null, null, 7])
    })

  test('reading: lanes have the attempts of a provider by credential and model', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    await ledger.store([
      openedRecord(1),
      closedRecord(1),
      endedRecord(1),
      openedRecord(2),
      closedRecord(2, { outcome: 'failed', kind: 'timeout', status: null }),
      endedRecord(2),
      openedRecord(3),
      closedRecord(3, { outcome: 'failed', kind: 'rate_limited', status: 429 }),
      endedRecord(3),
      openedRecord(4, { credential: 'b2' }),
      openedRecord(5, { provider: 'groq' }),
      closedRecord(5),
      endedRecord(5),
    ])
    const lanes = succeeded(await ledger.reader.lanes({ from: NOON, to: NOON + HOUR, provider: 'openai', cells: 60 }))
    const start = '2026-11-22T10:00:00.000Z'
    assert.equal(lanes.seconds, 60)
    assert.deepEqual(
      lanes.data.map((lane) => ({ ...lane, cells: lane.cells.map((cell) => ({ ...cell })) })),
      [
        {
          credential: 'a1f3',
          model: 'gpt-5-mini',
          cells: [{ start, attempts: 3, failed: 1, limited: 1, open: 0, slowest_ms: 100 }],
        },
        {
          credential: 'b2',
          model: 'gpt-5-mini',
          cells: [{ start, attempts: 1, failed: 0, limited: 0, open: 1, slowest_ms: null }],
        },
      ],
    )
    assert.deepEqual(
      lanes.failures.map(({ request, kind, status }) => [request, kind, status]),
      [
        ['req_3', 'rate_limited', 429],
        ['req_2', 'timeout', null],
      ],
    )
  })

  test('reading: routes have their requests, and the attempts at each target; those of a team are apart', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    const [mini, llama] = [
      { provider: 'openai', model: 'gpt-5-mini' },
      { provider: 'groq', model: 'llama' },
    ]
    const fast = { route: 'fast', team: 'team_a' }
    await ledger.store([
      ...[100, 200, 300].flatMap((firstContentMs, call) => [
        openedRecord(call, { ...fast, ...mini }),
        closedRecord(call, { firstContentMs }),
        endedRecord(call, { ...fast, ...mini }),
      ]),
      // Answered by the other target, after a failure.
      openedRecord(5, { ...fast, ...mini, attempt: 0 }),
      closedRecord(5, { attempt: 0, outcome: 'failed', kind: 'timeout', status: null }),
      openedRecord(5, { ...fast, ...llama, attempt: 1 }),
      closedRecord(5, { attempt: 1, firstContentMs: 40 }),
      endedRecord(5, { ...fast, ...llama, team: 'team_b' }),
      openedRecord(6, { ...fast, ...llama }),
      closedRecord(6, { outcome: 'failed', kind: 'rate_limited', status: 429 }),
      endedRecord(6, { ...fast, provider: null, model: null, outcome: 'refused', status: 429 }),
      openedRecord(7, { ...fast, ...llama }),
      closedRecord(7, { outcome: 'failed', kind: 'overloaded', status: 503 }),
      endedRecord(7, { ...fast, provider: null, model: null, outcome: 'refused', status: 503 }),
      // Their own routes of the same name, the default route, and a model that is named directly.
      ...['team_a', 'team_b'].flatMap((team, at) => endedRecord(10 + at, { route: 'mine', team, cache: 'hit' })),
      openedRecord(12, mini),
      closedRecord(12),
      endedRecord(12, { ...mini, asked: 'Auto', route: null }),
      openedRecord(13, mini),
      closedRecord(13),
      endedRecord(13, { ...mini, asked: 'gpt-5-mini', route: null }),
    ])
    const query = { from: NOON, to: NOON + HOUR, filter: {}, own: ['mine'] }
    const { data } = succeeded(await ledger.reader.routeTraffic(query))
    const shown = data.map(({ targets, ...one }) => ({ ...one, targets: targets.map((target) => ({ ...target })) }))
    const none = { cached: 0, refused: 0, failed: 0 }
    assert.deepEqual(
      shown.find(({ route }) => route === 'fast'),
      {
        ...{ route: 'fast', team: null, requests: 6, answered: 4, cached: 0, refused: 1, failed: 1 },
        targets: [
          { ...mini, attempts: 4, answered: 3, failed: 1, limited: 0, first_content_p50_ms: 200 },
          { ...llama, attempts: 3, answered: 1, failed: 1, limited: 1, first_content_p50_ms: 40 },
        ],
      },
    )
    const mine = shown.filter(({ route }) => route === 'mine')
    assert.deepEqual(mine.map(({ team, requests, cached }) => [team, requests, cached]).sort(), [
      ['team_a', 1, 1],
      ['team_b', 1, 1],
    ])
    const auto = shown.find(({ route }) => route === 'auto')
    assert.deepEqual({ ...auto, targets: auto?.targets.length }, { ...none, ...auto, requests: 1, targets: 1 })
    assert.equal(shown.length, 4)
    const ofTeam = succeeded(await ledger.reader.routeTraffic({ ...query, filter: { team: ['team_b'] } }))
    assert.deepEqual(ofTeam.data.map(({ route, requests }) => `${route} ${requests}`).sort(), ['fast 1', 'mine 1'])
    const shared = succeeded(await ledger.reader.routeTraffic({ ...query, shared: true }))
    assert.deepEqual(
      shared.data.map((one) => ({ ...one, targets: [...one.targets] })),
      data.map((one) => ({ ...one, targets: [...one.targets] })),
    )
  })

  test('reading: requests by the name that clients gave have what they used', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    const mini = { provider: 'openai', model: 'gpt-5-mini' }
    const direct = { ...mini, route: null, asked: 'gpt-5-mini' }
    await ledger.store([
      ...[1, 2].flatMap((call) => [
        openedRecord(call, mini),
        closedRecord(call, { cost: call === 1 ? 70 : null }),
        endedRecord(call, direct),
      ]),
      openedRecord(3, mini),
      closedRecord(3, { tokens: { ...NO_TOKENS, input: 30, output: 5, cacheRead: 20 } }),
      endedRecord(3, mini),
      endedRecord(4, { ...direct, provider: null, model: null, outcome: 'refused', status: 503, code: 'overloaded' }),
      endedRecord(5, {
        ...direct,
        asked: 'x',
        provider: null,
        model: null,
        outcome: 'refused',
        status: 404,
        code: 'model_not_found',
      }),
      endedRecord(6, { ...mini, route: 'mine', team: 'team_b' }),
    ])
    const query = { from: NOON - HOUR, to: NOON + HOUR, filter: {}, own: ['mine'] }
    const { data, since, has_more } = succeeded(await ledger.reader.namesUsage(query))
    assert.deepEqual([since, has_more], ['2026-11-22T10:00:00.000Z', false])
    const found = data.map(({ route, team, asked, provider, requests, unpriced, cost, input, cache_read }) =>
      [route, team, asked, provider, requests, unpriced, cost, input, cache_read].join(' '),
    )
    assert.deepEqual(found.sort(), [
      '  gpt-5-mini  1 0 0 0 0',
      '  gpt-5-mini openai 2 1 70 20 0',
      'fast   openai 1 0 70 30 20',
      'mine team_b  openai 1 0 0 0 0',
    ])
    const ofTeam = succeeded(await ledger.reader.namesUsage({ ...query, filter: { team: ['team_b'] }, shared: true }))
    assert.deepEqual(
      ofTeam.data.map(({ route }) => route),
      ['mine'],
    )
  })

  test('reading: the activity of all providers, and what is in progress', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    await ledger.store([
      openedRecord(1),
      closedRecord(1),
      endedRecord(1),
      openedRecord(2),
      closedRecord(2, { outcome: 'failed', kind: 'timeout', status: null }),
      endedRecord(2),
      openedRecord(3),
      closedRecord(3, { outcome: 'failed', kind: 'rate_limited', status: 429 }),
      endedRecord(3),
      openedRecord(4),
      closedRecord(4, { outcome: 'failed', kind: 'invalid_request', status: 400 }),
      endedRecord(4),
      openedRecord(5, { provider: 'groq', key: null, team: null }),
    ])
    const { seconds, data } = succeeded(await ledger.reader.activity({ from: NOON, to: NOON + HOUR, cells: 60 }))
    assert.equal(seconds, 60)
    const [groq, openai] = data
    assert.ok(openai && groq)
    const { attempts, failed, limited, p50_ms, histogram, errors, cells } = openai
    assert.deepEqual({ attempts, failed, limited, p50_ms }, { attempts: 4, failed: 1, limited: 1, p50_ms: 100 })
    assert.deepEqual(
      histogram.filter((bar) => bar.attempts > 0),
      [{ most_ms: 128, attempts: 1 }],
    )
    assert.deepEqual(errors.map(({ kind, status, count }) => `${kind} ${status} ${count}`).sort(), [
      'invalid_request 400 1',
      'rate_limited 429 1',
      'timeout null 1',
    ])
    assert.deepEqual(
      cells.map((cell) => ({ ...cell })),
      [{ start: '2026-11-22T10:00:00.000Z', attempts: 4, failed: 1, limited: 1, slowest_ms: 100 }],
    )
    assert.deepEqual([groq.attempts, groq.failed, groq.p50_ms], [1, 0, null])
    const all = succeeded(await ledger.reader.running({ teams: null })).data
    assert.deepEqual(
      all.map(({ request, provider, key }) => [request, provider, key]),
      [['req_5', 'groq', null]],
    )
    assert.deepEqual(succeeded(await ledger.reader.running({ teams: ['team_a'] })).data, [])
  })

  test('reading: facets are those of all requests, or of the teams of a viewer', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    await ledger.store([
      endedRecord(1, { tag: 'search' }),
      endedRecord(2, { team: 'team_b', key: 'key_b', provider: 'groq' }),
    ])
    const all = succeeded(await ledger.reader.facets({ team: null }))
    assert.deepEqual(all.object, 'facets')
    assert.deepEqual([...(all.key ?? [])].sort(), ['key_a', 'key_b'])
    assert.deepEqual([all.tag, all.client], [['search'], ['openai-sdk']])
    const own = succeeded(await ledger.reader.facets({ team: ['team_b'] }))
    assert.deepEqual([own.key, own.provider, own.team, own.tag], [['key_b'], ['groq'], ['team_b'], undefined])
    assert.deepEqual([own.route, own.client], [['fast'], ['openai-sdk']])
  })

  const exported = async (ledger: UsageLedger, query: Partial<ExportQuery>): Promise<string> => {
    const { read } = ledger.reader.export({
      from: NOON - 10 * DAY,
      to: NOON + 10 * DAY,
      level: 'request',
      format: 'csv',
      filter: {},
      ...query,
    })
    let text = ''
    for (;;) {
      const part = succeeded(await read())
      if (part === null) return text
      assert.ok(part.length < 5_000_000)
      text += part
    }
  }

  test('reading: exports have every row once, at each level and in both formats', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    await ledger.store([...mixedRecords(1_700), openedRecord(9_999)])
    for (const [level, sql, key] of [
      ['request', 'SELECT count(*) n, sum(cost) cost FROM request', (row: Record<string, unknown>) => row.id],
      [
        'attempt',
        'SELECT count(*) n, sum(cost) cost FROM attempt',
        (row: Record<string, unknown>) => `${row.request} ${row.n}`,
      ],
      [
        'day',
        `SELECT count(DISTINCT CAST(received / 86400000 AS TEXT) || ${DIMENSIONS.map((name) => `coalesce(${name}, '')`).join(' || ')}) n,
          sum(cost) cost FROM request`,
        (row: Record<string, unknown>) => JSON.stringify([row.day, ...DIMENSIONS.map((name) => row[name])]),
      ],
    ] as const) {
      const [correct] = ledger.all(sql)
      const rows = (await exported(ledger, { level, format: 'jsonl' }))
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line))
      assert.equal(new Set(rows.map(key)).size, rows.length)
      assert.deepEqual(
        { n: rows.length, cost: rows.reduce((sum, { cost }) => sum + (cost === null ? 0 : nano(cost)), 0) },
        correct,
        level,
      )
      const csv = (await exported(ledger, { level })).trimEnd().split('\r\n')
      assert.equal(csv.length, rows.length + 1)
      assert.deepEqual(csv[0]?.split(','), Object.keys(rows[0]))
    }
    const filtered = (
      await exported(ledger, { level: 'attempt', format: 'jsonl', filter: { team: ['team_a'], provider: ['groq'] } })
    )
      .trimEnd()
      .split('\n')
    assert.ok(
      filtered.length > 10 &&
        filtered.every((line) => line.includes('"team":"team_a"') && line.includes('"provider":"groq"')),
    )
  })

  test('reading: exports and reports have the names of keys and teams, as the directory has them', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    await ledger.store(mixedRecords(200))
    for (const level of ['request', 'attempt', 'day'] as const) {
      const lines = (await exported(ledger, { level, format: 'jsonl' })).trimEnd().split('\n')
      const rows = lines.map((line): Record<string, unknown> => JSON.parse(line))
      assert.ok(rows.some(({ key_name }) => key_name === 'ci'))
      for (const { key, key_name, team_name } of rows)
        assert.deepEqual([key_name, team_name], [key === 'key_a' ? 'ci' : null, null])
      const [head = '', ...csv] = (await exported(ledger, { level })).trimEnd().split('\r\n')
      assert.match(head, /,team_name,key_name$/)
      assert.equal(csv.filter((line) => line.endsWith(',,ci')).length, rows.filter(({ key }) => key === 'key_a').length)
    }
    const { names } = succeeded(await ledger.reader.usage(usage({ bucket: 'none', by: ['key', 'team'] })))
    assert.deepEqual(names, { key_a: 'ci' })
  })

  const HOSTILE = [
    "'; DROP TABLE request; --",
    '=HYPERLINK("http://x","y")',
    '+1',
    '-1',
    '@SUM(A1)',
    '\t=1',
    'a,b"c\r\nd',
    '\u0000',
    '🦊'.repeat(40),
    '__proto__',
    '%',
    '_',
    '\\',
    '<script>',
    '{"a":1',
    '\ud800',
    'null',
    '',
  ]

  test('reading: hostile texts in every column come back as they are, and change no query', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    await ledger.store(
      HOSTILE.flatMap((text, call) => {
        const of = { key: text, team: text, style: text, provider: text, model: text, tag: text }
        return [
          openedRecord(call, { ...of, request: `r${call}`, credential: text, at: NOON + call }),
          closedRecord(call, { kind: text, priceVersion: text, outcome: 'failed', at: NOON + call }),
          endedRecord(call, {
            ...of,
            request: `r${call}`,
            received: NOON + call,
            at: NOON + call + 1,
            asked: text,
            route: text,
            person: text,
            endUser: text,
            tags: text,
            code: text,
            trail: text,
            trace: text,
          }),
        ]
      }),
    )
    const stored = (text: string) =>
      engine.name === 'SQLite' ? text.toWellFormed() : text.toWellFormed().replaceAll('\0', '\ufffd')
    const listed = (text: string) => text.toWellFormed().replaceAll('\0', '\ufffd')
    for (const [call, text] of HOSTILE.entries()) {
      const filter = {
        team: [text],
        key: [text],
        model: [text],
        provider: [text],
        style: [text],
        route: [text],
        asked: [text],
        code: [text],
        end_user: [text],
      }
      const { data } = succeeded(await ledger.reader.requests(requests({ filter, histogram: 60, count: true })))
      assert.ok(
        data.some(
          ({ id, asked, attempts }) =>
            id === `r${call}` && asked === stored(text) && attempts[0]?.kind === listed(text),
        ),
        JSON.stringify(text),
      )
      const { total } = succeeded(
        await ledger.reader.usage(
          usage({ filter: { team: [text], key: [text], tag: [text] }, by: ['team', 'key', 'tag'] }),
        ),
      )
      assert.ok(total.requests >= 1, JSON.stringify(text))
      if (text !== '') {
        const found = succeeded(await ledger.reader.requests(requests({ filter: { q: text } })))
        assert.ok(
          found.data.some(({ id }) => id === `r${call}`),
          JSON.stringify(text),
        )
      }
      succeeded(await ledger.reader.requests(requests({ filter: { tag: [`${text}:x`, `a:${text}`] } })))
      succeeded(await ledger.reader.lanes({ from: NOON, to: NOON + HOUR, provider: text, cells: 60 }))
    }
    assert.equal(ledger.all('SELECT count(*) n FROM request')[0]?.n, HOSTILE.length)
    succeeded(await ledger.reader.facets({ team: null }))
    // RFC 4180: a field in quotation marks, or without any.
    const csv = await exported(ledger, {})
    const cells =
      csv.match(/(?:"(?:[^"]|"")*"|[^",\r\n]*)(?:,|\r\n)/g)?.map((cell) =>
        cell
          .replace(/(?:,|\r\n)$/, '')
          .replace(/^"|"$/g, '')
          .replaceAll('""', '"'),
      ) ?? []
    const columns = csv.split('\r\n')[0]?.split(',').length ?? 0
    assert.equal(cells.length, columns * (HOSTILE.length + 1))
    assert.deepEqual(
      cells.filter((cell) => /^[=+\-@\t\r]/.test(cell)),
      [],
    )
    assert.ok(cells.includes(`'=HYPERLINK("http://x","y")`) && cells.includes("'-1"))
    for (const line of (await exported(ledger, { format: 'jsonl' })).trimEnd().split('\n')) JSON.parse(line)
  })

  test('reading: a forecast repeats the last week by hour, for what the budget counts', async () => {
    const now = NOON + HOUR / 2
    await using ledger = usageLedger({ engine, now })
    // Each hour of the last nine days 100 nano-dollars; 10 times as much in the same hour of each day.
    const records = Array.from({ length: 9 * 24 }, (_, back) => {
      const at = NOON - (back + 1) * HOUR
      const cost = new Date(at).getUTCHours() === 20 ? 1_000 : 100
      return [
        openedRecord(back, { at, provider: back % 2 === 0 ? 'openai' : 'groq' }),
        closedRecord(back, { at, cost }),
        endedRecord(back, { received: at, at, provider: back % 2 === 0 ? 'openai' : 'groq' }),
        openedRecord(1_000 + back, { at, team: 'team_b', model: 'gpt-5' }),
        closedRecord(1_000 + back, { at, cost: 7_777 }),
        endedRecord(1_000 + back, { received: at, at, team: 'team_b', model: 'gpt-5' }),
      ]
    }).flat()
    await ledger.store(records)
    const query = {
      by: 'week',
      teams: ['team_a'],
      keys: null,
      models: null,
      providers: null,
      period_start: NOON - DAY,
      period_end: NOON + 24 * HOUR,
      amount: 1_000_000,
      spent: 5_000,
    } as const
    const forecasts = async (...changes: readonly object[]) =>
      succeeded(await ledger.reader.forecasts({ now, budgets: changes.map((one) => ({ ...query, ...one })) }))
    const forecast = async (changes: object) => (await forecasts(changes))[0] ?? assert.fail()
    // Half of this hour, 22 usual hours and the expensive one.
    assert.deepEqual(await forecast({}), {
      object: 'forecast',
      projected: formatDollars(5_000 + 50 + 22 * 100 + 1_000),
      exhausted_at: null,
      spent_since: null,
      basis: 'week',
      hours: 168,
    })
    // Every other hour is usually without cost, but the last one cost 100: 67 an hour of the last one and a half.
    const half = await forecast({ providers: ['!groq', '*'] })
    assert.equal(half.basis, 'present')
    assert.ok(nano(half.projected ?? '') < 5_000 + 50 + 22 * 100 + 1_000)
    assert.ok(nano(half.projected ?? '') >= 5_000 + 23 * 66)
    // 20:00 is 10 hours after noon of the record: 9 whole hours and a half before it cost 950.
    assert.equal(
      (await forecast({ amount: 5_000 + 950 + 500 })).exhausted_at,
      new Date(NOON + 10.5 * HOUR).toISOString(),
    )
    // A spent budget has no time at which it will be spent, but one since which it is: of each hour before it cost 100.
    assert.equal((await forecast({ amount: 5_000 })).exhausted_at, null)
    for (const [changes, hours] of [
      [{ amount: 5_000 }, 1],
      [{ amount: 4_701 }, 3],
      [{ amount: 4_700 }, 4],
      // With the other team 7,877 an hour.
      [{ teams: null, spent: 20_000, amount: 5_000 }, 2],
      // All hours of the period do not explain it: an adjustment may.
      [{ amount: 1 }, null],
      [{ teams: null, spent: 900_000, amount: 1 }, null],
    ] as const)
      assert.equal(
        (await forecast(changes)).spent_since,
        hours === null ? null : new Date(NOON - hours * HOUR).toISOString(),
        JSON.stringify(changes),
      )
    const endless = await forecast({ period_end: null, amount: 40_000 })
    assert.equal(endless.projected, null)
    assert.ok(Date.parse(endless.exhausted_at ?? '') > now + 7 * DAY)
    // The rate of the period so far: 5,000 in a day and half an hour.
    assert.deepEqual(await forecast({ by: 'period', spent: 49_000, amount: 50_000 }), {
      object: 'forecast',
      projected: formatDollars(49_000 + 47_000),
      exhausted_at: new Date(now + HOUR / 2).toISOString(),
      spent_since: null,
      basis: 'period',
      hours: null,
    })
    // A credit is no rate that continues.
    assert.equal((await forecast({ by: 'period', spent: -4_000 })).projected, formatDollars(-4_000))
    // Several budgets are read at once, each with its own selector.
    const several = [{}, { teams: null }, { providers: ['!groq', '*'] }, { teams: ['team_b'] }, { by: 'period' }]
    const each: unknown[] = []
    for (const one of several) each.push(await forecast(one))
    assert.deepEqual(await forecasts(...several), each)
    assert.equal(new Set(each.map((one) => JSON.stringify(one))).size, several.length)
    // An unusual day: the present rate lasts until its end, and so the forecast is not passed within the minute.
    const wave = 6 * 24 * 100
    await ledger.store([
      openedRecord(900, { at: now - 60_000, provider: 'openai' }),
      closedRecord(900, { at: now - 60_000, cost: wave }),
      endedRecord(900, { received: now - 60_000, at: now - 60_000 }),
    ])
    const unusual = await forecast({ spent: 5_000 + wave })
    assert.equal(unusual.basis, 'present')
    assert.ok(nano(unusual.projected ?? '') >= 5_000 + wave + 23 * 2 * wave, unusual.projected ?? '')
  })
})
