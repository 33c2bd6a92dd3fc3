/**
 * Each batch of a passed call is booked once to the key that has made it, at the prices of batches: by the first reader of its end, and also if it was
 * cancelled, has expired or is deleted (BerriAI/litellm#37050, #37156, #37205, #37217).
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type PostgresServer, skipPostgres, startPostgres } from '../support/postgres.ts'
import { until } from '../support/upstream.ts'
import { type BatchVendor, startBatchVendor } from './support/batch-vendor.ts'
import { type Started, start } from './support/process.ts'
import { checkStoredUsage, type StoredRequest, spentOfBudgets, storedUsage } from './support/stored-usage.ts'
import { verb } from './support/verb.ts'

const KEYS = { ann: 'sk-ann-0123456789abcdef00', poor: 'sk-poor-0123456789abcdef00' }
type Name = keyof typeof KEYS

/** Nano-dollars of an answer: half of 1,000 tokens at $1 and 100 at $10 per million. */
const ANSWER = 1_000_000

const configOf = (url: string, interval: number): string => {
  const access = 'access: { passThrough: [openai, mistral, anthropic, gemini, shared] }'
  const open = '{ paths: ["/v1/**"], methods: [GET, POST, DELETE], charge: "0" }'
  const price = (provider: string) =>
    `  - { provider: ${provider}, model: "*", perMillion: { input: 1, output: 10 }, service: { batch: 0.5 } }`
  return `batches: { interval: ${interval} }
providers:
  openai: { baseUrl: "${url}/v1", keys: [sk-up], passThrough: ${open} }
  shared: { kind: openai, baseUrl: "${url}/v1", keys: [sk-up], passThrough: { paths: ["/v1/**"], isolate: none, charge: "0" } }
  mistral: { baseUrl: "${url}/v1", keys: [sk-up], passThrough: ${open} }
  anthropic: { baseUrl: "${url}/v1", keys: [sk-up], passThrough: ${open} }
  gemini: { baseUrl: "${url}/v1beta", keys: [sk-up], passThrough: { paths: ["/v1beta/**"], charge: "0" } }
teams: { a: { ${access} } }
keys:
  ann: { team: a, secret: ${KEYS.ann}, ${access} }
  poor: { team: a, secret: ${KEYS.poor}, ${access} }
budgets:
  all: { amount: "1000", period: year, per: key, mode: soft }
  small: { amount: "0.005", period: year, mode: hard, appliesTo: { keys: [poor] } }
prices:
${['openai', 'shared', 'mistral', 'anthropic', 'gemini'].map(price).join('\n')}
`
}

const MINUTE = 60_000

describe('batches of passed calls', { concurrency: false }, () => {
  let vendor: BatchVendor
  let gateway: Started
  let data = ''
  before(async () => {
    vendor = await startBatchVendor()
    data = await mkdtemp(join(tmpdir(), 'headgate-batches-'))
    gateway = await start({ env: { DATA_DIR: data }, files: { 'headgate.yaml': configOf(vendor.url, MINUTE) } })
  })
  after(async () => {
    await gateway?.stop()
    vendor?.close()
    await rm(data, { recursive: true, force: true })
  })

  const call = async (path: string, { who = 'ann', ...init }: RequestInit & { who?: Name } = {}) => {
    const response = await fetch(gateway.url + path, {
      ...init,
      headers: {
        authorization: `Bearer ${KEYS[who]}`,
        ...(init.body != null && { 'content-type': 'application/json' }),
      },
    })
    const text = await response.text()
    return { status: response.status, json: text === '' ? {} : JSON.parse(text) }
  }
  const made = async (path: string, body: object = { input_file: 'x' }, who: Name = 'ann'): Promise<string> => {
    const { status, json } = await call(path, { method: 'POST', body: JSON.stringify(body), who })
    assert.equal(status, 200, JSON.stringify(json))
    return (json.id ?? json.name).split('/').at(-1)
  }
  const booked = (): readonly StoredRequest[] =>
    storedUsage(data).requests.filter((row) => 'asked' in row && row.asked === 'batch')
  /** The row of the next batch that is booked. */
  const next = async (act: () => Promise<unknown>): Promise<StoredRequest> => {
    const earlier = new Set(booked().map(({ id }) => id))
    await act()
    await until('a batch is booked', () => booked().some(({ id }) => !earlier.has(id)))
    const fresh = booked().filter(({ id }) => !earlier.has(id))
    assert.equal(fresh.length, 1)
    return fresh[0] as StoredRequest
  }

  for (const [name, path, status, body] of [
    ['OpenAI', '/openai/v1/batches', 'completed', {}],
    ['OpenAI, expired with results', '/openai/v1/batches', 'expired', {}],
    ['OpenAI, cancelled with results', '/openai/v1/batches', 'cancelled', {}],
    ['without separated clients', '/shared/v1/batches', 'completed', {}],
    ['Mistral', '/mistral/v1/batch/jobs', 'SUCCESS', {}],
    ['Mistral, out of time', '/mistral/v1/batch/jobs', 'TIMEOUT_EXCEEDED', {}],
    ['Anthropic', '/anthropic/v1/messages/batches', 'ended', {}],
    ['Gemini, a file', '/gemini/v1beta/models/gemini-2.5-flash:batchGenerateContent', 'SUCCEEDED', {}],
    [
      'Gemini, in the answer',
      '/gemini/v1beta/models/gemini-2.5-flash:batchGenerateContent',
      'SUCCEEDED',
      { a: 'inline' },
    ],
  ] as const)
    test(`${name}: booked once, at half of the price, by eight readers at once`, async () => {
      const id = await made(path, body)
      const at = path.includes(':batch') ? '/gemini/v1beta/batches' : path
      assert.equal((await call(`${at}/${id}`)).status, 200)
      const row = await next(async () => {
        vendor.ends(id, status, 7)
        await Promise.all(Array.from({ length: 8 }, () => call(`${at}/${id}`)))
      })
      assert.equal(row.cost, 7 * ANSWER)
      assert.equal(row.outcome, 'answered')
      const attempts = storedUsage(data).attempts.filter(({ request }) => request === row.id)
      assert.deepEqual(
        attempts.map(({ input, output, cost, usage_source }) => ({ input, output, cost, usage_source })),
        [{ input: 7_000, output: 700, cost: 7 * ANSWER, usage_source: 'exact' }],
      )
      const count = booked().length
      await call(`${at}/${id}`)
      await call(at)
      assert.equal(booked().length, count)
    })

  test('a list of batches shows their end, too', async () => {
    const id = await made('/openai/v1/batches')
    const row = await next(async () => {
      vendor.ends(id, 'completed', 2)
      await call('/openai/v1/batches')
    })
    assert.equal(row.cost, 2 * ANSWER)
  })

  for (const [usage, cost] of [
    [true, 3 * ANSWER],
    [false, null],
  ] as const)
    test(`one whose results are gone costs ${usage ? 'the sum that it states' : 'an unknown amount'}`, async () => {
      const id = await made('/openai/v1/batches')
      const row = await next(async () => {
        vendor.ends(id, 'completed', 3)
        Object.assign(vendor.batches.get(id) ?? {}, { usage, isGone: true })
        await call(`/openai/v1/batches/${id}`)
      })
      assert.equal(row.cost, cost)
    })

  test('a batch that failed before its first request is booked without a row', async () => {
    const id = await made('/openai/v1/batches')
    vendor.ends(id, 'failed', 0)
    const count = booked().length
    await call(`/openai/v1/batches/${id}`)
    await sleep(300)
    assert.equal(booked().length, count)
  })

  test('a batch is booked before it is deleted', async () => {
    const id = await made('/anthropic/v1/messages/batches')
    vendor.ends(id, 'ended', 4)
    const row = await next(async () => {
      assert.equal((await call(`/anthropic/v1/messages/batches/${id}`, { method: 'DELETE' })).status, 200)
    })
    assert.equal(row.cost, 4 * ANSWER)
  })

  test('what a batch costs exhausts a hard budget, although nothing was refused', async () => {
    const id = await made('/openai/v1/batches', {}, 'poor')
    const row = await next(async () => {
      vendor.ends(id, 'completed', 9)
      await call(`/openai/v1/batches/${id}`, { who: 'poor' })
    })
    assert.equal(row.cost, 9 * ANSWER)
    const refused = await call('/openai/v1/batches', { method: 'POST', body: '{}', who: 'poor' })
    assert.equal(refused.status, 402, JSON.stringify(refused.json))
  })

  test('the sums of the ledger are those of the rows', async () => {
    await gateway.stop()
    checkStoredUsage(data)
    assert.equal(
      spentOfBudgets(data) - 9 * ANSWER,
      booked().reduce((total, { cost }) => total + (cost ?? 0), 0),
    )
  })
})

/** ms between two readings, and for which a gateway claims a batch. */
const INTERVAL = 1_500
const COUNT = 60

test(`three gateways on Postgres, of which one is killed: ${COUNT} batches are booked once`, {
  skip: skipPostgres,
}, async () => {
  const vendor = await startBatchVendor()
  let postgres: PostgresServer | null = null
  const started: Started[] = []
  const folders: string[] = []
  try {
    postgres = await startPostgres()
    const { url } = postgres
    const open = async () => {
      const folder = await mkdtemp(join(tmpdir(), 'headgate-batches-'))
      folders.push(folder)
      const env = { DATABASE_URL: url, DATA_DIR: folder }
      return start({ env, files: { 'headgate.yaml': configOf(vendor.url, INTERVAL) } })
    }
    started.push(...(await Promise.all([open(), open(), open()])))
    const call = (at: number, path: string, body?: string) =>
      fetch(`${started[at % started.length]?.url}${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: { authorization: `Bearer ${KEYS.ann}`, 'content-type': 'application/json' },
        ...(body !== undefined && { body }),
      })
    const ids: string[] = []
    for (let at = 0; at < COUNT; at++) {
      const batch = await (await call(at, '/openai/v1/batches', '{}')).text()
      ids.push(JSON.parse(batch).id)
    }
    let answers = 0
    for (const [at, id] of ids.entries()) {
      vendor.ends(id, 'completed', (at % 5) + 1)
      answers += (at % 5) + 1
    }
    // A third is seen by clients at all gateways, and the others by the gateways alone.
    const asking = Promise.allSettled(
      ids.slice(0, COUNT / 3).flatMap((id) => [0, 1, 2].map((at) => call(at, `/openai/v1/batches/${id}`))),
    )
    await sleep(20)
    started[2]?.child.kill('SIGKILL')
    await asking
    const rows = () => storedUsage(url).requests.filter((row) => 'asked' in row && row.asked === 'batch')
    await until('all are booked', () => rows().length >= COUNT, 90_000)
    // Claims of the killed process end.
    await sleep(3 * INTERVAL)
    for (const gateway of started.slice(0, 2)) assert.equal(await gateway.stop(), 0)
    assert.equal(rows().length, COUNT)
    assert.equal(new Set(rows().map(({ id }) => id)).size, COUNT)
    assert.equal(
      rows().reduce((total, { cost }) => total + (cost ?? 0), 0),
      answers * ANSWER,
    )
    checkStoredUsage(url)
  } finally {
    await Promise.allSettled(started.map((one) => one.stop()))
    vendor.close()
    await postgres?.remove()
    for (const folder of folders) await rm(folder, { recursive: true, force: true })
  }
})

test('a batch that was made before `headgate db move` is booked after it', {
  skip: skipPostgres,
}, async () => {
  const vendor = await startBatchVendor()
  const folder = await mkdtemp(join(tmpdir(), 'headgate-batches-'))
  const files = { 'headgate.yaml': configOf(vendor.url, MINUTE) }
  let postgres: PostgresServer | null = null
  const started: Started[] = []
  const open = async (env: { DATABASE_URL?: string }): Promise<Started> => {
    const gateway = await start({ env: { ...env, DATA_DIR: folder }, files })
    started.push(gateway)
    return gateway
  }
  const call = ({ url }: Started, path: string, body?: string) =>
    fetch(url + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${KEYS.ann}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body }),
    })
  try {
    postgres = await startPostgres()
    const { url } = postgres
    const before = await open({})
    const { id } = JSON.parse(await (await call(before, '/openai/v1/batches', '{}')).text())
    assert.equal(await before.stop(), 0)
    const moved = await verb(['db', 'move', '--json'], { cwd: folder, env: { DATA_DIR: folder, DATABASE_URL: url } })
    assert.equal(moved.code, 0, moved.stdout + moved.stderr)
    const after = await open({ DATABASE_URL: url })
    vendor.ends(id, 'completed', 3)
    assert.equal((await call(after, `/openai/v1/batches/${id}`)).status, 200)
    const rows = () => storedUsage(url).requests.filter((row) => 'asked' in row && row.asked === 'batch')
    await until('it is booked', () => rows().length > 0)
    assert.deepEqual(
      rows().map(({ cost }) => cost),
      [3 * ANSWER],
    )
  } finally {
    await Promise.allSettled(started.map((one) => one.stop()))
    vendor.close()
    await postgres?.remove()
    await rm(folder, { recursive: true, force: true })
  }
})
