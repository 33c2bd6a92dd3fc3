/**
 * deploy/compose/compose.replicas.yaml as processes: gateways with its configuration behind haproxy with its file. A key is
 * limited once, keys are spread, and requests continue when a gateway is killed.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { parse } from 'yaml'
import { skipBalancer } from '../e2e/support/balancer.ts'
import { post, type Started, start } from '../e2e/support/process.ts'
import { answerWith } from '../support/answers.ts'
import { freePorts } from '../support/ports.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'

const FOLDER = join(import.meta.dirname, '..', '..', 'deploy', 'compose')
const fileOf = (name: string): string => readFileSync(join(FOLDER, name), 'utf8')
/** Debian installs haproxy in a folder that only root's PATH contains. */
const env = { PATH: `${process.env.PATH ?? ''}:/usr/sbin:/usr/local/sbin` }
const KEYS = { SEARCH_KEY: `client-${'search'.repeat(8)}`, BATCH_KEY: `client-${'batch'.repeat(8)}` } as const
/** Of `search` in headgate.example.yaml. */
const LIMIT = 60

describe('two gateways behind haproxy', { skip: skipBalancer, concurrency: false }, () => {
  const { services } = parse(fileOf('compose.replicas.yaml'), { merge: true })
  const names = ['one', 'two'] as const
  const folder = mkdtempSync(join(tmpdir(), 'headgate-replicas-'))
  const gateways = new Map<string, Started>()
  let ports: readonly number[] = []
  let upstream: Upstream
  let haproxy: ChildProcess
  let url = ''

  const startGateway = async (name: string, port: number): Promise<void> => {
    const { environment } = services[name]
    assert.equal(environment.HEADGATE_CONFIG, '/etc/headgate/headgate.yaml')
    const started = await start({
      env: {
        ...KEYS,
        AUTH_ADMIN: 'operator-token-0123456789',
        OPENAI_API_KEY: 'sk-0123456789',
        OPENAI_BASE_URL: `${upstream.url}/v1`,
        OPENAI_MODELS: 'm',
        TRUSTED_PROXIES: '127.0.0.1',
        PORT: String(port),
      },
      files: { 'headgate.yaml': fileOf('headgate.example.yaml') },
    })
    gateways.set(name, started)
  }
  const ask = async (headers: Readonly<Record<string, string>>): Promise<number> => {
    const body = { model: 'openai/m', messages: [{ role: 'user', content: 'hello' }] }
    return (await post(`${url}/v1/chat/completions`, body, headers)).status
  }
  const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` })
  /** How many requests a gateway has answered or refused. */
  const served = async (name: string): Promise<number> =>
    ((await gateways.get(name)?.logged()) ?? []).filter(({ event }) => event === 'request' || event === 'refused')
      .length

  before(async () => {
    const [front = 0, ...free] = await freePorts(3)
    ports = free
    upstream = await startUpstream((request) => answerWith(request, { text: 'x', input: 10, output: 10 }))
    for (const [at, name] of names.entries()) await startGateway(name, ports[at] ?? 0)
    const config = fileOf('haproxy.cfg')
      .replace('bind :8080', `bind 127.0.0.1:${front}`)
      .replace(/(one|two):3000/g, (_, name) => `127.0.0.1:${ports[names.indexOf(name)]}`)
    writeFileSync(join(folder, 'haproxy.cfg'), config)
    haproxy = spawn('haproxy', ['-db', '-f', join(folder, 'haproxy.cfg')], { env, stdio: 'ignore' })
    url = `http://127.0.0.1:${front}`
    const isUp = () =>
      fetch(`${url}/health/ready`)
        .then(({ status }) => status === 200)
        .catch(() => false)
    for (const end = performance.now() + 30_000; !(await isUp()); await sleep(50))
      assert.ok(performance.now() < end && haproxy.exitCode === null, 'haproxy does not answer')
  })
  after(async () => {
    if (haproxy?.exitCode === null) {
      haproxy.kill('SIGKILL')
      await once(haproxy, 'close')
    }
    await Promise.all([...gateways.values()].map((gateway) => gateway.stop()))
    await upstream?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  /** Each way to send a key; what else is in the other header must not choose the gateway. */
  const headersOf = (secret: string, at: number): Readonly<Record<string, string>> =>
    [
      bearer(secret),
      { 'x-api-key': secret },
      { authorization: `BEARER  ${secret}` },
      { ...bearer(secret), 'x-api-key': `other-${at}` },
    ][at % 4] ?? {}
  test('a key is limited once, in whichever header it is sent', async () => {
    const secret = KEYS.SEARCH_KEY
    const statuses = await Promise.all(Array.from({ length: LIMIT + 40 }, (_, at) => ask(headersOf(secret, at))))
    // The rate refills while the requests are sent.
    const answered = statuses.filter((status) => status === 200).length
    assert.ok(answered >= LIMIT && answered < LIMIT + 40, `${answered} were answered`)
    assert.ok(statuses.every((status) => status === 200 || status === 429))
    const counts = await Promise.all(names.map(served))
    assert.ok(counts.includes(0), `both gateways were asked: ${counts}`)
  })

  test('different keys are spread over the gateways', async () => {
    const before = await Promise.all(names.map(served))
    // A gateway limits wrong keys from one address.
    for (let n = 0; n < 40; n++) assert.ok([401, 429].includes(await ask(bearer(`unknown-${n}`))))
    const after = await Promise.all(names.map(served))
    assert.ok(
      names.every((_, at) => (after[at] ?? 0) > (before[at] ?? 0)),
      `${before}, then ${after}`,
    )
  })

  test('requests continue when the gateway of their key is killed, and it takes them again later', async () => {
    const counts = await Promise.all(names.map(served))
    assert.equal(await ask(bearer(KEYS.BATCH_KEY)), 200)
    const after = await Promise.all(names.map(served))
    const at = names.findIndex((_, index) => after[index] !== counts[index])
    const name = names[at] ?? assert.fail('no gateway has the request')
    const killed = gateways.get(name) ?? assert.fail(name)
    killed.child.kill('SIGKILL')
    await killed.stop()
    for (let n = 0; n < 20; n++) assert.equal(await ask(bearer(KEYS.BATCH_KEY)), 200)
    await startGateway(name, ports[at] ?? 0)
    for (const end = performance.now() + 30_000; (await served(name)) === 0; await sleep(200)) {
      assert.ok(performance.now() < end, 'the gateway does not get its key back')
      assert.equal(await ask(bearer(KEYS.BATCH_KEY)), 200)
    }
  })
})
