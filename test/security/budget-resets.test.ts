/**
 * A budget is not renewed by a start: while what it has spent cannot be read, hard budgets answer 503 and soft ones count on.
 */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { post, type Started, start } from '../e2e/support/process.ts'
import { fileOf } from '../e2e/support/stage.ts'
import { failOften } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'

const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})
let upstream: Upstream
before(async () => {
  upstream = await startUpstream(failOften)
  closers.push(() => upstream.close())
})

const begin = async (data: string, settings: object = {}): Promise<Started> => {
  const file = fileOf({
    providers: { first: { baseUrl: `${upstream.url}/second/v1` } },
    prices: [{ provider: '*', model: '*', perMillion: { input: 4_000, output: 4_000 } }],
    budgets: { all: { amount: '1', period: 'total' } },
    ...settings,
  })
  const gateway = await start({ env: { DATA_DIR: data }, files: { 'headgate.yaml': file } })
  closers.push(() => gateway.stop())
  return gateway
}

const ask = async ({ url }: Started) => {
  const body = { model: 'first/m', max_tokens: 1, messages: [{ role: 'user', content: 'x' }] }
  const response = await post(`${url}/v1/chat/completions`, body)
  const { error } = (await response.json()) as { readonly error?: { readonly code?: string } }
  return { status: response.status, code: error?.code, retryAfter: response.headers.get('retry-after') }
}

const unavailable = { status: 503, code: 'budget_unavailable', retryAfter: '1' }

const problemsOf = async ({ url }: Started): Promise<readonly string[]> => {
  const health = (await (await fetch(`${url}/health`)).json()) as { readonly problems?: { component: string }[] }
  return (health.problems ?? []).map(({ component }) => component)
}

const untilStatus = async (gateway: Started, status: number) => {
  for (const end = performance.now() + 120_000; (await ask(gateway)).status !== status; await sleep(100))
    assert.ok(performance.now() < end, `a status of ${status} within 30 s`)
}

/** A folder in which the budget is spent. */
const spentFolder = async () => {
  const data = mkdtempSync(join(tmpdir(), 'headgate-spent-'))
  closers.push(() => rmSync(data, { recursive: true, force: true }))
  const gateway = await begin(data)
  await untilStatus(gateway, 402)
  return { data, gateway }
}

const hide = (data: string, put: (path: string) => void) => {
  const [path, kept] = [join(data, 'usage.db'), join(data, 'kept.db')]
  renameSync(path, kept)
  put(path)
  return () => {
    rmSync(path, { recursive: true, force: true })
    renameSync(kept, path)
  }
}

const faults: readonly (readonly [string, (path: string) => void])[] = [
  ['is no database', (path) => writeFileSync(path, 'x'.repeat(8_192))],
  ['is a folder', (path) => mkdirSync(path)],
]

test('budgets renewed by a start: with a usage.db that cannot be read, hard ones are refused until it can', async () => {
  const { data, gateway: first } = await spentFolder()
  await first.stop()
  for (const [what, put] of faults) {
    const mend = hide(data, put)
    const gateway = await begin(data)
    assert.deepEqual(await ask(gateway), unavailable, what)
    assert.ok((await problemsOf(gateway)).includes('budgets'), what)
    mend()
    await untilStatus(gateway, 402)
    assert.deepEqual(await problemsOf(gateway), [])
    await gateway.stop()
  }
  hide(data, (path) => mkdirSync(path))
  const serving = await begin(data, { budget: { whenUnknown: 'serve' } })
  assert.equal((await ask(serving)).status, 200)
  const soft = await begin(data, { budgets: { all: { amount: '1', period: 'total', mode: 'soft' } } })
  assert.equal((await ask(soft)).status, 200)
})

test('budgets renewed by a second gateway: in the folder of another one it knows what is spent when that has ended', async () => {
  const { data, gateway: first } = await spentFolder()
  const second = await begin(data)
  assert.deepEqual(await ask(second), unavailable)
  assert.equal((await ask(first)).status, 402)
  await first.stop()
  await untilStatus(second, 402)
})
