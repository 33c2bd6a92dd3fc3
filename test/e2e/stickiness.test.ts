/** Stickiness in a running gateway: weights by session, and the target that has the prompt in its cache. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { answerBody, failWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'

const LONG = 'word '.repeat(2_000)

const configOf = (url: string) => `
fallback: same-model
circuit: { consecutiveFailures: 0, errorThreshold: 100 }
retry: { sameModelWait: 0 }
providers:
  left: { kind: openai-compatible, baseUrl: "${url}/left/v1", keys: [a, b, c], models: [m] }
  right: { kind: openai-compatible, baseUrl: "${url}/right/v1", keys: [d, e, f], models: [m] }
routes:
  shared: { strategy: weighted, targets: [left/m, right/m] }
  loose: { strategy: weighted, stickiness: "off", targets: [left/m, right/m] }
  keys: { targets: [left/m, right/m] }
`

describe('stickiness', { concurrency: false }, () => {
  let upstream: Upstream
  let gateway: Started
  /** The provider that fails. */
  let down = ''
  before(async () => {
    upstream = await startUpstream((call) => {
      if (down !== '' && call.path.startsWith(`/${down}`))
        return failWith(call, 503, { type: 'overloaded', message: 'busy' })
      const cached = call.body.includes('word word') ? 1_500 : 0
      const usage = {
        ...{ prompt_tokens: 2_000, completion_tokens: 5, total_tokens: 2_005 },
        prompt_tokens_details: { cached_tokens: cached },
      }
      return { do: 'answer', body: { ...answerBody(call, { text: 'hello' }), usage } }
    })
    gateway = await start({ files: { 'headgate.yaml': configOf(upstream.url) } })
  })
  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await upstream.close()
  })

  const bodyOf = (model: string, content: string) => JSON.stringify({ model, messages: [{ role: 'user', content }] })
  const ask = async (model: string, content: string, session?: string, path = '/v1/chat/completions') => {
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(session !== undefined && { 'x-headgate-session': session }) },
      body: bodyOf(model, content),
    })
    const text = await response.text()
    assert.equal(response.status, 200, text)
    return {
      provider: response.headers.get('x-headgate-provider') ?? '',
      key: upstream.requests.at(-1)?.key ?? '',
      text,
    }
  }
  const targetsOf = async (count: number, ...call: Parameters<typeof ask>) => {
    const found = new Set<string>()
    for (let n = 0; n < count; n++) {
      const { provider, key } = await ask(...call)
      found.add(`${provider} ${key}`)
    }
    return found
  }

  test('stickiness: a conversation whose prompt is cached stays with its provider and key', async () => {
    assert.equal((await targetsOf(12, 'shared', `${LONG} one`)).size, 1)
    const all = new Set<string>()
    for (let n = 0; n < 24; n++) for (const one of await targetsOf(1, 'shared', `${n} ${LONG}`)) all.add(one)
    assert(all.size >= 4, `other conversations are spread: ${[...all]}`)
  })

  test('stickiness: a prompt that is not cached is not remembered', async () => {
    assert((await targetsOf(24, 'shared', 'short')).size >= 4)
  })

  test('stickiness: a session draws once by weight, and its keys are free until its prompt is cached', async () => {
    const providers = new Set(
      [...(await targetsOf(12, 'shared', 'short', 'session-1'))].map((one) => one.split(' ')[0]),
    )
    assert.equal(providers.size, 1)
    const all = new Set<string>()
    for (let n = 0; n < 30; n++) all.add((await ask('shared', 'short', `session-${n}`)).provider)
    assert.deepEqual([...all].sort(), ['left', 'right'])
  })

  test('stickiness: off draws each request', async () => {
    assert((await targetsOf(24, 'loose', `${LONG} two`, 'session-2')).size >= 4)
  })

  test('stickiness: by default a route in written order stays with a key, and its first target stays first', async () => {
    const before = await targetsOf(6, 'keys', `${LONG} three`)
    assert.deepEqual([before.size, [...before][0]?.split(' ')[0]], [1, 'left'])
    down = 'left'
    const during = await targetsOf(6, 'keys', `${LONG} three`)
    down = ''
    assert([...during].every((one) => one.startsWith('right')))
    assert.equal((await ask('keys', `${LONG} three`)).provider, 'left')
  })

  test('stickiness: after a failover the new provider is remembered', async () => {
    const first = await ask('shared', `${LONG} four`)
    down = first.provider
    const second = await ask('shared', `${LONG} four`)
    down = ''
    assert.notEqual(second.provider, first.provider)
    assert.deepEqual([...(await targetsOf(6, 'shared', `${LONG} four`))], [`${second.provider} ${second.key}`])
  })

  test('stickiness: POST /v1/route shows the target whose cache has the prompt', async () => {
    const { provider } = await ask('shared', `${LONG} five`)
    const { targets } = JSON.parse((await ask('shared', `${LONG} five`, undefined, '/v1/route')).text)
    assert.deepEqual(
      targets.map((one: { provider: string; cached?: boolean }) => one.cached === true && one.provider),
      [provider, false],
    )
  })

  test("stickiness: the client's order comes first", async () => {
    const { provider } = await ask('shared', `${LONG} six`)
    const other = provider === 'left' ? 'right' : 'left'
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: bodyOf('shared', `${LONG} six`).replace('{', `{"provider":{"order":["${other}"]},`),
    })
    assert.equal(response.headers.get('x-headgate-provider'), other)
  })
})
