/**
 * The path of an operator: give out a key, set a budget, watch what it costs, explain a request, rotate and revoke the key,
 * and lose nothing when the process is killed. With the command line, the official SDKs, and two providers that fail.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test } from 'node:test'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import Anthropic from '@anthropic-ai/sdk'
import { generateText } from 'ai'
import OpenAI from 'openai'
import { answerWith, failWith } from '../support/answers.ts'
import { startUpstream, type Upstream, type UpstreamRequest } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

/** 200 tokens of input at $100 and 100 of output at $400 per million: 6 cents. */
const ANSWER = { text: 'hello', input: 200, output: 100 }
const COST = 60_000_000
const PRICE = 'perMillion: { input: 100, output: 400 }'
const QUESTION = [{ role: 'user' as const, content: 'hello' }]

describe('operating a gateway', { concurrency: false }, () => {
  const data = mkdtempSync(join(tmpdir(), 'headgate-operate-'))
  let alpha: Upstream
  let beta: Upstream
  let gateway: Started
  let key = ''
  /** Calls that the providers answered, and so bill. */
  let billed = 0
  /** Whether alpha fails. */
  let isDown = false

  const answered = (request: UpstreamRequest) => {
    billed++
    return answerWith(request, ANSWER)
  }
  const gatewayOf = () =>
    start({
      env: { DATA_DIR: data },
      files: {
        'headgate.yaml': `providers:
  alpha: { kind: openai, baseUrl: "${alpha.url}/v1", keys: [sk-alpha-0000000000], models: [small] }
  beta: { kind: anthropic, baseUrl: "${beta.url}/v1", keys: [sk-beta-00000000000], models: [small] }
routes:
  fast: { targets: [alpha/small], fallback: [beta/small] }
prices:
  - { provider: alpha, model: small, ${PRICE} }
  - { provider: beta, model: small, ${PRICE} }
`,
      },
    })
  before(async () => {
    alpha = await startUpstream((request) =>
      isDown ? failWith(request, 503, { type: 'api_error', message: 'down' }) : answered(request),
    )
    beta = await startUpstream(answered)
    gateway = await gatewayOf()
  })
  after(async () => {
    await gateway?.stop()
    await Promise.all([alpha?.close(), beta?.close()])
    rmSync(data, { recursive: true, force: true })
  })

  const headgate = async (...words: string[]) => {
    const result = await verb(words, { env: { DATA_DIR: data } })
    assert.equal(result.code, 0, `headgate ${words.join(' ')}: ${result.stdout}${result.stderr}`)
    return result
  }
  const openai = (apiKey = key, maxRetries = 0) => new OpenAI({ baseURL: gateway.base, apiKey, maxRetries })
  const anthropic = () => new Anthropic({ baseURL: gateway.url, apiKey: key, maxRetries: 0 })
  const chat = (client = openai()) =>
    client.chat.completions.create({ model: 'fast', messages: QUESTION, max_tokens: 100 })
  const statusOf = (call: Promise<unknown>): Promise<number | undefined> =>
    call.then(
      () => 200,
      (error) => (error instanceof OpenAI.APIError ? error.status : undefined),
    )
  /** Rows of the ledger. The reader of the gateway is not used, so that both can be compared. */
  const rows = (query: string): Record<string, unknown> => {
    const database = new DatabaseSync(join(data, 'usage.db'), { readOnly: true })
    try {
      return database.prepare(query).get() ?? {}
    } finally {
      database.close()
    }
  }

  test('a key is created, and from then on a key is needed', async () => {
    assert.equal((await chat(openai('none'))).choices[0]?.message.content, ANSWER.text)
    billed = 0
    const created = await headgate('keys', 'create', 'alice', '--team', 'search', '--models', 'fast', '--rpm', '600')
    key = created.stdout.trim()
    assert.match(key, /^hgk_[0-9A-Za-z]{38}$/)
    await headgate('budgets', 'create', 'search-day', '--team', 'search', '--amount', '1.00', '--period', 'day')
    assert.equal(await statusOf(chat(openai('none'))), 401)
    assert.equal(await statusOf(openai().chat.completions.create({ model: 'alpha/small', messages: QUESTION })), 403)
  })

  test('the SDKs of OpenAI and Anthropic work with it, streamed and not, and after a failure', async () => {
    assert.equal((await chat()).choices[0]?.message.content, ANSWER.text)
    isDown = true
    const { data: fallback, response } = await openai()
      .chat.completions.create({ model: 'fast', messages: QUESTION, max_tokens: 100 })
      .withResponse()
    isDown = false
    assert.equal(fallback.choices[0]?.message.content, ANSWER.text)
    assert.equal(response.headers.get('x-headgate-attempts'), '2')
    assert.equal(response.headers.get('x-headgate-cost'), '0.060000000')
    assert.equal(response.headers.get('x-ratelimit-limit-requests'), '600')
    let text = ''
    for await (const chunk of await openai().chat.completions.create({
      model: 'fast',
      messages: QUESTION,
      max_tokens: 100,
      stream: true,
    }))
      text += chunk.choices[0]?.delta.content ?? ''
    assert.equal(text, ANSWER.text)
    assert.equal(
      (await openai().responses.create({ model: 'fast', input: 'hello', max_output_tokens: 100 })).output_text,
      ANSWER.text,
    )
    const message = { model: 'fast', max_tokens: 100, messages: QUESTION }
    assert.deepEqual((await anthropic().messages.create(message)).content, [{ type: 'text', text: ANSWER.text }])
    assert.equal(await anthropic().messages.stream(message).finalText(), ANSWER.text)
    assert.equal(billed, 6)
  })

  test('usage equals what the providers bill, and a request is explained', async () => {
    const usage = (await headgate('usage', '--by', 'key,model', '--json')).json()
    const [alice] = usage.data.filter(
      (row: { key: unknown; cost: string }) => row.key !== null && row.cost !== '0.000000000',
    )
    assert.equal(alice.cost, '0.360000000')
    assert.equal(alice.requests, 6)
    const [budget] = (await headgate('budgets', 'list', '--json')).json().data
    assert.deepEqual([budget.now.spent, budget.now.reserved], ['0.360000000', '0.000000000'])
    const { stdout } = await headgate('logs', '--json')
    const id = /"id":"(req_[a-z]+)"[^\n]*"provider":"beta"/.exec(stdout)?.[1]
    assert.ok(id, stdout)
    const explained = (await headgate('explain', id)).stdout
    assert.match(explained, /^200 after 1 fallback · fast → beta\/small · .* · \$0\.06 · key alice$/m)
    assert.match(explained, /alpha\/small +#[0-9a-f]+ +overloaded/)
  })

  test('a rotated key works with both secrets during the overlap', async () => {
    const old = key
    key = (await headgate('keys', 'rotate', 'alice', '--overlap', '1h')).stdout.trim()
    assert.notEqual(key, old)
    assert.equal(await statusOf(chat(openai(old))), 200)
    assert.equal(await statusOf(chat()), 200)
    key = (await headgate('keys', 'rotate', 'alice', '--overlap', '0s')).stdout.trim()
    assert.equal(await statusOf(chat(openai(old))), 401)
    const trails = (await gateway.logged()).flatMap(({ event, trail, id }) =>
      event === 'request' ? [`${id} ${trail}`] : [],
    )
    assert.equal(billed, 8, trails.join('\n'))
  })

  test('a killed process loses and doubles nothing, and its limits continue', async () => {
    const load = Promise.all(Array.from({ length: 4 }, () => statusOf(chat())))
    await new Promise((resolve) => setTimeout(resolve, 20))
    gateway.child.kill('SIGKILL')
    await load
    gateway = await gatewayOf()
    const calls = alpha.requests.concat(beta.requests).filter(({ method }) => method === 'POST').length
    const attempts = rows('SELECT count(*) AS count, count(DISTINCT request || n) AS different FROM attempt')
    // An attempt may have been recorded that the process did not send any more.
    assert.ok(Number(attempts.count) >= calls && Number(attempts.count) <= calls + 4, `${attempts.count}, ${calls}`)
    assert.equal(attempts.different, attempts.count)
    const sums = rows('SELECT sum(spent) AS spent FROM budget_sum')
    const costs = rows("SELECT sum(cost) AS cost FROM attempt WHERE key LIKE 'key_%'")
    assert.equal(sums.spent, costs.cost)
    const [budget] = (await headgate('budgets', 'list', '--json')).json().data
    assert.equal(Math.round(Number(budget.now.spent) * 1e9), sums.spent)
  })

  test('a spent budget refuses each SDK at once, with 402 and the day of its next period', async () => {
    while ((await statusOf(chat())) === 200);
    const arrived = () => alpha.requests.length + beta.requests.length
    const calls = arrived()
    const refused = await chat(openai(key, 3)).catch((error) => error)
    assert.ok(refused instanceof OpenAI.APIError)
    assert.deepEqual([refused.status, refused.code], [402, 'budget_exceeded'])
    assert.match(refused.message, /begins again on \d{4}-\d\d-\d\d\.$/)
    const client = new Anthropic({ baseURL: gateway.url, apiKey: key, maxRetries: 3 })
    const error = await client.messages
      .create({ model: 'fast', max_tokens: 100, messages: QUESTION })
      .catch((caught) => caught)
    assert.ok(error instanceof Anthropic.APIError)
    assert.deepEqual([error.status, error.error.error.type], [402, 'billing_error'])
    const provider = createOpenAICompatible({ name: 'headgate', baseURL: gateway.base, apiKey: key })
    const failed = await generateText({ model: provider('fast'), messages: QUESTION, maxOutputTokens: 100 }).catch(
      (caught) => caught,
    )
    assert.equal(failed.statusCode, 402)
    assert.equal(arrived(), calls, 'no provider is called')
    const refusals = (await gateway.logged()).filter(({ event, status }) => event === 'request' && status === 402)
    assert.equal(refusals.length, 4, 'no client repeats the request')
    assert.ok(billed * COST <= 1_000_000_000 + 4 * COST, `${billed} calls`)
  })

  test('a revoked key is refused', async () => {
    await headgate('keys', 'revoke', 'alice')
    assert.equal(await statusOf(chat()), 401)
  })
})
