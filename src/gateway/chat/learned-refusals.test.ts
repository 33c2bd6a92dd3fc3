/** Refused members and signatures are remembered for ten minutes, so that later requests avoid the failed attempt. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import { optionalMembers, refusedMember } from '../../protocols/errors/refused-member.ts'
import { signaturesNamed } from './strip-signatures.ts'

const USER = { role: 'user', content: 'hi' }
const refuses =
  (word: string, error: object) =>
  (asked: ScriptedCall): void =>
    (asked.body ?? '').includes(word)
      ? respondWith.error(asked, 400, error)
      : respondWith.json(asked, 200, chatAnswer.whole('answered'))

const MEMBERS: readonly (readonly [what: string, error: object, body: object, word: string, dropped: string])[] = [
  [
    'a member of the body',
    { code: 'unknown_parameter', param: 'foo', message: "Unknown parameter: 'foo'." },
    { messages: [USER], foo: 1 },
    '"foo"',
    'foo',
  ],
  [
    'a member of a message',
    {
      message:
        "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'bar' is unsupported)]",
    },
    { messages: [USER, { role: 'assistant', content: 'a', bar: 'b' }, USER] },
    '"bar"',
    'messages[1].bar',
  ],
]
for (const [what, error, body, word, dropped] of MEMBERS)
  test(`${what} is dropped for ten minutes after one refusal`, async () => {
    const { send, world } = gatewayHarness([instance('a'), instance('b')], refuses(word, error))
    const turn = async () => {
      const calls = world.calls.length
      const reply = send({ model: 'a/m', ...body })
      await world.advance(2_000)
      assert.equal(reply.status, 200)
      assert.equal(reply.headers['x-headgate-dropped'], dropped)
      assert.equal(reply.headers['x-headgate-provider'], 'a')
      return world.calls.length - calls
    }
    assert.equal(await turn(), 2)
    assert.equal(await turn(), 1)
    await world.advance(600_000)
    assert.equal(await turn(), 2)
  })

for (const [member, value] of [
  ['web_search_options', {}],
  ['modalities', ['text', 'audio']],
] as const)
  test(`a refused ${member} is essential: the request fails over`, async () => {
    const refuse = refuses(`"${member}"`, { code: 'unknown_parameter', param: member })
    const { send, world } = gatewayHarness([instance('a'), instance('b')], (asked) =>
      asked.url.includes('//a.') ? refuse(asked) : respondWith.json(asked, 200, chatAnswer.whole('answered')),
    )
    const reply = send({ model: 'a/m', messages: [USER], [member]: value })
    await world.advance(2_000)
    assert.equal(reply.headers['x-headgate-provider'], 'b')
    assert.equal(reply.headers['x-headgate-dropped'], undefined)
    assert.ok(world.calls.at(-1)?.body?.includes(`"${member}"`))
  })

test('another model still receives the member', async () => {
  const error = { code: 'unknown_parameter', param: 'foo' }
  const { send, world } = gatewayHarness([instance('a'), instance('b')], refuses('"foo"', error))
  send({ model: 'a/m', messages: [USER], foo: 1 })
  await world.advance(2_000)
  send({ model: 'a/other', messages: [USER], foo: 1 })
  await world.advance(2_000)
  assert.ok(world.calls[2]?.body?.includes('"foo"'))
})

test('a vendor that refuses many members in turn is abandoned for the next', async () => {
  const { send, world } = gatewayHarness([instance('a'), instance('b')], (asked) => {
    const member = /"(x\d)"/.exec(asked.body ?? '')?.[1]
    if (asked.url.includes('//b.') || member === undefined) respondWith.json(asked, 200, chatAnswer.whole('answered'))
    else respondWith.error(asked, 400, { code: 'unknown_parameter', param: member })
  })
  const many = Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`x${index}`, 1]))
  const reply = send({ model: 'a/m', messages: [USER], ...many })
  await world.advance(5_000)
  assert.equal(reply.status, 200)
  assert.equal(reply.headers['x-headgate-provider'], 'b')
  assert.equal(world.calls.length, 5)
})

const answer = JSON.stringify({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [{ type: 'text', text: 'answered' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 1, output_tokens: 1 },
})
const thought = (signature: string) => ({
  role: 'assistant',
  content: [
    { type: 'thinking', thinking: 't', signature },
    { type: 'text', text: 'a' },
  ],
})

test('a refused signature is removed in the next turn; a later signature of the vendor is kept', async () => {
  const claude = instance('a', ['k1'], { speaks: [{ protocol: 'anthropic-messages' }] })
  const { send, world } = gatewayHarness([claude], (asked) =>
    (asked.body ?? '').includes('foreign-seal')
      ? respondWith.error(asked, 400, { message: 'messages.1.content.0: Invalid `signature` in `thinking` block' })
      : respondWith.json(asked, 200, answer),
  )
  const turn = async (...messages: readonly object[]) => {
    const reply = send({ model: 'a/m', max_tokens: 9, messages: [USER, ...messages] }, 'anthropic-messages')
    await world.advance(2_000)
    assert.equal(reply.status, 200)
    return world.calls.at(-1)?.body ?? ''
  }
  await turn(thought('foreign-seal'), USER)
  assert.equal(world.calls.length, 2)
  const last = await turn(thought('foreign-seal'), USER, thought('its-own-seal'), USER)
  assert.equal(world.calls.length, 3)
  assert.ok(last.includes('its-own-seal'))
})

test('removes only the signatures that the error identifies, or all after too many errors', async () => {
  const claude = instance('a', ['k1'], { speaks: [{ protocol: 'anthropic-messages' }] })
  const { send, world } = gatewayHarness([claude], (asked) => {
    const { messages } = JSON.parse(asked.body ?? '') as { messages: { content: { signature?: string }[] | string }[] }
    const at = messages.findIndex(
      ({ content }) => content[0] && String(Object(content[0]).signature).startsWith('foreign'),
    )
    const message = `messages.${at}.content.0: Invalid \`signature\` in \`thinking\` block`
    return at === -1 ? respondWith.json(asked, 200, answer) : respondWith.error(asked, 400, { message })
  })
  const turn = async (...seals: readonly string[]) => {
    const calls = world.calls.length
    const messages = [USER, ...seals.flatMap((seal) => [thought(seal), USER])]
    const reply = send({ model: 'a/m', max_tokens: 9, messages }, 'anthropic-messages')
    await world.advance(2_000)
    assert.equal(reply.status, 200, reply.text)
    const sent = seals.filter((seal) => world.calls.at(-1)?.body?.includes(seal))
    return [world.calls.length - calls, ...sent]
  }
  assert.deepEqual(await turn('own-1', 'foreign-1', 'own-2'), [2, 'own-1', 'own-2'])
  assert.deepEqual(await turn('own-1', 'foreign-1', 'own-2', 'own-3'), [1, 'own-1', 'own-2', 'own-3'])
  assert.deepEqual(await turn('own-4', 'foreign-2', 'foreign-3', 'foreign-4', 'foreign-5'), [4])
})

test('removes only the identified signature from a large body too', async () => {
  const claude = instance('a', ['k1'], { speaks: [{ protocol: 'anthropic-messages' }] })
  const { send, world } = gatewayHarness([claude], (call) =>
    (call.body ?? '').includes('foreign')
      ? respondWith.error(call, 400, { message: 'messages.1.content.0: Invalid `signature` in `thinking` block' })
      : respondWith.json(call, 200, answer),
  )
  const large = { role: 'user', content: 'x'.repeat(300_000) }
  const messages = [USER, thought('foreign'), large, thought('own'), USER]
  const reply = send({ model: 'a/m', max_tokens: 9, messages }, 'anthropic-messages')
  await world.advance(2_000)
  assert.equal(reply.status, 200, reply.text)
  assert.equal(world.calls.length, 2)
  assert.ok(world.calls.at(-1)?.body?.includes('"own"'))
})

const QUOTED: readonly (readonly [what: string, upstream: Failure['upstream'], seals: readonly string[]])[] = [
  ['beginning and end of one', { message: 'The encrypted content gAAA...Rg== could not be verified.' }, ['gAAAxRg==']],
  [
    'the beginning of all',
    { message: 'The encrypted content gAAA... could not be verified.' },
    ['gAAAxRg==', 'gAAAyZw=='],
  ],
  ['an item', { message: "Item with id 'rs_2' not found." }, ['gAAAyZw==']],
  ['the path of an item', { message: 'input[1].encrypted_content: invalid' }, ['gAAAyZw==']],
  ['a path outside the body', { message: 'input[7]: invalid' }, []],
  ['nothing', { message: 'Invalid reasoning.' }, []],
]
for (const [what, upstream = {}, seals] of QUOTED)
  test(`signatures identified by ${what}`, () => {
    const input = ['gAAAxRg==', 'gAAAyZw=='].map((encrypted_content, at) => ({ id: `rs_${at + 1}`, encrypted_content }))
    const failure = fail('unknown_proof', 'm', { upstream })
    assert.deepEqual(signaturesNamed(failure, JSON.stringify({ input }), ['gAAAxRg==', 'gAAAyZw==']), seals)
  })

type Expected = readonly [path: string, value?: unknown] | undefined
const NAMED: readonly (readonly [message: string, more: object, body: JsonObject, member: Expected])[] = [
  ["property 'store' is unsupported, did you mean 'stop'?", {}, { store: true, stop: 'x' }, ['store']],
  ["body.logit_bias: property 'body.logit_bias' is unsupported", {}, { logit_bias: { a: 1 } }, ['logit_bias']],
  ["x: property 'messages.2.assistant.reasoning_content' is unsupported", {}, {}, ['messages.reasoning_content']],
  ['body.seed: Extra inputs are not permitted', {}, { seed: 1 }, ['seed']],
  ["Extra inputs are not permitted, field: 'verbosity'", {}, { verbosity: 'low' }, ['verbosity']],
  [
    'Model grok-4.6 does not support parameter presencePenalty.',
    {},
    { presence_penalty: 1, frequency_penalty: 1 },
    ['presence_penalty'],
  ],
  ["unknown field: parameter 'strict' is not a valid field.", {}, { seed: 1 }, undefined],
  ['x', { code: 'unknown_parameter', param: 'input[3].namespace' }, {}, ['input.namespace']],
  ['x', { code: 'unsupported_parameter', param: 'tools' }, { tools: [], seed: 1 }, undefined],
  ['x', { code: 'unsupported_parameter', param: 'max_tokens' }, { max_tokens: 5 }, undefined],
  ['x', { code: 'unknown_parameter', param: 'messages[0].content[1].foo' }, { foo: 1 }, undefined],
  [
    'x',
    { code: 'unsupported_parameter', param: 'reasoning.effort' },
    { reasoning: { effort: 'low' } },
    ['reasoning.effort'],
  ],
  ['After the optional system message, roles must alternate user/assistant', {}, { user: 'u', stop: 'x' }, undefined],
  // Without a code: the sentence names a member of the request. Threads: `errors.quoted.ts`.
  ['Unrecognized request argument supplied: reasoning_effort', {}, { reasoning_effort: 'low' }, ['reasoning_effort']],
  [
    "The 'metadata' parameter is only allowed when 'store' is enabled.",
    {},
    { store: false, metadata: { a: 'b' } },
    ['metadata'],
  ],
  ['invalid temperature: only 1 is allowed for this model', {}, { temperature: 0.7, top_p: 1 }, ['temperature']],
  ['invalid temperature: only 0.6 is allowed for this model', {}, { temperature: 1 }, ['temperature']],
  ['temperature is deprecated for this model.', {}, { temperature: 1 }, ['temperature']],
  [
    '`temperature` and `top_p` cannot both be specified for this model.',
    {},
    { top_p: 1, temperature: 1 },
    ['temperature'],
  ],
  [
    'Penalty is not enabled for models/gemini-2.5-flash-preview-05-20',
    {},
    { generationConfig: { temperature: 1, frequencyPenalty: 1 } },
    ['generationConfig.frequencyPenalty'],
  ],
  [
    'Logprobs is not enabled for models/gemini-2.5-pro',
    {},
    { generationConfig: { responseLogprobs: true } },
    ['generationConfig.responseLogprobs'],
  ],
  // Only a value is refused.
  [
    "Unsupported value: 'reasoning_effort' does not support 'none' with this model. Supported values are: 'minimal', 'low'.",
    {},
    { reasoning_effort: 'none' },
    ['reasoning_effort', 'none'],
  ],
  ['top_p must be between 0 and 0.95', {}, { top_p: 1 }, ['top_p', 1]],
  ['x', { code: 'unsupported_value', param: 'verbosity' }, { verbosity: 'high' }, ['verbosity']],
  // Ordinary words are names only in certain phrases.
  ['stop is not supported by this model', {}, { stop: 'x' }, ['stop']],
  ['Model does not support parameter: seed', {}, { seed: 1 }, ['seed']],
  // Essential members are not left out.
  ['Thinking mode does not support this tool_choice', {}, { thinking: { type: 'enabled' } }, undefined],
  ['This response_format type is unavailable now', {}, { seed: 1 }, undefined],
]
for (const [message, more, body, expected] of NAMED)
  test(`a refusal "${message}" ${JSON.stringify(more)} names ${expected?.[0]}`, () => {
    const { code, param }: { readonly code?: string; readonly param?: string } = more
    const failure = fail('incompatible', message, {
      upstream: { message, ...(code !== undefined && { code }) },
      ...(param !== undefined && { param }),
    })
    const found = refusedMember(failure, optionalMembers(JSON.stringify(body)))
    assert.deepEqual(found && [found.path, ...(found.value === undefined ? [] : [found.value])], expected)
  })

test('a value that a model refuses is remembered, other values of the member are still sent', async () => {
  const { send, world } = gatewayHarness([instance('a')], (asked) =>
    /"top_p":1\b/.test(asked.body ?? '')
      ? respondWith.error(asked, 400, { message: 'top_p must be between 0 and 0.95' })
      : respondWith.json(asked, 200, chatAnswer.whole('answered')),
  )
  const turn = async (top_p: number) => {
    const calls = world.calls.length
    const reply = send({ model: 'a/m', messages: [USER], top_p })
    await world.advance(2_000)
    assert.equal(reply.status, 200)
    return [world.calls.length - calls, reply.headers['x-headgate-dropped']]
  }
  assert.deepEqual(await turn(1), [2, 'top_p'])
  assert.deepEqual(await turn(1), [1, 'top_p'])
  assert.deepEqual(await turn(0.5), [1, undefined])
})

test('a member that an error only mentions is sent again later, if its absence did not help', async () => {
  const { send, world } = gatewayHarness([instance('a'), instance('b')], (asked) =>
    asked.url.includes('//a.')
      ? respondWith.error(asked, 400, { message: 'Your temperature of debate is too high for this server.' })
      : respondWith.json(asked, 200, chatAnswer.whole('answered')),
  )
  for (let turn = 0; turn < 2; turn++) {
    const calls = world.calls.length
    const reply = send({ model: 'a/m', messages: [USER], temperature: 0.5 })
    await world.advance(2_000)
    assert.equal(reply.headers['x-headgate-provider'], 'b')
    const bodies = world.calls.slice(calls).map(({ body = '' }) => body.includes('"temperature"'))
    assert.deepEqual(bodies, [true, false, true])
  }
})
