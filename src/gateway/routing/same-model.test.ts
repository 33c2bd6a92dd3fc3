/** The same model is tried again before another model: after a short rate limit, or once after a 500 or 502. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'

const host = ({ url }: ScriptedCall) => new URL(url).host.split('.')[0] ?? ''
const modelOf = ({ body }: ScriptedCall): string => JSON.parse(body ?? '{}').model
const keyOf = ({ headers }: ScriptedCall) => (headers.authorization ?? '').split('-').at(-1) ?? ''

/** What OpenAI answers: https://community.openai.com/t/the-server-had-an-error-while-processing-your-request-sorry-about-that/53263 */
const SERVER_ERROR = {
  message: 'The server had an error while processing your request. Sorry about that!',
  type: 'server_error',
  param: null,
  code: null,
}
const RATE_LIMIT = {
  message: 'Rate limit reached for gpt-5-mini in organization org-x on tokens per min (TPM): Limit 30000.',
  type: 'tokens',
  param: null,
  code: 'rate_limit_exceeded',
}

type Line = number | 'limit' | '500' | '502' | '503' | '504' | 'reset' | 'cut' | 'ok'

const answer = (call: ScriptedCall, line: Line) => {
  if (line === 'ok') return respondWith.json(call, 200, chatAnswer.whole('yes'))
  if (line === 'reset') return call.fail({ kind: 'reset', message: 'read ECONNRESET' })
  if (line === 'cut') {
    call.head(200, { 'content-type': 'application/json' })
    call.send('{"id":')
    return call.end()
  }
  if (typeof line === 'number') return respondWith.error(call, 429, RATE_LIMIT, { 'retry-after-ms': String(line) })
  if (line === 'limit') return respondWith.error(call, 429, RATE_LIMIT)
  return respondWith.error(call, Number(line), SERVER_ERROR)
}

type Says = Readonly<Record<string, readonly Line[]>>
/** `leavesAt`: ms after which the client disconnects. */
type Options = { readonly keys?: readonly string[]; readonly leavesAt?: number; readonly [section: string]: unknown }

/** Answers of each target (`host-key/model`) in order; the last one repeats, and a target without any answers well. */
const run = async (says: Says, targets: readonly string[], { keys = ['k1'], leavesAt, ...settings }: Options = {}) => {
  const asked = new Map<string, number>()
  const nameOf = (call: ScriptedCall) => `${host(call)}-${keyOf(call)}/${modelOf(call)}`
  const ids = [...new Set(targets.map((target) => target.slice(0, target.indexOf('/'))))]
  const { world, send } = gatewayHarness(
    ids.map((id) => instance(id, id === 'a' ? keys : ['k1'])),
    (call) => {
      const name = nameOf(call)
      const nth = asked.get(name) ?? 0
      asked.set(name, nth + 1)
      const lines = says[name] ?? ['ok']
      answer(call, lines[Math.min(nth, lines.length - 1)] ?? 'ok')
    },
    { routes: { r: targets }, keyStrategy: 'round-robin', ...settings },
  )
  const start = world.now()
  const reply = send({ model: 'r', messages: [{ role: 'user', content: 'hi' }] })
  await world.advance(leavesAt ?? 0)
  if (leavesAt !== undefined) reply.disconnect()
  await world.advance(3_000)
  return { reply, calls: world.calls.map((call) => `${nameOf(call)} ${Math.round(call.at - start)}`) }
}

const MINI = 'a/gpt-5-mini'
const OTHER = 'b/claude-haiku-4-5'
const first = 'a-k1/gpt-5-mini'
const second = 'b-k1/claude-haiku-4-5'

/** [name, answers, targets, settings, calls with their times in ms] */
type Case = readonly [string, Says, readonly string[], Options, readonly string[]]
const cases: readonly Case[] = [
  ['a rate limit that ends in 2 s', { [first]: [2_000, 'ok'] }, [MINI, OTHER], {}, [`${first} 0`, `${first} 2000`]],
  ['a longer one', { [first]: [2_100] }, [MINI, OTHER], {}, [`${first} 0`, `${second} 0`]],
  ['one without a time', { [first]: ['limit'] }, [MINI, OTHER], {}, [`${first} 0`, `${second} 0`]],
  ['the limit again', { [first]: [300] }, [MINI, OTHER], {}, [`${first} 0`, `${first} 300`, `${second} 300`]],
  ['503', { [first]: ['503'] }, [MINI, OTHER], {}, [`${first} 0`, `${second} 0`]],
  ['504', { [first]: ['504'] }, [MINI, OTHER], {}, [`${first} 0`, `${second} 0`]],
  ['a reset', { [first]: ['reset'] }, [MINI, OTHER], {}, [`${first} 0`, `${second} 0`]],
  ['a truncated answer', { [first]: ['cut'] }, [MINI, OTHER], {}, [`${first} 0`, `${second} 0`]],
  ['off', { [first]: ['500'] }, [MINI, OTHER], { retry: { sameModelWait: 0 } }, [`${first} 0`, `${second} 0`]],
  ['off, a limit', { [first]: [100] }, [MINI, OTHER], { retry: { sameModelWait: 0 } }, [`${first} 0`, `${second} 0`]],
  [
    'a longer wait is allowed',
    { [first]: [2_500, 'ok'] },
    [MINI, OTHER],
    { retry: { sameModelWait: 3_000 } },
    [`${first} 0`, `${first} 2500`],
  ],
  [
    'another key of the model is tried at once',
    { [first]: [1_000], 'a-k2/gpt-5-mini': ['ok'] },
    [MINI, OTHER],
    { keys: ['k2', 'k1'] },
    [`${first} 0`, 'a-k2/gpt-5-mini 0'],
  ],
  [
    'both keys are limited: the one whose limit ends first',
    { [first]: [900, 'ok'], 'a-k2/gpt-5-mini': [1_500] },
    [MINI, OTHER],
    { keys: ['k2', 'k1'] },
    [`${first} 0`, 'a-k2/gpt-5-mini 0', `${first} 900`],
  ],
  [
    'another provider of the model is tried at once, whatever its name there',
    { [first]: ['500'], 'c-k1/openai/gpt-5-mini-2025-08-07': ['ok'] },
    [MINI, 'c/openai/gpt-5-mini-2025-08-07', OTHER],
    {},
    [`${first} 0`, 'c-k1/openai/gpt-5-mini-2025-08-07 0'],
  ],
  [
    'another model of the same provider is another model',
    { [first]: [400, 'ok'] },
    [MINI, 'a/gpt-5-nano'],
    {},
    [`${first} 0`, `${first} 400`],
  ],
  [
    'more than a quarter of the time left',
    { [first]: [1_000] },
    [MINI, OTHER],
    { timeout: { request: 3_900 } },
    [`${first} 0`, `${second} 0`],
  ],
  [
    'without a retry budget',
    { [first]: [400] },
    [MINI, OTHER],
    { retry: { budgetPercent: 0, budgetFloor: 0 } },
    [`${first} 0`, `${second} 0`],
  ],
  ['the only attempt', { [first]: [400] }, [MINI, OTHER], { retry: { maxAttempts: 1 } }, [`${first} 0`]],
  ...(['500', '502', 400] as const).map(
    (line): Case => [
      `the last attempt is for another model after ${line}`,
      { [first]: [line] },
      [MINI, OTHER],
      { retry: { maxAttempts: 2 } },
      [`${first} 0`, `${second} 0`],
    ],
  ),
  [
    'the last attempt without another model',
    { [first]: [400, 'ok'] },
    [MINI],
    { retry: { maxAttempts: 2 } },
    [`${first} 0`, `${first} 400`],
  ],
  [
    'the last but one attempt',
    { [first]: [400] },
    [MINI, OTHER],
    { retry: { maxAttempts: 3 } },
    [`${first} 0`, `${first} 400`, `${second} 400`],
  ],
  [
    'its circuit has opened',
    { [first]: ['500'] },
    [MINI, OTHER],
    { circuit: { consecutiveFailures: 1 } },
    [`${first} 0`, `${second} 0`],
  ],
  ['the client has left', { [first]: [400, 'ok'] }, [MINI, OTHER], { leavesAt: 200 }, [`${first} 0`]],
]
for (const [name, says, targets, settings, expected] of cases)
  test(`same model: ${name}`, async () => {
    const { calls } = await run(says, targets, settings)
    assert.deepEqual(calls, expected)
  })

for (const status of ['500', '502'] as const)
  test(`same model: a ${status} is retried once after 250 to 1,000 ms, then the next model is tried`, async () => {
    const recovered = await run({ [first]: [status, 'ok'] }, [MINI, OTHER])
    assert.equal(recovered.calls.length, 2)
    const wait = Number(recovered.calls[1]?.split(' ')[1])
    assert.ok(wait >= 250 && wait <= 1_000, `${wait}`)
    assert.equal(recovered.reply.headers['x-headgate-trail'], `a#k1:${status}, a#k1:200`)

    const persistent = await run({ [first]: [status] }, [MINI, OTHER])
    assert.equal(persistent.reply.headers['x-headgate-trail'], `a#k1:${status}, a#k1:${status}, b#k1:200`)
  })
