import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Json, type JsonObject, parseJson } from '../core/json.ts'
import { protocols } from '../protocols/index.ts'
import { bypassesSharing, canonicalJson, hasDuplicateMembers, isRepeatable, keyProblem } from './idempotency-key.ts'

const keys = [
  ['a UUID', '8e03978e-40d5-43dd-bc93-6894a57f9324', true],
  ['a quoted key, as in the draft', '"8e03978e"', true],
  ['255 characters', 'k'.repeat(255), true],
  ['256 characters', 'k'.repeat(256), false],
  ['empty', '', false],
  ['a space', 'a b', false],
  ['a control character', 'a\tb', false],
  ['not ASCII', 'schlüssel', false],
] as const
for (const [name, key, good] of keys)
  test(`idempotency key: ${name}`, () => {
    const problem = keyProblem(key)
    assert.equal(problem === null, good)
    if (problem) assert.deepEqual([problem.kind, problem.param], ['invalid_value', 'Idempotency-Key'])
  })

const user = [{ role: 'user', content: 'hello' }]
const image = (url: string) => [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }]
const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }
const deterministic = { model: 'm', messages: user, temperature: 0 }
const chats: readonly (readonly [string, JsonObject, boolean])[] = [
  ['temperature zero', deterministic, true],
  ['a seed', { model: 'm', messages: user, seed: 7 }, true],
  ['a seed and a temperature', { ...deterministic, temperature: 1, seed: 7 }, true],
  ['no temperature and no seed', { model: 'm', messages: user }, false],
  ['a low temperature', { ...deterministic, temperature: 0.1 }, false],
  ['one choice', { ...deterministic, n: 1 }, true],
  ['two choices', { ...deterministic, n: 2 }, false],
  ['tools', { ...deterministic, tools: [tool] }, false],
  ['functions, the older name of tools', { ...deterministic, functions: [{ name: 'f', parameters: {} }] }, false],
  ['a web search', { ...deterministic, web_search_options: {} }, false],
  ['stored', { ...deterministic, store: true }, false],
  ['not stored', { ...deterministic, store: false }, true],
  ['an image URL', { ...deterministic, messages: image('https://pictures.test/now.png') }, false],
  ['image data', { ...deterministic, messages: image('data:image/png;base64,AAAA') }, true],
  ['an unknown member', { ...deterministic, something_new: 1 }, true],
]
const turns: typeof chats = [
  ['a response stored by default', { model: 'm', input: 'hello', temperature: 0 }, false],
  ['a response that is not stored', { model: 'm', input: 'hello', temperature: 0, store: false }, true],
  [
    'a response that continues another',
    { model: 'm', input: 'hello', temperature: 0, store: false, previous_response_id: 'r' },
    false,
  ],
  [
    'a response in a conversation',
    { model: 'm', input: 'hello', temperature: 0, store: false, conversation: 'c' },
    false,
  ],
  ['a background response', { model: 'm', input: 'hello', temperature: 0, store: false, background: true }, false],
]
for (const [cases, name, stored] of [
  [chats, 'openai-chat', false],
  [turns, 'openai-responses', true],
] as const)
  for (const [what, body, expected] of cases)
    test(`repeatable in ${name}: ${what}`, () => {
      const request = protocols[name].decodeRequest(body)
      assert.ok(request.ok, JSON.stringify(request))
      assert.equal(isRepeatable(request.value, { body, stored }), expected)
    })

const pairs: readonly (readonly [string, string, string, boolean])[] = [
  ['the order of members', '{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}', true],
  ['whitespace', '{"a":[1,2]}', '{ "a" : [ 1 , 2 ] }', true],
  ['a number in two spellings', '{"a":1}', '{"a":1.0}', true],
  ['escapes', '{"a":"é"}', '{"a":"\\u00e9"}', true],
  ['another value', '{"a":1}', '{"a":2}', false],
  ['text and number', '{"a":1}', '{"a":"1"}', false],
  ['the order of a list', '{"a":[1,2]}', '{"a":[2,1]}', false],
  ['one member more', '{"a":1}', '{"a":1,"b":null}', false],
  ['numbers that are equal as doubles', '{"seed":9007199254740993}', '{"seed":9007199254740992}', false],
  ['a member named __proto__', '{"__proto__":1}', '{}', false],
  ['JSON syntax in a text', '{"a":"1,\\"b\\":2"}', '{"a":"1","b":2}', false],
]
for (const [name, one, other, same] of pairs)
  test(`canonical JSON: ${name}`, () => {
    // The result of parseJson is Json.
    const canonicalOf = (source: string) => canonicalJson(parseJson(source) as Json)
    assert.equal(canonicalOf(one) === canonicalOf(other), same)
    assert.equal(canonicalJson(JSON.parse(canonicalOf(one))), canonicalOf(JSON.stringify(JSON.parse(canonicalOf(one)))))
  })

for (const [header, bypasses] of [
  [undefined, false],
  ['no-store', true],
  ['max-age=0, No-Cache', true],
  ['only-if-cached', false],
] as const)
  test(`cache-control: ${header}`, () => assert.equal(bypassesSharing(header), bypasses))

for (const [source, duplicates] of [
  ['{"a":1,"b":{"a":1}}', false],
  ['{"a":1,"a":1}', true],
  ['{"b":[{"a":1,"c":[],"a":1}]}', true],
  ['{"a":"b\\":\\\\","c":": \\"a\\":1"}', false],
  ['{"a\\":":1,"\\u0061":1}', false],
  ['{"a":1,"\\u0061":1}', true],
  ['{"__proto__":1,"__proto__":2}', true],
  ['{"a":12345678901234567890,"b":1.5e3}', false],
] as const)
  test(`duplicate members: ${source}`, () => {
    // The result of parseJson is Json.
    assert.equal(hasDuplicateMembers(source, parseJson(source) as JsonObject), duplicates)
  })

test('idempotency key: the error describes a valid key', () =>
  assert.equal(
    keyProblem('')?.message,
    'An Idempotency-Key is 1 to 255 visible ASCII characters without spaces. Send a random UUID, the same one for each retry of a request.',
  ))

for (const member of ['container', 'mcp_servers', 'search_parameters', 'plugins', 'functions', 'conversation'])
  test(`repeatable: not with ${member}`, () => {
    const request = protocols['openai-chat'].decodeRequest(deterministic)
    assert.ok(request.ok)
    assert.equal(isRepeatable(request.value, { body: { ...deterministic, [member]: 'x' }, stored: false }), false)
    // An empty value counts as absent.
    for (const nothing of [null, false, undefined])
      assert.equal(isRepeatable(request.value, { body: { ...deterministic, [member]: nothing }, stored: false }), true)
  })

test('repeatable: one member, message or part that is not repeatable suffices', () => {
  const at = { body: {}, stored: false }
  const request = protocols['openai-chat'].decodeRequest(deterministic)
  assert.ok(request.ok)
  const { value } = request
  const byUrl = { type: 'file', at: '', source: { kind: 'url', url: 'https://pages.test/now.pdf' } } as const
  const word = { type: 'text', at: '', text: 'hello' } as const
  const messageOf = (...content: readonly (typeof byUrl | typeof word)[]) =>
    ({ role: 'user', at: '', content }) as const
  assert.equal(isRepeatable({ ...value, messages: [messageOf(word)] }, at), true)
  assert.equal(isRepeatable({ ...value, messages: [messageOf(byUrl)] }, at), false)
  assert.equal(isRepeatable({ ...value, messages: [messageOf(word, byUrl)] }, at), false)
  assert.equal(isRepeatable({ ...value, messages: [messageOf(word), messageOf(byUrl)] }, at), false)
  assert.equal(isRepeatable(value, { body: { plugins: [], background: false }, stored: false }), false)
})

for (const [header, bypasses] of [
  ['xno-store', false],
  ['no-storey', false],
  ['no-cache="x"', true],
  ['', false],
] as const)
  test(`cache-control: whole directives: ${header}`, () => assert.equal(bypassesSharing(header), bypasses))

for (const [source, expected] of [
  ['[1,[2,3],{"b":[],"a":0}]', '[1,[2,3],{"a":0,"b":[]}]'],
  ['{"b":9007199254740993,"a":[null,true,"x"]}', '{"a":[null,true,"x"],"b":9007199254740993}'],
  ['null', 'null'],
] as const)
  test(`canonical JSON: ${source}`, () => {
    // The result of parseJson is Json.
    assert.equal(canonicalJson(parseJson(source) as Json), expected)
  })

test('canonical JSON: undefined becomes null', () => assert.equal(canonicalJson(undefined), 'null'))

test('duplicate members: objects in lists are counted', () => {
  const source = '{"a":[{"b":1},{"c":2,"d":[{"e":3}]}]}'
  assert.equal(hasDuplicateMembers(source, parseJson(source) as JsonObject), false)
})
