/**
 * deploy/compose/compose.scale.yaml as processes: three gateways with its variables behind haproxy with its file, Valkey (or
 * Redis) with its options, and Postgres. What one gateway writes holds in all of them, limits are counted once, and requests
 * continue while each part is down.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { parse } from 'yaml'
import { skipBalancer } from '../e2e/support/balancer.ts'
import { post, type Started, start } from '../e2e/support/process.ts'
import { verb } from '../e2e/support/verb.ts'
import { answerWith } from '../support/answers.ts'
import { freePorts } from '../support/ports.ts'
import { type PostgresServer, skipPostgres, startPostgres } from '../support/postgres.ts'
import { skipRedis, startRedis, type TestRedis } from '../support/redis.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'

const FOLDER = join(import.meta.dirname, '..', '..', 'deploy', 'compose')
const fileOf = (name: string): string => readFileSync(join(FOLDER, name), 'utf8')
/** Debian installs haproxy in a folder that only root's PATH contains. */
const env = { PATH: `${process.env.PATH ?? ''}:/usr/sbin:/usr/local/sbin` }
const NAMES = ['one', 'two', 'three'] as const
type Name = (typeof NAMES)[number]

const ADMIN = 'operator-token-0123456789'
/** Those of `.env`. */
const SECRETS: Readonly<Record<string, string>> = { POSTGRES_PASSWORD: 'postgres0123', VALKEY_PASSWORD: 'valkey0123' }
/** ms until all gateways know what one has written. */
const KNOWN = 5_000
/** ms until all rows are in the database, on a busy machine. */
const STORED = 30_000

/** Waits until something holds. Returns the time in ms. */
const until = async (holds: () => Promise<boolean>, limit: number, what: string): Promise<number> => {
  const began = performance.now()
  for (; !(await holds()); await sleep(50)) assert.ok(performance.now() - began < limit, what)
  return performance.now() - began
}

const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` })

describe('three gateways that share Postgres and Valkey', {
  skip: skipBalancer || skipPostgres || skipRedis,
  concurrency: false,
}, () => {
  const { services } = parse(fileOf('compose.scale.yaml'), { merge: true })
  const folder = mkdtempSync(join(tmpdir(), 'headgate-scale-'))
  const gateways = new Map<Name, Started>()
  let ports: readonly number[] = []
  let valkeyPort = 0
  let upstream: Upstream
  let postgres: PostgresServer
  let valkey: TestRedis
  let haproxy: ChildProcess
  let url = ''

  /** A text of the file as Compose reads it. */
  const interpolated = (text: string): string =>
    text.replace(/\$\{(\w+):\?[^}]*\}/g, (_, name) => SECRETS[name] ?? assert.fail(`${name} is not in .env`))
  /** The variables of a service, with the addresses of this machine. */
  const environmentOf = (service: string): Record<string, string> =>
    Object.fromEntries(
      Object.entries<string>(services[service].environment).map(([name, value]) => [
        name,
        interpolated(value)
          .replace('@postgres/', `@127.0.0.1:${postgres.port}/`)
          .replace('@valkey:6379', `@127.0.0.1:${valkeyPort}`)
          .replace('172.30.79.200', '127.0.0.1')
          .replace('/etc/headgate/', ''),
      ]),
    )

  const startGateway = async (name: Name): Promise<Started> => {
    const data = join(folder, name)
    mkdirSync(data, { recursive: true })
    const started = await start({
      env: {
        ...environmentOf(name),
        AUTH_ADMIN: ADMIN,
        OPENAI_API_KEY: 'sk-0123456789',
        OPENAI_BASE_URL: `${upstream.url}/v1`,
        OPENAI_MODELS: 'm',
        DATA_DIR: data,
        PORT: String(ports[NAMES.indexOf(name)]),
      },
      files: { 'headgate.yaml': fileOf('headgate.example.yaml') },
    })
    gateways.set(name, started)
    return started
  }
  const startValkey = async (): Promise<void> => {
    const [, ...options] = services.valkey.command.map(interpolated)
    valkey = await startRedis(valkeyPort, options)
  }
  const gatewayOf = (name: Name): Started => gateways.get(name) ?? assert.fail(name)
  const all = (): readonly Started[] => NAMES.map(gatewayOf)
  const isUp = (at: string) => () =>
    fetch(`${at}/health/ready`).then(
      ({ status }) => status === 200,
      () => false,
    )

  const send = (at: string, headers: Readonly<Record<string, string>>) => {
    const body = { model: 'openai/m', max_tokens: 10, messages: [{ role: 'user', content: 'hello' }] }
    return post(`${at}/v1/chat/completions`, body, headers)
  }
  const ask = async (at: string, headers: Readonly<Record<string, string>>): Promise<number> =>
    (await send(at, headers)).status
  /** Twice as many requests at a time as a limit of 60 a minute admits. */
  const limited = async (request: (at: number) => ReturnType<typeof send>) => {
    const replies = await Promise.all(Array.from({ length: 120 }, (_, at) => request(at)))
    const answered = replies.filter(({ status }) => status === 200).length
    // On a busy machine Valkey may be late: a gateway then uses its share of what was left, and says so.
    const isExact = replies.every(({ headers }) => !headers.get('x-headgate-limit')?.includes('degraded'))
    return {
      check(most: number) {
        assert.ok(replies.every(({ status }) => status === 200 || status === 429))
        // Two gateways alone may serve a share of 20 each while the third still reaches Valkey.
        const [least, limit] = isExact ? [55, most] : [15, most + 40]
        assert.ok(answered >= least && answered <= limit, `${answered} were answered, at most ${limit}`)
      },
    }
  }
  const admin = async (at: string, method: string, path: string, body?: object) => {
    const response = await fetch(`${at}/admin/api/v1${path}`, {
      method,
      headers: { ...bearer(ADMIN), ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
    // biome-ignore lint/suspicious/noExplicitAny: the test reads answers of every shape
    return JSON.parse(text) as any
  }
  /** A new key that all gateways know. */
  const keyWith = async (members: object): Promise<{ readonly id: string; readonly secret: string }> => {
    const key = await admin(url, 'POST', '/keys', members)
    for (const gateway of all())
      await until(
        async () => (await ask(gateway.url, bearer(key.secret))) === 200,
        KNOWN,
        'a gateway refuses a new key',
      )
    return key
  }
  /** How many model calls a gateway has answered or refused. `logged` sends another request. */
  const served = async (gateway: Started): Promise<number> =>
    (await gateway.logged()).filter(
      ({ event, id }) => (event === 'request' || event === 'refused') && !String(id).startsWith('flush-'),
    ).length
  /** Every call of the provider is in the usage that each gateway reports. */
  const checkUsage = async (): Promise<void> => {
    const calls = upstream.requests.filter(({ method }) => method === 'POST').length
    assert.ok(calls > 0)
    for (const [at, gateway] of all().entries()) {
      let seen: unknown
      await until(
        async () => {
          const { total } = await admin(gateway.url, 'GET', '/usage')
          seen = total.attempts
          return seen === calls
        },
        STORED,
        `${NAMES[at]}: usage has not ${calls} attempts`,
      ).catch((error) => assert.fail(`${error.message} but ${seen}`))
    }
  }

  before(async () => {
    const [front = 0, port = 0, ...free] = await freePorts(2 + NAMES.length)
    valkeyPort = port
    ports = free
    upstream = await startUpstream((request) => answerWith(request, { text: 'x', input: 10, output: 10 }))
    postgres = await startPostgres()
    await startValkey()
    // As Compose does: the gateways start after the migration has completed.
    const { code, stderr } = await verb(services.migrate.command, { cwd: folder, env: environmentOf('migrate') })
    assert.equal(code, 0, stderr)
    for (const name of NAMES) await startGateway(name)
    const config = fileOf('haproxy.cfg')
      .replace('bind :8080', `bind 127.0.0.1:${front}`)
      .replace(/(one|two|three):3000/g, (_, name) => `127.0.0.1:${ports[NAMES.indexOf(name)]}`)
    writeFileSync(join(folder, 'haproxy.cfg'), config)
    haproxy = spawn('haproxy', ['-db', '-f', join(folder, 'haproxy.cfg')], { env, stdio: 'ignore' })
    url = `http://127.0.0.1:${front}`
    await until(isUp(url), 30_000, 'haproxy does not answer')
  })
  after(async () => {
    if (haproxy?.exitCode === null) {
      haproxy.kill('SIGKILL')
      await once(haproxy, 'close')
    }
    await Promise.all([...gateways.values()].map((gateway) => gateway.stop()))
    await valkey?.stop()
    await postgres?.remove()
    await upstream?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  test('a key that one gateway created is valid at all of them', async () => {
    const [first] = all()
    const { secret } = await admin(first?.url ?? '', 'POST', '/keys', { name: 'alice' })
    for (const at of [...all().map((gateway) => gateway.url), url]) {
      const time = await until(async () => (await ask(at, bearer(secret))) === 200, KNOWN, `${at} refuses the key`)
      assert.ok(time < KNOWN)
    }
  })

  test('a limit is counted once, wherever the requests arrive', async () => {
    const { secret } = await keyWith({ name: 'limited', limits: { requestsPerMinute: 60 } })
    const began = performance.now()
    const urls = all().map((gateway) => gateway.url)
    const replies = await limited((at) => send(urls[at % urls.length] ?? '', bearer(secret)))
    // One a second refills; three were sent when the key was created.
    replies.check(60 + (performance.now() - began) / 1000 + KNOWN / 1000)
  })

  test('a limit of a team is counted once for keys at different gateways', async () => {
    const team = await admin(url, 'POST', '/teams', { name: 'search', limits: { requestsPerMinute: 60 } })
    const names = Array.from({ length: 6 }, (_, at) => `search-${at}`)
    const keys = await Promise.all(names.map((name) => admin(url, 'POST', '/keys', { name, team: team.id })))
    await sleep(KNOWN)
    const began = performance.now()
    const counts = await Promise.all(all().map(served))
    const replies = await limited((at) => send(url, bearer(keys[at % keys.length].secret)))
    replies.check(61 + (performance.now() - began) / 1000)
    const later = await Promise.all(all().map(served))
    assert.ok(later.filter((count, at) => count > (counts[at] ?? 0)).length > 1, `${counts}, then ${later}`)
  })

  test('a budget is spent once, and stays spent when Valkey is emptied', async () => {
    // 20 tokens at $100 per million: 50 calls.
    await admin(url, 'POST', '/prices', {
      provider: 'openai',
      model: 'm',
      prices: { input: 100, output: 100 },
    })
    const { id, secret } = await keyWith({ name: 'spender' })
    await sleep(KNOWN)
    await admin(url, 'POST', '/budgets', {
      name: 'ten-cents',
      amount: '0.10',
      period: 'day',
      appliesTo: { keys: [id] },
    })
    await sleep(KNOWN)
    const urls = all().map((gateway) => gateway.url)
    const statuses: number[] = []
    for (let round = 0; round < 10; round++)
      statuses.push(...(await Promise.all(urls.flatMap((at) => [at, at, at]).map((at) => ask(at, bearer(secret))))))
    const answered = statuses.filter((status) => status === 200).length
    assert.ok(answered > 45 && answered <= 50, `${answered} were answered`)
    assert.ok(statuses.every((status) => status === 200 || status === 402))
    assert.match(await valkey.command(`AUTH ${SECRETS.VALKEY_PASSWORD}\r\nFLUSHALL`), /OK\r\n\+OK/)
    await sleep(KNOWN)
    // What one gateway had leased and not used is for all again: the calls that were left, and no more.
    let left = 50 - answered
    for (let round = 0; round < 3; round++)
      for (const at of urls) {
        const status = await ask(at, bearer(secret))
        if (status === 200) left--
        else assert.equal(status, 402)
        assert.ok(left >= 0, `more than 50 were answered: ${answered} before Valkey was emptied`)
      }
    assert.equal(await ask(urls[0] ?? '', bearer(secret)), 402)
  })

  test('each gateway reports the usage of all', checkUsage)

  /** Each way to send a key; what else is in the other header must not choose the gateway. */
  const headersOf = (secret: string, at: number): Readonly<Record<string, string>> =>
    [
      bearer(secret),
      { 'x-api-key': secret },
      { authorization: `BEARER  ${secret}` },
      { ...bearer(secret), 'x-api-key': `other-${at}` },
      { ...bearer(secret), cookie: `__Host-headgate=other-${at}` },
    ][at % 5] ?? {}
  test('the balancer sends a key to the same gateway, in whichever header it is', async () => {
    const { secret } = await keyWith({ name: 'steady' })
    const counts = await Promise.all(all().map(served))
    for (let n = 0; n < 15; n++) assert.equal(await ask(url, headersOf(secret, n)), 200)
    const later = await Promise.all(all().map(served))
    assert.deepEqual(
      later.map((count, at) => count - (counts[at] ?? 0)).sort((a, b) => a - b),
      [0, 0, 15],
    )
  })

  test('a revoked key is refused by all gateways', async () => {
    const { id, secret } = await keyWith({ name: 'leaked' })
    const [, second] = all()
    await admin(second?.url ?? '', 'DELETE', `/keys/${id}?force=true`)
    for (const at of [...all().map((gateway) => gateway.url), url])
      await until(async () => (await ask(at, bearer(secret))) === 401, KNOWN, `${at} accepts the key`)
  })

  test('requests continue when a gateway is killed, and it takes part again later', async () => {
    const { secret } = await keyWith({ name: 'lasting' })
    const counts = await Promise.all(all().map(served))
    assert.equal(await ask(url, bearer(secret)), 200)
    const later = await Promise.all(all().map(served))
    const name = NAMES.find((_, at) => later[at] !== counts[at]) ?? assert.fail('no gateway has the request')
    const killed = gatewayOf(name)
    killed.child.kill('SIGKILL')
    await killed.stop()
    for (let n = 0; n < 20; n++) assert.equal(await ask(url, bearer(secret)), 200)
    await startGateway(name)
    await until(
      async () => {
        assert.equal(await ask(url, bearer(secret)), 200)
        return (await served(gatewayOf(name))) > 0
      },
      30_000,
      'the gateway does not get its key back',
    )
    await checkUsage()
  })

  test('requests continue while Valkey is down, and limits are counted together again later', async () => {
    const { secret } = await keyWith({ name: 'counted', limits: { requestsPerMinute: 600 } })
    await valkey.stop()
    for (let n = 0; n < 5; n++)
      for (const gateway of all()) {
        const began = performance.now()
        assert.equal(await ask(gateway.url, bearer(secret)), 200)
        // On a busy machine; the limit of a command is 50 ms.
        assert.ok(performance.now() - began < 2_000)
      }
    await startValkey()
    for (const gateway of all()) assert.equal(await ask(gateway.url, bearer(secret)), 200)
    await sleep(KNOWN)
    const { secret: limited } = await keyWith({ name: 'limited-later', limits: { requestsPerMinute: 30 } })
    const began = performance.now()
    const urls = all().map((gateway) => gateway.url)
    const statuses = await Promise.all(
      Array.from({ length: 60 }, (_, at) => ask(urls[at % urls.length] ?? '', bearer(limited))),
    )
    const answered = statuses.filter((status) => status === 200).length
    const refilled = (performance.now() - began + KNOWN) / 2000
    assert.ok(answered >= 25 && answered <= 30 + refilled, `${answered} were answered`)
  })

  test('requests continue while Postgres is down, and all rows are there later', async () => {
    const { secret } = await keyWith({ name: 'known' })
    await checkUsage()
    await postgres.stop()
    for (let n = 0; n < 10; n++)
      for (const at of [...all().map((gateway) => gateway.url), url]) assert.equal(await ask(at, bearer(secret)), 200)
    // The balancer must not take the gateways out.
    for (const gateway of all()) assert.ok(await isUp(gateway.url)())
    await postgres.start()
    await checkUsage()
    // Writes work again.
    const { secret: later } = await until(
      () =>
        admin(url, 'GET', '/keys').then(
          () => true,
          () => false,
        ),
      STORED,
      'the admin API does not work again',
    ).then(() => keyWith({ name: 'created-later' }))
    assert.equal(await ask(url, bearer(later)), 200)
  })
})
