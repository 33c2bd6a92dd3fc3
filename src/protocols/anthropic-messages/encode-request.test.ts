import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatRequest, lossPaths } from '../../../test/support/builders.ts'
import type { ChatRequest, GenerationSettings, Message, Part, Tool } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import type { EncodeTarget } from '../../core/protocol.ts'
import { JSON_INSTRUCTION } from '../shared/setting-encoders.ts'
import { DEFAULT_MAX_TOKENS, encodeRequest } from './encode-request.ts'
import { toolName, toolUseId } from './ids.ts'

const words = (text: string, at = 'messages[0].content'): Part => ({ type: 'text', at, text })
const user = (...content: Part[]): Message => ({ role: 'user', at: 'messages[0]', content })
const hello = user(words('Hi'))
const request = (more: Partial<ChatRequest> = {}): ChatRequest =>
  chatRequest({ stream: false, messages: [hello], ...more })
const encode = (more: Partial<ChatRequest>, target: EncodeTarget = { model: 'claude' }) => {
  const { body, losses, from } = encodeRequest(request(more), target)
  return { body, losses: lossPaths(losses), from }
}

// ── The conversation ─────────────────────────────────────────────────────────────────────────────────────────────────

const assistant = (...content: Part[]): Message => ({ role: 'assistant', at: 'messages[1]', content })
const system = (text: string, at = 'messages[0]'): Message => ({
  role: 'system',
  at,
  as: 'system',
  content: [words(text, `${at}.content`)],
})
const call = (id: string, args = '{}', more: { name?: string; custom?: boolean } = {}): Part => ({
  type: 'tool-call',
  at: `call ${id}`,
  id,
  name: 'f',
  arguments: args,
  ...more,
})
const result = (callId: string, text: string, more: Partial<Message & { role: 'tool' }> = {}): Message => ({
  role: 'tool',
  at: `result ${callId}`,
  callId,
  content: [words(text)],
  ...more,
})
const t = (text: string) => ({ type: 'text', text })
const use = (id: string, input: Json = {}) => ({ type: 'tool_use', id, name: 'f', input })
const got = (id: string, content: Json) => ({ type: 'tool_result', tool_use_id: id, content })
const u = (...content: Json[]) => ({ role: 'user', content })
const a = (...content: Json[]) => ({ role: 'assistant', content })

const conversations: readonly [string, readonly Message[], JsonObject, readonly string[]][] = [
  ['one turn', [hello], { messages: [u(t('Hi'))] }, []],
  [
    'system messages are moved to the front in their order',
    [system('A'), hello, system('B', 'messages[2]'), assistant(words('Yo')), user(words('?'))],
    { system: [t('A'), t('B')], messages: [u(t('Hi')), a(t('Yo')), u(t('?'))] },
    [],
  ],
  ['one system text is a string', [system('A'), hello], { system: 'A', messages: [u(t('Hi'))] }, []],
  [
    'adjacent messages of one role become one turn',
    [hello, user(words('again')), assistant(words('a')), assistant(words('b')), user(words('c'))],
    { messages: [u(t('Hi'), t('again')), a(t('a'), t('b')), u(t('c'))] },
    [],
  ],
  [
    'all results of a turn in one message, before its text',
    [
      hello,
      assistant(words('Let me see.'), call('c1', '{"x":1}'), call('c2', '')),
      result('c1', 'one'),
      user(words('by the way')),
      result('c2', 'two', { isError: true }),
    ],
    {
      messages: [
        u(t('Hi')),
        a(t('Let me see.'), use('c1', { x: 1 }), use('c2')),
        u(got('c1', 'one'), { ...got('c2', 'two'), is_error: true }, t('by the way')),
      ],
    },
    [],
  ],
  [
    'blank texts are dropped, and messages that become empty',
    [user(words(''), words('Hi')), assistant(words(' \n')), user(words('again'))],
    { messages: [u(t('Hi'), t('again'))] },
    [],
  ],
  [
    'an empty result has no content',
    [hello, assistant(call('c')), result('c', '')],
    { messages: [u(t('Hi')), a(use('c')), u({ type: 'tool_result', tool_use_id: 'c' })] },
    [],
  ],
  [
    'trailing white space of a final assistant turn is removed',
    [hello, assistant(words('The answer is  \n'))],
    { messages: [u(t('Hi')), a(t('The answer is'))] },
    [],
  ],
  [
    'a user turn is inserted before a conversation that begins with the assistant',
    [assistant(words('How can I help?')), hello],
    { messages: [u(t('Hello.')), a(t('How can I help?')), u(t('Hi'))] },
    ['messages[1]'],
  ],
  [
    'the last of several system messages becomes the user turn if there is no other',
    [system('You are a poet.'), system('Write.', 'messages[1]')],
    { system: 'You are a poet.', messages: [u(t('Write.'))] },
    ['messages[1].role'],
  ],
  ['no content', [user(words(' '))], { messages: [] }, ['!messages']],
  [
    'invalid call ids are replaced, the same for call and result',
    [hello, assistant(call('functions.f:0')), result('functions.f:0', 'r')],
    { messages: [u(t('Hi')), a(use(toolUseId('functions.f:0'))), u(got(toolUseId('functions.f:0'), 'r'))] },
    [],
  ],
  [
    'arguments that are not an object are kept as text',
    [
      hello,
      assistant(
        call('a', '{"x":'),
        call('b', '[1]'),
        call('c', '  '),
        call('d', `${'{"a":'.repeat(80)}1${'}'.repeat(80)}`),
      ),
      result('a', 'r'),
    ],
    {
      messages: [
        u(t('Hi')),
        a(
          use('a', { unreadable_arguments: '{"x":' }),
          use('b', { unreadable_arguments: '[1]' }),
          use('c', {}),
          use('d', { unreadable_arguments: `${'{"a":'.repeat(80)}1${'}'.repeat(80)}` }),
        ),
        u(got('a', 'r')),
      ],
    },
    [],
  ],
  [
    'free-form calls are wrapped',
    [hello, assistant(call('c', 'print("x")', { custom: true })), result('c', 'x')],
    { messages: [u(t('Hi')), a(use('c', { input: 'print("x")' })), u(got('c', 'x'))] },
    [],
  ],
  [
    "reasoning with Anthropic's signature is sent back unchanged, even without text; other reasoning is dropped",
    [
      hello,
      assistant(
        { type: 'reasoning', at: 'r0', text: 'Hm', signature: { origin: 'anthropic-messages', value: 'EqRk+/=' } },
        { type: 'reasoning', at: 'r1', text: '', signature: { origin: 'anthropic-messages', value: 'sig' } },
        {
          type: 'reasoning',
          at: 'r2',
          text: '',
          signature: { origin: 'anthropic-messages', value: 'sealed', redacted: true },
        },
        { type: 'reasoning', at: 'r3', text: 'theirs', signature: { origin: 'openai-responses', value: 'gAAA' } },
        { type: 'reasoning', at: 'r4', text: 'unsigned' },
        words('Yo'),
      ),
      user(words('?')),
    ],
    {
      messages: [
        u(t('Hi')),
        a(
          { type: 'thinking', thinking: 'Hm', signature: 'EqRk+/=' },
          { type: 'thinking', thinking: '', signature: 'sig' },
          { type: 'redacted_thinking', data: 'sealed' },
          t('Yo'),
        ),
        u(t('?')),
      ],
    },
    ['r3', 'r4'],
  ],
  [
    'a turn with dropped reasoning only is omitted',
    [hello, assistant({ type: 'reasoning', at: 'r', text: 'x' }), user(words('?'))],
    { messages: [u(t('Hi'), t('?'))] },
    ['r'],
  ],
  [
    'a refusal becomes text',
    [hello, assistant({ type: 'refusal', at: 'x', text: 'No.' }), user(words('?'))],
    { messages: [u(t('Hi')), a(t('No.')), u(t('?'))] },
    [],
  ],
  [
    'audio, foreign blocks and assistant images make the target unfit',
    [
      { role: 'system', at: 's', as: 'developer', content: [{ type: 'audio', at: 's.0', data: '', format: 'wav' }] },
      user(words('Hi'), { type: 'audio', at: 'u.1', data: '', format: 'wav' }),
      assistant({ type: 'foreign', at: 'a.0', protocol: 'openai-responses', raw: { type: 'web_search_call' } }),
      assistant({ type: 'image', at: 'a.1', source: { kind: 'url', url: 'https://x.example/a.png' } }),
    ],
    { messages: [u(t('Hi'))] },
    ['!s.0', '!u.1', '!a.0', '!a.1'],
  ],
  [
    "a message's cache mark is moved to its last block, a call's cache mark stays on the call",
    [
      {
        ...hello,
        extras: [
          { at: 'messages[0].cache_control', name: 'cache_control', value: { type: 'ephemeral' }, essential: false },
        ],
      },
      {
        ...assistant(call('c'), words('x')),
        extras: [{ at: 'call c.cache_control', name: 'cache_control', value: { type: 'ephemeral' }, essential: false }],
      },
      {
        ...user(words(' ')),
        extras: [{ at: 'm.cache_control', name: 'cache_control', value: { type: 'ephemeral' }, essential: false }],
      },
    ],
    {
      messages: [
        u({ ...t('Hi'), cache_control: { type: 'ephemeral' } }),
        a({ ...use('c'), cache_control: { type: 'ephemeral' } }, t('x')),
      ],
    },
    ['m.cache_control'],
  ],
  [
    'unknown members',
    [
      {
        ...hello,
        extras: [{ at: 'messages[0].name', name: 'name', value: 'Ann', essential: false }],
        content: [
          {
            type: 'text',
            at: 'p',
            text: 'Hi',
            extras: [
              {
                at: 'p.cache_control',
                name: 'cache_control',
                value: { type: 'ephemeral', ttl: '1h' },
                essential: false,
              },
              { at: 'p.x', name: 'x', value: 1, essential: true },
            ],
          },
        ],
      },
    ],
    { messages: [u({ ...t('Hi'), cache_control: { type: 'ephemeral', ttl: '1h' } })] },
    ['!p.x', 'messages[0].name'],
  ],
]
for (const [name, messages, expected, losses] of conversations)
  test(`conversation: ${name}`, () => {
    const { body, losses: lost } = encode({ messages })
    const { system: said, messages: turns } = body
    assert.deepEqual({ ...(said !== undefined && { system: said }), messages: turns }, expected)
    assert.deepEqual([...lost].sort(), [...losses].sort())
  })

// ── Images and files ─────────────────────────────────────────────────────────────────────────────────────────────────

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII='
const PDF = 'JVBERi0xLjQKJcfsj6IK'
const image = (source: (Part & { type: 'image' })['source'], detail?: string): Part => ({
  type: 'image',
  at: 'i',
  source,
  ...(detail && { detail }),
})
const file = (source: (Part & { type: 'file' })['source'], filename?: string): Part => ({
  type: 'file',
  at: 'f',
  source,
  ...(filename && { filename }),
})
const png = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } }
const pdf = { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: PDF } }
const plain = (data: string) => ({ type: 'document', source: { type: 'text', media_type: 'text/plain', data } })

const media: readonly [string, Part, JsonObject | undefined, readonly string[]][] = [
  ['an inline image', image({ kind: 'data', mediaType: 'image/png', data: PNG }), png, []],
  ['a type with parameters', image({ kind: 'data', mediaType: 'Image/PNG; charset=x', data: PNG }), png, []],
  ['no type', image({ kind: 'data', mediaType: '', data: PNG }), png, []],
  ['an unparsed data URL', image({ kind: 'url', url: `data:image/png;x=y;base64,${PNG}` }), png, []],
  [
    'line breaks in base64',
    image({ kind: 'data', mediaType: 'image/png', data: `${PNG.slice(0, 40)}\n${PNG.slice(40)}` }),
    png,
    [],
  ],
  [
    'jpg',
    image({ kind: 'data', mediaType: 'image/jpg', data: '/9j/4AAQ' }),
    { type: 'image', source: { type: 'base64', media_type: 'image/jpeg', data: '/9j/4AAQ' } },
    [],
  ],
  [
    'an unsupported image type',
    image({ kind: 'data', mediaType: 'image/svg+xml', data: 'PHN2Zz4=' }),
    undefined,
    ['!i'],
  ],
  [
    'an image by URL',
    image({ kind: 'url', url: 'https://x.example/a.png' }, 'auto'),
    { type: 'image', source: { type: 'url', url: 'https://x.example/a.png' } },
    [],
  ],
  ['an image URL without https', image({ kind: 'url', url: 'http://x.example/a.png' }), undefined, ['!i']],
  ['an image with a detail', image({ kind: 'data', mediaType: 'image/png', data: PNG }, 'low'), png, ['i.detail']],
  [
    "an image by Anthropic's file id",
    image({ kind: 'id', id: 'file_1', protocol: 'anthropic-messages' }),
    { type: 'image', source: { type: 'file', file_id: 'file_1' } },
    [],
  ],
  [
    "an image by another provider's file id",
    image({ kind: 'id', id: 'file-1', protocol: 'openai-chat' }),
    undefined,
    ['!i'],
  ],
  ['pdf', file({ kind: 'data', mediaType: 'application/pdf', data: PDF }, 'a.pdf'), { ...pdf, title: 'a.pdf' }, []],
  ['a PDF with a generic type', file({ kind: 'data', mediaType: 'application/octet-stream', data: PDF }), pdf, []],
  ['text', file({ kind: 'data', mediaType: 'text/markdown', data: 'IyBIw6k=' }), plain('# Hé'), []],
  [
    'a text file without a type, recognised by its extension',
    file({ kind: 'data', mediaType: '', data: 'YSxi' }, 'a.csv'),
    { ...plain('a,b'), title: 'a.csv' },
    [],
  ],
  ['json', file({ kind: 'data', mediaType: 'application/json', data: 'e30=' }), plain('{}'), []],
  ['text that is not UTF-8', file({ kind: 'data', mediaType: 'text/plain', data: '/////w==' }), undefined, ['!f']],
  ['an image as a file', file({ kind: 'data', mediaType: 'image/png', data: PNG }), png, []],
  [
    'an unsupported file type',
    file({ kind: 'data', mediaType: 'application/zip', data: 'UEsDBA==' }),
    undefined,
    ['!f'],
  ],
  [
    'a document by URL',
    file({ kind: 'url', url: 'https://x.example/a.pdf' }),
    { type: 'document', source: { type: 'url', url: 'https://x.example/a.pdf' } },
    [],
  ],
  [
    "a document by another provider's file id",
    file({ kind: 'id', id: 'file-1', protocol: 'openai-responses' }),
    undefined,
    ['!f'],
  ],
]
for (const [name, part, block, losses] of media)
  for (const where of ['a question', 'a result'])
    test(`media: ${name}, in ${where}`, () => {
      const inResult = where === 'a result'
      const messages: Message[] = inResult
        ? [hello, assistant(call('c')), { role: 'tool', at: 'r', callId: 'c', content: [words('x'), part] }]
        : [user(words('x'), part)]
      const { body, losses: lost } = encode({ messages })
      const turns = body.messages as { content: { content?: Json }[] }[]
      const content = inResult ? turns.at(-1)?.content[0]?.content : turns.at(-1)?.content
      const expected = block ? [t('x'), block] : [t('x')]
      assert.deepEqual(content, inResult && !block ? 'x' : expected)
      assert.deepEqual(lost, losses)
    })

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const fn = (name: string, more: Partial<Tool & { kind: 'function' }> = {}): Tool => ({
  kind: 'function',
  at: `tools ${name}`,
  name,
  ...more,
})
const open = { type: 'object', properties: { q: { type: 'string' } } }
const closed = { ...open, required: ['q'], additionalProperties: false }
const bounded = { ...closed, properties: { q: { type: 'string', maxLength: 3 } } }
const nothing = { type: 'object', properties: {} }
const long = `${'x'.repeat(130)}`

const tools: readonly [string, readonly Tool[], readonly JsonObject[], readonly string[]][] = [
  [
    'a function',
    [fn('f', { description: 'd', parameters: open })],
    [{ name: 'f', description: 'd', input_schema: open }],
    [],
  ],
  ['no parameters', [fn('f')], [{ name: 'f', input_schema: nothing }], []],
  [
    'parameters without a type',
    [fn('f', { parameters: { properties: {} } })],
    [{ name: 'f', input_schema: nothing }],
    [],
  ],
  [
    'parameters with a list of types',
    [fn('f', { parameters: { type: ['object', 'null'], properties: {} } })],
    [{ name: 'f', input_schema: nothing }],
    [],
  ],
  ['not an object', [fn('f', { parameters: { type: 'array' } })], [], ['!tools f']],
  ['a union at the top level', [fn('f', { parameters: { type: 'object', anyOf: [open, closed] } })], [], ['!tools f']],
  ['strict', [fn('f', { parameters: closed, strict: true })], [{ name: 'f', input_schema: closed, strict: true }], []],
  [
    'strict with an open schema',
    [fn('f', { parameters: open, strict: true })],
    [{ name: 'f', input_schema: open }],
    [],
  ],
  [
    'strict with an unsupported keyword',
    [fn('f', { parameters: bounded, strict: true })],
    [{ name: 'f', input_schema: bounded }],
    ['tools f.strict'],
  ],
  ['not strict', [fn('f', { parameters: closed, strict: false })], [{ name: 'f', input_schema: closed }], []],
  ['a long name', [fn(long)], [{ name: toolName(long), input_schema: nothing }], []],
  [
    "another provider's hosted tool",
    [{ kind: 'foreign', at: 'tools[0]', protocol: 'openai-responses', raw: { type: 'web_search' } }],
    [],
    ['!tools[0]'],
  ],
  [
    "Anthropic's own tool",
    [{ kind: 'foreign', at: 'tools[0]', protocol: 'anthropic-messages', raw: { type: 'bash_20250124', name: 'bash' } }],
    [{ type: 'bash_20250124', name: 'bash' }],
    [],
  ],
  [
    'extras',
    [
      fn('f', {
        extras: [
          { at: 'x.cache_control', name: 'cache_control', value: { type: 'ephemeral' }, essential: false },
          { at: 'x.y', name: 'y', value: 1, essential: false },
        ],
      }),
    ],
    [{ name: 'f', input_schema: nothing, cache_control: { type: 'ephemeral' } }],
    ['x.y'],
  ],
]
for (const [name, list, expected, losses] of tools)
  test(`tools: ${name}`, () => {
    const { body, losses: lost } = encode({ tools: list })
    assert.deepEqual(body.tools ?? [], expected)
    assert.deepEqual(lost, losses)
  })

test('tools: a free-form tool becomes a function with one string; its grammar moves into the description', () => {
  const format = { type: 'grammar', syntax: 'lark', definition: 'start: "x"' }
  const { body, losses } = encode({
    tools: [{ kind: 'custom', at: 'tools[0]', name: 'patch', description: 'd', format }],
  })
  const [tool] = body.tools as JsonObject[]
  assert.equal(tool?.name, 'patch')
  assert.equal(tool?.description, 'd')
  assert.match(JSON.stringify(tool?.input_schema), /start: /)
  assert.match(JSON.stringify(tool?.input_schema), /"required":\["input"\]/)
  assert.deepEqual(losses, ['tools[0].format'])
})

const two = [fn('f'), fn('g')]
const choices: readonly [string, GenerationSettings, readonly Tool[], Json, number, readonly string[]][] = [
  ['absent', {}, two, undefined as unknown as Json, 2, []],
  ['auto', { toolChoice: { at: 'tc', value: { kind: 'auto' } } }, two, { type: 'auto' }, 2, []],
  ['none', { toolChoice: { at: 'tc', value: { kind: 'none' } } }, two, { type: 'none' }, 2, []],
  ['required', { toolChoice: { at: 'tc', value: { kind: 'required' } } }, two, { type: 'any' }, 2, []],
  [
    'one tool',
    { toolChoice: { at: 'tc', value: { kind: 'tool', name: 'g' } } },
    two,
    { type: 'tool', name: 'g' },
    2,
    [],
  ],
  [
    'allowed tools',
    { toolChoice: { at: 'tc', value: { kind: 'allowed', mode: 'auto', names: ['g'] } } },
    two,
    { type: 'auto' },
    1,
    [],
  ],
  [
    'allowed tools, call required',
    { toolChoice: { at: 'tc', value: { kind: 'allowed', mode: 'required', names: ['g'] } } },
    two,
    { type: 'any' },
    1,
    [],
  ],
  [
    'no parallel calls',
    { parallelToolCalls: { at: 'p', value: false } },
    two,
    { type: 'auto', disable_parallel_tool_use: true },
    2,
    [],
  ],
  ['parallel calls', { parallelToolCalls: { at: 'p', value: true } }, two, undefined as unknown as Json, 2, []],
  [
    'required, no parallel calls',
    { toolChoice: { at: 'tc', value: { kind: 'required' } }, parallelToolCalls: { at: 'p', value: false } },
    two,
    { type: 'any', disable_parallel_tool_use: true },
    2,
    [],
  ],
  [
    'none, no parallel calls',
    { toolChoice: { at: 'tc', value: { kind: 'none' } }, parallelToolCalls: { at: 'p', value: false } },
    two,
    { type: 'none' },
    2,
    [],
  ],
  [
    'required without tools',
    { toolChoice: { at: 'tc', value: { kind: 'required' } } },
    [],
    undefined as unknown as Json,
    0,
    ['tc'],
  ],
  [
    'auto without tools',
    { toolChoice: { at: 'tc', value: { kind: 'auto' } }, parallelToolCalls: { at: 'p', value: false } },
    [],
    undefined as unknown as Json,
    0,
    [],
  ],
]
for (const [name, settings, list, choice, count, losses] of choices)
  test(`tool choice: ${name}`, () => {
    const { body, losses: lost } = encode({ settings, tools: list })
    assert.deepEqual(body.tool_choice, choice)
    assert.equal(((body.tools ?? []) as Json[]).length, count)
    assert.deepEqual(lost, losses)
  })

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const at = <T>(value: T, path = 's') => ({ value, at: path })
const schema = { type: 'object', properties: { n: { type: 'integer', minimum: 1 } }, required: ['n'] }
const MAX = { max_tokens: DEFAULT_MAX_TOKENS }
const settings: readonly [string, GenerationSettings, JsonObject, readonly string[], EncodeTarget?][] = [
  ['no settings', {}, MAX, []],
  ["the model's output limit by default", {}, { max_tokens: 64_000 }, [], { model: 'claude', outputLimit: 64_000 }],
  ['an output limit', { maxOutputTokens: at(100) }, { max_tokens: 100 }, []],
  [
    "an output limit above the model's",
    { maxOutputTokens: at(100_000) },
    { max_tokens: 64_000 },
    ['s'],
    { model: 'claude', outputLimit: 64_000 },
  ],
  ['temperature', { temperature: at(0.3) }, { ...MAX, temperature: 0.3 }, []],
  ['temperature above the maximum', { temperature: at(1.7) }, { ...MAX, temperature: 1 }, ['s']],
  ['top_p', { topP: at(0.9) }, { ...MAX, top_p: 0.9 }, []],
  ['temperature and top_p', { temperature: at(0.3, 't'), topP: at(0.9, 'p') }, { ...MAX, temperature: 0.3 }, ['p']],
  ['temperature with the default top_p', { temperature: at(0.3), topP: at(1) }, { ...MAX, temperature: 0.3 }, []],
  ['the default temperature with top_p', { temperature: at(1), topP: at(0.5) }, { ...MAX, top_p: 0.5 }, []],
  ['the default temperature and top_p', { temperature: at(1), topP: at(1) }, { ...MAX, temperature: 1 }, []],
  ['top_k', { topK: at(40) }, { ...MAX, top_k: 40 }, []],
  ['stop sequences, a blank one dropped', { stop: at(['END', '\n']) }, { ...MAX, stop_sequences: ['END'] }, ['s']],
  ['an empty list of stop sequences', { stop: at([]) }, MAX, []],
  ['user', { user: at('u-1') }, { ...MAX, metadata: { user_id: 'u-1' } }, []],
  ['a user that is an email address', { user: at('ann@x.example') }, MAX, ['s']],
  ['tier auto', { serviceTier: at('auto') }, { ...MAX, service_tier: 'auto' }, []],
  ['tier default', { serviceTier: at('default') }, { ...MAX, service_tier: 'standard_only' }, []],
  ['tier flex', { serviceTier: at('flex') }, MAX, ['s']],
  ['several answers', { choices: at(2) }, MAX, ['!s']],
  ['one answer', { choices: at(1) }, MAX, []],
  ['seed', { seed: at(1) }, MAX, ['s']],
  ['penalties', { presencePenalty: at(1, 'a'), frequencyPenalty: at(0, 'b') }, MAX, ['a']],
  ['logit bias', { logitBias: at({ '1': 2 }) }, MAX, ['s']],
  ['an empty logit bias', { logitBias: at({}) }, MAX, []],
  ['logprobs', { logprobs: at(true, 'a'), topLogprobs: at(3, 'b') }, MAX, ['a', 'b']],
  ['logprobs off', { logprobs: at(false), topLogprobs: at(0) }, MAX, []],
  ['verbosity', { verbosity: at('low') }, MAX, ['s']],
  ['cache key', { promptCacheKey: at('k') }, MAX, ['s']],
  ['metadata', { metadata: at({ a: 'b' }) }, MAX, ['s']],
  ['store', { store: at(true) }, MAX, ['s']],
  ['store off', { store: at(false) }, MAX, []],
  ['usage in the stream', { streamUsage: at(true) }, MAX, []],
  ['encrypted reasoning requested', { encryptedReasoning: at(true) }, MAX, []],
  ['text', { format: at({ kind: 'text' }) }, MAX, []],
  ['any JSON', { format: at({ kind: 'json' }) }, { ...MAX, system: JSON_INSTRUCTION }, []],
  [
    'a schema: objects closed, bounds in the description, name and description kept',
    { format: at({ kind: 'schema', name: 'num', description: 'A number.', schema, strict: true }) },
    {
      ...MAX,
      output_config: {
        format: {
          type: 'json_schema',
          schema: {
            type: 'object',
            properties: { n: { type: 'integer', description: '(minimum: 1)' } },
            required: ['n'],
            additionalProperties: false,
            title: 'num',
            description: 'A number.',
          },
        },
      },
    },
    ['s.schema.properties.n.minimum'],
  ],
  [
    'a schema with a map',
    { format: at({ kind: 'schema', name: 'x', schema: { type: 'object', additionalProperties: { type: 'string' } } }) },
    MAX,
    ['!s'],
  ],
  ['effort', { effort: at('high') }, { ...MAX, thinking: { type: 'adaptive' }, output_config: { effort: 'high' } }, []],
  [
    'effort with a summary',
    { effort: at('low'), reasoningSummary: at('detailed', 'r') },
    { ...MAX, thinking: { type: 'adaptive', display: 'summarized' }, output_config: { effort: 'low' } },
    ['r'],
  ],
  ['a reasoning summary without reasoning', { reasoningSummary: at('auto') }, MAX, ['s']],
  [
    'minimal effort',
    { effort: at('minimal') },
    { ...MAX, thinking: { type: 'adaptive' }, output_config: { effort: 'low' } },
    ['s'],
  ],
  ['effort none', { effort: at('none') }, { ...MAX, thinking: { type: 'disabled' } }, []],
  [
    'effort and temperature',
    { effort: at('high', 'e'), temperature: at(0.2, 't'), topP: at(0.5, 'p'), topK: at(4, 'k') },
    { ...MAX, thinking: { type: 'adaptive' }, output_config: { effort: 'high' } },
    ['t', 'p', 'k'],
  ],
  [
    'effort and neutral sampling settings',
    { effort: at('high', 'e'), temperature: at(1, 't'), topP: at(0.97, 'p') },
    { ...MAX, top_p: 0.97, thinking: { type: 'adaptive' }, output_config: { effort: 'high' } },
    [],
  ],
  [
    'effort and a schema',
    {
      effort: at('high', 'e'),
      format: at({
        kind: 'schema',
        name: 'response',
        schema: { type: 'object', properties: {}, additionalProperties: false },
      }),
    },
    {
      ...MAX,
      thinking: { type: 'adaptive' },
      output_config: {
        effort: 'high',
        format: { type: 'json_schema', schema: { type: 'object', properties: {}, additionalProperties: false } },
      },
    },
    [],
  ],
  [
    'budget',
    { thinkingBudget: at(4_000) },
    { max_tokens: DEFAULT_MAX_TOKENS + 4_000, thinking: { type: 'enabled', budget_tokens: 4_000 } },
    [],
  ],
  [
    'budget above the output limit',
    { thinkingBudget: at(9_000, 'b'), maxOutputTokens: at(4_096) },
    { max_tokens: 4_096, thinking: { type: 'enabled', budget_tokens: 2_048 } },
    ['b'],
  ],
  [
    'output limit too small for any budget',
    { thinkingBudget: at(2_000, 'b'), maxOutputTokens: at(500) },
    { max_tokens: 500 },
    ['b'],
  ],
  [
    'budget below the minimum',
    { thinkingBudget: at(10) },
    { max_tokens: DEFAULT_MAX_TOKENS + 10, thinking: { type: 'enabled', budget_tokens: 1_024 } },
    ['s'],
  ],
  ['budget 0', { thinkingBudget: at(0) }, { ...MAX, thinking: { type: 'disabled' } }, []],
]
for (const [name, wishes, expected, losses, target] of settings)
  test(`settings: ${name}`, () => {
    const { body, losses: lost } = encode({ settings: wishes }, target)
    const { model, messages, ...rest } = body
    assert.equal(model, 'claude')
    assert.ok(messages)
    assert.deepEqual(rest, expected)
    assert.deepEqual([...lost].sort(), [...losses].sort())
  })

test('thinking: a forced tool call disables thinking', () => {
  const forced: GenerationSettings = { toolChoice: at({ kind: 'required' }), effort: at('high', 'e') }
  assert.deepEqual(encode({ settings: forced, tools: two }).body.thinking, undefined)
  assert.deepEqual(encode({ settings: forced, tools: two }).body.output_config, { effort: 'high' })
  const budget: GenerationSettings = { toolChoice: at({ kind: 'required' }), thinkingBudget: at(2_000, 'b') }
  assert.deepEqual(encode({ settings: budget, tools: two }).losses, ['b'])
})

test('thinking: a budget requires signed thinking before answered calls', () => {
  const budget: GenerationSettings = { thinkingBudget: at(2_000, 'b') }
  const calls = [hello, assistant(call('c')), result('c', 'r')]
  assert.deepEqual(encode({ settings: budget, messages: calls }).losses, ['b'])
  const thought: Part = {
    type: 'reasoning',
    at: 'r',
    text: '',
    signature: { origin: 'anthropic-messages', value: 'sig' },
  }
  const proven = [hello, assistant(thought, call('c')), result('c', 'r')]
  assert.deepEqual(encode({ settings: budget, messages: proven }).losses, [])
  const done = [...calls, assistant(words('So.')), user(words('And?'))]
  assert.deepEqual(encode({ settings: budget, messages: done }).losses, [])
})

test('members of this format sent in another format', () => {
  const extra = (name: string, value: Json, essential = false) => ({ at: `x.${name}`, name, value, essential })
  const { body, losses } = encode({
    extras: [
      extra('thinking', { type: 'enabled', budget_tokens: 2_000 }),
      extra('mcp_servers', []),
      extra('container', 7, true),
      extra('unknown', 1),
    ],
  })
  assert.deepEqual(body.thinking, { type: 'enabled', budget_tokens: 2_000 })
  assert.deepEqual(body.mcp_servers, [])
  assert.deepEqual(losses, ['!x.container', 'x.unknown'])
})

test('origin of each member', () => {
  const { from } = encode({
    stream: true,
    messages: [{ ...hello, at: 'input[0]' }, system('S', 'instructions')],
    tools: two,
    settings: {
      maxOutputTokens: at(9, 'max_completion_tokens'),
      stop: at(['x'], 'stop'),
      effort: at('low', 'reasoning.effort'),
    },
  })
  assert.deepEqual(from, {
    model: 'model',
    max_tokens: 'max_completion_tokens',
    system: 'instructions',
    messages: 'input',
    tools: 'tools',
    thinking: 'reasoning.effort',
    output_config: 'reasoning.effort',
    'output_config.effort': 'reasoning.effort',
    stop_sequences: 'stop',
    stream: 'stream',
  })
})

const CLOSED = { type: 'object', properties: {}, additionalProperties: false }
test('origin of nested members', () => {
  const { from } = encode({
    settings: {
      effort: at('low', 'reasoning.effort'),
      reasoningSummary: at('auto', 'reasoning.summary'),
      format: at({ kind: 'schema', name: 'n', schema: CLOSED }, 'text.format'),
    },
  })
  assert.equal(from['output_config.effort'], 'reasoning.effort')
  assert.equal(from['output_config.format'], 'text.format')
  assert.equal(from['thinking.display'], 'reasoning.summary')
})
