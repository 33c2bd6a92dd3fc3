/** Calls through a gateway with guards, without sockets: requests of all styles, answers in each format, and what a client decodes. */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { ANONYMOUS, type Client } from '../../src/core/accounts.ts'
import { type ClientProtocolName, fold } from '../../src/core/chat.ts'
import type { ChooseGuards, GuardRule } from '../../src/core/guard.ts'
import type { IncomingRequest } from '../../src/core/http-exchange.ts'
import { type JsonObject, parseObject } from '../../src/core/json.ts'
import type { ProtocolSupport } from '../../src/core/provider.ts'
import { serveChat } from '../../src/gateway/chat/serve-chat.ts'
import { createResponse } from '../../src/gateway/responses/create-response.ts'
import { operatorGuards } from '../../src/policy/guards/operator-guards.ts'
import { protocols } from '../../src/protocols/index.ts'
import { type AnswerContent, answerBody, piecesOf } from './answers.ts'
import { CapturedReply, gatewayHarness, instance, respondWith, type SettingsInput } from './gateway.ts'
import { NO_RULE } from './guard-rule.ts'
import { SECRET, withMasking } from './masking-guard.ts'
import type { ScriptedCall } from './still-world.ts'
import type { UpstreamRequest } from './upstream.ts'

export const UPSTREAMS = ['openai-chat', 'openai-responses', 'anthropic-messages', 'gemini'] as const
export type Upstream = (typeof UPSTREAMS)[number]

export const CACHED: Client = {
  ...ANONYMOUS,
  id: 'key_ann',
  team: { id: 'team_one', name: 'one' },
  cache: { ttl: 300, scope: 'key', anyTemperature: true, tools: true, requestControl: true },
}

/** Guards of an operator with these rules. */
export const rulesOf = (
  ...rules: readonly (Pick<GuardRule, 'name' | 'action'> & Partial<GuardRule>)[]
): ChooseGuards => {
  const all = rules.map((rule): GuardRule => ({ ...NO_RULE, ...rule }))
  return operatorGuards({
    rules: () => all,
    digest: (text) => createHash('sha256').update(text).digest(),
    fingerprint: (text) => text,
    turn: (run) => run(),
    now: () => 0,
    names: { team: () => true, route: () => true },
  })
}

export const asked = (call: ScriptedCall): UpstreamRequest => {
  const json = parseObject(call.body ?? '') ?? {}
  const { pathname: path } = new URL(call.url)
  const about = { number: 0, method: 'POST', headers: {}, key: undefined, connection: 0 }
  return {
    ...about,
    path,
    body: call.body ?? '',
    json,
    model: 'm',
    stream: json.stream === true || path.includes(':stream'),
  }
}

/** Answers in the format of the request; a stream in two chunks that are cut at `cut`. */
export const answering =
  (content: AnswerContent, cut = 0) =>
  (call: ScriptedCall) => {
    const request = asked(call)
    if (!request.stream) return respondWith.json(call, 200, JSON.stringify(answerBody(request, content)))
    const bytes = Buffer.from(piecesOf(request, content).join(''))
    call.head(200, { 'content-type': 'text/event-stream' })
    for (const part of [bytes.subarray(0, cut), bytes.subarray(cut)])
      if (part.length > 0) call.sendBytes(Buffer.from(part))
    call.end()
  }

type Options = {
  readonly upstream?: Upstream
  readonly guards?: ChooseGuards
  readonly client?: Client
  readonly settings?: SettingsInput
}

/** ms until the second form of an error in a stream of Gemini's style. */
const LAST_PIECE = 100

export const harness = (
  script: (call: ScriptedCall) => void,
  { upstream = 'openai-chat', guards = withMasking(), client = ANONYMOUS, settings = {} }: Options = {},
) => {
  const speaks: readonly ProtocolSupport[] = [{ protocol: upstream }]
  const embeds = { protocol: 'openai-embeddings', models: ['m'] } as const
  const made = gatewayHarness([instance('a', ['k1'], { speaks, embeds })], script, settings)
  const gateway = { ...made.gateway, guards }
  const { world } = made
  let number = 0
  const serving = async (
    body: object | string,
    serve: (received: IncomingRequest, reply: CapturedReply) => Promise<void>,
  ): Promise<CapturedReply> => {
    const reply = new CapturedReply()
    const id = `req_${number++}`
    const received = { id, method: 'POST', path: '/v1/x', query: 'alt=sse', headers: () => undefined }
    const owned = { ...client, owner: 'me' }
    reply.done = serve(
      { ...received, body: { text: typeof body === 'string' ? body : JSON.stringify(body) }, client: owned },
      reply,
    )
    for (const ms of [1, 1, 1, 1, LAST_PIECE]) if (reply.ending === null) await world.advance(ms)
    return reply
  }
  const send = (body: object | string, style: ClientProtocolName) =>
    serving(body, (received, responseWriter) =>
      style === 'openai-responses'
        ? createResponse(gateway, received, responseWriter)
        : serveChat(gateway, { protocol: protocols[style], received, responseWriter }),
    )
  return { ...made, gateway, serving, send }
}

const tool = { name: 'save', description: `as ${SECRET}`, parameters: { type: 'object', properties: { note: {} } } }
const call = JSON.stringify({ note: `it is ${SECRET}`, count: 1.5 })
const claudeTool = { name: tool.name, description: tool.description, input_schema: tool.parameters }

/** The secret in instructions, messages, calls, results, names and declarations; each four times at least. */
export const REQUESTS: Readonly<Record<ClientProtocolName, JsonObject>> = {
  'openai-chat': {
    model: 'm',
    messages: [
      { role: 'system', content: `Never say ${SECRET}.` },
      { role: 'user', name: SECRET, content: [{ type: 'text', text: `My word is ${SECRET}` }] },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'save', arguments: call } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: `saved ${SECRET}` },
    ],
    tools: [{ type: 'function', function: tool }],
  },
  'openai-responses': {
    model: 'm',
    store: false,
    instructions: `Never say ${SECRET}.`,
    input: [
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: `My word is ${SECRET}` }] },
      { type: 'function_call', call_id: 'c1', name: 'save', arguments: call },
      { type: 'function_call_output', call_id: 'c1', output: `saved ${SECRET}` },
    ],
    tools: [{ type: 'function', ...tool }],
  },
  'anthropic-messages': {
    model: 'm',
    max_tokens: 100,
    system: [{ type: 'text', text: `Never say ${SECRET}.` }],
    messages: [
      { role: 'user', content: `My word is ${SECRET}` },
      {
        role: 'assistant',
        content: [{ type: 'tool_use', id: 'c1', name: 'save', input: { note: SECRET, type: SECRET } }],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: `saved ${SECRET}` }] },
    ],
    tools: [claudeTool],
  },
  'openai-completions': { model: 'm', prompt: `${SECRET}, ${SECRET}: `, max_tokens: 5 },
  gemini: {
    model: 'm',
    systemInstruction: { parts: [{ text: `Never say ${SECRET}.` }] },
    contents: [
      { role: 'user', parts: [{ text: `My word is ${SECRET}` }] },
      { role: 'model', parts: [{ functionCall: { id: 'c1', name: 'save', args: { note: SECRET, type: SECRET } } }] },
      {
        role: 'user',
        parts: [{ functionResponse: { id: 'c1', name: 'save', response: { output: `saved ${SECRET}` } } }],
      },
    ],
    tools: [
      {
        functionDeclarations: [
          { name: tool.name, description: tool.description, parametersJsonSchema: tool.parameters },
        ],
      },
    ],
  },
}
export const STYLES = Object.keys(protocols) as readonly ClientProtocolName[]
export const hasTools = (style: ClientProtocolName): boolean => style !== 'openai-completions'

/** All strings in a value, also those of JSON within a string. */
export const textsIn = (value: unknown): readonly string[] => {
  if (typeof value === 'string') return [value, ...textsIn(parseObject(value))]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : []
}

/** What the client decodes: the text, and the arguments of the call. */
export const seen = (style: ClientProtocolName, { text }: CapturedReply, stream: boolean) => {
  if (style === 'openai-completions') {
    const parts = stream ? framesIn(text) : [JSON.parse(text)]
    return { text: parts.map((part) => part.choices?.[0]?.text ?? '').join(''), note: undefined }
  }
  const { decodeStream, decodeAnswer } = protocols[style]
  const decoder = decodeStream()
  const events = stream
    ? [...sseFrames(text).flatMap((frame) => decoder.push(frame)), ...decoder.end()]
    : decodeAnswer(JSON.parse(text))
  const answer = fold(events)
  assert.equal(answer.failure, undefined, JSON.stringify(answer.failure))
  const textOf = (type: string) =>
    answer.blocks
      .filter((block) => block.type === type)
      .map((block) => block.text)
      .join('')
  const note = textOf('tool-call')
  return { text: textOf('text'), note: note === '' ? undefined : JSON.parse(note) }
}

const sseFrames = (text: string) =>
  text
    .split('\n\n')
    .map((block) => block.split('\n').filter((line) => !line.startsWith(':')))
    .flatMap((lines) => {
      const data = lines.find((line) => line.startsWith('data: '))?.slice(6)
      const event = lines.find((line) => line.startsWith('event: '))?.slice(7)
      return data === undefined ? [] : [{ data, ...(event !== undefined && { event }) }]
    })
export const framesIn = (text: string) =>
  sseFrames(text).flatMap(({ data }) => (data === '[DONE]' ? [] : [JSON.parse(data)]))
