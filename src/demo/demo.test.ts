import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isObject, type Json, type JsonObject, list, object } from '../core/json.ts'
import type { Cancel, OngoingCall } from '../core/world.ts'
import { dialer } from '../transport/client/dial.ts'
import { demoDial, demoUpstream } from './demo.ts'

/** Timers that the test runs. */
const manualTimers = () => {
  const waiting: { ms: number; run: () => void }[] = []
  const later = (ms: number, run: () => void): Cancel => {
    const entry = { ms, run }
    waiting.push(entry)
    return () => {
      const at = waiting.indexOf(entry)
      if (at !== -1) waiting.splice(at, 1)
    }
  }
  const run = () => {
    let waited = 0
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      waited += next.ms
      next.run()
    }
    return waited
  }
  return { later, run, waiting }
}

type DemoReply = {
  status: number
  type: string
  pieces: string[]
  ended: boolean
  failed: string
  waited: number
  text: string
}

type DemoRequest = {
  readonly body: unknown
  readonly path?: string
  readonly method?: 'GET' | 'POST'
  readonly headers?: Readonly<Record<string, string>>
}

const ask = (
  dial: ReturnType<typeof demoDial>,
  clock: ReturnType<typeof manualTimers>,
  { body, path = '/chat/completions', method = 'POST', headers = {} }: DemoRequest,
) => {
  const reply: DemoReply = { status: 0, type: '', pieces: [], ended: false, failed: '', waited: 0, text: '' }
  const decoder = new TextDecoder()
  dial(
    {
      method,
      url: `demo:/v1${path}`,
      headers,
      connectTimeout: 0,
      body: typeof body === 'string' ? body : JSON.stringify(body),
    },
    {
      onHeaders(status, headers) {
        reply.status = status
        reply.type = headers('content-type') ?? ''
      },
      onBody(chunk) {
        reply.pieces.push(decoder.decode(chunk))
        return true
      },
      onEnd() {
        reply.ended = true
      },
      onFailure(failure) {
        reply.failed = failure.kind
      },
    },
  )
  reply.waited = clock.run()
  reply.text = reply.pieces.join('')
  return reply
}

const given = () => {
  const clock = manualTimers()
  const dial = demoDial({ later: clock.later, date: () => 1_700_000_000_000 })
  return {
    clock,
    dial,
    ask: (body: unknown, path?: string, method?: 'GET' | 'POST') =>
      ask(dial, clock, { body, ...(path && { path }), ...(method && { method }) }),
  }
}

const hello = { model: 'echo', messages: [{ role: 'user', content: 'hello   there' }] }
const parse = (text: string): JsonObject => {
  const value: unknown = JSON.parse(text)
  assert.ok(isObject(value))
  return value
}
const choice = (body: JsonObject, index = 0): JsonObject => object(list(body.choices)[index]) ?? {}
const chunksOf = (text: string): JsonObject[] =>
  text
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => parse(event.slice(6)))

test('demo: the response states that no model was called, repeats the prompt and names a variable to set', () => {
  const reply = given().ask(hello)
  const body = parse(reply.text)
  const content = String(object(choice(body).message)?.content)
  assert.equal(reply.status, 200)
  assert.equal(reply.type, 'application/json')
  assert.ok(reply.ended)
  assert.ok(content.startsWith('[demo] No model was called.'))
  assert.match(content, /"hello there"/)
  assert.match(content, /OPENAI_API_KEY/)
  assert.equal(choice(body).finish_reason, 'stop')
  const usage = object(body.usage)
  assert.equal(usage?.prompt_tokens, 2)
  assert.equal(Number(usage?.prompt_tokens) + Number(usage?.completion_tokens), usage?.total_tokens)
})

test('demo: the words of a long prompt are estimated from its beginning', () => {
  const messages = [{ role: 'user', content: 'word '.repeat(1_000_000) }]
  const reply = given().ask({ ...hello, messages })
  const usage = object(parse(reply.text).usage)
  assert.equal(reply.status, 200)
  assert.ok(Math.abs(Number(usage?.prompt_tokens) - 1_000_000) < 1_000, JSON.stringify(usage))
})

test('demo: a stream has the same text in several pieces and ends with usage and [DONE]', () => {
  const { ask } = given()
  const plain = object(choice(parse(ask(hello).text)).message)?.content
  const reply = ask({ ...hello, stream: true, stream_options: { include_usage: true } })
  assert.match(reply.type, /^text\/event-stream/)
  assert.ok(reply.pieces.length > 5)
  assert.ok(reply.text.endsWith('data: [DONE]\n\n'))
  const chunks = chunksOf(reply.text)
  assert.equal(chunks.map((chunk) => object(choice(chunk).delta)?.content ?? '').join(''), plain)
  assert.deepEqual(list(chunks.at(-1)?.choices), [])
  assert.ok(object(chunks.at(-1)?.usage))
  assert.equal(choice(chunks.at(-2) ?? {}).finish_reason, 'stop')
  assert.equal(object(choice(chunksOf(ask({ ...hello, stream: true }).text).at(-1) ?? {}).delta)?.content, undefined)
})

test('demo: n choices, and a response truncated at its token limit', () => {
  const { ask } = given()
  const body = parse(ask({ ...hello, n: 3, max_tokens: 4 }).text)
  assert.equal(list(body.choices).length, 3)
  assert.equal(choice(body, 2).index, 2)
  assert.equal(choice(body, 2).finish_reason, 'length')
  assert.equal(object(choice(body).message)?.content, '[demo] No model was')
  assert.equal(object(body.usage)?.completion_tokens, 12)
})

test('demo: echo calls no tools, reads text parts and truncates a long prompt', () => {
  const { ask } = given()
  const reply = ask({
    model: 'demo/echo',
    messages: [
      { role: 'system', content: 'be brief' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'é'.repeat(500) },
          { type: 'image_url', image_url: { url: 'data:' } },
        ],
      },
    ],
    tools: [{ type: 'function', function: { name: 'f', parameters: {} } }],
    tool_choice: 'required',
    response_format: { type: 'json_object' },
  })
  const message = object(choice(parse(reply.text)).message)
  assert.equal(message?.tool_calls, undefined)
  assert.match(String(message?.content), /é{200}…/)
  assert.doesNotMatch(String(message?.content), /é{201}/)
})

test('demo: slow delays its response, echo does not', () => {
  const { ask } = given()
  assert.ok(ask({ ...hello, stream: true }).waited < 1_000)
  assert.ok(ask({ ...hello, model: 'slow', stream: true }).waited > 3_000)
  assert.ok(ask({ ...hello, model: 'slow' }).waited >= 2_000)
})

test('demo: down always fails, flaky every third time', () => {
  const { ask } = given()
  for (let i = 0; i < 3; i++) assert.equal(ask({ ...hello, model: 'down' }).status, 503)
  const statuses = [1, 2, 3, 4, 5, 6, 7].map(() => ask({ ...hello, model: 'flaky' }).status)
  assert.deepEqual(statuses, [200, 200, 503, 200, 200, 503, 200])
  assert.match(String(object(parse(ask({ ...hello, model: 'down' }).text).error)?.message), /^\[demo\]/)
})

test('demo: the list of models names demo as their owner', () => {
  const reply = given().ask('', '/models', 'GET')
  const data = list(parse(reply.text).data).map((model: Json) => object(model))
  assert.deepEqual(
    data.map((model) => model?.id),
    ['echo', 'slow', 'flaky', 'down', 'tools'],
  )
  for (const model of data) assert.equal(model?.owned_by, 'demo')
})

for (const [name, status, body, path, method] of [
  ['not JSON', 400, '{', '/chat/completions', 'POST'],
  ['not an object', 400, '[]', '/chat/completions', 'POST'],
  ['no messages', 400, { model: 'echo' }, '/chat/completions', 'POST'],
  ['a fractional n', 400, { ...hello, n: 1.5 }, '/chat/completions', 'POST'],
  ['an n above the limit', 400, { ...hello, n: 1_000_000 }, '/chat/completions', 'POST'],
  ['an unknown model', 404, { ...hello, model: 'constructor' }, '/chat/completions', 'POST'],
  ['another path', 404, hello, '/images', 'POST'],
  ['embeddings without dimensions', 400, { input: 'x', dimensions: 0 }, '/embeddings', 'POST'],
  ['embeddings of the model down', 503, { model: 'down', input: 'x' }, '/embeddings', 'POST'],
  ['embeddings of an invalid body', 400, '{', '/embeddings', 'POST'],
  ['another method', 404, '', '/chat/completions', 'GET'],
] as const)
  test(`demo: ${name} is ${status}`, () => {
    const reply = given().ask(body, path, method)
    assert.equal(reply.status, status)
    assert.ok(object(parse(reply.text).error)?.message)
    assert.ok(reply.ended)
  })

test('demo: embeddings are equal for the same words and similar for common words', () => {
  const vectors = (input: Json, more: JsonObject = {}) => {
    const reply = given().ask({ model: 'embed', input, ...more }, '/embeddings')
    assert.equal(reply.status, 200)
    const body = parse(reply.text)
    return {
      usage: object(body.usage),
      vectors: list(body.data).map((entry) => list(object(entry)?.embedding).map(Number)),
    }
  }
  const dot = (a: readonly number[] = [], b: readonly number[] = []) =>
    a.reduce((sum, choice, at) => sum + choice * (b[at] ?? 0), 0)
  const { usage, vectors: made } = vectors(['A red car', 'a RED car.', 'a red bus', 'zwölf Elche'], { dimensions: 64 })
  assert.deepEqual(
    made.map((vector) => vector.length),
    [64, 64, 64, 64],
  )
  assert.deepEqual(made[0], made[1])
  const [same, near, far] = [made[1], made[2], made[3]].map((other) => dot(made[0], other))
  assert.ok(Math.abs((same ?? 0) - 1) < 1e-9 && (near ?? 0) < 1 && (near ?? 0) > (far ?? 0))
  assert.equal(usage?.prompt_tokens, 11)
  assert.equal(vectors('choice').vectors.length, 1)
  assert.equal(vectors([1, 2, 3]).vectors.length, 1)
  assert.equal(vectors([[1], [2]]).vectors.length, 2)
})

test('demo: abort at any point leaves no timer', () => {
  for (let steps = 0; steps < 6; steps++) {
    const { clock, dial } = given()
    let reply = 0
    const call = dial(
      {
        method: 'POST',
        url: 'demo:/chat/completions',
        headers: {},
        connectTimeout: 0,
        body: JSON.stringify({ ...hello, stream: true }),
      },
      { onHeaders: () => reply++, onBody: () => reply++ >= 0, onEnd: () => reply++, onFailure: () => reply++ },
    )
    for (let i = 0; i < steps; i++) clock.waiting.shift()?.run()
    const before = reply
    call.abort()
    call.resume()
    assert.equal(clock.waiting.length, 0)
    clock.run()
    assert.equal(reply, before)
  }
})

test('demo: a full listener pauses the response', () => {
  const { clock, dial } = given()
  let pieces = 0
  let ended = false
  let room = false
  const call: OngoingCall = dial(
    {
      method: 'POST',
      url: 'demo:/chat/completions',
      headers: {},
      connectTimeout: 0,
      body: JSON.stringify({ ...hello, stream: true }),
    },
    {
      onHeaders() {},
      onBody() {
        pieces++
        return room
      },
      onEnd() {
        ended = true
      },
      onFailure() {},
    },
  )
  clock.run()
  assert.equal(pieces, 1)
  call.resume()
  clock.run()
  assert.equal(pieces, 2)
  room = true
  call.resume()
  clock.run()
  assert.ok(ended)
})

test('demo: the dialer gives it the calls to demo URLs', async () => {
  const { dial, close } = dialer({ inProcess: demoUpstream({ pace: { piece: 0, slowPiece: 0, slowStart: 0 } }) })
  const text = await new Promise<string>((resolve) => {
    let content = ''
    dial(
      { method: 'POST', url: 'demo:/v1/chat/completions', headers: {}, connectTimeout: 0, body: JSON.stringify(hello) },
      {
        onHeaders() {},
        onBody(chunk) {
          content += new TextDecoder().decode(chunk)
          return true
        },
        onEnd: () => resolve(content),
        onFailure: ({ message }) => resolve(message),
      },
    )
  })
  assert.match(text, /No model was called/)
  await close()
})

const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}
const clock = { type: 'function', function: { name: 'get_time' } }
const question = { role: 'user', content: 'What is the weather?' }

test('demo: tools calls the first tool with arguments that match its schema, unary and streamed', () => {
  const { ask } = given()
  const whole = choice(parse(ask({ model: 'tools', messages: [question], tools: [weather, clock] }).text))
  const [call] = list(object(whole.message)?.tool_calls)
  assert.equal(whole.finish_reason, 'tool_calls')
  assert.deepEqual(object(call)?.function, { name: 'get_weather', arguments: '{"city":"demo"}' })
  const stream = chunksOf(ask({ model: 'tools', messages: [question], tools: [weather], stream: true }).text)
  const deltas = stream.flatMap((chunk) => list(object(choice(chunk).delta)?.tool_calls)).map((delta) => object(delta))
  assert.equal(object(deltas[0]?.function)?.name, 'get_weather')
  assert.equal(deltas.map((delta) => object(delta?.function)?.arguments).join(''), '{"city":"demo"}')
  assert.equal(choice(stream.at(-1) ?? {}).finish_reason, 'tool_calls')
})

test('demo: tools follows tool_choice and responds with text after a result or without tools', () => {
  const { ask } = given()
  const message = (body: JsonObject) => object(choice(parse(ask({ model: 'tools', ...body }).text)).message)
  const named = { type: 'function', function: { name: 'get_time' } }
  const [call] = list(message({ messages: [question], tools: [weather, clock], tool_choice: named })?.tool_calls)
  assert.deepEqual(object(call)?.function, { name: 'get_time', arguments: '{}' })
  assert.match(String(message({ messages: [question], tools: [weather], tool_choice: 'none' })?.content), /^\[demo\]/)
  assert.match(String(message({ messages: [question] })?.content), /^\[demo\].*What is the weather/)
  const messages = [
    question,
    { role: 'assistant', tool_calls: [{ id: 'c', ...weather }] },
    { role: 'tool', tool_call_id: 'c', content: '18 degrees' },
  ]
  assert.match(String(message({ messages, tools: [weather] })?.content), /^\[demo\].*The tool returned: "18 degrees"/)
})

test('demo: each choice has a different tool call ID', () => {
  const body = parse(given().ask({ model: 'tools', messages: [question], tools: [weather], n: 3 }).text)
  const ids = list(body.choices).map((choice) => object(list(object(object(choice)?.message)?.tool_calls)[0])?.id)
  assert.equal(new Set(ids).size, 3)
})

const faulty = (demo: ReturnType<typeof given>, fault: string, stream = true) =>
  ask(demo.dial, demo.clock, {
    body: { model: 'echo', stream, messages: [{ role: 'user', content: 'hello' }] },
    headers: { 'x-headgate-fault': fault },
  })

test('demo: a fault of the request breaks the response', () => {
  const demo = given()
  const whole = faulty(demo, 'cut@1#2')
  assert.ok(whole.ended && whole.text.endsWith('data: [DONE]\n\n'))
  const cut = faulty(demo, 'cut@3')
  assert.deepEqual([cut.pieces.length, cut.failed, cut.ended], [3, 'reset', false])
  assert.ok(whole.text.startsWith(cut.text.slice(0, 20)))
  assert.deepEqual(faulty(demo, 'reset'), { ...cut, status: 0, type: '', pieces: [], text: '', waited: 0 })
  const silent = faulty(demo, 'silence')
  assert.deepEqual([silent.status, silent.failed, silent.ended], [0, '', false])
  assert.equal(faulty(demo, 'status=429;retry-after=2').status, 429)
  assert.equal(faulty(demo, 'stall@2=5000').waited, whole.waited + 5_000)
  assert.equal(faulty(demo, 'slow=700').waited, whole.waited + 700)
  assert.equal(faulty(demo, 'cut@40', false).failed, 'reset')
})

test('demo: a fault of the first attempt is over at the second', () => {
  const demo = given()
  const statuses = [1, 2, 3, 4].map(() => faulty(demo, 'status=503#1').status)
  assert.deepEqual(statuses, [503, 200, 503, 200])
})

test('demo: an invalid fault is a 400 that names the nearest', () => {
  const { status, text } = faulty(given(), 'cutt@4')
  assert.equal(status, 400)
  assert.match(text, /Unknown fault .*cutt@4.* Did you mean cut\?/)
})
