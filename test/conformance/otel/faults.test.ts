/** A receiver that fails harms nothing but its spans; and no text of a client leaves the gateway. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { run, type Started } from '../../e2e/support/process.ts'
import { bodyFor, stage } from '../../e2e/support/stage.ts'
import { answerWith, failWith } from '../../support/answers.ts'
import { type FakeReceiver, startReceiver } from '../../support/otlp.ts'
import { type Act, type UpstreamRequest, until } from '../../support/upstream.ts'

const { gateway, upstream, keep } = stage()

const receiver = async (): Promise<FakeReceiver> => {
  const made = await startReceiver()
  keep(() => made.close())
  return made
}

const call = async ({ url }: Started, path: string, body: object, headers: Readonly<Record<string, string>> = {}) => {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  await response.text()
  return response.status
}

const figure = async ({ url }: Started, name: string): Promise<number> => {
  const page = await (await fetch(`${url}/metrics`)).text()
  return Number(
    page
      .split('\n')
      .find((line) => line.startsWith(`headgate_${name} `))
      ?.split(' ')[1],
  )
}

/** The same as `until`, for a check that waits. */
const settled = async (what: string, check: () => Promise<boolean>): Promise<void> => {
  for (const end = performance.now() + 30_000; !(await check()); await sleep(20))
    assert.ok(performance.now() < end, `not within 30 s: ${what}`)
}

const memoryOf = ({ child: { pid } }: Started): number =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

test('telemetry: a frozen receiver costs neither requests nor memory, and the end of the process 3 s', async () => {
  const [one, otlp] = [await upstream((request) => answerWith(request, { text: 'Hello' })), await receiver()]
  otlp.answer = () => 'never'
  const it = await gateway({
    providers: { one: { baseUrl: `${one.url}/v1` } },
    otel: { endpoint: otlp.url, timeout: 1_000 },
  })
  const send = async (count: number) => {
    let left = count
    const client = async () => {
      while (left-- > 0) assert.equal(await call(it, '/v1/chat/completions', bodyFor('chat', 'one/m', false)), 200)
    }
    await Promise.all(Array.from({ length: 10 }, client))
  }
  await send(600)
  const before = memoryOf(it)
  await send(2_000)
  // 4,000 spans wait at most, of about 1 KB each.
  assert.ok(memoryOf(it) - before < 40, `${before} MB, then ${memoryOf(it)} MB`)
  let dropped = 0
  for (const end = performance.now() + 30_000; dropped === 0 && performance.now() < end; )
    dropped = await figure(it, 'otlp_dropped_total{signal="traces",why="failed"}')
  assert.ok(dropped > 0)
  const health = await (await fetch(`${it.url}/health`)).text()
  assert.match(health, /"status":"ok"/)
  const since = performance.now()
  assert.equal(await it.stop(), 0)
  assert.ok(performance.now() - since < 10_000, `${performance.now() - since} ms`)
})

const CANARIES = [
  'canary-prompt',
  'canary-system',
  'canary-answer',
  'canary-stop',
  'canary-tool',
  'canary-error',
] as const
const SECRETS = ['canary-header', 'sk-one-one-0123456789', 'canary-baggage', 'canary-agent', 'canary-user'] as const

test('telemetry: no prompt, answer, header or key is exported', async () => {
  const answer = (request: UpstreamRequest): Act =>
    request.number % 3 === 0
      ? failWith(request, 500, { type: 'server_error', message: 'canary-error of canary-prompt' })
      : answerWith(request, { text: 'canary-answer' })
  const [one, otlp] = [await upstream(answer), await receiver()]
  const it = await gateway({
    providers: { one: { baseUrl: `${one.url}/v1` }, anthropic: { kind: 'anthropic', baseUrl: one.url } },
    fallback: 'none',
    otel: { endpoint: otlp.url, protocol: 'http/json', headers: ['x-api-key=for%20receiver'] },
  })
  const texts = {
    stop: ['canary-stop'],
    user: 'canary-user',
    tools: [{ type: 'function', function: { name: 'canary-tool', parameters: { type: 'object' } } }],
    messages: [
      { role: 'system', content: 'canary-system' },
      { role: 'user', content: 'canary-prompt' },
    ],
  }
  const headers = { 'x-other': 'canary-header', baggage: 'a=canary-baggage', 'user-agent': 'canary-agent' }
  for (const stream of [false, true, false, true, false, true])
    await call(it, '/v1/chat/completions', { ...bodyFor('chat', 'one/m', stream), ...texts }, headers)
  await call(it, '/v1/messages', { model: 'anthropic/m', max_tokens: 9, messages: texts.messages.slice(1) }, headers)
  await until('spans are received', () => otlp.spans().length >= 14)
  const sent = otlp.posts.map(({ text }) => text).join('\n')
  assert.match(sent, /gen_ai\.request\.model/)
  for (const text of [...CANARIES, ...SECRETS]) assert.ok(!sent.includes(text), text)
  assert.equal(otlp.posts[0]?.headers['x-api-key'], 'for receiver')
  assert.doesNotMatch(it.output(), /for receiver|for%20receiver/)
})

type ShownSignal = { readonly [member: string]: unknown; readonly dropped: Readonly<Record<string, number>> }

const signalsOf = async ({ url }: Pick<Started, 'url'>): Promise<readonly ShownSignal[]> => {
  const response = await fetch(`${url}/admin/api/v1/telemetry`)
  assert.equal(response.status, 200)
  const body = (await response.json()) as { readonly data: readonly ShownSignal[] }
  return body.data
}

for (const workers of ['1', '2'])
  test(`telemetry: the admin API shows what is lost, and requests have the address of their trace, ${workers} workers`, async () => {
    const [one, otlp] = [await upstream((request) => answerWith(request, { text: 'Hello' })), await receiver()]
    const receivers = { endpoint: otlp.url, protocol: 'http/json', metrics: { exporter: 'none' } }
    const it = await gateway(
      {
        providers: { one: { baseUrl: `${one.url}/v1` } },
        otel: { ...receivers, traceUrl: 'https://traces.example/t/{trace}?x={trace}', keepErrors: false },
      },
      { WORKERS: workers },
    )
    const send = (flag: string) =>
      call(it, '/v1/chat/completions', bodyFor('chat', 'one/m', false), {
        traceparent: `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-${flag}`,
        'x-request-id': `with-${flag}`,
      })
    const [before] = await signalsOf(it)
    assert.deepEqual([before?.signal, before?.receiver, before?.exported], ['traces', new URL(otlp.url).host, 0])
    await send('01')
    await settled('two spans are exported', async () => (await signalsOf(it))[0]?.exported === 2)
    otlp.answer = () => 400
    await send('01')
    await settled('two spans are refused', async () => (await signalsOf(it))[0]?.dropped.refused === 2)
    const [after] = await signalsOf(it)
    assert.equal(after?.error, 'The receiver answered 400.')
    assert.ok(typeof after?.error_at === 'string' && typeof after.exported_at === 'string')
    await send('00')
    const linkOf = async (id: string) => {
      const response = await fetch(`${it.url}/admin/api/v1/requests/${id}`)
      const body = (await response.json()) as { readonly trace_url?: string | null }
      return response.status === 200 ? body.trace_url : undefined
    }
    await settled('the last is stored', async () => (await linkOf('with-00')) !== undefined)
    const trace = '0af7651916cd43dd8448eb211c80319c'
    assert.equal(await linkOf('with-01'), `https://traces.example/t/${trace}?x=${trace}`)
    assert.equal(await linkOf('with-00'), null)
    const { output, exited } = await run({
      args: ['doctor', '--json'],
      env: {
        DATA_DIR: join(it.folder, '.headgate'),
        OTEL_EXPORTER_OTLP_ENDPOINT: otlp.url,
        OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      },
    })
    await exited
    const { data } = JSON.parse(output())
    const found = data.filter(({ check }: { check: string }) => check === 'telemetry')
    assert.deepEqual(
      found.map(({ status }: { status: string }) => status),
      ['failed', 'warning'],
    )
    assert.match(found[1].detail, /: 2 traces exported; 2 dropped \(refused\); The receiver answered 400\.$/)
  })

test('telemetry: doctor sends one span, and shows why it is refused', async () => {
  const otlp = await receiver()
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: otlp.url, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' }
  const found = async (more: Readonly<Record<string, string>> = {}) => {
    const { output, exited } = await run({ args: ['doctor', '--json'], env: { ...env, ...more } })
    await exited
    const { data } = JSON.parse(output())
    const [finding] = data.filter(({ check }: { check: string }) => check === 'telemetry')
    return [finding?.status, finding?.detail]
  }
  const { host } = new URL(otlp.url)
  assert.deepEqual(await found(), ['ok', `${host} accepted a span`])
  assert.deepEqual(
    otlp.spans().map(({ name, kind }) => [name, kind]),
    [['headgate doctor', 1]],
  )
  otlp.answer = () => 401
  assert.deepEqual(await found(), ['failed', `${host}: The receiver answered 401.`])
  const [status, detail] = await found({ OTEL_EXPORTER_OTLP_CERTIFICATE: '/nowhere.pem' })
  assert.equal(status, 'failed')
  assert.match(String(detail), /OTEL_EXPORTER_OTLP_CERTIFICATE\) cannot be read \(ENOENT\)/)
  assert.deepEqual(await found({ OTEL_SDK_DISABLED: 'true' }), [undefined, undefined])
})
