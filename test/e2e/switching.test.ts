/** What a failover costs a session, against vendors that keep prompts as theirs do: by owner, by prefix, and for their time. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { JsonObject } from '../../src/core/json.ts'
import { answerBody, failWith } from '../support/answers.ts'
import { skipRedis, startRedis } from '../support/redis.ts'
import { startUpstream, type Upstream, type UpstreamRequest } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const configOf = (url: string, act = 'report') => `
switch: { act: "${act}" }
circuit: { consecutiveFailures: 0, errorThreshold: 100 }
retry: { sameModelWait: 0 }
providers:
  claude: { kind: anthropic, baseUrl: "${url}/claude/v1", keys: [a-one], models: [claude-sonnet-5] }
  gpt: { kind: openai, baseUrl: "${url}/gpt/v1", keys: [o-one], models: [gpt-5.6-terra], styles: [chat] }
  shared:
    kind: anthropic
    baseUrl: "${url}/shared/v1"
    keys: [{ value: s-one, cacheScope: research, weight: 1000 }, { value: s-two, cacheScope: research }]
    models: [claude-sonnet-5]
  apart: { kind: anthropic, baseUrl: "${url}/apart/v1", keys: [{ value: p-one, weight: 1000 }, p-two], models: [claude-sonnet-5] }
routes:
  agents: { targets: [claude/claude-sonnet-5, gpt/gpt-5.6-terra] }
  owned: { targets: [shared/claude-sonnet-5, gpt/gpt-5.6-terra] }
  two: { targets: [apart/claude-sonnet-5, gpt/gpt-5.6-terra] }
`

const tokensIn = (text: string): number => Math.ceil(text.length / 4)

/** A vendor's caches: prompts by owner. Keys that end in `-one` and `-two` of `shared` have one owner. */
class FakeCaches {
  readonly #prompts = new Map<string, string[]>()
  /** Of the last answer. */
  read = 0
  input = 0

  answer(call: UpstreamRequest): JsonObject {
    const vendor = call.path.split('/')[1] ?? ''
    const owner = vendor === 'shared' ? vendor : `${vendor} ${call.key}`
    const prompt = JSON.stringify(JSON.parse(call.body).messages).slice(0, -1)
    const known = this.#prompts.get(owner) ?? []
    const longest = known.filter((one) => prompt.startsWith(one)).toSorted((one, other) => other.length - one.length)[0]
    this.#prompts.set(owner, [...known, prompt])
    this.input = tokensIn(prompt)
    this.read = tokensIn(longest ?? '')
    const body = answerBody(call, { text: 'done' })
    const usage =
      vendor === 'gpt'
        ? {
            ...{ prompt_tokens: this.input, completion_tokens: 5, total_tokens: this.input + 5 },
            prompt_tokens_details: { cached_tokens: this.read, cache_write_tokens: this.input - this.read },
          }
        : {
            ...{ input_tokens: 0, output_tokens: 5, cache_read_input_tokens: this.read },
            cache_creation_input_tokens: this.input - this.read,
          }
    return { ...body, usage }
  }
}

describe('switching', { concurrency: false }, () => {
  let upstream: Upstream
  let gateway: Started
  const caches = new FakeCaches()
  /** What fails: the beginning of a path, or a key. */
  let down = '-'
  const started = async (yaml: string) => start({ files: { 'headgate.yaml': yaml } })
  before(async () => {
    upstream = await startUpstream((call) =>
      call.path.startsWith(`/${down}/`)
        ? failWith(call, 503, { type: 'overloaded_error', message: 'busy' })
        : call.key === down
          ? failWith(call, 429, { type: 'rate_limit_error', message: 'slow down' })
          : { do: 'answer', body: caches.answer(call) },
    )
    gateway = await started(configOf(upstream.url))
  })
  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await upstream.close()
  })

  /** A conversation that grows by a turn with each call. */
  const conversation = (model: string, session: string, at = gateway, words = 9_000) => {
    const messages: JsonObject[] = [{ role: 'user', content: `${session} ${'word '.repeat(words)}` }]
    return async (path = '/v1/chat/completions', headers: Record<string, string> = {}, through = at) => {
      const response = await fetch(through.url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-headgate-session': session, ...headers },
        body: JSON.stringify({ model, messages }),
      })
      const body = JSON.parse(await response.text())
      if (response.ok && path !== '/v1/route')
        messages.push({ role: 'assistant', content: 'done' }, { role: 'user', content: `next ${'more '.repeat(200)}` })
      const header = response.headers.get('x-headgate-switch')
      return { status: response.status, provider: response.headers.get('x-headgate-provider'), header, body }
    }
  }
  const partsOf = (header: string | null): { readonly [name: string]: string | undefined } =>
    Object.fromEntries((header ?? '').split('; ').map((part, at) => (at === 0 ? ['act', part] : part.split('='))))
  const thousands = (text: string | undefined): number => 1_000 * Number((text ?? '').replace('k', ''))

  test('switching: the move states what was cached, and the return what still is; nothing else has the header', async () => {
    const turn = conversation('agents', 'moved')
    assert.deepEqual([(await turn()).header, (await turn()).header], [null, null])
    const kept = caches.input
    down = 'claude'
    const moved = await turn()
    assert.equal(moved.provider, 'gpt', JSON.stringify(moved.body))
    const { act, from, cold, cost } = partsOf(moved.header)
    assert.deepEqual([act, from], ['moved', 'claude'])
    assert(Math.abs(thousands(cold) - kept) <= 0.1 * kept, `${cold} of ${kept}`)
    // Both write at 2.5 dollars a million and read at 0.2: what is cold costs 2.3 more.
    assert(Math.abs(Number(cost) - (kept * 2.3) / 1e6) <= 0.002, `${cost} of ${kept} tokens`)
    assert.equal((await turn()).header, null, 'it is at the fallback, whose cache is warm')
    down = '-'
    const back = await turn()
    assert.equal(back.provider, 'claude')
    const returned = partsOf(back.header)
    assert.deepEqual([returned.act, returned.from], ['returned', 'gpt'])
    assert(Math.abs(thousands(returned.warm) - caches.read) <= 0.1 * caches.read, `${back.header} of ${caches.read}`)
    assert.equal((await turn()).header, null)
  })

  test('switching: keys with one cache scope are one cache, and others are two', async () => {
    for (const [model, key, expected] of [
      ['owned', 's-one', null],
      ['two', 'p-one', 'key'],
    ] as const) {
      const turn = conversation(model, `keys of ${model}`)
      await turn()
      await turn()
      const used = upstream.requests.at(-1)?.key ?? ''
      down = used
      const next = await turn()
      down = '-'
      assert.notEqual(upstream.requests.at(-1)?.key, used, key)
      assert.equal(caches.read > 0, expected === null)
      assert.equal(next.header === null ? null : partsOf(next.header).act, expected, model)
    }
  })

  test('switching: a plan states the caches of its targets, and what becomes of the request if they fail', async () => {
    const turn = conversation('agents', 'explained')
    assert.equal((await turn('/v1/route')).body.targets[0].cache, undefined)
    await turn()
    await turn()
    const kept = caches.input
    const { targets } = (await turn('/v1/route')).body
    const { cache, if_failed } = targets[0]
    assert(Math.abs(cache.tokens - kept) <= 0.1 * kept)
    assert.equal(cache.chance, 1)
    assert(cache.expires_in > 200 && cache.expires_in <= 300)
    assert.equal(cache.scope, undefined, 'owners are for operators')
    assert.equal(if_failed.act, 'move')
    assert(Math.abs(Number(if_failed.cost) - (cache.tokens * 2.3) / 1e6) < 0.002, JSON.stringify(if_failed))
    assert.deepEqual(targets[1].cache, { tokens: 0, chance: 0, expires_in: null })
  })

  // biome-ignore lint/suspicious/noExplicitAny: the tests read answers of every shape
  const moveOf = async (session: string): Promise<any> => {
    for (const end = performance.now() + 20_000; performance.now() < end; await sleep(100)) {
      const response = await fetch(`${gateway.url}/admin/api/v1/requests?limit=50`)
      const text = await response.text()
      assert.equal(response.status, 200, text)
      const { data } = JSON.parse(text)
      const rows = await Promise.all(
        data.map(async ({ id }: { id: string }) =>
          JSON.parse(await (await fetch(`${gateway.url}/admin/api/v1/requests/${id}`)).text()),
        ),
      )
      const found = rows.find(({ decision }) => decision?.switch?.act === 'moved' && decision.switch.cold > 0)
      if (found) return found
    }
    return assert.fail(`no move of ${session} was recorded`)
  }

  test('switching: the row of the request, the command line and the report have the same figures', async () => {
    const turn = conversation('agents', 'recorded')
    await turn()
    await turn()
    down = 'claude'
    const header = partsOf((await turn()).header)
    down = '-'
    const { id, decision } = await moveOf('recorded')
    assert.deepEqual([decision.switch.act, decision.switch.from], ['moved', 'claude'])
    assert.equal(`${Math.round(decision.switch.cold / 1_000)}k`, header.cold)
    assert.equal(`+${Number(decision.switch.cost).toFixed(4)}`, header.cost)
    const env = { HEADGATE_URL: gateway.url }
    const explained = await verb(['explain', id], { env })
    assert.match(explained.stdout, /session: moved from claude: [0-9,]+ tokens are not cached here, \$0\.0[0-9]+ more/)
    const { stdout } = await verb(['usage', '--by', 'route', '--since', '24h', '--cached', '--json'], { env })
    const { input, cache_read } = JSON.parse(stdout).total
    const shown = await verb(['usage', '--by', 'route', '--since', '24h', '--cached'], { env })
    assert.match(shown.stdout, /INPUT +CACHED +WRITTEN/)
    assert(shown.stdout.includes(`${((100 * cache_read) / input).toFixed(1)} %`), shown.stdout)
  })

  test('switching: a second gateway knows of the cache through Redis, and without it serves as before', {
    skip: skipRedis,
  }, async (context) => {
    const redis = await startRedis()
    const pair: Started[] = []
    context.after(async () => {
      for (const one of pair) await one[Symbol.asyncDispose]()
      await redis.stop()
    })
    for (let at = 0; at < 2; at++)
      pair.push(await start({ env: { REDIS_URL: redis.url }, files: { 'headgate.yaml': configOf(upstream.url) } }))
    const [one, other] = pair
    assert(one && other)
    const turn = conversation('agents', 'replica', one)
    await turn()
    await turn()
    let header: string | null = null
    down = 'claude'
    for (const end = performance.now() + 20_000; header === null && performance.now() < end; await sleep(200))
      header = (await turn('/v1/chat/completions', {}, other)).header
    assert.equal(partsOf(header).act, 'moved', 'the second gateway knows where the session was')
    await redis.stop()
    const alone = conversation('agents', 'alone', one)
    down = '-'
    await alone()
    await alone()
    down = 'claude'
    assert.deepEqual(
      [(await alone('/v1/chat/completions', {}, other)).header, partsOf((await alone()).header).act],
      [null, 'moved'],
      'each knows its own',
    )
    down = '-'
  })

  test('switching: of a short prompt nothing is stated', async () => {
    const turn = conversation('agents', 'short', gateway, 200)
    await turn()
    await turn()
    down = 'claude'
    assert.equal((await turn()).header, null)
    down = '-'
  })

  test('switching: a request states `now` or nothing', async () => {
    const turn = conversation('agents', 'stated')
    assert.equal((await turn('/v1/chat/completions', { 'x-headgate-switch': 'now' })).status, 200)
    const refused = await turn('/v1/chat/completions', { 'x-headgate-switch': 'later' })
    assert.equal(refused.status, 400)
    assert.match(refused.body.error.message, /`x-headgate-switch` must be `now`/)
  })

  test('switching: off states nothing, and an unknown act is no configuration', async () => {
    const off = await started(configOf(upstream.url, 'off'))
    try {
      const turn = conversation('agents', 'off', off)
      await turn()
      await turn()
      down = 'claude'
      assert.equal((await turn()).header, null)
    } finally {
      down = '-'
      await off[Symbol.asyncDispose]()
    }
    await assert.rejects(started(configOf(upstream.url, 'decide')), /switch\.act/)
  })
})
