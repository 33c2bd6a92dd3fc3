/** A guard on the whole request path, without sockets: all styles, whole and streamed, in each format of a provider. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { type AnswerContent, answerBody, piecesOf } from '../../../test/support/answers.ts'
import { openaiEmbeddingsCall } from '../../../test/support/embeddings-call.ts'
import { receivedForm } from '../../../test/support/form.ts'
import { CapturedReply, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import {
  answering,
  asked,
  CACHED,
  framesIn,
  harness,
  hasTools,
  REQUESTS,
  STYLES,
  seen,
  textsIn,
  UPSTREAMS,
} from '../../../test/support/guarded-gateway.ts'
import { FORBIDDEN, MASK, SECRET, STOP_WORD, withMasking } from '../../../test/support/masking-guard.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import type { ChooseGuards, GuardRule } from '../../core/guard.ts'
import type { JsonObject } from '../../core/json.ts'
import { Masks } from '../../policy/guards/masks.ts'
import { operatorGuards } from '../../policy/guards/operator-guards.ts'
import { protocols } from '../../protocols/index.ts'
import { serveChat } from '../chat/serve-chat.ts'
import { countTokens } from '../handlers/count-tokens.ts'
import { serveEmbeddings } from '../handlers/embeddings.ts'
import { serveRelay } from '../relay/serve-relay.ts'
import { compact } from '../responses/compact.ts'
import { createResponse } from '../responses/create-response.ts'
import { memoryResponseStore } from '../responses/memory-response-store.ts'

// ── Requests in each style ─────────────────────────────────────────────────────────────────────────────────────────

const NOTE = { note: `keep ${MASK}!`, count: 2 }
const ANSWER: AnswerContent = {
  text: `You said ${MASK}, and [MASK_ELSE] is not it. ${MASK}`,
  tools: [{ id: 'c2', name: 'save', arguments: JSON.stringify(NOTE) }],
}
const TEXT_ONLY: AnswerContent = { text: ANSWER.text ?? '' }

const RESTORED = {
  text: `You said ${SECRET}, and [MASK_ELSE] is not it. ${SECRET}`,
  note: { note: `keep ${SECRET}!`, count: 2 },
}

for (const style of STYLES)
  for (const upstream of UPSTREAMS)
    for (const stream of [false, true])
      for (const cached of [false, true])
        test(`guards: a word is masked and restored, ${style} at ${upstream}, ${stream ? 'streamed' : 'whole'}${cached ? ', from the cache' : ''}`, async () => {
          const content = hasTools(style) && !cached ? ANSWER : TEXT_ONLY
          const { send, world } = harness(answering(content), { upstream, client: cached ? CACHED : ANONYMOUS })
          const body = { ...REQUESTS[style], ...(stream && { stream: true }) }
          const reply = await send(body, style)
          assert.equal(reply.status, 200, reply.text)
          const expected = { ...RESTORED, note: content.tools && RESTORED.note }
          assert.deepEqual(seen(style, reply, stream), expected)
          const sent = textsIn(JSON.parse(world.calls[0]?.body ?? ''))
          assert.ok(!sent.some((text) => text.includes(SECRET)), JSON.stringify(sent))
          assert.ok(sent.filter((text) => text.includes(MASK)).length >= (hasTools(style) ? 4 : 1))
          assert.ok(!reply.text.includes(MASK))
          if (!cached) return
          // An answer to another request than the client's is not stored.
          if (reply.headers['x-headgate-dropped']) return
          const again = await send(body, style)
          assert.match(again.headers['x-headgate-cache'] ?? '', /^hit/)
          assert.equal(world.calls.length, 1)
          assert.deepEqual(seen(style, again, stream), expected)
        })

test('guards: a body of the same format differs in its strings only', async () => {
  const { send, world } = harness(answering(TEXT_ONLY))
  const body = { ...REQUESTS['openai-chat'], unknown_member: [1, { a: null }], seed: 7 }
  await send(body, 'openai-chat')
  const masked = JSON.parse(
    JSON.stringify({ ...body, model: 'm' })
      .replaceAll(JSON.stringify(JSON.stringify(SECRET).slice(1, -1)).slice(1, -1), MASK)
      .replaceAll(JSON.stringify(SECRET).slice(1, -1), MASK),
  )
  assert.deepEqual(JSON.parse(world.calls[0]?.body ?? ''), masked)
})

const SHORT: AnswerContent = {
  text: `a ${MASK}`,
  tools: [{ id: 'c2', name: 'save', arguments: JSON.stringify({ n: MASK }) }],
}

for (const style of STYLES)
  test(`guards: a stream cut anywhere is restored: ${style}`, async () => {
    const content = hasTools(style) ? SHORT : { text: SHORT.text ?? '' }
    let cut = 1
    let length = 2
    const upstream = style === 'openai-completions' ? 'openai-chat' : style
    const { send } = harness(
      (call) => {
        length = Buffer.from(piecesOf(asked(call), content).join('')).length
        answering(content, cut)(call)
      },
      { upstream },
    )
    const body = { ...REQUESTS[style], stream: true }
    const expected = { text: `a ${SECRET}`, note: content.tools && { n: SECRET } }
    for (; cut < length; cut += 9)
      assert.deepEqual(seen(style, await send(body, style), true), expected, `cut at ${cut}`)
  })

// ── Rules of an operator ───────────────────────────────────────────────────────────────────────────────────────────

const RULE = {
  on: ['request'],
  tools: false,
  kinds: [],
  patterns: [],
  message: null,
  label: null,
  media: false,
  exceptTeams: ['free'],
  onlyTeams: null,
  onlyRoutes: null,
  optionalTeams: [],
} as const
const RULES: readonly GuardRule[] = [
  { ...RULE, name: 'wörter', words: [SECRET], action: 'mask', label: 'SECRET' },
  { ...RULE, name: 'never', words: [FORBIDDEN], action: 'block', message: 'Ask the office.' },
]
const digest = (text: string) => createHash('sha256').update(text).digest()
const byRules = operatorGuards({
  rules: () => RULES,
  digest,
  fingerprint: (text) => text,
  turn: (run) => run(),
  now: () => 0,
  names: { team: () => true, route: () => true },
})
const OWN_MASK = new Masks((text) => digest(`${ANONYMOUS.id} ${text}`)).maskOf('SECRET', SECRET)

for (const style of STYLES)
  for (const upstream of UPSTREAMS)
    for (const stream of [false, true])
      test(`guards: rules mask and restore, ${style} at ${upstream}, ${stream ? 'streamed' : 'whole'}`, async () => {
        const content: AnswerContent = JSON.parse(
          JSON.stringify(hasTools(style) ? ANSWER : TEXT_ONLY).replaceAll(MASK, OWN_MASK),
        )
        const { send, world } = harness(answering(content), { upstream, guards: byRules })
        const reply = await send({ ...REQUESTS[style], ...(stream && { stream: true }) }, style)
        assert.equal(reply.status, 200, reply.text)
        assert.deepEqual(seen(style, reply, stream), { ...RESTORED, note: content.tools && RESTORED.note })
        const sent = textsIn(JSON.parse(world.calls[0]?.body ?? ''))
        assert.ok(!sent.some((text) => text.includes(SECRET)), JSON.stringify(sent))
        assert.match(reply.headers['x-headgate-guards'] ?? '', /^w%C3%B6rter=mask:\d+$/)
      })

test('guards: a rule blocks without quoting the text, and excepts teams', async () => {
  const body = {
    model: 'm',
    messages: [{ role: 'tool', tool_call_id: 'c', content: `so ${FORBIDDEN.toUpperCase()}!` }],
  }
  const { send, world } = harness(answering(TEXT_ONLY), { guards: byRules })
  const reply = await send(body, 'openai-chat')
  assert.equal(reply.status, 400)
  assert.deepEqual(reply.json.error.code, 'guardrail_blocked')
  assert.equal(reply.json.error.message, 'Blocked by the rule "never", which found: word. Ask the office.')
  assert.equal(world.calls.length, 0)
  const free = harness(answering(TEXT_ONLY), {
    guards: byRules,
    client: { ...ANONYMOUS, team: { id: 'team_free', name: 'free' } },
  })
  await free.send(body, 'openai-chat')
  assert.ok(free.world.calls[0]?.body?.includes(FORBIDDEN.toUpperCase()))
})

for (const upstream of ['openai-chat', 'openai-responses'] as const)
  for (const storedThere of [false, true])
    test(`guards: the mask of an earlier turn is restored, at ${upstream}${storedThere ? ', which stores the turns' : ''}`, async () => {
      const { send, world } = harness(
        (call) => {
          const body = answerBody(asked(call), { text: `It was ${OWN_MASK}` })
          respondWith.json(call, 200, JSON.stringify({ ...body, ...(storedThere && { store: true }) }))
        },
        { upstream, guards: byRules },
      )
      const first = await send({ model: 'm', input: `One ${SECRET}` }, 'openai-responses')
      const second = await send(
        { model: 'm', previous_response_id: first.json.id, input: 'Which?' },
        'openai-responses',
      )
      assert.equal(second.status, 200, second.text)
      assert.equal(second.json.output[0].content[0].text, `It was ${SECRET}`)
      assert.ok(!world.calls.some(({ body = '' }) => body.includes('ter2')))
    })

test('guards: all texts of a large request are read, in turns', async () => {
  let turns = 0
  const guards = operatorGuards({
    rules: () => RULES,
    digest,
    fingerprint: (text) => text,
    now: () => 0,
    names: { team: () => true, route: () => true },
    turn(run) {
      turns++
      run()
    },
  })
  const { send, world } = harness(answering(TEXT_ONLY), { guards })
  const messages = Array.from({ length: 8 }, (_, at) => ({
    role: 'user',
    content: `${'x '.repeat(50_000)}${at} ${SECRET}`,
  }))
  const reply = await send({ model: 'm', messages }, 'openai-chat')
  assert.equal(reply.headers['x-headgate-guards'], 'w%C3%B6rter=mask:8')
  // Each of two rules reads them.
  assert.equal(turns, 6)
  assert.ok(world.calls[0]?.body?.includes(OWN_MASK) && !world.calls[0].body.includes('ter2'))
})

test('guards: an answer passes through if nothing was masked', async () => {
  const { send } = harness(
    (call) => respondWith.json(call, 200, JSON.stringify({ ...answerBody(asked(call), TEXT_ONLY), unknown: [1] })),
    { guards: byRules },
  )
  const reply = await send({ model: 'm', messages: [{ role: 'user', content: 'hello' }] }, 'openai-chat')
  assert.deepEqual(reply.json.unknown, [1])
  assert.equal(reply.headers['x-headgate-guards'], undefined)
})

// ── Refusals ───────────────────────────────────────────────────────────────────────────────────────────────────────

const forbidden = (body: JsonObject): JsonObject =>
  JSON.parse(JSON.stringify(body).replaceAll('saved', FORBIDDEN).replaceAll(': "', `: ${FORBIDDEN}"`))

for (const style of STYLES)
  for (const stream of [false, true])
    for (const later of [false, true])
      test(`guards: a refused request reaches no target: ${style}, ${stream ? 'streamed' : 'whole'}${later ? ', refused later' : ''}`, async () => {
        const { send, world, events } = harness(answering(TEXT_ONLY), { guards: withMasking(later), client: CACHED })
        const body = style === 'openai-completions' ? { model: 'm', prompt: FORBIDDEN } : forbidden(REQUESTS[style])
        for (let turn = 0; turn < 2; turn++) {
          const reply = await send({ ...body, ...(stream && { stream: true }) }, style)
          assert.equal(reply.status, 400, reply.text)
          assert.match(reply.text, /forbidden word/)
          assert.equal(reply.headers['x-headgate-attempts'], '0')
        }
        assert.equal(world.calls.length, 0)
        const ends = events.flatMap((event) => (event.event === 'request' ? event.trace.slice(-1) : []))
        assert.deepEqual(
          ends.map((end) => end.type === 'ended' && end.how),
          ['refused', 'refused'],
        )
      })

for (const style of STYLES)
  for (const stream of [false, true])
    test(`guards: a refused answer ends and cancels the upstream: ${style}, ${stream ? 'streamed' : 'whole'}`, async () => {
      const content = { text: `before ${STOP_WORD} after` }
      const { send, world, gateway } = harness(
        (call) => {
          const request = asked(call)
          if (!request.stream) return answering(content)(call)
          // The rest of the stream never comes.
          call.head(200, { 'content-type': 'text/event-stream' })
          call.send(piecesOf(request, content).slice(0, -2).join(''))
        },
        { client: CACHED },
      )
      const reply = await send({ ...REQUESTS[style], ...(stream && { stream: true }) }, style)
      assert.match(reply.text, /stop word/)
      assert.ok(!reply.text.includes('after'), reply.text)
      assert.equal(reply.status, stream ? 200 : 400)
      if (stream) assert.ok(reply.text.includes('befor') && world.calls[0]?.aborted, reply.text)
      assert.equal(reply.ending, 'ended')
      assert.equal(gateway.cache.size, 0)
      assert.equal(gateway.activeCalls.size, 0)
      assert.equal(world.calls.length, 1)
    })

// ── Other calls ────────────────────────────────────────────────────────────────────────────────────────────────────

test('guards: several choices pass stages of their own', async () => {
  for (const stream of [false, true]) {
    const choices = [`a ${MASK}`, `b ${MASK}`]
    const { send, world } = harness((call) => {
      const chunk = (index: number, content: string, finish: string | null) =>
        `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index, delta: { content }, finish_reason: finish }] })}\n\n`
      if (stream)
        return respondWith.stream(
          call,
          [
            ...[0, 1, 2].flatMap((part) =>
              choices.map((text, index) => chunk(index, text.slice(part * 6, part * 6 + 6), null)),
            ),
            ...choices.map((_, index) => chunk(index, '', 'stop')),
            'data: [DONE]\n\n',
          ].join(''),
        )
      const all = choices.map((content, index) => ({
        index,
        message: { role: 'assistant', content },
        finish_reason: 'stop',
      }))
      respondWith.json(
        call,
        200,
        JSON.stringify({ id: 'x', object: 'chat.completion', created: 1, model: 'm', choices: all }),
      )
    })
    const reply = await send({ model: 'm', n: 2, stream, messages: [{ role: 'user', content: SECRET }] }, 'openai-chat')
    assert.equal(world.calls.length, 1)
    const parts = stream ? framesIn(reply.text) : [reply.json]
    const texts = ['', '']
    for (const part of parts)
      for (const { index, delta, message } of part.choices) texts[index] += (delta ?? message).content ?? ''
    assert.deepEqual(texts, [`a ${SECRET}`, `b ${SECRET}`])
  }
})

test('guards: embeddings are masked for good, and cached as the client asked', async () => {
  const vectors = {
    object: 'list',
    model: 'm',
    data: [{ object: 'embedding', index: 0, embedding: [1] }],
    usage: { prompt_tokens: 1, total_tokens: 1 },
  }
  const { serving, gateway, world } = harness((call) => respondWith.json(call, 200, JSON.stringify(vectors)), {
    client: CACHED,
  })
  const send = (input: string) =>
    serving({ model: 'a/m', input }, (received, reply) =>
      serveEmbeddings(gateway, openaiEmbeddingsCall(received, reply)),
    )
  const reply = await send(`of ${SECRET}`)
  assert.equal(reply.status, 200, reply.text)
  assert.equal(JSON.parse(world.calls[0]?.body ?? '').input, `of ${MASK}`)
  assert.match((await send(`of ${SECRET}`)).headers['x-headgate-cache'] ?? '', /^hit/)
  assert.equal((await send(FORBIDDEN)).status, 400)
  assert.equal(world.calls.length, 1)
})

test('guards: a count masks, and what is refused leaves the gateway for no count', async () => {
  const { serving, gateway, world } = harness((call) => respondWith.json(call, 200, '{"input_tokens":7}'), {
    upstream: 'anthropic-messages',
  })
  const send = (body: JsonObject) =>
    serving(body, (received, responseWriter) =>
      countTokens(gateway, { protocol: protocols['anthropic-messages'], received, responseWriter }),
    )
  assert.deepEqual((await send(REQUESTS['anthropic-messages'])).json, { input_tokens: 7 })
  assert.ok(!textsIn(JSON.parse(world.calls[0]?.body ?? '')).some((text) => text.includes(SECRET)))
  const refused = await send(forbidden(REQUESTS['anthropic-messages']))
  assert.equal(refused.headers['x-headgate-estimated'], 'true')
  assert.equal(world.calls.length, 1)
})

for (const upstream of ['openai-chat', 'openai-responses'] as const)
  test(`guards: a stored turn keeps the client's words, and each turn is masked: ${upstream}`, async () => {
    const { send, world, store } = harness(answering(TEXT_ONLY), { upstream })
    const first = await send({ model: 'm', input: `One ${SECRET}` }, 'openai-responses')
    const { id, output } = first.json
    assert.match(output[0].content[0].text, /hun"ter2/)
    const stored = store.memory.get(id, 'me')
    assert.ok(textsIn(JSON.parse(stored?.input ?? '')).some((text) => text.includes(SECRET)))
    assert.ok(!`${stored?.input}${stored?.response}`.includes(MASK))
    const second = await send({ model: 'm', previous_response_id: id, input: `Two ${SECRET}` }, 'openai-responses')
    assert.equal(second.status, 200, second.text)
    const sent = textsIn(JSON.parse(world.calls[1]?.body ?? ''))
    assert.ok(!sent.some((text) => text.includes(SECRET)), JSON.stringify(sent))
    assert.ok(sent.some((text) => text === `Two ${MASK}`))
  })

test('guards: a conversation that the provider stores continues there with the masked turn', async () => {
  const { send, world } = harness(
    (call) => {
      const request = asked(call)
      respondWith.json(call, 200, JSON.stringify({ ...answerBody(request, TEXT_ONLY), store: true }))
    },
    { upstream: 'openai-responses', guards: withMasking(true) },
  )
  const first = await send({ model: 'm', input: `One ${SECRET}` }, 'openai-responses')
  await send({ model: 'm', previous_response_id: first.json.id, input: `Two ${SECRET}` }, 'openai-responses')
  const body = JSON.parse(world.calls[1]?.body ?? '')
  assert.ok(!textsIn(body).some((text) => text.includes(SECRET)), JSON.stringify(body))
})

test('guards: a compaction and a background response pass the list', async () => {
  const { serving, gateway, world, store } = harness(answering(TEXT_ONLY))
  const reply = await serving({ model: 'm', input: SECRET }, (received, writer) => compact(gateway, received, writer))
  assert.equal(reply.status, 200, reply.text)
  assert.ok(reply.text.includes(JSON.stringify(SECRET).slice(1, -1)) && !reply.text.includes(MASK), reply.text)
  assert.ok(!textsIn(JSON.parse(world.calls[0]?.body ?? '')).some((text) => text.includes(SECRET)))
  for (const [input, status] of [
    [SECRET, 'completed'],
    [FORBIDDEN, 'failed'],
  ] as const) {
    const queued = await serving({ model: 'm', background: true, input }, (received, writer) =>
      createResponse(gateway, received, writer),
    )
    await world.advance(1)
    const stored = store.memory.get(queued.json.id, 'me')
    assert.equal(stored?.status, status, stored?.response)
    assert.ok(!stored?.response.includes(MASK))
    if (status === 'failed') assert.match(stored?.response ?? '', /forbidden word/)
  }
  assert.equal(world.calls.length, 2)
})

test('guards: an interrupted answer continues with the masked text', async () => {
  const takes = { supportsPrefill: { protocol: 'openai-chat' } } as const
  const made = gatewayHarness(
    [instance('a'), instance('b', ['k1'], takes)],
    (call) => {
      call.head(200, { 'content-type': 'text/event-stream' })
      const pieces = piecesOf(asked(call), { text: `${MASK} and ${MASK}` })
      const isFirst = new URL(call.url).host.startsWith('a')
      call.send((isFirst ? pieces.slice(0, 5) : pieces).join(''))
      if (isFirst) call.end()
      else call.end()
    },
    { stream: { continue: true } },
  )
  const reply = new CapturedReply()
  const body = { model: 'anything', stream: true, messages: [{ role: 'user', content: SECRET }] }
  const received = { id: 'req_a', method: 'POST', path: '/v1/x', query: '', headers: () => undefined }
  reply.done = serveChat(
    { ...made.gateway, guards: withMasking() },
    {
      protocol: protocols['openai-chat'],
      received: { ...received, body: { text: JSON.stringify(body) }, client: ANONYMOUS },
      responseWriter: reply,
    },
  )
  for (let turn = 0; turn < 4; turn++) await made.world.advance(1)
  const prefill = JSON.parse(made.world.calls[1]?.body ?? '{}').messages.at(-1)
  assert.equal(prefill.role, 'assistant')
  assert.ok(prefill.content.startsWith(MASK), prefill.content)
  const { text } = seen('openai-chat', reply, true)
  assert.ok(text.startsWith(SECRET) && text.endsWith(`${SECRET} and ${SECRET}`) && !text.includes(MASK), text)
})

test('guards: each receives what those before it have left', async () => {
  const replacing =
    (from: string, to: string): ChooseGuards =>
    () => [
      {
        revision: to,
        request: (texts) => ({ replace: new Map(texts().flatMap(({ text }) => (text === from ? [[text, to]] : []))) }),
      },
    ]
  const guards: ChooseGuards = (call) => [...replacing('one', 'two')(call), ...replacing('two', 'three')(call)]
  const { send, world } = harness(answering(TEXT_ONLY), { guards })
  const messages = ['one', 'two', 'four'].map((content) => ({ role: 'user', content }))
  await send({ model: 'm', messages }, 'openai-chat')
  const sent: { content: string }[] = JSON.parse(world.calls[0]?.body ?? '').messages
  assert.deepEqual(
    sent.map(({ content }) => content),
    ['three', 'three', 'four'],
  )
})

test('guards: a request is checked once for all of its targets', async () => {
  let checks = 0
  const [guard] = withMasking()({} as never)
  assert.ok(guard)
  const made = gatewayHarness([instance('a'), instance('b')], (call) =>
    call.url.includes('//a.') ? respondWith.error(call, 503) : answering(TEXT_ONLY)(call),
  )
  const counting: ChooseGuards = () => [
    {
      ...guard,
      request: (texts, media) => {
        checks++
        return guard.request?.(texts, media) ?? null
      },
    },
  ]
  const reply = new CapturedReply()
  const body = { text: JSON.stringify({ model: 'anything', messages: [{ role: 'user', content: SECRET }] }) }
  const received = { id: 'req_a', method: 'POST', path: '/v1/x', query: '', headers: () => undefined, body }
  reply.done = serveChat(
    { ...made.gateway, guards: counting },
    { protocol: protocols['openai-chat'], received: { ...received, client: ANONYMOUS }, responseWriter: reply },
  )
  for (let turn = 0; turn < 4; turn++) await made.world.advance(1_000)
  assert.equal(reply.status, 200, reply.text)
  assert.equal(made.world.calls.length, 2)
  for (const { body: sent = '' } of made.world.calls) assert.ok(sent.includes(MASK) && !sent.includes('ter2'), sent)
  assert.equal(checks, 1)
})

const AMBIGUOUS = [
  `{"model":"m","messages":[{"role":"user","content":"hun\\"ter2"}],"messages":[{"role":"user","content":"hello"}]}`,
  `{"model":"m","messages":[{"role":"user","content":"hun\\"ter2","content":"hello"}]}`,
  `{"model":"m","messages":[{"role":"user","\\u0063ontent":"hun\\"ter2","content":"hello"}]}`,
]
for (const [at, body] of AMBIGUOUS.entries())
  test(`guards: what they do not see of two members with one name reaches no provider, ${at}`, async () => {
    const { send, world } = harness(answering(TEXT_ONLY))
    await send(body, 'openai-chat')
    const sent = world.calls[0]?.body ?? ''
    assert.ok(sent.includes('hello') && !sent.includes('ter2'), sent)
  })

for (const [what, guards] of [
  ['throws', () => [{ revision: '1', request: () => assert.fail('a bug') }]],
  ['rejects', () => [{ revision: '1', request: async () => assert.fail('a bug') }]],
  [
    'throws in an answer',
    () => [{ revision: '1', events: () => ({ push: () => assert.fail('a bug'), end: () => [] }) }],
  ],
] as const satisfies readonly (readonly [string, ChooseGuards])[])
  for (const stream of [false, true])
    test(`guards: nothing passes a guard that ${what}: ${stream ? 'streamed' : 'whole'}`, async () => {
      const { send, world, gateway } = harness(answering({ text: 'unchecked' }), { guards })
      const body = { model: 'm', stream, messages: [{ role: 'user', content: 'hello' }] }
      const reply = await send(body, 'openai-chat').catch(() => null)
      assert.ok(!reply?.text.includes('unchecked'), reply?.text)
      assert.ok(what.endsWith('answer') || world.calls.length === 0)
      assert.equal(gateway.activeCalls.size, 0)
    })

test('guards: turns of a WebSocket that are not stored are masked each', async () => {
  const { serving, gateway, world } = harness(answering(TEXT_ONLY))
  const connection = memoryResponseStore(1_000_000)
  const send = (body: object) =>
    serving({ model: 'm', store: false, ...body }, (received, reply) =>
      createResponse(gateway, received, reply, connection),
    )
  const first = await send({ input: `One ${SECRET}` })
  const second = await send({ input: `Two ${SECRET}`, previous_response_id: first.json.id })
  assert.match(second.json.output[0].content[0].text, /hun"ter2/)
  const sent = textsIn(JSON.parse(world.calls[1]?.body ?? ''))
  assert.ok(sent.includes(`One ${MASK}`) && sent.includes(`Two ${MASK}`))
  assert.ok(!sent.some((text) => text.includes(SECRET)), JSON.stringify(sent))
})

test('guards: a relayed request is masked or refused', async () => {
  const relays = { moderations: { models: ['m'] } }
  const made = gatewayHarness([instance('a', ['k1'], { relays })], (call) =>
    respondWith.json(call, 200, '{"results":[]}'),
  )
  const replies = []
  for (const input of [`of ${SECRET}`, FORBIDDEN]) {
    const reply = new CapturedReply()
    const body = { text: JSON.stringify({ model: 'm', input }) }
    const received = { id: 'req_a', method: 'POST', path: '/v1/moderations', query: '', headers: () => undefined, body }
    const call = { name: 'moderations', received: { ...received, client: ANONYMOUS }, responseWriter: reply } as const
    reply.done = serveRelay({ ...made.gateway, guards: withMasking() }, call)
    for (let turn = 0; turn < 4; turn++) await made.world.advance(1)
    replies.push(reply.status)
  }
  assert.deepEqual(replies, [200, 400])
  assert.deepEqual(
    made.world.calls.map(({ body }) => JSON.parse(body ?? '').input),
    [`of ${MASK}`],
  )
})

test('guards: the fields of a relayed form are masked in their place, and its file passes', async () => {
  const relays = { transcriptions: { models: ['m'] } }
  const made = gatewayHarness([instance('a', ['k1'], { relays })], (call) => respondWith.json(call, 200, '{"text":""}'))
  const field = (name: string, value: string, more = '') =>
    `--B\r\ncontent-disposition: form-data; name="${name}"${more}\r\n\r\n${value}\r\n`
  const form = (secret: string) =>
    `${field('file', SECRET, '; filename=a')}${field('prompt', `of ${secret}`)}${field('model', 'm')}${field('words[]', secret)}--B--`
  for (const body of [form(SECRET), field('prompt', FORBIDDEN) + form('x').replace('"prompt"', '"other"')]) {
    const reply = new CapturedReply()
    const headers = (name: string) => (name === 'content-type' ? 'multipart/form-data; boundary=B' : undefined)
    const received = {
      id: 'req_a',
      method: 'POST',
      path: '/v1/audio',
      query: '',
      headers,
      body: receivedForm(Buffer.from(body)),
    }
    const call = {
      name: 'transcriptions',
      received: { ...received, client: ANONYMOUS },
      responseWriter: reply,
    } as const
    reply.done = serveRelay({ ...made.gateway, guards: withMasking() }, call)
    for (let turn = 0; turn < 9; turn++) await made.world.advance(1)
    assert.equal(reply.status, body === form(SECRET) ? 200 : 400, reply.text)
  }
  assert.deepEqual(
    made.world.calls.map(({ body }) => body),
    [form(MASK)],
  )
})
