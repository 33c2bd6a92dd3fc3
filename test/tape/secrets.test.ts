/** Secrets and personal data are in no byte of a folder with tapes. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { JsonObject } from '../../src/core/json.ts'
import { protocols } from '../../src/protocols/index.ts'
import { secretSearch, secretsIn } from '../../src/tape/secrets.ts'
import { ChatTape } from '../../src/tape/taped-call.ts'
import { type ScriptedCall, stillWorld } from '../support/still-world.ts'
import { folderFor, settingsOf, tapesIn } from './session.ts'

const SECRET = 'canary-7Qz"x/9+kLmNoP'
const EMAIL = 'canary.person@acme.example'
const CARD = '4111 1111 1111 1111'
const APIKEY = 'sk-proj-c4n4ryc4n4ryc4n4ryc4n4ryc4n4ry12'

const sse = (...texts: readonly string[]): readonly string[] => [
  ...texts.map(
    (content) => `data: ${JSON.stringify({ id: 'chatcmpl-1', choices: [{ index: 0, delta: { content } }] })}\n\n`,
  ),
  `data: ${JSON.stringify({ id: 'chatcmpl-1', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}\n\n`,
  'data: [DONE]\n\n',
]
const whole = (content: string): readonly string[] => [
  JSON.stringify({
    id: 'chatcmpl-1',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
  }),
]

type Case = {
  readonly body?: JsonObject
  readonly answer?: readonly string[]
  readonly headers?: Readonly<Record<string, string>>
  readonly sent?: Readonly<Record<string, string>>
  readonly status?: number
}

/** Records one call. Returns the bytes of the folder and what was reported. */
const record = async (t: Parameters<typeof folderFor>[0], secrets: readonly string[], { body = {}, ...more }: Case) => {
  const folder = folderFor(t)
  const pieces = more.answer ?? sse('fine')
  const world = stillWorld((call: ScriptedCall) => {
    const type = pieces[0]?.startsWith('{') ? 'application/json' : 'text/event-stream'
    call.head(more.status ?? 200, { 'content-type': type, ...more.headers })
    for (const piece of pieces) if (!call.aborted) call.listener.onBody(Buffer.from(piece))
    if (!call.aborted) call.end()
  })
  const { tapes, reports } = tapesIn(settingsOf(folder, { mode: 'record', keepsFailures: true }), world, secrets)
  const sent = { model: 'fast', messages: [{ role: 'user', content: 'hello' }], ...body }
  const decoded = protocols['openai-chat'].decodeRequest(sent)
  assert.ok(decoded.ok, JSON.stringify(decoded))
  const call = new ChatTape(tapes, {
    protocol: protocols['openai-chat'],
    request: decoded.value,
    source: { text: JSON.stringify(sent) },
    body: sent,
    members: [],
    headers: () => undefined,
  })
  const target = { candidate: { instance: { id: 'openai' }, model: 'gpt-5' }, key: { id: 'k1' } }
  // Of a target the tape reads these members only.
  const dial = call.dial(target as never, {
    protocol: protocols['openai-chat'] as never,
    stream: !pieces[0]?.startsWith('{'),
  })
  const headers = { authorization: 'Bearer provider-key-0123456789', ...more.sent }
  dial(
    { method: 'POST', url: 'https://api.openai.example/v1', headers, connectTimeout: 0, body: JSON.stringify(sent) },
    { onHeaders() {}, onBody: () => true, onEnd() {}, onFailure() {} },
  )
  await world.settle()
  const files = (path: string): readonly string[] =>
    readdirSync(path).flatMap((name) =>
      statSync(join(path, name)).isDirectory() ? files(join(path, name)) : [join(path, name)],
    )
  const bytes = files(folder)
    .map((file) => readFileSync(file).toString('latin1'))
    .join('\n')
  return { bytes, reports }
}

const user = (content: unknown): JsonObject => ({ messages: [{ role: 'user', content: content as string }] })
const halves = (text: string): readonly string[] => [text.slice(0, 9), text.slice(9)]
const base64 = (text: string, before = 0) => Buffer.from(`${'x'.repeat(before) + text}!!`).toString('base64')
const escaped = (text: string) =>
  [...text].map((letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
const large = (text: string) =>
  Buffer.concat([Buffer.alloc(6_000, 7), Buffer.from(text), Buffer.alloc(200)]).toString('base64')
const called = (args: string): JsonObject => ({
  messages: [
    { role: 'user', content: 'go' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: args } }],
    },
    { role: 'tool', tool_call_id: 'c1', content: 'ok' },
  ],
})
const described = (description: string): JsonObject => ({
  tools: [{ type: 'function', function: { name: 'f', description } }],
})

/** Places of a secret: each exchange is refused, or does not have the place. */
const PLACES: readonly (readonly [name: string, place: Case])[] = [
  ['a message', { body: user(`the key is ${SECRET}.`) }],
  [
    'a system message',
    {
      body: {
        messages: [
          { role: 'system', content: SECRET },
          { role: 'user', content: 'x' },
        ],
      },
    },
  ],
  ['a part of a message', { body: user([{ type: 'text', text: SECRET }]) }],
  [
    'an answer of an earlier turn',
    {
      body: {
        messages: [
          { role: 'user', content: 'a' },
          { role: 'assistant', content: SECRET },
          { role: 'user', content: 'b' },
        ],
      },
    },
  ],
  ['arguments of a call', { body: called(JSON.stringify({ token: SECRET })) }],
  ['escaped arguments of a call', { body: called(`{"token":"${escaped(SECRET)}"}`) }],
  ['broken arguments of a call', { body: called(`{"token":"${SECRET}`) }],
  ['a description of a tool', { body: described(`Use ${SECRET}.`) }],
  [
    'a schema of a tool',
    {
      body: {
        tools: [
          {
            type: 'function',
            function: { name: 'f', parameters: { type: 'object', properties: { a: { default: SECRET } } } },
          },
        ],
      },
    },
  ],
  [
    'a name of a member in a schema',
    {
      body: {
        tools: [
          { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: { [SECRET]: {} } } } },
        ],
      },
    },
  ],
  ['a stop sequence', { body: { stop: [SECRET] } }],
  ['the model', { body: { model: SECRET } }],
  ['the user', { body: { user: SECRET } }],
  ['metadata', { body: { metadata: { key: SECRET } } }],
  ['an unknown member', { body: { vendor_option: { key: SECRET } } }],
  ['base64 in a message', { body: user(base64(SECRET)) }],
  ['base64 after one byte', { body: user(base64(SECRET, 1)) }],
  ['base64 after two bytes', { body: user(base64(SECRET, 2)) }],
  ['base64url', { body: user(base64(SECRET).replaceAll('+', '-').replaceAll('/', '_')) }],
  ['hexadecimal', { body: user(Buffer.from(SECRET).toString('hex')) }],
  ['upper hexadecimal', { body: user(Buffer.from(SECRET).toString('hex').toUpperCase()) }],
  ['an encoded address', { body: user(`https://a.example/?key=${encodeURIComponent(SECRET)}`) }],
  ['a fully encoded address', { body: user([...Buffer.from(SECRET)].map((byte) => `%${byte.toString(16)}`).join('')) }],
  ['a picture', { body: user([{ type: 'image_url', image_url: { url: `data:image/png;base64,${large(SECRET)}` } }]) }],
  [
    'a small picture',
    { body: user([{ type: 'image_url', image_url: { url: `data:image/png;base64,${base64(SECRET)}` } }]) },
  ],
  [
    'an address of a picture',
    {
      body: user([
        { type: 'image_url', image_url: { url: `https://a.example/p.png?sig=${encodeURIComponent(SECRET)}` } },
      ]),
    },
  ],
  ['an answer', { answer: whole(SECRET) }],
  ['an escaped answer', { answer: [whole('X')[0]?.replace('X', escaped(SECRET)) ?? ''] }],
  ['a stream', { answer: sse(SECRET) }],
  ['two events', { answer: sse(...halves(SECRET)) }],
  ['an event for each letter', { answer: sse(...SECRET) }],
  ['base64 in two events', { answer: sse(...halves(base64(SECRET))) }],
  ['a comment of a stream', { answer: [`: ${SECRET}\n\n`, ...sse('x')] }],
  ['an ID of an answer', { answer: [whole('x')[0]?.replace('chatcmpl-1', JSON.stringify(SECRET).slice(1, -1)) ?? ''] }],
  ['JSON in a text of an answer', { answer: whole(JSON.stringify({ key: JSON.stringify({ key: SECRET }) })) }],
  ['an error', { status: 401, answer: [JSON.stringify({ error: { message: `Incorrect API key: ${SECRET}` } })] }],
  ['a header of an answer', { headers: { 'x-request-id': SECRET, 'set-cookie': `a=${SECRET}` } }],
  ['a query of the request', { sent: { 'x-path': `?key=${SECRET}` } }],
  [
    'the credential of the call in the answer',
    { sent: { 'x-api-key': 'k3y-of-the-call-55' }, answer: sse('you sent k3y-of-', 'the-call-55') },
  ],
  ['the key of the provider in the answer', { answer: sse('provider-key-', '0123456789') }],
]

const FORMS = [
  SECRET,
  JSON.stringify(SECRET).slice(1, -1),
  base64(SECRET).slice(0, 24),
  base64(SECRET, 1).slice(2, 26),
  Buffer.from(SECRET).toString('hex'),
  'k3y-of-',
  'provider-key-',
]

test('tape: a secret in one of 40 places is in no byte of the folder', async (t) => {
  assert.equal(PLACES.length, 40)
  for (const [name, place] of PLACES) {
    const { bytes, reports } = await record(t, [SECRET], place)
    for (const form of FORMS) assert.ok(!bytes.toLowerCase().includes(form.toLowerCase()), `${name}: ${form}`)
    assert.ok(!reports.join().includes(SECRET), name)
    // A finder may have masked it.
    if (bytes !== '')
      assert.ok(
        /user|metadata|header|query/.test(name) || bytes.includes('[APIKEY_1]'),
        `${name} is recorded: ${bytes}`,
      )
    else assert.match(reports.join(), /is not recorded\. It has a credential or a configured secret/, name)
  }
})

test('tape: personal data and keys become masks, also across events', async (t) => {
  const found = `${EMAIL}, ${CARD} and ${APIKEY}`
  const { bytes, reports } = await record(t, [], {
    body: user(`I am ${found}`),
    answer: sse('You are ', ...halves(EMAIL), ', ', ...CARD, ' and ', ...halves(APIKEY), ' .'),
  })
  assert.deepEqual(reports, [])
  for (const value of [EMAIL, CARD, APIKEY, 'canary.pe', 'rson@acme', '4111']) assert.ok(!bytes.includes(value), value)
  for (const mask of ['[EMAIL_1]', '[CARD_1]', '[APIKEY_1]'])
    assert.equal(bytes.split(mask).length, 3, `${mask} in ${bytes}`)
})

test('tape: values of secret variables are secrets, each of a list', () => {
  const env = {
    OPENAI_API_KEY: 'one-key,two-key',
    ADMIN_TOKEN: 'a',
    MY_SECRET: 'b',
    OPENAI_API_KEY_2: 'c',
    HOME: '/home',
    DATABASE_URL: 'postgres://me:p%40ss@db/x',
    MONKEY_BARS: 'x',
  }
  assert.deepEqual([...new Set(secretsIn(env))].sort(), [
    'a',
    'b',
    'c',
    'one-key',
    'one-key,two-key',
    'p%40ss',
    'p@ss',
    'two-key',
  ])
})

test('tape: credentials of MCP servers are not recorded, and decide no key', async (t) => {
  const token = 'mcp-canary-0123456789'
  const body = (secret: string): JsonObject => ({
    mcp_servers: [{ type: 'url', url: 'https://mcp.example', name: 'm', authorization_token: secret }],
    plugins: [{ type: 'mcp', authorization: secret, headers: { 'X-Api-Key': secret, accept: 'application/json' } }],
  })
  const { bytes, reports } = await record(t, [], { body: body(token) })
  assert.deepEqual(reports, [])
  assert.ok(bytes.includes('[CREDENTIAL]') && !bytes.includes('canary'), bytes)
  const keyed = (text: string) => /"key":"(\w+)"/.exec(text)?.[1]
  assert.equal(keyed((await record(t, [], { body: body('mcp-other-0123456789') })).bytes), keyed(bytes))
  const repeated = await record(t, [], {
    body: body(`Bearer ${token}`),
    answer: sse('I know mcp-canary-', '0123456789'),
  })
  assert.equal(repeated.bytes, '')
  assert.match(repeated.reports.join(), /It has a credential/)
})

test('tape: a schema may have a member named headers', async (t) => {
  const parameters = { type: 'object', properties: { headers: { type: 'string', description: 'of the mail' } } }
  const { bytes, reports } = await record(t, [], {
    body: { tools: [{ type: 'function', function: { name: 'f', parameters } }] },
  })
  assert.deepEqual(reports, [])
  assert.ok(bytes.includes('of the mail') && !bytes.includes('[CREDENTIAL]'))
})

test('tape: the password of a configured address is a secret', () => {
  const isSecret = secretSearch(['redis://me:canary-pass%21@cache.example', 'application/json'])
  assert.ok(isSecret('it is canary-pass!') && isSecret('it is canary-pass%21'))
  assert.ok(!isSecret('content-type: application/json of cache.example'))
})
