import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RequestText } from '../../core/guard.ts'
import type { JsonObject } from '../../core/json.ts'
import { parseObject } from '../../core/json.ts'
import { changedTexts } from './request-texts.ts'

const textsIn = (body: JsonObject): RequestText[] => {
  const found: RequestText[] = []
  changedTexts(body, (one) => {
    found.push(one)
    return one.text
  })
  return found
}
const wordsIn = (body: JsonObject) => textsIn(body).map(({ text }) => text)

const read: readonly (readonly [name: string, body: JsonObject, words: readonly string[]])[] = [
  [
    'messages of every role',
    {
      messages: [
        { role: 'system', content: 'a' },
        { role: 'tool', tool_call_id: 'x', content: 'b' },
      ],
    },
    ['a', 'b'],
  ],
  ['the author of a message', { messages: [{ role: 'user', name: 'ann', content: 'a' }] }, ['ann', 'a']],
  [
    'parts, addresses and names of files',
    {
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'a' },
            { type: 'input_file', file_id: 'f', filename: 'b.txt' },
            { type: 'input_image', image_url: 'http://c' },
          ],
        },
      ],
    },
    ['a', 'b.txt', 'http://c'],
  ],
  [
    'parts that no format here knows',
    { messages: [{ role: 'user', content: [{ type: 'new_thing', inner: { words: ['a'] } }] }] },
    ['a'],
  ],
  ['prompts, suffixes and stop sequences', { prompt: ['a', 'b'], suffix: 'c', stop: ['d'] }, ['a', 'b', 'c', 'd']],
  ['inputs of embeddings, without tokens', { input: ['a', 'b'], encoding_format: 'float' }, ['a', 'b']],
  [
    'instructions and system blocks',
    { instructions: 'a', system: [{ type: 'text', text: 'b', cache_control: { type: 'ephemeral' } }] },
    ['a', 'b'],
  ],
  [
    'every value of an input, whatever its name',
    {
      messages: [
        {
          role: 'assistant',
          content: [{ type: 'tool_use', id: 't', name: 'f', input: { id: 'a', type: 'b', data: ['c'] } }],
        },
      ],
    },
    ['a', 'b', 'c'],
  ],
  ['free input of a tool', { input: [{ type: 'custom_tool_call', call_id: 'c', name: 'f', input: 'a' }] }, ['a']],
  [
    'values in arguments',
    { input: [{ type: 'function_call', name: 'f', arguments: '{"id":"\\u0061","n":[1,"b"]}' }] },
    ['a', 'b'],
  ],
  ['arguments that are no JSON', { input: [{ type: 'function_call', name: 'f', arguments: '{"a' }] }, ['{"a']],
  [
    'outputs of tools',
    { input: [{ type: 'function_call_output', call_id: 'c', output: [{ type: 'input_text', text: 'a' }] }] },
    ['a'],
  ],
  [
    'descriptions of tools and schemas, and values of arguments',
    {
      tools: [
        {
          type: 'function',
          function: {
            name: 'f',
            description: 'a',
            parameters: {
              type: 'object',
              required: ['x'],
              properties: {
                x: { type: 'string', description: 'b', enum: ['c'] },
                default: { type: 'string', default: 'd' },
              },
            },
          },
        },
      ],
    },
    ['a', 'b', 'c', 'd'],
  ],
  ['a text that begins like bytes', { messages: [{ role: 'user', content: 'data: a' }] }, ['data: a']],
  [
    'a text with a member that signs reasoning',
    { messages: [{ role: 'user', content: [{ type: 'text', text: 'a', signature: 's', encrypted_content: 'e' }] }] },
    ['a'],
  ],
  [
    'a document of plain text',
    {
      messages: [
        {
          role: 'user',
          content: [{ type: 'document', title: 'a', source: { type: 'text', media_type: 'text/plain', data: 'b' } }],
        },
      ],
    },
    ['a', 'b'],
  ],
  [
    'actions of the computer and of a shell',
    { input: [{ type: 'local_shell_call', call_id: 'c', action: { type: 'a', env: { name: 'b' } } }] },
    ['a', 'b'],
  ],
  [
    'the grammar and the place of a tool, but no credentials',
    {
      tools: [
        { type: 'custom', name: 'f', format: { type: 'grammar', syntax: 'lark', definition: 'a' } },
        { type: 'web_search', user_location: { type: 'approximate', city: 'b' } },
        { type: 'mcp', server_label: 'l', server_url: 'http://m', authorization: 'k', headers: { 'x-key': 'k' } },
      ],
    },
    ['a', 'b'],
  ],
  [
    'what identifies the call or controls it',
    {
      model: 'm',
      user: 'u',
      metadata: { a: 'b' },
      reasoning: { effort: 'low' },
      service_tier: 'auto',
      tool_choice: { type: 'function', name: 'f' },
    },
    [],
  ],
  [
    'reasoning with a signature',
    {
      messages: [
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'a', signature: 's' },
            { type: 'redacted_thinking', data: 'd' },
          ],
        },
      ],
      input: [{ type: 'reasoning', summary: [{ type: 'summary_text', text: 'a' }], encrypted_content: 'e' }],
    },
    [],
  ],
  [
    'bytes',
    {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA' } },
          ],
        },
      ],
    },
    [],
  ],
]
for (const [name, body, words] of read) test(`request texts: ${name}`, () => assert.deepEqual(wordsIn(body), words))

test('request texts: each has its role and its kind', () =>
  assert.deepEqual(
    textsIn({
      system: 'a',
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'b' }] },
        { role: 'assistant', content: [{ type: 'tool_use', name: 'f', input: { x: 'c' } }] },
        {
          role: 'user',
          content: [
            { type: 'web_search_tool_result', content: 'r' },
            { type: 'text', text: 's' },
          ],
        },
      ],
      tools: [{ name: 'f', description: 'd', input_schema: {} }],
    }),
    [
      { text: 'a', role: null, kind: 'text' },
      { text: 'b', role: 'user', kind: 'text' },
      { text: 'c', role: 'assistant', kind: 'arguments' },
      { text: 'r', role: 'user', kind: 'result' },
      { text: 's', role: 'user', kind: 'text' },
      { text: 'd', role: null, kind: 'tools' },
    ],
  ))

test('request texts: what does not change is the same object', () => {
  const body =
    parseObject(
      '{"n":12345678901234567890,"messages":[{"role":"user","content":"a"}],"tools":[{"description":"b"}]}',
    ) ?? {}
  assert.equal(
    changedTexts(body, ({ text }) => text),
    body,
  )
  const after = changedTexts(body, ({ text }) => (text === 'a' ? 'z' : text))
  assert.equal(after.tools, body.tools)
  assert.equal(JSON.stringify(after), JSON.stringify(body).replace('"a"', '"z"'))
})

test('request texts: changed arguments keep their digits and their other values', () => {
  const source = '{"a":"one","n":12345678901234567890,"x":1.50}'
  const after = changedTexts({ input: [{ type: 'function_call', arguments: source }] }, ({ text }) =>
    text.replace('one', 'two'),
  )
  assert.deepEqual(after, {
    input: [{ type: 'function_call', arguments: '{"a":"two","n":12345678901234567890,"x":1.5}' }],
  })
})

test('request texts: integers in arguments are read as their digits, and one that changes becomes a text', () => {
  const source =
    '{"card":4111111111111111,"long":6304000000000000000,"all":[4111111111111111,12345,-1234567,1234567.5]}'
  const found: string[] = []
  const after = changedTexts(
    {
      temperature: 1234567,
      messages: [{ role: 'assistant', tool_calls: [{ type: 'function', function: { name: 'f', arguments: source } }] }],
      input: [{ type: 'tool_use', name: 'f', input: { card: 4111111111111111, n: 1 } }],
    },
    ({ text }) => {
      found.push(text)
      return text === '4111111111111111' ? '[CARD_A]' : text
    },
  )
  assert.deepEqual(found.sort(), [...Array.from({ length: 3 }, () => '4111111111111111'), '6304000000000000000'])
  assert.deepEqual(JSON.parse(JSON.stringify(after)), {
    temperature: 1234567,
    messages: [
      {
        role: 'assistant',
        tool_calls: [
          {
            type: 'function',
            function: {
              name: 'f',
              arguments: '{"card":"[CARD_A]","long":6304000000000000000,"all":["[CARD_A]",12345,-1234567,1234567.5]}',
            },
          },
        ],
      },
    ],
    input: [{ type: 'tool_use', name: 'f', input: { card: '[CARD_A]', n: 1 } }],
  })
})

test('request texts: a member named __proto__ keeps its place', () => {
  const body = parseObject('{"input":[{"type":"function_call","arguments":"{\\"__proto__\\":\\"a\\"}"}]}') ?? {}
  assert.match(JSON.stringify(changedTexts(body, () => 'z')), /__proto__\\":\\"z/)
})
