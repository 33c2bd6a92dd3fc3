/** Budgets that are created in mid-period, in one process and with workers: from their creation, or with the whole period. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

/** 100 tokens of input at $10 and 100 of output at $40 per million: half a cent. */
const PRICES = 'prices: [ { provider: openai, model: "*", perMillion: { input: 10, output: 40 } } ]\n'
const BODY = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] }
const ADMIN = { authorization: 'Bearer admin-token-0123456789' }
const WITHIN = 30_000

type Shown = {
  readonly id: string
  readonly rev: number
  readonly name: string
  readonly now: { readonly spent: string }
}

describe('a budget that is created in mid-period', () => {
  let upstream: Upstream
  before(async () => {
    upstream = await startUpstream((request) => answerWith(request, { text: 'x', input: 100, output: 100 }))
  })
  after(() => upstream?.close())

  const gateway = (data: string, workers: string, budgets = '') =>
    start({
      env: {
        WORKERS: workers,
        DATA_DIR: data,
        AUTH_ADMIN: 'admin-token-0123456789',
        OPENAI_API_KEY: 'sk-0123456789',
        OPENAI_BASE_URL: `${upstream.url}/v1`,
        OPENAI_MODELS: 'm',
      },
      files: { 'headgate.yaml': PRICES + budgets },
    })
  const create = async ({ url }: Started, kind: string, body: object) => {
    const created = await post(`${url}/admin/api/v1/${kind}`, body, ADMIN)
    assert.equal(created.status, 201, created.text)
    return created.json()
  }
  const ask = async ({ base }: Started, key: string) => {
    const answer = await post(`${base}/chat/completions`, BODY, { authorization: `Bearer ${key}` })
    assert.equal(answer.status, 200, answer.text)
  }
  const budgetsOf = async (url: string): Promise<readonly Shown[]> => {
    const list = await fetch(`${url}/admin/api/v1/budgets`, { headers: ADMIN })
    return ((await list.json()) as { data: Shown[] }).data
  }
  /** What budgets have spent, in thousandths of a dollar. A busy machine counts later. */
  const spends = async ({ url }: Started, expected: Readonly<Record<string, number>>) => {
    let found: Record<string, number> = {}
    for (const end = performance.now() + WITHIN; performance.now() < end; await sleep(100)) {
      found = Object.fromEntries((await budgetsOf(url)).map(({ name, now }) => [name, Number(now.spent) * 1_000]))
      if (isDeepStrictEqual(found, expected)) return
    }
    assert.deepEqual(found, expected)
  }

  for (const workers of ['1', '2'])
    test(`counts from its creation or the whole period, also after a restart; WORKERS=${workers}`, async () => {
      const data = mkdtempSync(join(tmpdir(), 'headgate-period-'))
      const file = 'budgets: { e-file: { amount: "1.00", period: year, countFrom: period } }\n'
      try {
        const budget = { amount: '1.00', period: 'year' }
        {
          await using first = await gateway(data, workers)
          const [a, b] = [await create(first, 'keys', { name: 'a' }), await create(first, 'keys', { name: 'b' })]
          for (const key of [a, a, b]) await ask(first, key.secret)
          await create(first, 'budgets', { ...budget, name: 'a-creation' })
          const words = [
            'budgets',
            'create',
            'b-period',
            '--amount',
            '1.00',
            '--period',
            'year',
            '--count-from',
            'period',
          ]
          const env = { HEADGATE_URL: first.url, AUTH_ADMIN: 'admin-token-0123456789' }
          const { code, stderr } = await verb(words, { cwd: first.folder, env })
          assert.equal(code, 0, stderr)
          const whole = { ...budget, countFrom: 'period' }
          const each = await create(first, 'budgets', { ...whole, name: 'c-each', per: 'key' })
          await create(first, 'budgets', { ...whole, name: 'd-key', appliesTo: { keys: [b.id] } })
          await create(first, 'budgets', { ...whole, name: 'd-model', appliesTo: { models: ['other*'] } })
          await spends(first, { 'a-creation': 0, 'b-period': 15, 'c-each': 15, 'd-key': 5, 'd-model': 0 })
          const counters = await fetch(`${first.url}/admin/api/v1/budgets/${each.id}/counters`, { headers: ADMIN })
          const { data: owners } = (await counters.json()) as { data: { of: string; spent: string }[] }
          assert.deepEqual(
            new Map(owners.map(({ of, spent }) => [of, Number(spent)])),
            new Map([
              [a.id, 0.01],
              [b.id, 0.005],
            ]),
          )
          await ask(first, b.secret)
          await spends(first, { 'a-creation': 5, 'b-period': 20, 'c-each': 20, 'd-key': 10, 'd-model': 0 })
          assert.equal(await first.stop(), 0)
        }
        for (const round of ['first', 'second']) {
          await using again = await gateway(data, workers, file)
          await spends(again, {
            'a-creation': 5,
            'b-period': 20,
            'c-each': 20,
            'd-key': 10,
            'd-model': 0,
            'e-file': 20,
          })
          assert.equal(await again.stop(), 0, round)
        }
        await using last = await gateway(data, workers)
        const { id, rev } = (await budgetsOf(last.url)).find(({ name }) => name === 'a-creation') ?? {}
        const changed = await fetch(`${last.url}/admin/api/v1/budgets/${id}`, {
          method: 'PATCH',
          headers: { ...ADMIN, 'content-type': 'application/json', 'if-match': `"${rev}"` },
          body: JSON.stringify({ countFrom: 'period' }),
        })
        assert.equal(changed.status, 200, await changed.text())
        await spends(last, { 'a-creation': 20, 'b-period': 20, 'c-each': 20, 'd-key': 10, 'd-model': 0 })
      } finally {
        rmSync(data, { recursive: true, force: true })
      }
    })
})
