/** The export against a strict server, with failures in every step. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type FakeS3, fakeS3, S3_KEYS, type S3Fault } from '../../../test/support/s3.ts'
import { exportSettings } from '../../../test/support/settings.ts'
import { fail, good } from '../../core/failure.ts'
import { dialer } from '../../transport/client/dial.ts'
import { signing } from '../../transport/identity/signing.ts'
import { type ExportRange, RANGE } from './export-range.ts'
import { decodeState } from './export-state.ts'
import { UsageSink, type UsageSinkOptions } from './usage-sink.ts'

const START = Date.UTC(2026, 10, 27)
const MINUTE = 60_000
const HOUR = 3_600_000
const POLL = 30_000

type Row = { readonly at: number; readonly id: string }

const rowsAt = (at: number, count: number, name: string): readonly Row[] =>
  Array.from({ length: count }, (_, index) => ({ at: at + index, id: `${name}${index}` }))

/** 3 objects, one with exactly as many rows as fit, and one after a range without rows. */
const ROWS: readonly Row[] = [
  ...rowsAt(START, 7, 'a'),
  ...rowsAt(START + RANGE, 3, 'b'),
  ...rowsAt(START + 3 * RANGE - 1, 1, 'c'),
]
/** When the first three ranges can be exported, and no other. */
const SETTLED = START + 3 * RANGE + 11 * MINUTE

class Ledger {
  rows = ROWS
  /** Called before each page. */
  mayRead: () => boolean = () => true

  /** In pages of two rows. */
  rowsOf({ from, to }: ExportRange): ReturnType<UsageSinkOptions['rowsOf']> {
    const found = this.rows.filter(({ at }) => at >= from && at < to).toSorted((a, b) => a.at - b.at)
    return {
      read: async () => {
        if (!this.mayRead()) return { ok: false, failure: fail('storage', 'it takes too long') }
        const page = found.splice(0, 2)
        return good(page.length === 0 ? null : page.map((row) => `${JSON.stringify(row)}\n`).join(''))
      },
    }
  }
}

type Stage = { readonly s3: FakeS3; readonly clock: { now: number }; readonly ledger: Ledger }

/** A gateway that exports. Time passes only by `advance`; a crash is a new one. */
const exporter = (context: TestContext, { s3, clock, ledger }: Stage, more: Partial<UsageSinkOptions> = {}) => {
  const upstream = dialer()
  const signed = signing({ dial: upstream.dial, environment: async () => S3_KEYS, report: () => {} })
  let due: { readonly ms: number; readonly run: () => void } | null = null
  let onScheduled: () => void = () => {}
  const reports: (string | null)[] = []
  const made = new UsageSink({
    world: {
      date: () => clock.now,
      random: () => 1,
      dial: signed.dial,
      later: (ms, run) => {
        due = { ms, run }
        onScheduled()
        return () => {
          due = null
        }
      },
    },
    settings: () => exportSettings(s3.settings),
    ledger: 'l1',
    gateway: 'g1',
    rowsOf: (range) => ledger.rowsOf(range),
    isBehind: () => false,
    report: (problem) => reports.push(problem),
    rowsPerObject: 3,
    ...more,
  })
  context.after(async () => {
    made.stop()
    signed.close()
    await upstream.close()
  })
  /** Runs what is due, and returns the ms until the next turn. */
  const turn = async (): Promise<number> => {
    const now = due
    assert.ok(now, 'a turn is scheduled')
    const scheduled = new Promise<void>((resolve) => {
      onScheduled = resolve
    })
    due = null
    now.run()
    await scheduled
    // `later` has set it.
    return (due as unknown as { readonly ms: number }).ms
  }
  /** Turns until it waits for time to pass. */
  const untilIdle = async (most = 500): Promise<void> => {
    for (let turns = 0; turns < most; turns++) if ((await turn()) === POLL) return
    assert.fail('it does not come to rest')
  }
  return { exported: made, turn, untilIdle, reports }
}

const setUp = async (context: TestContext): Promise<Stage> => {
  const s3 = await fakeS3()
  context.after(() => s3.close())
  return { s3, clock: { now: SETTLED }, ledger: new Ledger() }
}

const linesOf = (rows: readonly Row[]) => rows.map((row) => JSON.stringify(row)).toSorted()

test('export: each row is in one object, named for its range and its place', async (context) => {
  const { s3, clock, ledger } = await setUp(context)
  const { untilIdle, exported } = exporter(context, { s3, clock, ledger })
  await untilIdle()
  const day = 'a/b=c/2026-11-27/2026-11-27T00'
  assert.deepEqual([...s3.objects.keys()].toSorted(), [
    `${day}-00-00Z.l1.000.jsonl.gz`,
    `${day}-00-00Z.l1.001.jsonl.gz`,
    `${day}-00-00Z.l1.002.jsonl.gz`,
    `${day}-10-00Z.l1.000.jsonl.gz`,
    `${day}-20-00Z.l1.000.jsonl.gz`,
    'a/b=c/state.l1.json',
  ])
  assert.deepEqual(s3.rows().toSorted(), linesOf(ROWS))
  assert.deepEqual(exported.figures(), { rows: 11, objects: 5, failures: 0, lagMs: 11 * MINUTE })
  assert.equal(exported.problem(), null)
})

test('export: a range is written when its longest requests are over, and not while the ledger is behind', async (context) => {
  const { s3, clock, ledger } = await setUp(context)
  clock.now = SETTLED - 1
  let isBehind = true
  const { untilIdle } = exporter(context, { s3, clock, ledger }, { isBehind: () => isBehind })
  await untilIdle()
  assert.deepEqual(s3.rows(), [])
  isBehind = false
  await untilIdle()
  assert.equal(s3.rows().length, 10)
  clock.now = SETTLED
  await untilIdle()
  assert.equal(s3.rows().length, 11)
})

const FAULTS: readonly S3Fault[] = ['reset', 'lost', 'cut answer', 403, 500, 503]

for (const fault of FAULTS)
  test(`export: after a request that fails (${fault}), and after a crash there, each row is exported once`, async (context) => {
    const { s3: plain, clock, ledger } = await setUp(context)
    await exporter(context, { s3: plain, clock, ledger }).untilIdle()
    const requests = plain.requests.length
    assert.ok(requests > 10)
    for (const crashes of [false, true])
      for (let failing = 0; failing < requests; failing++) {
        const s3 = await fakeS3()
        s3.fault = ({ number, method }) => {
          if (fault === 'cut answer' && method === 'PUT') return null
          return number === failing ? fault : null
        }
        const first = exporter(context, { s3, clock, ledger })
        if (crashes) while (s3.requests.length <= failing && (await first.turn()) !== POLL);
        else await first.untilIdle()
        if (crashes) {
          first.exported.stop()
          await exporter(context, { s3, clock, ledger }).untilIdle()
        }
        assert.deepEqual(s3.rows().toSorted(), linesOf(ROWS), `request ${failing}, ${crashes ? 'a crash' : 'no crash'}`)
        await s3.close()
      }
  })

test('export: usage that cannot be read is read again from the start of its range', async (context) => {
  const { s3, clock, ledger } = await setUp(context)
  for (let failing = 1; failing < 12; failing++) {
    let reads = 0
    ledger.mayRead = () => ++reads !== failing
    await exporter(context, { s3, clock, ledger }).untilIdle()
    assert.deepEqual(s3.rows().toSorted(), linesOf(ROWS))
    s3.objects.clear()
  }
})

test('export: the pauses after failures grow, and the third one is a problem until it works again', async (context) => {
  const { s3, clock, ledger } = await setUp(context)
  const { turn, untilIdle, exported, reports } = exporter(context, { s3, clock, ledger })
  s3.fault = () => 503
  const pauses: number[] = []
  for (let failures = 0; failures < 11; failures++) {
    assert.equal(exported.problem() !== null, failures >= 3)
    pauses.push(await turn())
  }
  assert.deepEqual(
    pauses,
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map((seconds) => seconds * 1_000),
  )
  assert.deepEqual(exported.problem(), {
    reason: 'the storage responded with status 503 (SlowDown)',
    since: SETTLED,
  })
  s3.fault = () => null
  await untilIdle()
  assert.equal(exported.problem(), null)
  assert.deepEqual(reports, ['the storage responded with status 503 (SlowDown)', null])
  assert.equal(exported.figures().failures, 11)
})

test('export: rows that are stored late are exported a day after, under the same names', async (context) => {
  const { s3, clock, ledger } = await setUp(context)
  const { untilIdle } = exporter(context, { s3, clock, ledger })
  await untilIdle()
  const late = [...rowsAt(START + 100, 3, 'late'), ...rowsAt(START + 2.5 * RANGE, 1, 'later')]
  ledger.rows = [...ROWS, ...late]
  clock.now = SETTLED + 25 * HOUR
  await untilIdle()
  assert.deepEqual(s3.rows().toSorted(), linesOf([...ROWS, ...late]))
  const puts = (part: string) =>
    s3.requests.filter(({ method, name }) => method === 'PUT' && name.includes(part)).length
  assert.equal(puts('T00-00-00Z.l1.000'), 2)
  assert.equal(puts('T00-10-00Z.l1.000'), 1)
  // Nothing is left to check.
  const state = decodeState(String(s3.objects.get('a/b=c/state.l1.json')))
  assert.ok(state?.checks.every(([from]) => from > SETTLED - RANGE))
})

test('export: rows that were deleted stay in the bucket', async (context) => {
  const { s3, clock, ledger } = await setUp(context)
  const { untilIdle } = exporter(context, { s3, clock, ledger })
  await untilIdle()
  ledger.rows = []
  clock.now = SETTLED + 25 * HOUR
  await untilIdle()
  assert.deepEqual(s3.rows().toSorted(), linesOf(ROWS))
})

test('export: a backlog is exported from where it ended, and begins with the present day', async (context) => {
  const { s3, clock, ledger } = await setUp(context)
  ledger.rows = [...rowsAt(START - 1, 1, 'before'), ...ROWS]
  const first = exporter(context, { s3, clock, ledger })
  await first.untilIdle()
  first.exported.stop()
  clock.now += 72 * HOUR
  const late = rowsAt(START + 40 * HOUR, 1, 'd')
  ledger.rows = [...ledger.rows, ...late]
  await exporter(context, { s3, clock, ledger }).untilIdle()
  assert.deepEqual(s3.rows().toSorted(), linesOf([...ROWS, ...late]))
})

test('export: of two gateways the one in the state exports, until its time is over', async (context) => {
  const { s3, clock, ledger } = await setUp(context)
  const one = exporter(context, { s3, clock, ledger })
  const two = exporter(context, { s3, clock, ledger }, { gateway: 'g2' })
  await one.untilIdle()
  const before = s3.requests.length
  await two.untilIdle()
  assert.deepEqual(
    s3.requests.slice(before).map(({ method }) => method),
    ['GET'],
  )
  assert.equal(two.exported.figures().lagMs, 11 * MINUTE)
  one.exported.stop()
  clock.now += 10 * MINUTE
  ledger.rows = [...ROWS, ...rowsAt(START + 3 * RANGE, 2, 'd')]
  await two.untilIdle()
  assert.deepEqual(s3.rows().toSorted(), linesOf(ledger.rows))
  assert.equal(decodeState(String(s3.objects.get('a/b=c/state.l1.json')))?.holder, 'g2')
})

test('export: two gateways that export at once write the same objects', async (context) => {
  const { s3, clock, ledger } = await setUp(context)
  const both = ['g1', 'g2'].map((gateway) => exporter(context, { s3, clock, ledger }, { gateway }))
  // Neither sees the other: the state that they read is gone or over.
  await Promise.all(both.map(({ untilIdle }) => untilIdle()))
  assert.deepEqual(s3.rows().toSorted(), linesOf(ROWS))
})

test('export: a state of another version is not overwritten', async (context) => {
  const { s3, clock, ledger } = await setUp(context)
  const text = '{"version":2}'
  s3.objects.set('a/b=c/state.l1.json', Buffer.from(text))
  const { turn, exported } = exporter(context, { s3, clock, ledger })
  for (let turns = 0; turns < 3; turns++) await turn()
  assert.match(exported.problem()?.reason ?? '', /not the state of an export/)
  assert.equal(String(s3.objects.get('a/b=c/state.l1.json')), text)
})

test('export: wrong credentials and a missing bucket are problems that say what to do', async (context) => {
  const { s3, clock, ledger } = await setUp(context)
  const cases = [
    [{ region: 'us-east-1' }, /\(AuthorizationHeaderMalformed\).*export\.s3\.region/],
    [{ bucket: 'other' }, /status 404 \(NoSuchBucket\)/],
    [{ endpoint: 'http://127.0.0.1:1' }, /cannot be reached/],
  ] as const
  for (const [wrong, reason] of cases) {
    const settings = () => exportSettings({ ...s3.settings, ...wrong })
    const { turn, exported } = exporter(context, { s3, clock, ledger }, { settings })
    for (let turns = 0; turns < 3; turns++) await turn()
    assert.match(exported.problem()?.reason ?? '', reason)
  }
})
