/** A hard budget of a real process: it refuses when it is spent, also after the process was killed and started again. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream, until } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'
import { spentOfBudgets } from './support/stored-usage.ts'

/** 100 tokens of input at $10 and 100 of output at $40 per million: half a cent. */
const PRICES = 'prices: [ { provider: openai, model: "*", perMillion: { input: 10, output: 40 } } ]\n'
const COST = 5_000_000
const ANSWER = { text: 'x', input: 100, output: 100 }
/** Room for three answers, and not for the reservation of a fourth. */
const YAML = `${PRICES}budgets: { all: { amount: "0.016", period: month } }\n`
const body = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] }

describe('a budget of a process', () => {
  let upstream: Upstream
  let data: string
  /** The upstream does not respond. */
  let isSilent = false
  before(async () => {
    upstream = await startUpstream((request) => (isSilent ? { do: 'hang' } : answerWith(request, ANSWER)))
    data = mkdtempSync(join(tmpdir(), 'headgate-budget-'))
  })
  after(async () => {
    await upstream?.close()
    rmSync(data, { recursive: true, force: true })
  })

  const gateway = (yaml = YAML) =>
    start({
      env: {
        OPENAI_API_KEY: 'sk-0123456789',
        OPENAI_BASE_URL: `${upstream.url}/v1`,
        OPENAI_MODELS: 'm',
        DATA_DIR: data,
      },
      files: { 'headgate.yaml': yaml },
    })
  const ask = (to: Started, more: object = {}) => post(`${to.base}/chat/completions`, { ...body, ...more })
  /** Without requests for the list of models. */
  const calls = () => upstream.requests.filter(({ path }) => path.endsWith('/chat/completions')).length
  const spent = () => spentOfBudgets(data)
  const kill = async (process: Started) => {
    const exited = new Promise((resolve) => process.child.once('exit', resolve))
    process.child.kill('SIGKILL')
    await exited
  }

  test('is spent once, whatever happens to the process', async () => {
    await using first = await gateway()
    const answer = await ask(first)
    assert.equal(answer.status, 200)
    assert.equal(answer.headers.get('x-headgate-cost'), '0.005000000')
    assert.equal(answer.headers.get('x-headgate-usage'), 'exact')
    // Killed while a call is in progress: its reservation is charged.
    isSilent = true
    const unanswered = ask(first).catch(() => null)
    await until('the second call arrived', () => calls() === 2)
    await kill(first)
    await unanswered
    isSilent = false

    await using second = await gateway()
    const afterKill = spent()
    assert.ok(afterKill > COST && afterKill < 2 * COST, `spent ${afterKill}`)
    assert.equal((await ask(second)).status, 200)
    const refused = await ask(second, { max_tokens: 400 })
    assert.equal(refused.status, 402)
    assert.match(refused.headers.get('x-headgate-limit') ?? '', /^budget; id=bud_[a-z]{12}; resets=\d{4}-\d\d-01$/)
    assert.equal(refused.headers.get('x-should-retry'), 'false')
    assert.equal(refused.headers.get('x-headgate-attempts'), '0')
    assert.equal(calls(), 3)
    await until('the ledger is complete', () => spent() === afterKill + COST)
    await kill(second)

    await using third = await gateway()
    assert.equal(spent(), afterKill + COST)
    assert.equal((await ask(third, { max_tokens: 400 })).status, 402)
    assert.equal(await third.stop(), 0)
    assert.equal(spent(), afterKill + COST)
  })
  test('is not renewed by removing it and adding it again, also as a budget of another name with its ID', async () => {
    rmSync(data, { recursive: true, force: true })
    const id = 'bud_abcdefghijkl'
    const budget = (name: string) => `${PRICES}budgets: { ${name}: { id: ${id}, amount: "0.012", period: month } }\n`
    await using process = await gateway(budget('all'))
    const write = async (yaml: string) => {
      const before = process.lines().filter(({ event }) => event === 'config_changed').length
      writeFileSync(join(process.folder, 'headgate.yaml'), yaml)
      await until(
        'the file is applied',
        () => process.lines().filter(({ event }) => event === 'config_changed').length > before,
        20_000,
      )
    }
    assert.equal((await ask(process)).status, 200)
    await write(PRICES)
    assert.equal((await ask(process)).status, 200)
    await write(budget('other'))
    const page = async () => (await fetch(`${process.url}/metrics`)).text()
    for (let tries = 0; !/^headgate_budget_spent_dollars\{[^}]*other[^}]*\} 0\.005$/m.test(await page()); tries++) {
      assert.ok(tries < 400, await page())
      await sleep(50)
    }
    // Room for one more answer.
    const statuses = [(await ask(process)).status, (await ask(process)).status]
    assert.deepEqual(statuses, [200, 402])
  })
})
