import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChatEvent, ChatRequest } from '../../core/chat.ts'
import type { Json } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { openaiChat } from './index.ts'

const LONG = 'a'.repeat(70)
const request: ChatRequest = {
  model: 'm',
  stream: false,
  messages: [
    { role: 'user', at: 'm0', content: [{ type: 'text', at: 'm0', text: 'hi' }] },
    {
      role: 'assistant',
      at: 'm1',
      content: [
        { type: 'tool-call', at: 'm1', id: 'c1', name: 'patch', arguments: 'free "text"', custom: true },
        { type: 'tool-call', at: 'm1', id: 'c2', name: 'a.b', arguments: '{"x":1}' },
      ],
    },
    { role: 'tool', at: 'm2', callId: 'c1', content: [{ type: 'text', at: 'm2', text: 'done' }] },
    { role: 'tool', at: 'm3', callId: 'c2', content: [{ type: 'text', at: 'm3', text: 'done' }] },
  ],
  tools: [
    {
      kind: 'custom',
      at: 'tools[0]',
      name: 'patch',
      description: 'Edits.',
      format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' },
    },
    { kind: 'function', at: 'tools[1]', name: 'a.b' },
    { kind: 'function', at: 'tools[2]', name: LONG },
  ],
  settings: { toolChoice: { value: { kind: 'tool', name: 'patch' }, at: 'tool_choice' } },
  extras: [],
}

// biome-ignore lint/suspicious/noExplicitAny: a test looks into bodies of every shape
type Any = any
const encoded = (takesCustomTools: boolean) => {
  const { body, losses } = openaiChat.encodeRequest(request, { model: 'm', supportsCustomTools: takesCustomTools })
  return { body: body as Any, losses: losses.map(({ path }) => path) }
}
const nameOf = (tool: Any): string => (tool.function ?? tool.custom).name

test('chat functions: a free-form tool becomes a function with one text member', () => {
  const { body, losses } = encoded(false)
  const [patch] = body.tools
  assert.deepEqual([patch.type, patch.function.name, patch.function.description], ['function', 'patch', 'Edits.'])
  assert.deepEqual(patch.function.parameters.required, ['input'])
  assert.match(patch.function.parameters.properties.input.description, /start: /)
  assert.deepEqual(body.messages[1].tool_calls[0], {
    id: 'c1',
    type: 'function',
    function: { name: 'patch', arguments: '{"input":"free \\"text\\""}' },
  })
  assert.deepEqual(body.tool_choice, { type: 'function', function: { name: 'patch' } })
  // A grammar is described, not enforced.
  assert.deepEqual(losses, ['tools[0].format'])
})

test('chat functions: a free-form tool stays unchanged where the provider supports it', () => {
  const { body, losses } = encoded(true)
  assert.equal(body.tools[0].type, 'custom')
  assert.equal(body.messages[1].tool_calls[0].type, 'custom')
  assert.deepEqual(body.tool_choice, { type: 'custom', custom: { name: 'patch' } })
  assert.deepEqual(losses, [])
})

test('chat functions: encodes names by OpenAI’s rules for tools and calls, and restores them', () => {
  const { body } = encoded(false)
  const names: string[] = body.tools.map(nameOf)
  for (const name of names) assert.match(name, /^[a-zA-Z0-9_-]{1,64}$/)
  assert.equal(new Set(names).size, 3)
  assert.equal(nameOf(body.messages[1].tool_calls[1]), names[1])
  assert.deepEqual(
    names
      .map((name) => restored([{ type: 'open', block: { type: 'tool-call', id: 'c', name } }])[0])
      .map((event) => event?.type === 'open' && event.block.type === 'tool-call' && event.block.name),
    ['patch', 'a.b', LONG],
  )
})

const restored = (events: readonly ChatEvent[]): readonly ChatEvent[] => {
  const stage = openaiChat.restore?.(request)
  assert.ok(stage)
  return run(stage, events)
}
const call = (pieces: readonly string[], custom: boolean): ChatEvent[] => [
  { type: 'open', block: { type: 'tool-call', id: 'c', name: 'patch', ...(custom && { custom }) } },
  ...pieces.map((text): ChatEvent => ({ type: 'delta', text })),
  { type: 'close' },
]

const answers: readonly (readonly [string, readonly ChatEvent[], readonly Json[]])[] = [
  ['returned as a function', call(['{"inp', 'ut":"fr', 'ee"}'], false), ['free']],
  ['returned as free text', call(['{"inp', 'ut"'], true), ['{"inp', 'ut"']],
]
for (const [name, events, pieces] of answers)
  test(`chat functions: an answer's call of a free-form tool, ${name}`, () => {
    const [opened, ...rest] = restored(events)
    assert.deepEqual(opened, { type: 'open', block: { type: 'tool-call', id: 'c', name: 'patch', custom: true } })
    assert.deepEqual(
      rest.flatMap((event) => (event.type === 'delta' ? [event.text] : [])),
      pieces,
    )
  })
