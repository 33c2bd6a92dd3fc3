/** Tools with names specific to the responses format: translated to plain functions for other formats, and back. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerContext, sequentialIds } from '../../../test/support/builders.ts'
import { type ChatAnswer, type ChatEvent, type ChatRequest, type Tool, unfold } from '../../core/chat.ts'
import { isObject, type JsonObject, list, object, parseJson } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { ResponsesAnswerReader } from '../openai-responses/answer-reader.ts'
import { openaiResponses as codec } from '../openai-responses/index.ts'

const OPEN = { type: 'object', properties: {} }
const fn = (name: string, more: JsonObject = {}) => ({
  type: 'function',
  name,
  strict: false,
  parameters: OPEN,
  ...more,
})
const group = (name: string, ...tools: JsonObject[]) => ({
  type: 'namespace',
  name,
  description: `About ${name}.`,
  tools,
})
const search = { type: 'tool_search', execution: 'client', description: 'Finds tools.', parameters: OPEN }
const searchCall = { type: 'tool_search_call', call_id: 's1', execution: 'client', arguments: { query: 'mail' } }
const found = (...tools: JsonObject[]) => ({
  type: 'tool_search_output',
  call_id: 's1',
  execution: 'client',
  status: 'completed',
  tools,
})

const decoded = (body: JsonObject): ChatRequest => {
  const outcome = codec.decodeRequest({ model: 'm', input: 'hi', ...body })
  assert.ok(outcome.ok, outcome.ok ? '' : outcome.failure.message)
  return outcome.value
}
const namesIn = (tools: readonly Tool[]) => tools.map((tool) => (tool.kind === 'foreign' ? tool.raw.type : tool.name))

const named: readonly (readonly [string, JsonObject, readonly string[]])[] = [
  ['members of a namespace', { tools: [fn('a'), group('n', fn('b'), fn('c'))] }, ['a', 'n__b', 'n__c']],
  [
    'the same name in two namespaces and alone',
    { tools: [group('n', fn('a')), group('o', fn('a')), fn('a')] },
    ['n__a', 'o__a', 'a'],
  ],
  ['a custom tool in a namespace', { tools: [group('n', { type: 'custom', name: 'patch' })] }, ['n__patch']],
  ['a tool of this format only, in a namespace', { tools: [group('n', { type: 'shell' })] }, ['shell']],
  ['the tool search', { tools: [search] }, ['tool_search']],
  [
    'tools found by a search, without duplicates',
    { tools: [search, fn('a')], input: [searchCall, found(fn('a'), fn('b'), group('n', fn('c')))] },
    ['tool_search', 'a', 'b', 'n__c'],
  ],
]
for (const [name, body, names] of named)
  test(`responses names: ${name}`, () => assert.deepEqual(namesIn(decoded(body).tools), names))

const clashes: readonly (readonly [string, JsonObject])[] = [
  ['a function with the name of a translated member', { tools: [group('n', fn('a')), fn('n__a')] }],
  ['two namespaces that give the same name', { tools: [group('n', fn('b__c')), group('n__b', fn('c'))] }],
  ['a function named like the tool search', { tools: [search, fn('tool_search')] }],
  ['a member named like its namespace and a function', { tools: [group('n', fn('n')), fn('n')] }],
]
for (const [name, body] of clashes)
  test(`responses names: ${name}: names stay distinct and are translated back`, () => {
    const tools = decoded(body).tools
    assert.equal(new Set(namesIn(tools)).size, tools.length)
    const items = answered(
      body,
      tools.map((tool, at) => call(tool.kind === 'foreign' ? '' : tool.name, `call_${at}`)),
    )
    const expected = list(body.tools)
      .filter(isObject)
      .flatMap((tool) =>
        tool.type === 'namespace'
          ? list(tool.tools).map((member) => [tool.name, object(member)?.name])
          : [[undefined, tool.type === 'tool_search' ? undefined : tool.name]],
      )
    assert.deepEqual(
      items.map(({ namespace, name }) => [namespace, name]),
      expected,
    )
  })

test('responses names: the description of a namespace is added to its first tool only', () => {
  const { tools, extras } = decoded({ tools: [group('n', fn('a', { description: 'Does a.' }), fn('b'))] })
  assert.deepEqual(
    tools.map((tool) => (tool.kind === 'function' ? [tool.at, tool.description] : [])),
    [
      ['tools[0].tools[0]', '[n: About n.]\n\nDoes a.'],
      ['tools[0].tools[1]', undefined],
    ],
  )
  assert.deepEqual(extras, [])
})

test('responses names: calls of earlier turns have the names of their tools', () => {
  const input = [
    { type: 'function_call', call_id: 'c1', namespace: 'n', name: 'a', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c1', namespace: 'n', name: 'a', output: 'x' },
    // For a tool without a namespace the provider sends its name as the namespace (recordings: tool-search).
    { type: 'function_call', call_id: 'c2', namespace: 'lone', name: 'lone', arguments: '{}' },
    { type: 'function_call', call_id: 'c3', namespace: 'gone', name: 'a', arguments: '{}' },
    { type: 'custom_tool_call', call_id: 'c4', namespace: 'n', name: 'p', input: 'x' },
    searchCall,
    found(group('n', fn('a'))),
  ]
  const { messages, extras } = decoded({ input, tools: [search, group('n', fn('a')), fn('lone')] })
  const parts = messages.flatMap(({ content }) => content)
  assert.deepEqual(
    parts.flatMap((part) => (part.type === 'tool-call' ? [[part.id, part.name, part.arguments]] : [])),
    [
      ['c1', 'n__a', '{}'],
      ['c2', 'lone', '{}'],
      ['c3', 'gone__a', '{}'],
      ['c4', 'n__p', 'x'],
      ['s1', 'tool_search', '{"query":"mail"}'],
    ],
  )
  assert.deepEqual(messages.at(-1), {
    role: 'tool',
    at: 'input[6]',
    callId: 's1',
    content: [{ type: 'text', at: 'input[6].tools', text: '{"tools":["n__a"]}' }],
  })
  assert.deepEqual(
    [...extras, ...messages.flatMap((message) => message.extras ?? [])].map(({ at }) => at),
    [],
  )
})

test('responses names: a search that the provider runs is not translated', () => {
  const { tools, messages } = decoded({
    tools: [{ type: 'tool_search' }],
    input: [{ type: 'tool_search_call', id: 'x' }],
  })
  assert.equal(tools[0]?.kind, 'foreign')
  assert.equal(messages[0]?.content[0]?.type, 'foreign')
})

test('responses names: a tool of a namespace can be chosen', () => {
  const tools = [group('n', fn('a'))]
  const choice = { type: 'function', namespace: 'n', name: 'a' }
  assert.deepEqual(decoded({ tools, tool_choice: choice }).settings.toolChoice?.value, { kind: 'tool', name: 'n__a' })
})

// ── Answers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const call = (name: string, id: string, words = '{"x":1}') => ({ type: 'tool-call' as const, id, name, text: words })

const contextFor = (body: JsonObject): AnswerContext =>
  answerContext({ request: decoded(body), body, id: sequentialIds() })

const answered = (body: JsonObject, blocks: ChatAnswer['blocks']): JsonObject[] => {
  const answer = { blocks, finish: { kind: 'tool-calls' as const, raw: null } }
  return list(codec.encodeAnswer(answer, contextFor(body)).output).filter(isObject)
}

const BODY = { tools: [search, group('n', fn('a'), { type: 'custom', name: 'p' }), fn('b')] }

test('responses names: an answer has the client’s names of tools', () => {
  const blocks = [
    call('n__a', 'c1'),
    { ...call('n__p', 'c2', 'free'), custom: true },
    call('b', 'c3'),
    call('tool_search', 'c4', '{"query":"mail"}'),
    call('tool_search', 'c5', '{"query'),
  ]
  assert.deepEqual(
    answered(BODY, blocks).map(({ id, status, ...item }) => item),
    [
      { type: 'function_call', call_id: 'c1', name: 'a', namespace: 'n', arguments: '{"x":1}' },
      { type: 'custom_tool_call', call_id: 'c2', name: 'p', namespace: 'n', input: 'free' },
      { type: 'function_call', call_id: 'c3', name: 'b', arguments: '{"x":1}' },
      { type: 'tool_search_call', call_id: 'c4', execution: 'client', arguments: { query: 'mail' } },
      { type: 'tool_search_call', call_id: 'c5', execution: 'client', arguments: '{"query' },
    ],
  )
})

test('responses names: a stream has the client’s names from the first event, and a search as one item', () => {
  const answer: ChatAnswer = {
    blocks: [call('n__a', 'c1'), call('tool_search', 'c2', '{"query":"mail"}')],
    finish: { kind: 'tool-calls', raw: null },
  }
  const stream = codec.encodeStream(contextFor(BODY))
  const text = [...stream.push({ events: unfold(answer) }), ...stream.end()].join('')
  const events = text.split('\n\n').flatMap((frame) => {
    const data = /^data: (\{.*)$/m.exec(frame)?.[1]
    const event = data === undefined ? undefined : parseJson(data)
    return isObject(event) ? [event] : []
  })
  const itemEvents = events.filter(({ type }) => /item|arguments/.test(String(type)))
  assert.deepEqual(
    itemEvents.map(({ type, item, name }) => [
      type,
      object(item)?.namespace ?? null,
      object(item)?.name ?? name ?? null,
    ]),
    [
      ['response.output_item.added', 'n', 'a'],
      ['response.function_call_arguments.delta', null, null],
      ['response.function_call_arguments.done', null, 'a'],
      ['response.output_item.done', 'n', 'a'],
      ['response.output_item.added', null, null],
      ['response.output_item.done', null, null],
    ],
  )
  assert.deepEqual(object(itemEvents.at(-1)?.item)?.arguments, { query: 'mail' })
})

test('responses names: an answer’s namespace and name are joined when decoded and split when encoded', () => {
  const item = { type: 'function_call', id: 'fc', call_id: 'c1', namespace: 'n', name: 'a', arguments: '{}' }
  const response = { id: 'resp_1', status: 'completed', output: [item] }
  const events: ChatEvent[] = new ResponsesAnswerReader().read({ response }, 'response.completed', 0)
  const opened = events.find((event) => event.type === 'open')
  assert.deepEqual(opened, { type: 'open', block: { type: 'tool-call', id: 'c1', name: 'n__a' } })
  const [back] = answered(BODY, [call('n__a', 'c1', '{}')])
  assert.deepEqual([back?.namespace, back?.name], ['n', 'a'])
})
