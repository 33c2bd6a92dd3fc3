/**
 * The collector of OpenTelemetry (its OTLP receiver, built from `collector/`) accepts what the gateway exports, and the spans are
 * the attempts of the ledger: with fallbacks, hedges, broken streams, clients that leave, and a worker that is killed.
 */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Started } from '../../e2e/support/process.ts'
import { bodyFor, stage } from '../../e2e/support/stage.ts'
import { answerWith, failWith, piecesOf } from '../../support/answers.ts'
import { isLong } from '../../support/lane.ts'
import { metricsIn, type ReceivedMetric, type ReceivedSpan, spansIn } from '../../support/otlp.ts'
import { freePorts } from '../../support/ports.ts'
import { type Act, type UpstreamRequest, until } from '../../support/upstream.ts'
import { metricViolations, violations } from './registry.ts'

const GO = ['go', '/usr/local/go/bin/go'].find((program) => spawnSync(program, ['version']).status === 0)
const REQUESTS = isLong ? 10_000 : 400
const AT_ONCE = 20
/** ms. The first build of the collector takes minutes. */
const PATIENCE = { build: 900_000, all: isLong ? 600_000 : 120_000 }

const { gateway, upstream, keep } = stage()

const startCollector = async () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-collector-'))
  keep(async () => rmSync(folder, { recursive: true, force: true }))
  const program = join(folder, 'collector')
  const built = spawnSync(GO ?? 'go', ['build', '-o', program, '.'], {
    cwd: join(import.meta.dirname, 'collector'),
    encoding: 'utf8',
    timeout: PATIENCE.build,
  })
  assert.equal(built.status, 0, built.stderr)
  const [port = 0] = await freePorts(1)
  const child = spawn(program, [String(port)], { stdio: ['ignore', 'pipe', 'pipe'] })
  keep(async () => void child.kill('SIGKILL'))
  const spans: ReceivedSpan[] = []
  const metrics = new Map<string, ReceivedMetric>()
  let [rest, problems] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    spans.push(...lines.flatMap(spansIn))
    for (const metric of lines.flatMap(metricsIn)) metrics.set(metric.name, metric)
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    problems += text
  })
  const url = `http://127.0.0.1:${port}`
  const listens = () =>
    fetch(url).then(
      () => true,
      () => false,
    )
  for (const end = performance.now() + 60_000; !(await listens()); await sleep(50))
    assert.ok(performance.now() < end && child.exitCode === null, `the collector does not listen: ${problems}`)
  return { url, spans, metrics, problems: () => problems }
}

/** What goes wrong depends on the number of the request. */
const faulty = (request: UpstreamRequest): Act => {
  const { number } = request
  const delivery = { first: 5 }
  if (number % 5 === 0) return failWith(request, 503, { type: 'server_error', message: 'x' })
  if (number % 17 === 0) return { do: 'stream', pieces: piecesOf(request, { text: 'late' }), first: 3_000 }
  if (number % 13 === 0 && request.stream)
    return { do: 'stream', pieces: piecesOf(request, { text: 'a b c d e' }).slice(0, 3), ending: 'reset' }
  return answerWith(request, { text: 'Hello there', input: 11, output: 7 }, delivery)
}

const call = async ({ url }: Started, number: number): Promise<void> => {
  const leaves = number % 29 === 0
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(bodyFor('chat', 'r', number % 2 === 0)),
      ...(leaves && { signal: AbortSignal.timeout(20) }),
    })
    await response.text()
  } catch {
    // The client has left, its stream has broken, or its worker was killed.
  }
}

const workersOf = ({ child: { pid } }: Started): readonly number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number)

type StoredRequest = { readonly id: string; readonly attempts: readonly number[] }

/** The requests of the ledger; undefined while some are not complete. */
const storedIn = ({ folder }: Started, least: number): readonly StoredRequest[] | undefined => {
  const database = new DatabaseSync(join(folder, '.headgate', 'usage.db'), { readOnly: true })
  try {
    const open = database.prepare('SELECT count(*) AS open FROM open_call').get()
    const rows = database.prepare("SELECT id, attempt_list FROM request WHERE style = 'chat'").all()
    if (open?.open !== 0 || rows.length < least) return undefined
    return rows.map(({ id, attempt_list: list }) => ({
      id: String(id),
      attempts: list === null ? [] : JSON.parse(String(list)).map(([n]: [number]) => n),
    }))
  } finally {
    database.close()
  }
}

/** The same, by spans: those of attempts are found by their parents. */
const tracedIn = (spans: readonly ReceivedSpan[]): readonly StoredRequest[] => {
  const children = Map.groupBy(
    spans.filter(({ kind }) => kind === 3),
    ({ parentSpanId }) => parentSpanId,
  )
  return spans
    .filter(({ kind }) => kind === 2)
    .map(({ spanId, traceId, attributes }) => {
      const attempts = children.get(spanId) ?? []
      for (const attempt of attempts) assert.equal(attempt.traceId, traceId)
      children.delete(spanId)
      return {
        id: String(attributes['headgate.request.id']),
        attempts: attempts.map(({ attributes }) => Number(attributes['headgate.attempt.n'])),
      }
    })
}

const sorted = (requests: readonly StoredRequest[]) =>
  requests.map(({ id, attempts }) => `${id} ${attempts.toSorted()}`).sort()

test('collector: the spans that it accepts are the attempts of the ledger', { skip: !GO && 'without Go' }, async () => {
  const [one, two, collector] = [await upstream(faulty), await upstream(faulty), await startCollector()]
  const it = await gateway(
    {
      providers: { one: { baseUrl: `${one.url}/v1` }, two: { baseUrl: `${two.url}/v1` } },
      routes: { r: { targets: ['one/m', 'two/m'] } },
      hedge: { percent: 50, delay: 100 },
      circuit: { errorThreshold: 100, consecutiveFailures: 0 },
      otel: { endpoint: collector.url, compression: 'gzip', metrics: { interval: 1_000 } },
    },
    { WORKERS: '2' },
  )
  let next = 0
  const client = async () => {
    while (next < REQUESTS) {
      const number = next++
      if (number === REQUESTS / 2) process.kill(workersOf(it)[0] ?? 0, 'SIGKILL')
      await call(it, number)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, client))
  // Requests that the killed worker had not received are in neither.
  let stored: readonly StoredRequest[] | undefined
  await until(
    'the ledger is complete',
    () => {
      stored = storedIn(it, REQUESTS - AT_ONCE - 5)
      return stored !== undefined
    },
    PATIENCE.all,
  )
  const count = () => (stored ?? []).reduce((sum, { attempts }) => sum + 1 + attempts.length, 0)
  await until('all spans are received', () => collector.spans.length >= count(), 60_000).catch(() => {})
  const { spans } = collector
  assert.deepEqual(sorted(tracedIn(spans)), sorted(stored ?? []))
  assert.deepEqual(spans.flatMap(violations), [])
  const inferred = () =>
    collector.metrics.get('gen_ai.client.inference.duration')?.points.reduce((sum, { count = 0 }) => sum + count, 0)
  const attempts = spans.filter(({ kind }) => kind === 3).length
  await until('the metrics count all attempts', () => inferred() === attempts)
  assert.deepEqual([...collector.metrics.values()].flatMap(metricViolations), [])
  assert.equal(collector.problems(), '')
  const seen = new Set(spans.map(({ attributes }) => attributes['headgate.attempt.outcome']))
  for (const outcome of ['ok', 'failed', 'abandoned', 'interrupted', 'unknown', 'client_gone'])
    assert.ok(seen.has(outcome), `no attempt was ${outcome}`)
})
