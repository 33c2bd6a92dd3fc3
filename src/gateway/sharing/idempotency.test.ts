import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CapturedReply, chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import { summarize } from '../../core/trace-summary.ts'
import { protocols } from '../../protocols/index.ts'
import { serveChat } from '../chat/serve-chat.ts'
import { repeatableChat, shareResponses } from './idempotency.ts'

const chat: ClientProtocol = protocols['openai-chat']

const question = (more: object = {}) => ({
  model: 'm',
  messages: [{ role: 'user', content: 'hello' }],
  stream: true,
  ...more,
})

type Wish = {
  readonly key?: string
  readonly client?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Absent: `/v1/chat/completions`. */
  readonly path?: string
  /** Absent: chat completions. */
  readonly protocol?: ClientProtocol
}

/** A format with the model in its path: `/v1/models/MODEL:ask`. */
const modelInPath: ClientProtocol = {
  ...chat,
  style: 'asking',
  decodeRequest: (body, path = '') => {
    const [, model = ''] = /^\/v1\/models\/([^/]+):ask$/.exec(path) ?? []
    return chat.decodeRequest({ ...body, model })
  },
}
const asking = (model: string): Wish => ({ protocol: modelInPath, path: `/v1/models/${model}:ask` })
/** The body of such a request, which no model is in. */
const unnamed = () => {
  const { model: _, ...body } = still()
  return body
}

/** A gateway with shared responses; fingerprints are the texts themselves. */
const shared = (script: (asked: ScriptedCall) => void, settings: object = {}) => {
  const made = gatewayHarness([instance('a')], script, { keepAlive: { interval: 0 }, ...settings })
  let config = made.gateway.config()
  const gateway = { ...made.gateway, config: () => config }
  const share = shareResponses(gateway, (text) => text)
  let number = 0
  const ask = (body: object | string, wish: Wish = {}) => {
    const { key, client = '', headers = {}, path = '/v1/chat/completions', protocol = chat } = wish
    const reply = new CapturedReply()
    const received: IncomingRequest = {
      id: `req_${String.fromCharCode(97 + number++)}`,
      method: 'POST',
      path,
      query: '',
      headers: (name) => (name === 'idempotency-key' ? key : headers[name]),
      body: { text: typeof body === 'string' ? body : JSON.stringify(body) },
      client: { ...ANONYMOUS, owner: client },
    }
    reply.done = share(
      {
        protocol,
        style: protocol.style,
        received,
        responseWriter: reply,
        repeatable: repeatableChat(protocol, false),
      },
      (gateway, to) => serveChat(gateway, { protocol, received, responseWriter: to }),
    )
    return reply
  }
  /** Replaces the configuration by an equal one. */
  const reload = () => {
    config = { ...config }
  }
  const lines = () => made.events.flatMap((news) => (news.event === 'request' ? [summarize(news.trace)] : []))
  return { ...made, ask, share, reload, lines, calls: made.world.calls }
}

/** Answers at once, as requested. */
const answers = (asked: ScriptedCall) =>
  asked.headers.accept === 'text/event-stream'
    ? respondWith.stream(asked, chatAnswer.stream('Hel', 'lo'))
    : respondWith.json(asked, 200, chatAnswer.whole('Hello'))

/** Starts an answer; the test continues it. */
const begins = (asked: ScriptedCall) => {
  asked.head(200, { 'content-type': 'text/event-stream' })
  asked.send(chatAnswer.role() + chatAnswer.chunk({ content: 'Hel' }))
}
const ends = (asked: ScriptedCall | undefined) => {
  asked?.send(chatAnswer.chunk({ content: 'lo' }) + chatAnswer.chunk({}, 'stop') + chatAnswer.done)
  asked?.end()
}

// ── Idempotency-Key ──────────────────────────────────────────────────────────────────────────────────────────────

for (const stream of [true, false])
  test(`idempotency: the same key gets the stored answer, ${stream ? 'streamed' : 'whole'}`, async () => {
    const { ask, world, calls, lines } = shared(answers)
    const first = ask(question({ stream }), { key: 'k' })
    await world.settle()
    const again = ask(question({ stream }), { key: 'k' })
    await world.settle()
    assert.equal(calls.length, 1)
    assert.deepEqual([again.status, again.text, again.ending], [200, first.text, 'ended'])
    assert.equal(first.headers['x-headgate-idempotent'], undefined)
    assert.equal(again.headers['x-headgate-idempotent'], 'stored')
    assert.deepEqual([first.headers['x-request-id'], again.headers['x-request-id']], ['req_a', 'req_b'])
    const [one, two] = lines()
    assert.deepEqual([one?.shared, two?.shared], [undefined, { how: 'stored', with: 'req_a' }])
    assert.ok(one?.usage)
    assert.equal(two?.usage, undefined)
    assert.deepEqual([two?.outcome, two?.model, two?.stream, two?.attempts.length], ['answered', 'm', stream, 0])
  })

test('idempotency: a retry in progress receives the response from its beginning, then live', async () => {
  const { ask, world, calls, lines } = shared(begins)
  const first = ask(question(), { key: 'k' })
  await world.settle()
  const second = ask(question(), { key: 'k' })
  assert.equal(second.text, first.text)
  assert.match(second.text, /Hel/)
  ends(calls[0])
  await world.settle()
  assert.deepEqual([calls.length, second.text, second.ending], [1, first.text, 'ended'])
  assert.equal(second.headers['x-headgate-idempotent'], 'joined')
  assert.deepEqual(
    lines().map((line) => [line.id, line.shared?.how, line.outcome]),
    [
      ['req_a', undefined, 'answered'],
      ['req_b', 'joined', 'answered'],
    ],
  )
})

test('idempotency: the response continues after a disconnect, and a retry receives it', async () => {
  const { ask, world, calls, lines } = shared(begins, { idempotency: { finish: 30_000 } })
  const first = ask(question(), { key: 'k' })
  await world.settle()
  first.disconnect()
  await world.advance(20_000)
  assert.equal(calls[0]?.aborted, false)
  const second = ask(question(), { key: 'k' })
  await world.advance(35_000)
  ends(calls[0])
  await world.settle()
  assert.equal(calls.length, 1)
  assert.match(second.text, /Hel[\s\S]*lo[\s\S]*DONE/)
  assert.deepEqual(
    lines().map(({ id, outcome, shared: how }) => [id, outcome, how?.how]),
    [
      ['req_a', 'answered', 'left'],
      ['req_b', 'answered', 'joined'],
    ],
  )
})

test('idempotency: an abandoned call continues for the configured time; a later retry starts a new call', async () => {
  const { ask, world, calls, lines } = shared(begins, { idempotency: { finish: 5_000 } })
  ask(question(), { key: 'k' })
  await world.settle()
  ask(question(), { key: 'other' }).disconnect()
  await world.settle()
  const [, second] = calls
  await world.advance(4_999)
  assert.equal(second?.aborted, false)
  await world.advance(2)
  assert.equal(second?.aborted, true)
  assert.equal(calls[0]?.aborted, false)
  ask(question(), { key: 'other' })
  await world.settle()
  assert.equal(calls.length, 3)
  assert.equal(lines()[0]?.outcome, 'client_gone')
})

for (const [name, settings] of [
  ['finish is 0', { idempotency: { finish: 0 } }],
  ['nothing is kept', { idempotency: { keep: 0 } }],
] as const)
  test(`idempotency: ${name}, and a client that disconnects ends its call at once`, async () => {
    const { ask, world, calls } = shared(begins, settings)
    const first = ask(question(), { key: 'k' })
    await world.settle()
    first.disconnect()
    assert.equal(calls[0]?.aborted, true)
  })

test('idempotency: without a key nothing is shared', async () => {
  const { ask, world, calls } = shared(answers)
  ask(question())
  const second = ask(question())
  await world.settle()
  assert.equal(calls.length, 2)
  assert.equal(second.headers['x-headgate-idempotent'], undefined)
})

const refusals: readonly (readonly [string, object, Wish, number, string])[] = [
  ['another body', question({ user: 'x' }), { key: 'k' }, 422, 'idempotency_key_reused'],
  ['an invalid key', question(), { key: 'a b' }, 400, 'invalid_value'],
  ['an empty key', question(), { key: '' }, 400, 'invalid_value'],
]
for (const [name, body, wish, status, code] of refusals)
  test(`idempotency: ${name} is refused`, async () => {
    const { ask, world, calls, lines } = shared(answers)
    ask(question(), { key: 'k' })
    await world.settle()
    const second = ask(body, wish)
    await world.settle()
    assert.deepEqual(
      [second.status, second.json.error.code, second.json.error.param],
      [status, code, 'Idempotency-Key'],
    )
    assert.equal(second.headers['x-should-retry'], 'false')
    assert.equal(second.headers['x-headgate-attempts'], '0')
    assert.equal(calls.length, 1)
    assert.deepEqual([lines().at(-1)?.outcome, lines().at(-1)?.status], ['refused', status])
  })

test('idempotency: keys of different clients are independent', async () => {
  const { ask, world, calls } = shared(answers)
  ask(question({ user: 'one' }), { key: 'k', client: 'one' })
  await world.settle()
  const other = ask(question({ user: 'two' }), { key: 'k', client: 'two' })
  await world.settle()
  assert.deepEqual([calls.length, other.status, other.headers['x-headgate-idempotent']], [2, 200, undefined])
})

const failing: readonly (readonly [string, (asked: ScriptedCall) => void, boolean])[] = [
  ['an error', (asked) => respondWith.error(asked, 400), false],
  ['an error of the provider', (asked) => respondWith.error(asked, 500), true],
  [
    'a stream that breaks off',
    (asked) => respondWith.stream(asked, chatAnswer.role() + chatAnswer.chunk({ content: 'Hel' })),
    true,
  ],
  [
    'a stream that breaks off by its own word',
    (asked) =>
      respondWith.stream(
        asked,
        `${chatAnswer.role()}${chatAnswer.chunk({ content: 'Hel' })}data: {"error":{"message":"no"}}\n\n`,
      ),
    true,
  ],
]
for (const [name, script, stream] of failing)
  test(`idempotency: ${name} is not stored; a retry starts a new call`, async () => {
    let good = false
    const { ask, world, calls } = shared((asked) => (good ? answers(asked) : script(asked)))
    ask(question({ stream }), { key: 'k' })
    await world.advance(10_000)
    const before = calls.length
    good = true
    const second = ask(question({ stream }), { key: 'k' })
    await world.advance(10_000)
    assert.deepEqual([second.status, second.ending], [200, 'ended'])
    assert.equal(second.headers['x-headgate-idempotent'], undefined)
    assert.equal(calls.length, before + 1)
    // A key without a stored response may be reused with another body.
  })

test('idempotency: a response expires, requested or not', async () => {
  const { ask, world, calls } = shared(answers, { idempotency: { keep: 10_000 } })
  ask(question(), { key: 'k' })
  await world.settle()
  assert.equal(world.timers(), 1)
  await world.advance(9_000)
  ask(question(), { key: 'k' })
  await world.settle()
  assert.equal(calls.length, 1)
  await world.advance(1_001)
  assert.equal(world.timers(), 0)
  ask(question(), { key: 'k' })
  await world.settle()
  assert.equal(calls.length, 2)
})

test('idempotency: the oldest responses are evicted', async () => {
  const long = 'x'.repeat(150_000)
  const { ask, world, calls } = shared((asked) => respondWith.json(asked, 200, chatAnswer.whole(long)), {
    idempotency: { maxMegabytes: 1 },
  })
  const body = question({ stream: false })
  for (let at = 0; at < 10; at++) {
    ask(body, { key: `k${at}` })
    await world.settle()
  }
  assert.equal(calls.length, 10)
  ask(body, { key: 'k9' })
  ask(body, { key: 'k4' })
  await world.settle()
  assert.equal(calls.length, 10)
  ask(body, { key: 'k0' })
  await world.settle()
  assert.equal(calls.length, 11)
})

test('idempotency: an oversized response continues for its client; retries receive Retry-After', async () => {
  const { ask, world, calls } = shared(begins, { idempotency: { maxMegabytes: 1 } })
  const first = ask(question(), { key: 'k' })
  await world.settle()
  const long = 'x'.repeat(300_000)
  calls[0]?.send(chatAnswer.chunk({ content: long }))
  await world.settle()
  const second = ask(question(), { key: 'k' })
  assert.deepEqual([second.status, second.json.error.code], [409, 'idempotency_key_in_use'])
  assert.deepEqual([second.headers['x-should-retry'], second.headers['retry-after']], ['true', '5'])
  ends(calls[0])
  await world.settle()
  assert.ok(first.text.length > 300_000 && first.text.endsWith(chatAnswer.done))
  assert.equal(calls.length, 1)
  // It was not kept: the key starts a new call.
  ask(question(), { key: 'k' })
  await world.settle()
  assert.equal(calls.length, 2)
})

test('idempotency: an oversized response without readers is aborted', async () => {
  const { ask, world, calls } = shared(begins, { idempotency: { maxMegabytes: 1 } })
  ask(question(), { key: 'k' }).disconnect()
  await world.settle()
  assert.equal(calls[0]?.aborted, false)
  calls[0]?.send(chatAnswer.chunk({ content: 'x'.repeat(300_000) }))
  await world.settle()
  assert.equal(calls[0]?.aborted, true)
})

test('idempotency: a shutdown ends all readers and stores nothing', async () => {
  const { ask, world, gateway, calls } = shared(begins)
  const first = ask(question(), { key: 'k' })
  await world.settle()
  const second = ask(question(), { key: 'k' })
  for (const stop of gateway.activeCalls) stop.cancel({ kind: 'shutdown', message: 'over' })
  await world.settle()
  for (const reply of [first, second]) {
    assert.match(reply.text, /server_shutdown/)
    assert.equal(reply.ending, 'ended')
  }
  ask(question(), { key: 'k' })
  await world.settle()
  assert.equal(calls.length, 2)
})

test('idempotency: limits the responses that continue without a client', async () => {
  const { ask, world, calls } = shared(begins, { limit: { concurrent: 1 } })
  const [one, two] = [ask(question(), { key: 'one' }), ask(question(), { key: 'two' })]
  await world.settle()
  one.disconnect()
  two.disconnect()
  assert.deepEqual(
    calls.map(({ aborted }) => aborted),
    [false, true],
  )
})

test('idempotency: joined and finished responses do not count towards this limit', async () => {
  const { ask, world, calls } = shared(begins, { limit: { concurrent: 1 } })
  const [one, two, three] = ['one', 'two', 'three'].map((key) => ask(question(), { key }))
  await world.settle()
  one?.disconnect()
  ask(question(), { key: 'one' })
  two?.disconnect()
  await world.settle()
  assert.deepEqual([calls[0]?.aborted, calls[1]?.aborted], [false, false])
  ends(calls[1])
  await world.settle()
  three?.disconnect()
  assert.equal(calls[2]?.aborted, false)
})

test('idempotency: a retry right after the response was abandoned starts a new call', async () => {
  const { ask, world, calls } = shared(begins, { idempotency: { finish: 0 } })
  const first = ask(question(), { key: 'k' })
  await world.settle()
  first.disconnect()
  const second = ask(question(), { key: 'k' })
  await world.settle()
  assert.deepEqual([calls.length, second.ending], [2, null])
  assert.match(second.text, /Hel/)
})

test('idempotency: an unrecorded error is not stored either', async () => {
  const { share, world } = shared(answers)
  let asked = 0
  const body = { text: JSON.stringify(question()) }
  const headers = (name: string) => (name === 'idempotency-key' ? 'k' : undefined)
  const received = {
    id: 'r',
    method: 'POST',
    path: '/',
    query: '',
    headers,
    body,
    client: ANONYMOUS,
  }
  for (let time = 0; time < 2; time++) {
    const reply = new CapturedReply()
    await share(
      { protocol: chat, style: 'chat', received, responseWriter: reply, repeatable: () => null },
      async (_, to) => {
        asked++
        to.writeHead(400, {})
        to.end('no')
      },
    )
    await world.settle()
    assert.equal(reply.text, 'no')
  }
  assert.equal(asked, 2)
})

test('idempotency: the key of a request with its model in the path is refused for another model', async () => {
  const { ask, world, calls } = shared(answers)
  ask(unnamed(), { ...asking('m'), key: 'k' })
  await world.settle()
  const other = ask(unnamed(), { ...asking('a%2Fm'), key: 'k' })
  const again = ask(unnamed(), { ...asking('m'), key: 'k' })
  await world.settle()
  assert.deepEqual([other.status, other.json.error.code], [422, 'idempotency_key_reused'])
  assert.deepEqual([again.status, again.headers['x-headgate-idempotent']], [200, 'stored'])
  assert.equal(calls.length, 1)
})

// ── Coalescing ───────────────────────────────────────────────────────────────────────────────────────────────────

const still = (more: object = {}) => question({ temperature: 0, ...more })
const COALESCE = { coalesce: true }

test('coalescing: identical requests share one upstream call, each with its log line, charged once', async () => {
  const { ask, world, calls, lines } = shared(begins, COALESCE)
  const first = ask(still())
  const others = Array.from({ length: 20 }, () => ask(still()))
  await world.settle()
  const late = ask(JSON.stringify(still(), null, 2))
  calls[0]?.send(chatAnswer.chunk({ content: 'lo' }))
  calls[0]?.send(chatAnswer.chunk({}, 'stop'))
  calls[0]?.send(`data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n${chatAnswer.done}`)
  calls[0]?.end()
  await world.settle()
  assert.equal(calls.length, 1)
  for (const reply of [...others, late]) {
    assert.equal(reply.text, first.text)
    assert.equal(reply.headers['x-headgate-coalesced'], 'true')
  }
  assert.equal(first.headers['x-headgate-coalesced'], undefined)
  assert.equal(lines().length, 22)
  assert.equal(lines().filter(({ usage }) => usage).length, 1)
  assert.equal(lines().filter(({ shared: how }) => how?.how === 'coalesced').length, 21)
  assert.ok(lines().every(({ overheadMs, outcome }) => overheadMs === 0 && outcome === 'answered'))
})

const apart: readonly (readonly [string, object, Wish, object, Wish])[] = [
  ['not asked for by temperature or seed', question(), {}, question(), {}],
  ['another body', still(), {}, still({ user: 'x' }), {}],
  ['an unknown member', still({ new_thing: 1 }), {}, still({ new_thing: 2 }), {}],
  ['streamed and whole', still(), {}, still({ stream: false }), {}],
  ['another client', still(), { client: 'one' }, still(), { client: 'two' }],
  ['another version asked for', still(), {}, still(), { headers: { 'openai-beta': 'x=1' } }],
  ['no-store', still(), {}, still(), { headers: { 'cache-control': 'no-store' } }],
  ['another model in the path', unnamed(), asking('m'), unnamed(), asking('a%2Fm')],
]
for (const [name, one, its, other, others] of apart)
  test(`coalescing: ${name}: two calls`, async () => {
    const { ask, world, calls } = shared(begins, COALESCE)
    ask(one, its)
    ask(other, others)
    await world.settle()
    assert.equal(calls.length, 2)
  })

test('coalescing: identical requests with their model in the path share one call', async () => {
  const { ask, world, calls } = shared(begins, COALESCE)
  ask(unnamed(), asking('m'))
  ask(unnamed(), asking('m'))
  await world.settle()
  assert.equal(calls.length, 1)
})

test('coalescing: a body with a duplicate member is never shared', async () => {
  const { ask, world, calls } = shared(begins, COALESCE)
  for (const [from, to] of [
    ['{', '{'],
    ['{', '{"temperature":1,'],
    ['"role"', '"role":"system","role"'],
    ['"role"', '"role":"system","role"'],
  ] as const)
    ask(JSON.stringify(still()).replace(from, to))
  await world.settle()
  assert.equal(calls.length, 4)
})

test('coalescing: bodies of more than a million characters are not compared', async () => {
  const { ask, world, calls } = shared(begins, COALESCE)
  for (const [length, made] of [
    [900_000, 1],
    [1_100_000, 3],
  ] as const) {
    ask(still({ user: 'x'.repeat(length) }))
    ask(still({ user: 'x'.repeat(length) }))
    // Large bodies are processed in several turns of the event loop.
    await world.advance(100)
    assert.equal(calls.length, made)
  }
})

test('coalescing: off by default', async () => {
  const { ask, world, calls } = shared(begins)
  ask(still())
  ask(still())
  await world.settle()
  assert.equal(calls.length, 2)
})

test('coalescing: nothing is kept: a later request starts a new call', async () => {
  const { ask, world, calls } = shared(answers, COALESCE)
  ask(still())
  await world.settle()
  ask(still())
  await world.settle()
  assert.equal(calls.length, 2)
  assert.equal(world.timers(), 0)
})

test('coalescing: the call continues until its last client disconnects', async () => {
  const { ask, world, calls, lines } = shared(begins, COALESCE)
  const first = ask(still())
  const second = ask(still())
  await world.settle()
  first.disconnect()
  await world.settle()
  assert.equal(calls[0]?.aborted, false)
  calls[0]?.send(chatAnswer.chunk({ content: 'more' }))
  assert.match(second.text, /more/)
  assert.doesNotMatch(first.text, /more/)
  second.disconnect()
  assert.equal(calls[0]?.aborted, true)
  await world.settle()
  assert.deepEqual(
    lines()
      .map(({ id, outcome }) => [id, outcome])
      .sort(),
    [
      ['req_a', 'client_gone'],
      ['req_b', 'client_gone'],
    ],
  )
  // A later request does not receive the aborted response.
  ask(still())
  await world.settle()
  assert.equal(calls.length, 2)
})

test('coalescing: waiting requests share an error; the next one starts a new call', async () => {
  let fail = true
  const { ask, world, calls } = shared((asked) => (fail ? respondWith.error(asked, 400) : answers(asked)), COALESCE)
  const body = still({ stream: false })
  const [one, two] = [ask(body), ask(body)]
  await world.settle()
  assert.deepEqual([one.status, two.status, two.text, calls.length], [400, 400, one.text, 1])
  assert.equal(two.headers['x-request-id'], 'req_b')
  fail = false
  const three = ask(body)
  await world.settle()
  assert.equal(three.status, 200)
})

test('coalescing: a response kept for a key is for that key only', async () => {
  const { ask, world, calls } = shared(answers, COALESCE)
  ask(still(), { key: 'k' })
  await world.settle()
  ask(still())
  await world.settle()
  assert.equal(calls.length, 2)
})

test('coalescing: not across configurations', async () => {
  const { ask, world, calls, reload } = shared(begins, COALESCE)
  ask(still())
  reload()
  ask(still())
  await world.settle()
  assert.equal(calls.length, 2)
})

test('coalescing: after an oversized response the next one can be joined again', async () => {
  const { ask, world, calls } = shared(begins, { ...COALESCE, idempotency: { maxMegabytes: 1 } })
  ask(still())
  await world.settle()
  calls[0]?.send(chatAnswer.chunk({ content: 'x'.repeat(300_000) }))
  const second = ask(still())
  await world.settle()
  assert.equal(calls.length, 2)
  ends(calls[0])
  await world.settle()
  const third = ask(still())
  ends(calls[1])
  await world.settle()
  assert.deepEqual([calls.length, third.text], [2, second.text])
})

test('sharing: a finished response frees its memory', async () => {
  const { ask, world, calls } = shared(answers, { ...COALESCE, idempotency: { maxMegabytes: 1 } })
  for (let time = 0; time < 600; time++) {
    ask(still())
    if (time % 50 === 0) await world.settle()
    else await world.advance(0)
  }
  const before = calls.length
  ask(question(), { key: 'k' })
  await world.settle()
  ask(question(), { key: 'k' })
  await world.settle()
  assert.deepEqual([before, calls.length], [600, 601])
})

test('coalescing: a response joined with a key is stored for the key', async () => {
  const { ask, world, calls } = shared(begins, COALESCE)
  ask(still())
  await world.settle()
  const second = ask(still(), { key: 'k' })
  ends(calls[0])
  await world.settle()
  const again = ask(still(), { key: 'k' })
  await world.settle()
  assert.deepEqual([calls.length, again.text], [1, second.text])
  assert.equal(again.headers['x-headgate-idempotent'], 'stored')
})
