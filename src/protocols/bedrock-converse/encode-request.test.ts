/** Encoding of Converse requests: every member and its losses. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assistantMessage, chatRequest, lossPaths, toolCallPart, userMessage } from '../../../test/support/builders.ts'
import type { ChatRequest, Extra, GenerationSettings, Message, Part, Tool } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { JSON_INSTRUCTION } from '../shared/setting-encoders.ts'
import { familyOf } from './family.ts'
import { bedrockConverse } from './index.ts'

const SONNET = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'
const NEWER = 'us.anthropic.claude-sonnet-4-6'
const NEWEST = 'global.anthropic.claude-opus-5-20260901-v1:0'
const OLD = 'anthropic.claude-3-haiku-20240307-v1:0'
const NOVA = 'us.amazon.nova-lite-v1:0'
const NOVA2 = 'us.amazon.nova-2-lite-v1:0'
const OSS = 'openai.gpt-oss-120b-1:0'
const LLAMA = 'us.meta.llama4-maverick-17b-instruct-v1:0'
const PROFILE = 'arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/mi1dadi0g15f'

const asks = (parts: Partial<ChatRequest>): ChatRequest =>
  chatRequest({ stream: false, messages: [userMessage(said('q'))], ...parts })

/** The body, and the losses, with `!` for those that make the target unfit. */
const encode = (parts: Partial<ChatRequest>, model = SONNET): { body: JsonObject; losses: string[] } => {
  const { body, losses } = bedrockConverse.encodeRequest(asks(parts), { model, outputLimit: 64_000 })
  return { body, losses: lossPaths(losses) }
}

const said = (text: string, extras?: readonly Extra[]): Part => ({
  type: 'text',
  at: `t ${text}`,
  text,
  ...(extras && { extras }),
})
const system = (...content: Part[]): Message => ({ role: 'system', at: 's', as: 'system', content })
const result = (callId: string, ...content: Part[]): Message => ({ role: 'tool', at: `r ${callId}`, callId, content })
const tool = (name: string, more: Partial<Tool & { kind: 'function' }> = {}): Tool => ({
  kind: 'function',
  at: `tool ${name}`,
  name,
  parameters: PARAMETERS,
  ...more,
})
const PARAMETERS = {
  type: 'object',
  properties: { a: { type: 'string' } },
  required: ['a'],
  additionalProperties: false,
}
const cache = (at: string, ttl?: string): Extra => ({
  at: `${at}.cache_control`,
  name: 'cache_control',
  value: { type: 'ephemeral', ...(ttl && { ttl }) },
  essential: false,
})
const at = <T>(value: T, path: string) => ({ value, at: path })
const POINT = { cachePoint: { type: 'default' } }

// ── The conversation ─────────────────────────────────────────────────────────────────────────────────────────────────

const PNG = 'iVBORw0KGgo='
const PDF = 'JVBERi0='
const picture = (place: string): Part => ({
  type: 'image',
  at: place,
  source: { kind: 'data', mediaType: '', data: PNG },
})
const PICTURE = { image: { format: 'png', source: { bytes: PNG } } }
const file = (filename: string | undefined, mediaType = 'application/pdf', data = PDF): Part => ({
  type: 'file',
  at: `file ${filename}`,
  source: { kind: 'data', mediaType, data },
  ...(filename !== undefined && { filename }),
})
const proof = (origin: 'bedrock-converse' | 'anthropic-messages', text: string, redacted = false): Part => ({
  type: 'reasoning',
  at: `thought ${text}`,
  text,
  signature: { origin, value: 'SIG', ...(redacted && { redacted }) },
})
const use = (id: string, name = 'f', input: JsonObject = { a: 1 }) => ({ toolUse: { toolUseId: id, name, input } })
const gave = (id: string, ...content: JsonObject[]) => ({ toolResult: { toolUseId: id, content } })

const conversations: readonly (readonly [
  name: string,
  messages: readonly Message[],
  turns: readonly (readonly [role: string, ...content: JsonObject[]])[],
  losses: readonly string[],
  model?: string,
])[] = [
  [
    'adjacent messages of one role become one turn, and blank texts are dropped',
    [userMessage(said('a')), userMessage(said('  '), said('b')), assistantMessage(said('')), userMessage(said('c'))],
    [['user', { text: 'a' }, { text: 'b' }, { text: 'c' }]],
    [],
  ],
  [
    'a user turn is inserted before a conversation that begins with the assistant',
    [assistantMessage(said('hi')), userMessage(said('a'))],
    [
      ['user', { text: 'Hello.' }],
      ['assistant', { text: 'hi' }],
      ['user', { text: 'a' }],
    ],
    ['a'],
  ],
  [
    'trailing white space of a final assistant turn is removed',
    [userMessage(said('a')), assistantMessage(said('so: \n'))],
    [
      ['user', { text: 'a' }],
      ['assistant', { text: 'so:' }],
    ],
    [],
  ],
  [
    'results of a turn are in one message, before its text',
    [
      userMessage(said('q')),
      assistantMessage(said('hm'), toolCallPart('1'), toolCallPart('2', 'g', '')),
      userMessage(said('and?')),
      result('1', said('one')),
      result('2', said('')),
    ],
    [
      ['user', { text: 'q' }],
      ['assistant', { text: 'hm' }, use('1'), use('2', 'g', {})],
      ['user', gave('1', { text: 'one' }), gave('2', { text: '(no output)' }), { text: 'and?' }],
    ],
    [],
  ],
  [
    'a failed call with an image and a document in its result',
    [
      userMessage(said('q')),
      assistantMessage(toolCallPart('1')),
      { ...result('1', said('x'), picture('i'), file('a.pdf')), isError: true } as Message,
    ],
    [
      ['user', { text: 'q' }],
      ['assistant', use('1')],
      [
        'user',
        {
          toolResult: {
            toolUseId: '1',
            content: [{ text: 'x' }, PICTURE, { document: { format: 'pdf', name: 'a', source: { bytes: PDF } } }],
            status: 'error',
          },
        },
      ],
    ],
    [],
  ],
  [
    'malformed arguments are kept as text',
    [userMessage(said('q')), assistantMessage(toolCallPart('1', 'f', '{"a'))],
    [
      ['user', { text: 'q' }],
      ['assistant', use('1', 'f', { unreadable_arguments: '{"a' })],
    ],
    [],
  ],
  [
    "reasoning with Bedrock's signature, also redacted; other reasoning is dropped",
    [
      userMessage(said('q')),
      assistantMessage(
        proof('bedrock-converse', 'hm'),
        proof('bedrock-converse', '', true),
        proof('anthropic-messages', 'other'),
        { type: 'reasoning', at: 'unsigned', text: 'hm' },
        said('a'),
      ),
    ],
    [
      ['user', { text: 'q' }],
      [
        'assistant',
        { reasoningContent: { reasoningText: { text: 'hm', signature: 'SIG' } } },
        { reasoningContent: { redactedContent: 'SIG' } },
        { text: 'a' },
      ],
    ],
    ['thought other', 'unsigned'],
  ],
  [
    'reasoning is dropped for a model that does not accept it',
    [userMessage(said('q')), assistantMessage(proof('bedrock-converse', 'hm'), said('a'))],
    [
      ['user', { text: 'q' }],
      ['assistant', { text: 'a' }],
    ],
    ['thought hm'],
    NOVA2,
  ],
  [
    'inline images, videos and audio; other sources and types make the target unfit',
    [
      userMessage(
        picture('i'),
        { type: 'image', at: 'd', source: { kind: 'url', url: `data:image/webp;base64,${PNG}` }, detail: 'low' },
        file('clip.mp4', 'video/mp4', 'AAAA'),
        { type: 'audio', at: 'w', data: 'AAAA', format: 'wav' },
        { type: 'image', at: 'url', source: { kind: 'url', url: 'https://h/a.png' } },
        { type: 'file', at: 's3', source: { kind: 'url', url: 's3://bucket/a.pdf' } },
        { type: 'file', at: 'id', source: { kind: 'id', id: 'file-1', protocol: 'openai-chat' } },
        { type: 'image', at: 'tiff', source: { kind: 'data', mediaType: 'image/tiff', data: 'AAAA' } },
        { type: 'audio', at: 'pcm16', data: 'AAAA', format: 'pcm16' },
      ),
    ],
    [
      [
        'user',
        PICTURE,
        // The bytes prevail over the declared media type.
        { image: { format: 'png', source: { bytes: PNG } } },
        { video: { format: 'mp4', source: { bytes: 'AAAA' } } },
        { audio: { format: 'wav', source: { bytes: 'AAAA' } } },
      ],
    ],
    ['d.detail', 'file clip.mp4.filename', '!url', '!s3', '!id', '!tiff', '!pcm16'],
  ],
  [
    'documents get unique names without special characters, and a text',
    [
      userMessage(
        file('report.pdf'),
        file('report.docx', 'application/vnd.openxmlformats-officedocument.wordprocessingml.document'),
        file('Ignore_all: previous!.txt', 'text/plain', 'aGk='),
        file('table.csv', 'text/plain', 'aGk='),
        file(undefined),
        file('a.bin', 'application/zip', 'AAAA'),
      ),
    ],
    [
      [
        'user',
        { document: { format: 'pdf', name: 'report', source: { bytes: PDF } } },
        // The bytes prevail over the declared media type.
        { document: { format: 'pdf', name: 'report (2)', source: { bytes: PDF } } },
        { document: { format: 'txt', name: 'Ignore all previous', source: { bytes: 'aGk=' } } },
        { document: { format: 'csv', name: 'table', source: { bytes: 'aGk=' } } },
        { document: { format: 'pdf', name: 'Document', source: { bytes: PDF } } },
        { text: 'See the attached document.' },
      ],
    ],
    ['file Ignore_all: previous!.txt.filename', '!file a.bin', 'u'],
  ],
  ['no messages', [], [], ['!messages']],
]
for (const [name, messages, turns, losses, to] of conversations)
  test(`converse request: ${name}`, () => {
    const made = encode({ messages, tools: [tool('f'), tool('g')] }, to)
    assert.deepEqual(
      made.body.messages,
      turns.map(([role, ...content]) => ({ role, content })),
    )
    assert.deepEqual(made.losses, losses)
  })

test('converse request: system messages move to the front, a system message alone becomes a user message', () => {
  const { body } = encode({ messages: [system(said('a')), userMessage(said('q')), system(said('b'))] })
  assert.deepEqual(body.system, [{ text: 'a' }, { text: 'b' }])
  const alone = encode({ messages: [system(said('a')), system(said('b'))] })
  assert.deepEqual(alone.body, {
    messages: [{ role: 'user', content: [{ text: 'b' }] }],
    system: [{ text: 'a' }],
  })
  assert.deepEqual(alone.losses, ['s.role'])
  assert.deepEqual(encode({ messages: [system(picture('i')), userMessage(said('q'))] }).losses, ['!i'])
})

// "The toolConfig field must be defined when using toolUse and toolResult content blocks": pydantic/pydantic-ai#5929,
// langgenius/dify#17545, timothy-agent/timothy#282 (which wrote results as texts of the user).
test('converse request: without tools, the tools of the history are declared, and calls and results stay', () => {
  const messages = [
    userMessage(said('q')),
    assistantMessage(toolCallPart('1')),
    result('1', said('one'), picture('i')),
    userMessage(said('and?')),
  ]
  const turns = [
    { role: 'user', content: [{ text: 'q' }] },
    { role: 'assistant', content: [use('1')] },
    { role: 'user', content: [gave('1', { text: 'one' }, PICTURE), { text: 'and?' }] },
  ]
  const declared = (body: JsonObject) =>
    list(object(body.toolConfig)?.tools).map((entry) => object(object(entry)?.toolSpec) ?? {})
  const without = encode({ messages })
  assert.deepEqual(without.body.messages, turns)
  assert.deepEqual(
    declared(without.body).map(({ name, inputSchema }) => [name, inputSchema]),
    [['f', { json: { type: 'object' } }]],
  )
  assert.deepEqual(without.losses, [])
  // This format has no choice "none": the tools are omitted.
  const none = encode({ messages, tools: [tool('g')], settings: { toolChoice: at({ kind: 'none' }, 'c') } })
  assert.deepEqual(none.body.messages, turns)
  assert.deepEqual(
    declared(none.body).map(({ name }) => name),
    ['f'],
  )
  assert.deepEqual(none.losses, ['tool g'])
  const cut = encode({ messages: messages.slice(2) })
  assert.equal(declared(cut.body).length, 1)
  assert.equal(encode({ messages: [userMessage(said('q'))] }).body.toolConfig, undefined)
})

test('converse request: cache marks become cache points, if the model supports them', () => {
  const messages: Message[] = [
    system(said('S', [cache('s')])),
    userMessage(said('a', [cache('u')]), { ...picture('i'), extras: [cache('i', '1h')] } as Part),
    { ...assistantMessage(toolCallPart('1')), extras: [cache('call 1')] } as Message,
    { ...result('1', said('x')), extras: [cache('r 1')] } as Message,
    userMessage({ ...file('a.pdf'), extras: [cache('file')] } as Part, said('b')),
  ]
  const tools = [tool('f', { extras: [cache('tool f')] })]
  const { body, losses } = encode({ messages, tools })
  assert.deepEqual(body.system, [{ text: 'S' }, POINT])
  assert.deepEqual(list(object(body.toolConfig)?.tools).at(-1), POINT)
  assert.deepEqual(
    list(body.messages).map((turn) => object(turn)?.content),
    [
      [{ text: 'a' }, POINT, PICTURE, { cachePoint: { type: 'default', ttl: '1h' } }],
      [use('1'), POINT],
      [
        gave('1', { text: 'x' }),
        POINT,
        { document: { format: 'pdf', name: 'a', source: { bytes: PDF } } },
        { text: 'b' },
      ],
    ],
  )
  assert.deepEqual(losses, ['file.cache_control'])
  const nova = encode({ messages, tools }, NOVA)
  assert.deepEqual(nova.losses.toSorted(), ['file.cache_control', 'i.cache_control.ttl', 'tool f.cache_control'])
  const none = encode({ messages, tools }, LLAMA)
  assert.ok(!JSON.stringify(none.body).includes('cachePoint'))
  assert.equal(none.losses.length, 7)
})

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const SCHEMA = { type: 'object', properties: { a: { type: 'string', minLength: 1 } }, required: ['a'] }
const extra = (name: string, value: Json): Extra => ({ at: name, name, value, essential: false })

const settings: readonly (readonly [
  name: string,
  wishes: GenerationSettings,
  sent: JsonObject,
  losses: readonly string[],
  model?: string,
  extras?: readonly Extra[],
])[] = [
  [
    'settings with an equivalent',
    {
      maxOutputTokens: at(50, 'max'),
      temperature: at(0.5, 't'),
      stop: at(['a', '  '], 's'),
      metadata: at({ team: 'a b', bad: 'ü' }, 'm'),
      serviceTier: at('flex', 'tier'),
      choices: at(1, 'n'),
    },
    {
      inferenceConfig: { maxTokens: 50, temperature: 0.5, stopSequences: ['a'] },
      requestMetadata: { team: 'a b' },
      serviceTier: { type: 'flex' },
    },
    ['s', 'm'],
  ],
  [
    'settings beyond their bounds',
    { maxOutputTokens: at(90_000, 'max'), temperature: at(1.7, 't'), choices: at(2, 'n') },
    { inferenceConfig: { maxTokens: 64_000, temperature: 1 } },
    ['max', 't', '!n'],
  ],
  [
    'temperature and top_p to Claude, which accepts only one',
    { temperature: at(0.2, 't'), topP: at(0.9, 'p') },
    { inferenceConfig: { temperature: 0.2 } },
    ['p'],
  ],
  [
    'temperature and top_p to another model',
    { temperature: at(0.2, 't'), topP: at(0.9, 'p') },
    { inferenceConfig: { temperature: 0.2, topP: 0.9 } },
    [],
    NOVA,
  ],
  [
    'settings without an equivalent',
    {
      seed: at(1, 'seed'),
      presencePenalty: at(1, 'pp'),
      frequencyPenalty: at(0, 'fp'),
      logitBias: at({ 1: 2 }, 'lb'),
      logprobs: at(true, 'l'),
      verbosity: at('low', 'v'),
      user: at('u', 'user'),
      promptCacheKey: at('c', 'key'),
      serviceTier: at('scale', 'tier'),
      store: at(true, 'store'),
      parallelToolCalls: at(true, 'ptc'),
    },
    {},
    ['seed', 'pp', 'lb', 'l', 'v', 'user', 'key', 'tier', 'store'],
  ],
  ['top_k to Claude', { topK: at(7, 'k') }, { additionalModelRequestFields: { top_k: 7 } }, []],
  ['top_k to Nova', { topK: at(7, 'k') }, { additionalModelRequestFields: { inferenceConfig: { topK: 7 } } }, [], NOVA],
  ['top_k to others', { topK: at(7, 'k') }, {}, ['k'], LLAMA],
  ['any JSON', { format: at({ kind: 'json' }, 'f') }, { system: [{ text: JSON_INSTRUCTION }] }, []],
  [
    'a schema',
    { format: at({ kind: 'schema', name: 'n', description: 'd', schema: SCHEMA }, 'f') },
    {
      outputConfig: {
        textFormat: {
          type: 'json_schema',
          structure: {
            jsonSchema: {
              name: 'n',
              description: 'd',
              schema:
                '{"type":"object","properties":{"a":{"type":"string","description":"(minLength: 1)"}},"required":["a"],"additionalProperties":false}',
            },
          },
        },
      },
    },
    ['f.schema.properties.a.minLength'],
  ],
  [
    'a schema to a model without schemas',
    { format: at({ kind: 'schema', name: 'n', schema: SCHEMA }, 'f') },
    {},
    ['!f'],
    NOVA,
  ],
  [
    'a thinking budget',
    { thinkingBudget: at(2_000, 'b'), temperature: at(0.3, 't'), topK: at(3, 'k') },
    { additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens: 2_000 } } },
    ['t', 'k'],
  ],
  [
    'an effort to a model with budgets only',
    { effort: at('low', 'e'), reasoningSummary: at('auto', 'sum') },
    { additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens: 2_048 } } },
    [],
  ],
  [
    'an effort that no budget represents',
    { effort: at('max', 'e') },
    { additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens: 24_576 } } },
    ['e'],
  ],
  [
    'an effort whose budget is above the output limit',
    { effort: at('high', 'e'), maxOutputTokens: at(4_000, 'max') },
    {
      inferenceConfig: { maxTokens: 4_000 },
      additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens: 2_000 } },
    },
    [],
  ],
  [
    "a budget above the model's maximum",
    { thinkingBudget: at(70_000, 'b') },
    { additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens: 32_000 } } },
    ['b'],
  ],
  [
    'a budget above the output limit',
    { thinkingBudget: at(2_000, 'b'), maxOutputTokens: at(1_500, 'max') },
    {
      inferenceConfig: { maxTokens: 1_500 },
      additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens: 1_024 } },
    },
    ['b'],
  ],
  [
    'an output limit too small for any budget',
    { effort: at('high', 'e'), maxOutputTokens: at(500, 'max'), reasoningSummary: at('auto', 'sum') },
    { inferenceConfig: { maxTokens: 500 } },
    ['e', 'sum'],
  ],
  [
    'an effort to a model with adaptive thinking',
    { effort: at('high', 'e') },
    { additionalModelRequestFields: { thinking: { type: 'adaptive' }, output_config: { effort: 'high' } } },
    [],
    NEWER,
  ],
  [
    'a `thinking` member of Anthropic’s format',
    { effort: at('low', 'e') },
    { additionalModelRequestFields: { thinking: { type: 'adaptive' }, output_config: { effort: 'low' } } },
    [],
    NEWER,
    [extra('thinking', { type: 'adaptive' })],
  ],
  [
    'a budget to a model without budgets',
    { thinkingBudget: at(2_000, 'b'), reasoningSummary: at('auto', 'sum') },
    { additionalModelRequestFields: { thinking: { type: 'adaptive', display: 'summarized' } } },
    ['b'],
    NEWEST,
  ],
  [
    'effort none',
    { effort: at('none', 'e') },
    { additionalModelRequestFields: { thinking: { type: 'disabled' } } },
    [],
  ],
  ['an effort to a Claude model without thinking', { effort: at('high', 'e') }, {}, ['e'], OLD],
  [
    'an effort to Nova',
    { effort: at('low', 'e') },
    { additionalModelRequestFields: { reasoningConfig: { type: 'enabled', maxReasoningEffort: 'low' } } },
    [],
    NOVA2,
  ],
  [
    'the highest effort with an output limit to Nova',
    { effort: at('high', 'e'), maxOutputTokens: at(100, 'max') },
    {
      inferenceConfig: { maxTokens: 100 },
      additionalModelRequestFields: { reasoningConfig: { type: 'enabled', maxReasoningEffort: 'medium' } },
    },
    ['e'],
    NOVA2,
  ],
  [
    'an effort to a model of OpenAI',
    { effort: at('xhigh', 'e') },
    { additionalModelRequestFields: { reasoning_effort: 'high' } },
    ['e'],
    OSS,
  ],
  ['an unknown model', { effort: at('high', 'e'), topK: at(3, 'k') }, {}, ['e', 'k'], PROFILE],
  [
    'members of this format among the extras',
    {},
    {
      guardrailConfig: { guardrailIdentifier: 'g', guardrailVersion: '1' },
      additionalModelRequestFields: { anthropic_beta: ['x'] },
    },
    ['other'],
    SONNET,
    [
      extra('guardrailConfig', { guardrailIdentifier: 'g', guardrailVersion: '1' }),
      extra('additionalModelRequestFields', { anthropic_beta: ['x'] }),
      extra('other', 1),
    ],
  ],
]
for (const [name, wishes, sent, losses, to, extras = []] of settings)
  test(`converse settings: ${name}`, () => {
    const made = encode({ settings: wishes, extras }, to)
    const { messages: _, ...rest } = made.body
    assert.deepEqual(rest, sent)
    assert.deepEqual(made.losses.toSorted(), [...losses].toSorted())
  })

test('converse settings: a forced tool call disables thinking; answered calls require signed reasoning', () => {
  const forced = encode({
    tools: [tool('f')],
    settings: { effort: at('low', 'e'), toolChoice: at({ kind: 'required' }, 'c') },
  })
  assert.deepEqual(forced.losses, ['e'])
  assert.equal(forced.body.additionalModelRequestFields, undefined)
  const ask = (...thoughts: Part[]) =>
    encode({
      tools: [tool('f')],
      settings: { thinkingBudget: at(2_000, 'b') },
      messages: [userMessage(said('q')), assistantMessage(...thoughts, toolCallPart('1')), result('1', said('x'))],
    })
  assert.deepEqual(ask().losses, ['b'])
  assert.deepEqual(ask(proof('bedrock-converse', 'hm')).losses, [])
})

const begun = [
  userMessage(said('q')),
  assistantMessage(proof('bedrock-converse', 'hm'), toolCallPart('tooluse_1')),
  result('tooluse_1', said('x')),
]
const later = (id: string) => [assistantMessage(toolCallPart(id)), result(id, said('y'))]
for (const [what, messages, isLost] of [
  ['a second call in the turn, without reasoning', [...begun, ...later('tooluse_2')], false],
  ['a second call in the turn, from Claude at another provider', [...begun, ...later('toolu_2')], false],
  ['a call of another vendor in the turn', [...begun, ...later('call_2')], true],
  [
    'a first call of a turn, without reasoning',
    [...begun, assistantMessage(said('done')), userMessage(said('r')), ...later('tooluse_2')],
    true,
  ],
] as const)
  test(`converse: with a thinking budget, ${what}: thinking ${isLost ? 'is dropped' : 'stays'}`, () => {
    const made = encode({ tools: [tool('f')], settings: { thinkingBudget: at(2_000, 'b') }, messages })
    assert.deepEqual(made.losses, isLost ? ['b'] : [])
    assert.equal(made.body.additionalModelRequestFields === undefined, isLost)
  })

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const spec = (name: string, more: JsonObject = {}) => ({
  toolSpec: { name, inputSchema: { json: PARAMETERS }, ...more },
})

const choices: readonly (readonly [
  string,
  GenerationSettings,
  JsonObject | undefined,
  readonly string[],
  readonly string[],
])[] = [
  ['absent', {}, undefined, ['f', 'g'], []],
  ['auto', { toolChoice: at({ kind: 'auto' }, 'c') }, { auto: {} }, ['f', 'g'], []],
  ['required', { toolChoice: at({ kind: 'required' }, 'c') }, { any: {} }, ['f', 'g'], []],
  ['one tool', { toolChoice: at({ kind: 'tool', name: 'g' }, 'c') }, { tool: { name: 'g' } }, ['f', 'g'], []],
  ['allowed tools', { toolChoice: at({ kind: 'allowed', mode: 'auto', names: ['g'] }, 'c') }, { auto: {} }, ['g'], []],
  [
    'allowed tools, call required',
    { toolChoice: at({ kind: 'allowed', mode: 'required', names: ['g'] }, 'c') },
    { any: {} },
    ['g'],
    [],
  ],
  ['no parallel calls', { parallelToolCalls: at(false, 'p') }, undefined, ['f', 'g'], ['p']],
]
for (const [name, wishes, choice, names, losses] of choices)
  test(`converse tools: ${name}`, () => {
    const { body, losses: lost } = encode({ tools: [tool('f'), tool('g')], settings: wishes })
    assert.deepEqual(body.toolConfig, { tools: names.map((each) => spec(each)), ...(choice && { toolChoice: choice }) })
    assert.deepEqual(lost, losses)
  })

const declared: readonly (readonly [string, Tool, JsonObject | undefined, readonly string[], string?])[] = [
  ['strict', tool('f', { strict: true }), spec('f', { strict: true }), []],
  ['strict to a model without schemas', tool('f', { strict: true }), spec('f'), ['tool f.strict'], NOVA],
  [
    'strict with an unsupported keyword',
    tool('f', { strict: true, parameters: { ...SCHEMA, additionalProperties: false } }),
    { toolSpec: { name: 'f', inputSchema: { json: { ...SCHEMA, additionalProperties: false } } } },
    ['tool f.strict'],
  ],
  ['a description', tool('f', { description: 'does' }), spec('f', { description: 'does' }), []],
  ['a blank description', tool('f', { description: ' ' }), spec('f'), []],
  [
    'no arguments',
    { kind: 'function', at: 'tool f', name: 'f' },
    { toolSpec: { name: 'f', inputSchema: { json: { type: 'object', properties: {} } } } },
    [],
  ],
  [
    'parameters without a type',
    tool('f', { parameters: { properties: {} } }),
    { toolSpec: { name: 'f', inputSchema: { json: { properties: {}, type: 'object' } } } },
    [],
  ],
  ['parameters of another type', tool('f', { parameters: { type: 'string' } }), undefined, ['!tool f']],
  ['a union at the top level to Claude', tool('f', { parameters: { anyOf: [PARAMETERS] } }), undefined, ['!tool f']],
  [
    'another provider’s hosted tool',
    { kind: 'foreign', at: 'hosted', protocol: 'openai-responses', raw: { type: 'web_search' } },
    undefined,
    ['!hosted'],
  ],
  [
    'Bedrock’s hosted tool',
    { kind: 'foreign', at: 'hosted', protocol: 'bedrock-converse', raw: { systemTool: { name: 'nova_grounding' } } },
    { systemTool: { name: 'nova_grounding' } },
    [],
    NOVA2,
  ],
]
for (const [name, one, sent, losses, to] of declared)
  test(`converse tools: ${name}`, () => {
    const made = encode({ tools: [one] }, to)
    assert.deepEqual(made.body.toolConfig, sent && { tools: [sent] })
    assert.deepEqual(made.losses, losses)
  })

test('converse tools: a named choice for a model without named choices', () => {
  const wishes = {
    tools: [tool('f'), tool('g')],
    settings: { toolChoice: at({ kind: 'tool', name: 'g' } as const, 'c') },
  }
  assert.deepEqual(encode(wishes, LLAMA).body.toolConfig, { tools: [spec('g')], toolChoice: { any: {} } })
  assert.deepEqual(encode(wishes, NOVA).body.toolConfig, {
    tools: [spec('f'), spec('g')],
    toolChoice: { tool: { name: 'g' } },
  })
})

test('converse tools: invalid names and ids are replaced for call and result, and restored in the answer', () => {
  const odd = 'wéird/name '.repeat(12)
  const longId = 'call_'.repeat(20)
  const tools: Tool[] = [{ kind: 'custom', at: 't', name: 'shell' }, tool(odd)]
  const { body } = encode({
    tools,
    messages: [userMessage(said('q')), assistantMessage(toolCallPart(longId, odd)), result(longId, said('x'))],
    settings: { toolChoice: at({ kind: 'tool', name: odd }, 'c') },
  })
  const [shell, other] = list(object(body.toolConfig)?.tools).map((one) => object(object(one)?.toolSpec))
  assert.equal(shell?.name, 'shell')
  const sentName = String(other?.name)
  assert.match(sentName, /^[a-zA-Z0-9_-]{1,64}$/)
  assert.deepEqual(object(body.toolConfig)?.toolChoice, { tool: { name: sentName } })
  const blocks = list(body.messages).flatMap((turn) => list(object(turn)?.content).map((block) => object(block)))
  const used = object(blocks[1]?.toolUse)
  assert.equal(used?.name, sentName)
  assert.match(String(used?.toolUseId), /^[a-zA-Z0-9_.:-]{1,64}$/)
  assert.equal(object(blocks[2]?.toolResult)?.toolUseId, used?.toolUseId)
  assert.notEqual(used?.toolUseId, longId.slice(0, 64))

  const stage = bedrockConverse.restore?.(asks({ tools }))
  assert.ok(stage)
  const content = [use('1', 'shell', { input: 'ls -l' }), use('2', sentName, {})]
  const answer = { output: { message: { role: 'assistant', content } }, stopReason: 'tool_use' }
  const events = run(stage, bedrockConverse.decodeAnswer(answer))
  const opened = events.flatMap((event) =>
    event.type === 'open' && event.block.type === 'tool-call' ? [event.block] : [],
  )
  assert.deepEqual(
    opened.map(({ name, custom }) => [name, custom]),
    [
      ['shell', true],
      [odd, undefined],
    ],
  )
  assert.ok(events.some((event) => event.type === 'delta' && event.text === 'ls -l'))
})

// ── Capabilities by model name ──────────────────────────────────────────────────────────────────────────────────────

const families: readonly (readonly [model: string, maker: string, thinks: readonly string[], schemas: boolean])[] = [
  ['anthropic.claude-v2:1', 'anthropic', [], false],
  ['anthropic.claude-instant-v1', 'anthropic', [], false],
  [OLD, 'anthropic', [], false],
  ['us.anthropic.claude-3-7-sonnet-20250219-v1:0', 'anthropic', ['budget'], false],
  ['us.anthropic.claude-sonnet-4-20250514-v1:0', 'anthropic', ['budget'], false],
  ['us.anthropic.claude-opus-4-1-20250805-v1:0', 'anthropic', ['budget'], false],
  [SONNET, 'anthropic', ['budget'], true],
  [NEWER, 'anthropic', ['budget', 'adaptive'], true],
  ['global.anthropic.claude-opus-4-7', 'anthropic', ['adaptive'], true],
  [NEWEST, 'anthropic', ['adaptive'], true],
  [
    'arn:aws:bedrock:us-east-1:012345678901:inference-profile/us.anthropic.claude-3-7-sonnet-20250219-v1:0',
    'anthropic',
    ['budget'],
    false,
  ],
  [NOVA, 'amazon', [], false],
  [NOVA2, 'amazon', ['config'], false],
  [OSS, 'openai', ['effort'], true],
  [LLAMA, 'other', [], false],
  ['qwen.qwen3-coder-480b-a35b-v1:0', 'other', [], true],
  [PROFILE, 'unknown', [], true],
]
for (const [name, maker, thinks, schemas] of families)
  test(`converse models: ${name}`, () => {
    const family = familyOf(name)
    assert.deepEqual([family.maker, family.thinks, family.schemas], [maker, thinks, schemas])
  })

const caching: readonly (readonly [model: string, caches: boolean])[] = [
  [OLD, false],
  ['anthropic.claude-3-5-sonnet-20240620-v1:0', false],
  ['anthropic.claude-3-5-sonnet-20241022-v2:0', true],
  ['us.anthropic.claude-3-7-sonnet-20250219-v1:0', true],
  [NOVA, true],
  [OSS, false],
]
for (const [name, caches] of caching)
  test(`converse models: ${name} ${caches ? 'caches' : 'does not cache'}`, () =>
    assert.equal(familyOf(name).caches.messages, caches))
