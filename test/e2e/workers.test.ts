/** Several worker processes on one port: load, crashes, shutdown, and the state they share. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, type IncomingMessage, request } from 'node:http'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isObject, type JsonObject, number, object, text } from '../../src/core/json.ts'
import { answerWith } from '../support/answers.ts'
import { freePorts } from '../support/ports.ts'
import { startUpstream, type Upstream, until as within } from '../support/upstream.ts'
import { gauge, skipWithoutProc } from './support/gauges.ts'
import { EVERY, HANGING, PATIENCE } from './support/hanging-workers.ts'
import { run, type Started, start } from './support/process.ts'

/** Each word is a stream piece of its own. */
const WORDS = Array.from({ length: 20 }, (_, at) => `w${String(at).padStart(3, '0')} `).join('')
const QUESTION = { model: 'any', messages: [{ role: 'user', content: 'hello' }] }

const gatewayOf = (upstream: Pick<Upstream, 'url'>, more: Readonly<Record<string, string>> = {}, file?: string) =>
  start({
    env: {
      WORKERS: '2',
      OPENAI_API_KEY: 'sk-test-000000000000000000',
      OPENAI_BASE_URL: `${upstream.url}/v1`,
      OPENAI_MODELS: 'one',
      ...more,
    },
    files: file === undefined ? {} : { 'headgate.yaml': file },
  })

/** A kept-alive connection, which one worker serves. */
type Line = {
  readonly worker: number
  readonly ask: (
    method: string,
    path: string,
    body?: object,
  ) => Promise<{ status: number; json: JsonObject; text: string }>
  /** The stream's text so far, and whether it ended as HTTP requires. */
  readonly stream: () => { readonly receivedText: () => string; readonly ended: Promise<'complete' | 'broken'> }
  readonly close: () => void
}

const connect = async ({ url }: Pick<Started, 'url'>): Promise<Line> => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const send = (method: string, path: string, body?: object): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => {
      const sent = request(`${url}${path}`, { method, agent, headers: { 'content-type': 'application/json' } }, resolve)
      sent.on('error', reject)
      sent.end(body && JSON.stringify(body))
    })
  const ask: Line['ask'] = async (method, path, body) => {
    const response = await send(method, path, body)
    let all = ''
    for await (const chunk of response.setEncoding('utf8')) all += chunk
    const parsed: unknown = all.startsWith('{') ? JSON.parse(all) : {}
    return { status: response.statusCode ?? 0, json: isObject(parsed) ? parsed : {}, text: all }
  }
  const stream: Line['stream'] = () => {
    let receivedText = ''
    const ended = send('POST', '/v1/chat/completions', { ...QUESTION, stream: true })
      .then(async (response) => {
        response.setEncoding('utf8').on('data', (chunk: string) => {
          receivedText += chunk
        })
        response.on('error', () => {})
        await once(response, 'close')
        return response.complete
      })
      .catch(() => false)
      .then((complete) => (complete ? ('complete' as const) : ('broken' as const)))
    return { receivedText: () => receivedText, ended }
  }
  const { json } = await ask('GET', '/health')
  return { worker: number(object(json.worker)?.number) ?? 0, ask, stream, close: () => agent.destroy() }
}

/** Opens a connection to each worker. The kernel chooses the worker of each connection. */
const connectBoth = async (gateway: Pick<Started, 'url'>): Promise<readonly [Line, Line]> => {
  const lines = new Map<number, Line>()
  for (let tries = 0; tries < 200; tries++) {
    const line = await connect(gateway)
    if (lines.has(line.worker)) line.close()
    else lines.set(line.worker, line)
    const [one, two] = [lines.get(1), lines.get(2)]
    if (one && two) return [one, two]
  }
  throw new Error(`only ${[...lines.keys()]} answered 200 connections`)
}

/** Process ids of the workers, by number. */
const pidsOf = ({ child }: Pick<Started, 'child'>): ReadonlyMap<number, number> => {
  const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')
    .trim()
    .split(' ')
    .filter(Boolean)
  return new Map(
    children.map((pid) => {
      const mark = /HEADGATE_WORKER=(\d+)/.exec(readFileSync(`/proc/${pid}/environ`, 'utf8'))
      return [Number(mark?.[1]), Number(pid)]
    }),
  )
}
const pidOf = (gateway: Pick<Started, 'child'>, worker: number): number => {
  const pid = pidsOf(gateway).get(worker)
  assert.ok(pid, `worker ${worker} runs`)
  return pid
}
const isAlive = (pid: number): boolean => {
  try {
    // A zombie has no memory figures.
    return /VmRSS/.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

/** A long timeout: a process starts slowly on a busy machine. */
const until = (check: () => boolean): Promise<void> => within(String(check), check, 20_000)

const wordy = (gap: number) =>
  startUpstream((upstreamRequest) =>
    answerWith(upstreamRequest, { text: WORDS }, upstreamRequest.stream ? { gap } : {}),
  )

const SIGNALS = [
  ['to the first process', (gateway: Started) => [gateway.child.pid ?? 0]],
  [
    'to all at once, as a terminal or a service manager does',
    (gateway: Started) => [...pidsOf(gateway).values(), gateway.child.pid ?? 0],
  ],
] as const
const AT_REST = [
  [
    'a pause of the whole machine kills no worker',
    {},
    'SIGSTOP',
    (gateway: Started) => [gateway.child.pid ?? 0, ...pidsOf(gateway).values()],
  ],
  [
    'workers under a debugger are not killed',
    { NODE_OPTIONS: '--inspect=127.0.0.1:0' },
    'SIGUSR2',
    (gateway: Started) => [...pidsOf(gateway).values()],
  ],
] as const
const REFUSED = [
  ['a bad setting', { WORKERS: '3', CIRCUIT_TIMEOUT: '30s' }, /^headgate: CIRCUIT_TIMEOUT: .*"30s".*\n$/],
  [
    'an invalid worker count',
    { WORKERS: '0' },
    /^headgate: WORKERS: found "0"; allowed: a whole number from 1 to 64\n$/,
  ],
  [
    'an address of another machine',
    { WORKERS: '2', HOST: '192.0.2.1' },
    /^headgate: HOST=192\.0\.2\.1 is not an address of this machine.*\n$/,
  ],
  [
    'a process without permission to start others',
    { WORKERS: '2', NODE_OPTIONS: '--permission --allow-fs-read=*' },
    /^headgate: WORKERS=2: .*--allow-child-process.*WORKERS=1.*\n$/,
  ],
] as const

describe('workers: start, restart and shutdown', { skip: skipWithoutProc, timeout: 300_000 }, () => {
  test('both answer on one port, the start is logged once, and SIGTERM leaves no process', async () => {
    await using upstream = disposable(await wordy(0))
    await using gateway = await gatewayOf(upstream)
    const lines = await connectBoth(gateway)
    for (const [at, line] of lines.entries()) {
      const health = await line.ask('GET', '/health')
      assert.deepEqual(health.json.worker, { number: at + 1, of: 2 })
      assert.deepEqual((await line.ask('GET', '/providers/status')).json.worker, { number: at + 1, of: 2 })
      assert.equal((await line.ask('POST', '/v1/chat/completions', QUESTION)).status, 200)
      line.close()
    }
    const ready = gateway.lines().filter(({ event }) => event === 'ready')
    assert.deepEqual(
      ready.map(({ workers }) => workers),
      [2],
    )
    const warnings = gateway.lines().filter(({ event }) => event === 'config')
    assert.deepEqual(warnings, [])
    const pids = [...pidsOf(gateway).values()]
    assert.equal(pids.length, 2)
    assert.equal(await gateway.stop(), 0)
    assert.deepEqual(pids.filter(isAlive), [])
    assert.equal(gateway.lines().at(-1)?.event, 'stopped')
  })

  test('a killed worker breaks only its own answers, is restarted, and loses no counts', async () => {
    await using upstream = disposable(await wordy(40))
    await using gateway = await gatewayOf(upstream)
    const [one, two] = await connectBoth(gateway)
    for (const line of [one, two]) await line.ask('POST', '/v1/chat/completions', QUESTION)
    assert.equal(await gauge(gateway, 'headgate_requests_total'), 2)
    const streams = [one.stream(), two.stream()] as const
    await until(() => streams.every(({ receivedText }) => receivedText().includes('w002')))
    const old = pidOf(gateway, 1)
    process.kill(old, 'SIGKILL')
    assert.equal(await streams[0].ended, 'broken')
    assert.equal(await streams[1].ended, 'complete')
    assert.match(streams[1].receivedText(), /w019[\s\S]*\[DONE\]/)
    const ended = await gateway.line(({ event }) => event === 'worker_ended')
    assert.deepEqual([ended.worker, ended.pid, ended.why, ended.deaths, ended.again_ms], [1, old, 'SIGKILL', 1, 100])
    const again = await gateway.line(({ event }) => event === 'worker_started')
    assert.deepEqual([again.worker, again.pid], [1, pidOf(gateway, 1)])
    const [first] = await connectBoth(gateway)
    assert.equal((await first.ask('POST', '/v1/chat/completions', QUESTION)).status, 200)
    // The two requests before, the stream of the surviving worker, and the one since.
    assert.equal(await gauge(gateway, 'headgate_requests_total'), 4)
    assert.equal(await gauge(gateway, 'headgate_worker_restarts_total'), 1)
    assert.equal(gateway.lines().filter(({ event }) => event === 'ready').length, 1)
    for (const line of [one, two, first]) line.close()
    assert.equal(await gateway.stop(), 0)
  })

  test('a worker that cannot start is retried with backoff and recovers; the others continue', async () => {
    await using upstream = disposable(await wordy(0))
    await using gateway = await gatewayOf(upstream, {}, 'retry: { maxAttempts: 2 }\n')
    const file = join(gateway.folder, 'headgate.yaml')
    const pid = pidOf(gateway, 2)
    writeFileSync(file, 'retry: { maxAttempts: soon }\n')
    await gateway.line(({ event, worker }) => event === 'config_refused' && worker === 1)
    process.kill(pid, 'SIGKILL')
    const third = await gateway.line(({ event, deaths }) => event === 'worker_ended' && deaths === 3)
    assert.deepEqual([third.worker, third.why, third.again_ms], [2, 'exit code 1', 400])
    assert.match(gateway.output(), /headgate: headgate\.yaml:1:\d+: .*"soon"/)
    const line = await connect(gateway)
    assert.equal(line.worker, 1)
    assert.equal((await line.ask('POST', '/v1/chat/completions', QUESTION)).status, 200)
    line.close()
    writeFileSync(file, 'retry: { maxAttempts: 3 }\n')
    await gateway.line(({ event, worker }) => event === 'worker_started' && worker === 2)
    for (const each of await connectBoth(gateway)) each.close()
    assert.equal(await gateway.stop(), 0)
  })
})

describe('workers: signals', { skip: skipWithoutProc, timeout: 300_000 }, () => {
  for (const [name, targets] of SIGNALS)
    test(`SIGTERM ${name}: answers in flight in each worker finish`, async () => {
      await using upstream = disposable(await wordy(60))
      await using gateway = await gatewayOf(upstream)
      const lines = await connectBoth(gateway)
      const streams = lines.map((line) => line.stream())
      await until(() => streams.every(({ receivedText }) => receivedText().includes('w002')))
      for (const pid of targets(gateway)) process.kill(pid, 'SIGTERM')
      for (const stream of streams) {
        assert.equal(await stream.ended, 'complete')
        assert.match(stream.receivedText(), /w019[\s\S]*\[DONE\]/)
      }
      assert.equal(await gateway.stop(), 0)
      for (const line of lines) line.close()
    })

  test('a second SIGTERM ends all workers early, and each answer ends with an error', async () => {
    await using upstream = disposable(await wordy(5_000))
    await using gateway = await gatewayOf(upstream)
    const lines = await connectBoth(gateway)
    const streams = lines.map((line) => line.stream())
    await until(() => streams.every(({ receivedText }) => receivedText().includes('w000')))
    gateway.child.kill('SIGTERM')
    await until(
      () => gateway.lines().filter(({ event, worker }) => event === 'draining' && worker !== undefined).length === 2,
    )
    gateway.child.kill('SIGTERM')
    for (const stream of streams) {
      assert.equal(await stream.ended, 'complete')
      assert.match(stream.receivedText(), /"error"[\s\S]*shutting down/)
    }
    // A third worker would not wait.
    await until(() => gateway.child.exitCode !== null)
    assert.equal(gateway.child.exitCode, 0)
    for (const line of lines) line.close()
  })

  test('when the supervisor is killed, the workers finish their answers and exit', async () => {
    await using upstream = disposable(await wordy(60))
    await using gateway = await gatewayOf(upstream)
    const pids = [...pidsOf(gateway).values()]
    const lines = await connectBoth(gateway)
    const streams = lines.map((line) => line.stream())
    await until(() => streams.every(({ receivedText }) => receivedText().includes('w002')))
    gateway.child.kill('SIGKILL')
    for (const stream of streams) assert.equal(await stream.ended, 'complete')
    await until(() => !pids.some(isAlive))
    assert.equal(gateway.lines().filter(({ event, worker }) => event === 'stopped' && worker !== undefined).length, 2)
    for (const line of lines) line.close()
    await gateway.stop()
  })

  test('when the supervisor is killed, the port is free at once for the next start, whatever the drain delay', async () => {
    await using upstream = disposable(await wordy(150))
    const data = await mkdtemp(join(tmpdir(), 'headgate-test-'))
    const env = { DRAIN_DELAY: '60000', DATA_DIR: data }
    await using gateway = await gatewayOf(upstream, env)
    const pids = [...pidsOf(gateway).values()]
    const line = await connect(gateway)
    const stream = line.stream()
    await until(() => stream.receivedText().includes('w001'))
    gateway.child.kill('SIGKILL')
    const { port } = new URL(gateway.url)
    await using next = await gatewayOf(upstream, { ...env, DRAIN_DELAY: '0', PORT: port })
    assert.equal(next.url, gateway.url)
    assert.equal(await stream.ended, 'complete')
    assert.match(stream.receivedText(), /w019[\s\S]*\[DONE\]/)
    await until(() => !pids.some(isAlive))
    line.close()
    assert.equal(await next.stop(), 0)
    await rm(data, { recursive: true })
    await gateway.stop()
  })

  test('SIGHUP reloads all workers; a worker that gets SIGTERM drains and is replaced', async () => {
    await using upstream = disposable(await wordy(0))
    await using gateway = await gatewayOf(upstream)
    gateway.child.kill('SIGHUP')
    for (const each of [1, 2])
      await gateway.line(({ event, worker }) => event === 'config_unchanged' && worker === each)
    process.kill(pidOf(gateway, 2), 'SIGTERM')
    const ended = await gateway.line(({ event }) => event === 'worker_ended')
    assert.deepEqual([ended.worker, ended.why, ended.level], [2, 'exit code 0', 'info'])
    await gateway.line(({ event, worker }) => event === 'worker_started' && worker === 2)
    assert.equal(await gateway.stop(), 0)
  })
})

describe('workers: unresponsive workers', { skip: skipWithoutProc, timeout: 300_000 }, () => {
  for (const [name, signal, why, env] of [
    ['is stopped', 'SIGSTOP', 'stopped', {}],
    ['loops for ever', 'SIGUSR2', 'busy', {}],
    ['is blocked in a system call', 'SIGUSR2', 'blocked', { HANG: 'wait' }],
  ] as const)
    test(`a worker that ${name} is logged, killed and replaced; the others are not affected`, async () => {
      await using gateway = await start({ program: HANGING, env })
      const [hanging, other] = [pidOf(gateway, 1), pidOf(gateway, 2)]
      process.kill(hanging, signal)
      const hangs = await gateway.line(({ event }) => event === 'worker_hangs')
      assert.deepEqual([hangs.level, hangs.worker, hangs.pid, hangs.why], ['error', 1, hanging, why])
      // A busy loop is recognised by its CPU time, which depends on the machine.
      if (why !== 'busy') assert.ok(Number(hangs.silent_ms) <= PATIENCE + EVERY, `${hangs.silent_ms} ms`)
      const ended = await gateway.line(({ event }) => event === 'worker_ended')
      assert.deepEqual([ended.worker, ended.pid, ended.why, ended.again_ms], [1, hanging, 'SIGKILL', 100])
      await gateway.line(({ event, worker }) => event === 'worker_started' && worker === 1)
      assert.equal(pidOf(gateway, 2), other)
      assert.equal(await gateway.stop(), 0)
    })

  test('a stopped worker of the real gateway is replaced within five heartbeats, and its place serves calls again', async () => {
    await using upstream = disposable(await wordy(0))
    await using gateway = await gatewayOf(upstream)
    const stopped = pidOf(gateway, 1)
    process.kill(stopped, 'SIGSTOP')
    const hangs = await gateway.line(({ event }) => event === 'worker_hangs')
    assert.deepEqual([hangs.worker, hangs.pid, hangs.why], [1, stopped, 'stopped'])
    assert.ok(Number(hangs.silent_ms) < 5_000, `${hangs.silent_ms} ms`)
    await gateway.line(({ event, worker }) => event === 'worker_started' && worker === 1)
    for (const line of await connectBoth(gateway)) {
      assert.equal((await line.ask('POST', '/v1/chat/completions', QUESTION)).status, 200)
      line.close()
    }
    assert.equal(await gateway.stop(), 0)
  })

  test('if all workers hang, which may be the machine, they are replaced one after the other', async () => {
    await using gateway = await start({ program: HANGING })
    for (const pid of pidsOf(gateway).values()) process.kill(pid, 'SIGUSR2')
    for (const each of [1, 2]) await gateway.line(({ event, worker }) => event === 'worker_started' && worker === each)
    const [one, two] = gateway.lines().filter(({ event }) => event === 'worker_hangs')
    const apart = Date.parse(String(two?.time)) - Date.parse(String(one?.time))
    assert.ok(apart > EVERY / 2, `${apart} ms`)
    assert.equal(await gateway.stop(), 0)
  })

  for (const [name, env, signal, targets] of AT_REST)
    test(name, async () => {
      await using gateway = await start({ program: HANGING, env })
      const before = pidsOf(gateway)
      for (const pid of targets(gateway)) process.kill(pid, signal)
      await sleep(2 * PATIENCE)
      for (const pid of targets(gateway)) process.kill(pid, 'SIGCONT')
      await sleep(2 * EVERY)
      assert.deepEqual(
        gateway.lines().filter(({ event }) => event === 'worker_hangs'),
        [],
      )
      assert.deepEqual(pidsOf(gateway), before)
      // Looping workers exit in no particular order.
      for (const pid of before.values()) process.kill(pid, 'SIGKILL')
    })
})

describe('workers: ports', { skip: skipWithoutProc, timeout: 300_000 }, () => {
  for (const [name, env, message] of REFUSED)
    test(`${name} is rejected once`, async () => {
      const { exited, output } = await run({ env })
      assert.equal(await exited, 1)
      assert.match(output(), message)
    })

  for (const reusePort of [false, true])
    test(`a port in use is rejected once${reusePort ? ', even if its owner allows sharing' : ''}`, async () => {
      const other = createServer()
      const [port = 0] = await freePorts(1)
      await new Promise<void>((resolve) => other.listen({ port, host: '127.0.0.1', reusePort }, resolve))
      const { exited, output } = await run({ env: { WORKERS: '2', PORT: String(port) } })
      assert.equal(await exited, 1)
      assert.equal(output(), `headgate: Port ${port} is in use. Choose another: PORT=${port + 1}\n`)
      other.close()
    })
})

describe('workers: the port of an earlier gateway in the same data folder', { timeout: 300_000 }, () => {
  for (const [name, workers] of [
    ['one process', '1'],
    ['several processes', '2'],
  ] as const)
    test(`${name}: the start waits until it is free`, { skip: skipWithoutProc }, async () => {
      const other = createServer()
      const [port = 0] = await freePorts(1)
      await new Promise<void>((resolve) => other.listen({ port, host: '127.0.0.1' }, resolve))
      const data = await mkdtemp(join(tmpdir(), 'headgate-test-'))
      writeFileSync(join(data, 'run.json'), JSON.stringify({ pid: 1, host: '127.0.0.1', port }))
      const started = await run({ env: { WORKERS: workers, PORT: String(port), DATA_DIR: data } })
      await until(() => started.output().includes('Waiting up to 10 s'))
      other.close()
      await until(() => started.output().includes('"ready"'))
      assert.match(started.output(), new RegExp(`^headgate: Port ${port} is in use by .*\n\\{`))
      started.child.kill()
      assert.equal(await started.exited, 0)
      await rm(data, { recursive: true })
    })
})

describe('workers: shared state', { skip: skipWithoutProc, timeout: 300_000 }, () => {
  test('each worker serves the metrics of all; a worker that does not respond counts with its last values', async () => {
    await using upstream = disposable(await wordy(0))
    await using gateway = await gatewayOf(upstream)
    const [one, two] = await connectBoth(gateway)
    for (let sent = 0; sent < 3; sent++) await one.ask('POST', '/v1/chat/completions', QUESTION)
    for (let sent = 0; sent < 2; sent++) await two.ask('POST', '/v1/chat/completions', QUESTION)
    for (const line of [one, two]) {
      const page = (await line.ask('GET', '/metrics')).text
      const value = (name: string) =>
        Number(new RegExp(`^${name.replace(/[{}+"]/g, '\\$&')} (.*)$`, 'm').exec(page)?.[1])
      assert.equal(value('headgate_workers'), 2)
      assert.equal(value('headgate_workers_reporting'), 2)
      assert.match(page, /^headgate_requests_total\{.*\} 5$/m)
      assert.match(page, /^headgate_ttft_seconds_bucket\{.*le="\+Inf"\} 5$/m)
      assert.match(page, /^headgate_info\{.*\} 1$/m)
      assert.match(page, /^headgate_key_active\{.*\} 1$/m)
      assert.ok(value('headgate_connections') >= 2)
      assert.equal(page.match(/^# TYPE headgate_requests_total /gm)?.length, 1)
      // A gauge is a sum unless a sum is meaningless; a new gauge must be added to one of the lists.
      const gauges = [...page.matchAll(/^# TYPE (\S+) gauge$/gm)].map(([, name]) => name)
      assert.deepEqual(gauges.sort(), [...GAUGES].sort())
    }
    const pid = pidOf(gateway, 2)
    process.kill(pid, 'SIGSTOP')
    try {
      await one.ask('POST', '/v1/chat/completions', QUESTION)
      const page = (await one.ask('GET', '/metrics')).text
      assert.match(page, /^headgate_workers_reporting 1$/m)
      assert.match(page, /^headgate_requests_total\{.*\} 6$/m)
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    for (const line of [one, two]) line.close()
    assert.equal(await gateway.stop(), 0)
  })

  test('log lines are complete and name their worker, even with a slow reader', async () => {
    await using upstream = disposable(await wordy(0))
    await using gateway = await gatewayOf(upstream, { LOG_LEVEL: 'debug' })
    const { stdout } = gateway.child
    assert.ok(stdout)
    stdout.pause()
    const lines = await Promise.all(Array.from({ length: 16 }, () => connect(gateway)))
    const COUNT = 40
    await Promise.all(
      lines.map(async (line) => {
        for (let sent = 0; sent < COUNT; sent++)
          // Long model names make long lines; a route accepts them.
          await line.ask('POST', '/v1/chat/completions', { ...QUESTION, model: `m${'x'.repeat(sent * 40)}` })
      }),
    )
    stdout.resume()
    for (const line of lines) line.close()
    assert.equal(await gateway.stop(), 0)
    const written = gateway.output().trim().split('\n')
    const parsed = written.map((line) => JSON.parse(line))
    const requests = parsed.filter(({ event }) => event === 'request')
    assert.equal(requests.length, lines.length * COUNT)
    assert.deepEqual([...new Set(requests.map(({ worker }) => worker))].sort(), [1, 2])
  })

  test('a stored response is shared: any worker shows, continues and deletes it', async () => {
    await using upstream = disposable(await wordy(200))
    await using gateway = await gatewayOf(upstream, { DATA_DIR: 'kept' })
    const [one, two] = await connectBoth(gateway)
    const made = await one.ask('POST', '/v1/responses', { model: 'any', input: 'hello' })
    const id = text(made.json.id) ?? ''
    assert.equal((await two.ask('GET', `/v1/responses/${id}`)).json.status, 'completed')
    const next = await two.ask('POST', '/v1/responses', { model: 'any', input: 'more', previous_response_id: id })
    assert.equal(next.status, 200)
    const followed = await one.ask('POST', '/v1/responses', { model: 'any', input: 'hello', background: true })
    const events = await two.ask('GET', `/v1/responses/${text(followed.json.id)}?stream=true`)
    assert.equal(events.status, 200)
    assert.match(events.text, /^event: response\.completed$/m)
    for (const [method, path, status] of [
      ['POST', '/cancel', 'cancelled'],
      ['DELETE', '', undefined],
    ] as const) {
      const before = upstream.requests.length
      const job = await one.ask('POST', '/v1/responses', { model: 'any', input: 'hello', background: true })
      const at = `/v1/responses/${text(job.json.id)}`
      await until(() => upstream.requests.length > before)
      assert.match(String((await two.ask('GET', at)).json.status), /queued|in_progress/)
      const gone = await two.ask(method, `${at}${path}`)
      assert.equal(gone.status, 200)
      assert.equal(gone.json.status, status)
      await until(() => upstream.requests.at(-1)?.ended === 'aborted')
      for (const line of [one, two]) {
        const shown = await line.ask('GET', at)
        assert.equal(shown.status, status === undefined ? 404 : 200)
        if (status !== undefined) assert.equal(shown.json.status, status)
      }
    }
    for (const line of [one, two]) line.close()
    assert.equal(await gateway.stop(), 0)
  })

  test('global limits are divided among the workers', async () => {
    await using upstream = disposable(await wordy(60))
    await using gateway = await gatewayOf(upstream, { LIMIT_CONCURRENT: '2' })
    const [one, two] = await connectBoth(gateway)
    const [stream, other] = [one.stream(), two.stream()]
    await until(() => stream.receivedText().includes('w002') && other.receivedText().includes('w002'))
    const third = await connect(gateway)
    const refused = await third.ask('POST', '/v1/chat/completions', QUESTION)
    assert.equal(refused.status, 503)
    assert.match(refused.text, /limit\.concurrent/)
    assert.equal(await stream.ended, 'complete')
    assert.equal(await other.ended, 'complete')
    for (const line of [one, two, third]) line.close()
    assert.equal(await gateway.stop(), 0)
  })
})

/** Gauges of the metrics page with several workers. */
const GAUGES = [
  'headgate_info',
  'process_start_time_seconds',
  'process_resident_memory_bytes',
  'nodejs_heap_size_used_bytes',
  'headgate_in_flight',
  'headgate_circuit_state',
  'headgate_config_reload_ok',
  'headgate_key_active',
  'headgate_key_in_flight',
  'headgate_ledger_ok',
  'headgate_ledger_lag_seconds',
  'headgate_ledger_journal_bytes',
  'headgate_store_ok',
  'headgate_store_up',
  'headgate_connections',
  'headgate_buffered_bytes',
  'headgate_cache_bytes',
  'headgate_event_loop_delay_seconds',
  'headgate_workers',
  'headgate_workers_reporting',
]

const disposable = (upstream: Upstream) => Object.assign(upstream, { [Symbol.asyncDispose]: () => upstream.close() })
