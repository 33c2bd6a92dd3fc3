/** Requests that differ from a recorded one where it matters are misses that name the member; others are answered. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isList, isObject, type Json, type JsonObject } from '../../src/core/json.ts'
import { protocols } from '../../src/protocols/index.ts'
import { chatAsk, keyOf } from '../../src/tape/ask.ts'
import { missText, nearestTo } from '../../src/tape/miss.ts'
import { type Exchange, exchangeLines, headLine, readTape } from '../../src/tape/tape-file.ts'

const askOf = (body: JsonObject, normalise: Parameters<typeof chatAsk>[1] = []) => {
  const decoded = protocols['openai-chat'].decodeRequest(body)
  assert.ok(decoded.ok, JSON.stringify(decoded))
  return chatAsk(decoded.value, normalise).ask
}

const tool = (name: string) => ({
  type: 'function',
  function: {
    name,
    description: `Looks up ${name}.`,
    parameters: { type: 'object', properties: { id: { type: 'string' } } },
  },
})

/** A conversation of an agent: each turn calls a tool. */
const bodyOf = (number: number, turns: number): JsonObject => ({
  model: number % 7 === 0 ? 'fast' : 'smart',
  temperature: 0.5,
  max_tokens: 1_000,
  tools: [tool('orders'), tool('refunds')],
  messages: [
    { role: 'system', content: 'You answer questions about orders, briefly.' },
    ...Array.from({ length: turns }, (_, turn) => [
      { role: 'user', content: `Customer ${number} asks in turn ${turn}: where is order ${number * 31 + turn}?` },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          {
            id: `call_${number}_${turn}`,
            type: 'function',
            function: { name: 'orders', arguments: `{"id":"${number}-${turn}"}` },
          },
        ],
      },
      { role: 'tool', tool_call_id: `call_${number}_${turn}`, content: `Order ${number}-${turn} is on its way.` },
    ]).flat(),
    { role: 'user', content: `Customer ${number}: thanks, and the refund?` },
  ],
})

const exchangeOf = (body: JsonObject): Exchange => {
  const ask = askOf(body)
  return {
    ...{ key: keyOf(ask), ask, test: '', at: '2026-11-28T00:00:00.000Z', replaces: false, style: 'chat' },
    target: { provider: 'openai', model: 'gpt-5', protocol: 'openai-chat', stream: false },
    answer: { status: 200, headers: {}, ms: 1, events: [{ ms: 0, bytes: Buffer.from('{}') }] },
  }
}

const tapeOf = (bodies: readonly JsonObject[]) => {
  const known = new Set<string>()
  return readTape(headLine([]) + bodies.map((body) => exchangeLines(exchangeOf(body), known)).join(''))
}

/** A generator that gives the same numbers in each run. */
const numbers = (seed: number) => (below: number) => {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
  return Math.floor((seed / 2_147_483_648) * below)
}

const bodies = Array.from({ length: 60 }, (_, number) => bodyOf(number, number % 12))

/** A copy with the value at a path replaced. */
const changed = (value: Json, path: readonly (string | number)[], by: (old: Json) => Json): Json => {
  const [step, ...rest] = path
  if (step === undefined) return by(value)
  if (isList(value)) return value.map((item, at) => (at === step ? changed(item, rest, by) : item))
  assert.ok(isObject(value))
  return { ...value, [step]: changed(value[step] ?? null, rest, by) }
}

/** A place in a body, and the member that the report has to name. */
type Place = readonly [path: readonly (string | number)[], member: string]

const placesOf = (body: JsonObject): readonly Place[] => [
  [['model'], 'model'],
  [['temperature'], 'temperature'],
  [['max_tokens'], 'maxOutputTokens'],
  [['tools', 1, 'function', 'description'], 'tools[1].description'],
  [['tools', 0, 'function', 'parameters', 'properties', 'id', 'type'], 'tools[0].parameters.properties.id.type'],
  ...(isList(body.messages) ? body.messages : []).map((message, at): Place => {
    assert.ok(isObject(message))
    const call: readonly (string | number)[] = ['messages', at, 'tool_calls', 0, 'function', 'arguments']
    return message.role === 'assistant'
      ? [call, `messages[${at}].content[0].arguments`]
      : [['messages', at, 'content'], `messages[${at}].content[0].text`]
  }),
]

const mutated = (old: Json, at: number): Json => {
  if (typeof old === 'number') return old + 1 + at
  const text = String(old)
  return text.startsWith('{')
    ? `{"id":"changed ${at}"}`
    : `${text.slice(0, at % (text.length + 1))}~${text.slice(at % (text.length + 1))}`
}

test('tape: of 1,000 changed requests each is a miss that names the member', () => {
  const { exchanges } = tapeOf(bodies)
  const keys = new Set(exchanges.map(({ key }) => key))
  const random = numbers(7)
  let named = 0
  for (let count = 0; count < 1_000; count++) {
    const body = bodies[random(bodies.length)] ?? assert.fail()
    const places = placesOf(body)
    const [path, member] = places[random(places.length)] ?? assert.fail()
    const made = changed(body, path, (old) => mutated(old, random(30)))
    assert.ok(isObject(made))
    const ask = askOf(made)
    assert.ok(!keys.has(keyOf(ask)), `${member} is in no key`)
    const nearest = nearestTo(ask, exchanges)
    if (nearest?.differences[0]?.at.startsWith(member) || missText(nearest, ask).includes(member)) named++
  }
  assert.ok(named >= 990, `${named} of 1,000 name the member`)
})

const IRRELEVANT: readonly ((body: JsonObject, random: (below: number) => number) => JsonObject)[] = [
  (body) => ({ ...body, stream: true, stream_options: { include_usage: true } }),
  (body, random) => ({ ...body, user: `user-${random(1_000)}` }),
  (body, random) => ({ ...body, metadata: { run: String(random(1_000)) } }),
  (body, random) => ({ ...body, prompt_cache_key: `key-${random(1_000)}`, prompt_cache_retention: '24h' }),
  (body) => ({ ...body, service_tier: 'flex' }),
  (body, random) => ({ ...body, safety_identifier: `person-${random(1_000)}` }),
  (body) => ({ ...body, store: true }),
  (body) => Object.fromEntries(Object.entries(body).reverse()),
  // Other IDs of tool calls.
  (body, random) => JSON.parse(JSON.stringify(body).replaceAll('"call_', `"toolu_${random(1_000)}_`)),
  // White space in arguments.
  (body) => JSON.parse(JSON.stringify(body).replaceAll('{\\"id\\":', '{ \\"id\\" : ')),
]

test('tape: of 500 requests with changes that do not matter each is answered', () => {
  const { exchanges } = tapeOf(bodies)
  const keys = new Set(exchanges.map(({ key }) => key))
  const random = numbers(11)
  for (let count = 0; count < 500; count++) {
    const body = bodies[random(bodies.length)] ?? assert.fail()
    const change = IRRELEVANT[count % IRRELEVANT.length] ?? assert.fail()
    assert.ok(keys.has(keyOf(askOf(change(body, random)))), `change ${count % IRRELEVANT.length}`)
  }
})

test('tape: the nearest of 10,000 exchanges is found in 20 ms', () => {
  const [exchange] = tapeOf([bodyOf(1, 12)]).exchanges
  assert.ok(exchange)
  const others = Array.from({ length: 10_000 }, (_, at) => ({
    ...exchange,
    line: at + 1,
    digests: {
      ...exchange.digests,
      messages: exchange.digests.messages.map((digest, n) => (n === at % 30 ? `${at}` : digest)),
    },
  }))
  const ask = askOf(changed(bodyOf(1, 12), ['messages', 37, 'content'], () => 'Another question.') as JsonObject)
  nearestTo(ask, others)
  // Of the processor: other tests run beside this one.
  const times = Array.from({ length: 5 }, () => {
    const begun = process.cpuUsage()
    nearestTo(ask, others)
    return process.cpuUsage(begun).user / 1_000
  })
  assert.ok(Math.min(...times) < 20, `${Math.min(...times).toFixed(1)} ms`)
})

test('tape: a date in the prompt is named with the setting that makes the requests equal', () => {
  const dated = (date: string) => ({ model: 'fast', messages: [{ role: 'system', content: `Today is ${date}.` }] })
  const { exchanges } = tapeOf([dated('2026-11-20')])
  const ask = askOf(dated('2026-11-26'))
  assert.match(
    missText(nearestTo(ask, exchanges), ask),
    /^Nearest: tap_\w{10} \(line 3\), 0 of 1 message equal\. messages\[0\]\.content\[0\]\.text at 18: recorded ".*11-20.*", asked ".*11-26.*"\. Equal with HEADGATE_TAPE_NORMALISE=dates\.$/,
  )
  assert.equal(keyOf(askOf(dated('2026-11-20'), ['dates'])), keyOf(askOf(dated('2026-11-26'), ['dates'])))
})

test('tape: the order of normalisers in the settings does not matter', () => {
  const dated = (date: string) => ({
    model: 'fast',
    messages: [{ role: 'user', content: `Read /tmp/run-${date}/a.txt` }],
  })
  const keys = (['2026-11-20', '2026-11-26'] as const).flatMap((date) => [
    keyOf(askOf(dated(date), ['dates', 'paths'])),
    keyOf(askOf(dated(date), ['paths', 'dates'])),
  ])
  assert.equal(new Set(keys).size, 1)
})

test('tape: e-mail addresses have the same masks in each request, and an answer that was sent back keeps its own', () => {
  const asked = (...texts: readonly string[]) => ({
    model: 'fast',
    messages: texts.map((content, at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content })),
  })
  const first = askOf(asked('Write to ann@acme.example', 'I write to bob@acme.example', 'and to cid@acme.example'))
  const replayed = askOf(asked('Write to dan@acme.example', 'I write to [EMAIL_2]', 'and to eve@acme.example'))
  assert.ok(!JSON.stringify(first).includes('@'))
  assert.equal(keyOf(first), keyOf(replayed))
})

test('tape: requests that continue turns of the provider have keys of their own', () => {
  const keyed = (more: JsonObject) => {
    const decoded = protocols['openai-responses'].decodeRequest({ model: 'fast', input: 'go on', ...more })
    assert.ok(decoded.ok, JSON.stringify(decoded))
    return keyOf(chatAsk(decoded.value, []).ask)
  }
  const each = [
    {},
    ...['conv_1', 'conv_2'].map((conversation) => ({ conversation })),
    ...['resp_1', 'resp_2'].map((id) => ({ previous_response_id: id })),
  ]
  assert.equal(new Set(each.map(keyed)).size, each.length)
})

test('tape: a schema decides the answer with all of its members', () => {
  const keyed = (name: string, type: string) => {
    const schema = { type: 'object', properties: { [name]: { type } } }
    const response_format = { type: 'json_schema', json_schema: { name: 'n', schema } }
    return keyOf(askOf({ model: 'fast', messages: [{ role: 'user', content: 'x' }], response_format }))
  }
  for (const name of ['signature', 'cache_control', 'encrypted_content', 'headers'])
    assert.notEqual(keyed(name, 'string'), keyed(name, 'number'), name)
})
