import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Json, type JsonObject, parseJson } from '../core/json.ts'
import { protocols } from '../protocols/index.ts'
import { bypassesSharing, canonicalJson, hasDuplicateMembers, isRepeatable, keyProblem } from './idempotency-key.ts'

const keys = [
  ['a UUID', '8e03978e-40d5-43dd-bc93-6894a57f9324', true],
  ['as the draft quotes it', '"8e03978e"', true],
  ['the longest', 'k'.repeat(255), true],
  ['too long', 'k'.repeat(256), false],
  ['empty', '', false],
  ['a blank', 'a b', false],
  ['a control character', 'a\tb', false],
  ['not ASCII', 'schlüssel', false],
] as const
for (const [name, key, good] of keys)
  test(`a key: ${name}`, () => {
    const problem = keyProblem(key)
    assert.equal(problem === null, good)
    if (problem) assert.deepEqual([problem.kind, problem.param], ['invalid_value', 'Idempotency-Key'])
  })

const user = [{ role: 'user', content: 'hello' }]
const image = (url: string) => [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }]
const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }
const still = { model: 'm', messages: user, temperature: 0 }
const chats: readonly (readonly [string, JsonObject, boolean])[] = [
  ['temperature zero', still, true],
  ['a seed', { model: 'm', messages: user, seed: 7 }, true],
  ['a seed and a temperature', { ...still, temperature: 1, seed: 7 }, true],
  ['no word of chance', { model: 'm', messages: user }, false],
  ['a low temperature', { ...still, temperature: 0.1 }, false],
  ['one choice', { ...still, n: 1 }, true],
  ['two choices', { ...still, n: 2 }, false],
  ['tools', { ...still, tools: [tool] }, false],
  ['the older name of tools', { ...still, functions: [{ name: 'f', parameters: {} }] }, false],
  ['a search', { ...still, web_search_options: {} }, false],
  ['stored', { ...still, store: true }, false],
  ['not stored', { ...still, store: false }, true],
  ['an image by its address', { ...still, messages: image('https://pictures.test/now.png') }, false],
  ['an image itself', { ...still, messages: image('data:image/png;base64,AAAA') }, true],
  ['a member nobody knows', { ...still, something_new: 1 }, true],
]
const turns: typeof chats = [
  ['a turn that is stored by default', { model: 'm', input: 'hello', temperature: 0 }, false],
  ['a turn that is not stored', { model: 'm', input: 'hello', temperature: 0, store: false }, true],
  [
    'a turn that continues',
    { model: 'm', input: 'hello', temperature: 0, store: false, previous_response_id: 'r' },
    false,
  ],
  ['a turn of a conversation', { model: 'm', input: 'hello', temperature: 0, store: false, conversation: 'c' }, false],
  ['in the background', { model: 'm', input: 'hello', temperature: 0, store: false, background: true }, false],
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
  ['blanks', '{"a":[1,2]}', '{ "a" : [ 1 , 2 ] }', true],
  ['a number in two spellings', '{"a":1}', '{"a":1.0}', true],
  ['escapes', '{"a":"é"}', '{"a":"\\u00e9"}', true],
  ['another value', '{"a":1}', '{"a":2}', false],
  ['text and number', '{"a":1}', '{"a":"1"}', false],
  ['the order of a list', '{"a":[1,2]}', '{"a":[2,1]}', false],
  ['one member more', '{"a":1}', '{"a":1,"b":null}', false],
  ['numbers a double cannot tell apart', '{"seed":9007199254740993}', '{"seed":9007199254740992}', false],
  ['a name of the language', '{"__proto__":1}', '{}', false],
  ['structure in a text', '{"a":"1,\\"b\\":2"}', '{"a":"1","b":2}', false],
]
for (const [name, one, other, same] of pairs)
  test(`one spelling: ${name}`, () => {
    // What is parsed from JSON is JSON.
    const spell = (source: string) => canonicalJson(parseJson(source) as Json)
    assert.equal(spell(one) === spell(other), same)
    assert.equal(canonicalJson(JSON.parse(spell(one))), spell(JSON.stringify(JSON.parse(spell(one)))))
  })

for (const [header, own] of [
  [undefined, false],
  ['no-store', true],
  ['max-age=0, No-Cache', true],
  ['only-if-cached', false],
] as const)
  test(`cache-control: ${header}`, () => assert.equal(bypassesSharing(header), own))

for (const [source, twice] of [
  ['{"a":1,"b":{"a":1}}', false],
  ['{"a":1,"a":1}', true],
  ['{"b":[{"a":1,"c":[],"a":1}]}', true],
  ['{"a":"b\\":\\\\","c":": \\"a\\":1"}', false],
  ['{"a\\":":1,"\\u0061":1}', false],
  ['{"a":1,"\\u0061":1}', true],
  ['{"__proto__":1,"__proto__":2}', true],
  ['{"a":12345678901234567890,"b":1.5e3}', false],
] as const)
  test(`given twice: ${source}`, () => {
    // What is parsed from JSON is JSON.
    assert.equal(hasDuplicateMembers(source, parseJson(source) as JsonObject), twice)
  })

test('a key that is none is told what one is', () =>
  assert.equal(
    keyProblem('')?.message,
    'An Idempotency-Key is 1 to 255 visible ASCII characters without spaces. Send a random UUID, the same one for each retry of a request.',
  ))

for (const member of ['container', 'mcp_servers', 'search_parameters', 'plugins', 'functions', 'conversation'])
  test(`repeatable: not with ${member}`, () => {
    const request = protocols['openai-chat'].decodeRequest(still)
    assert.ok(request.ok)
    assert.equal(isRepeatable(request.value, { body: { ...still, [member]: 'x' }, stored: false }), false)
    // Not asked for is not there.
    for (const nothing of [null, false, undefined])
      assert.equal(isRepeatable(request.value, { body: { ...still, [member]: nothing }, stored: false }), true)
  })

test('repeatable: one member, one message or one part that is not is enough', () => {
  const at = { body: {}, stored: false }
  const request = protocols['openai-chat'].decodeRequest(still)
  assert.ok(request.ok)
  const { value } = request
  const elsewhere = { type: 'file', at: '', source: { kind: 'url', url: 'https://pages.test/now.pdf' } } as const
  const word = { type: 'text', at: '', text: 'hello' } as const
  const said = (...content: readonly (typeof elsewhere | typeof word)[]) => ({ role: 'user', at: '', content }) as const
  assert.equal(isRepeatable({ ...value, messages: [said(word)] }, at), true)
  assert.equal(isRepeatable({ ...value, messages: [said(elsewhere)] }, at), false)
  assert.equal(isRepeatable({ ...value, messages: [said(word, elsewhere)] }, at), false)
  assert.equal(isRepeatable({ ...value, messages: [said(word), said(elsewhere)] }, at), false)
  assert.equal(isRepeatable(value, { body: { plugins: [], background: false }, stored: false }), false)
})

for (const [header, own] of [
  ['xno-store', false],
  ['no-storey', false],
  ['no-cache="x"', true],
  ['', false],
] as const)
  test(`cache-control, whole words: ${header}`, () => assert.equal(bypassesSharing(header), own))

for (const [source, spelled] of [
  ['[1,[2,3],{"b":[],"a":0}]', '[1,[2,3],{"a":0,"b":[]}]'],
  ['{"b":9007199254740993,"a":[null,true,"x"]}', '{"a":[null,true,"x"],"b":9007199254740993}'],
  ['null', 'null'],
] as const)
  test(`spelled: ${source}`, () => {
    // What is parsed from JSON is JSON.
    assert.equal(canonicalJson(parseJson(source) as Json), spelled)
  })

test('spelled: nothing is null', () => assert.equal(canonicalJson(undefined), 'null'))

test('given twice: members of objects in lists are counted', () => {
  const source = '{"a":[{"b":1},{"c":2,"d":[{"e":3}]}]}'
  assert.equal(hasDuplicateMembers(source, parseJson(source) as JsonObject), false)
})
