/**
 * The part of a request that decides its answer, whatever the client's format. Left out are places in the body, streaming, users,
 * sessions, cache marks, service tier and earlier reasoning; IDs of tool calls are numbers by their place.
 */
import { createHash } from 'node:crypto'
import type { ChatRequest, Extra, MediaSource, Message, Part, Tool } from '../core/chat.ts'
import { isList, isObject, type Json, type JsonObject, readJson } from '../core/json.ts'
import { canonicalJson } from '../policy/idempotency-key.ts'
import { ExchangeMasks, type Normaliser, withTexts } from './masking.ts'

/** A request in the order in which it is compared. `target`: of a tape that matches by target, and of JSON calls. */
export type TapeAsk = {
  readonly call: string
  readonly model: string
  readonly messages: readonly Json[]
  readonly tools: readonly Json[]
  readonly settings: JsonObject
  readonly target?: string
}

/** The masks continue in the answer. `media`: bytes of the request that are kept apart, by digest. */
export type MaskedAsk = {
  readonly ask: TapeAsk
  readonly masks: ExchangeMasks
  readonly media: ReadonlyMap<string, string>
}

/** Characters of base64 up to which media are kept in the request. */
const SMALL_MEDIA = 4_096

/** Settings that do not decide the answer. */
const NO_MATTER: ReadonlySet<string> = new Set([
  ...[
    'user',
    'metadata',
    'promptCacheKey',
    'serviceTier',
    'store',
    'streamUsage',
    'encryptedReasoning',
    'reasoningSummary',
  ],
])

/** Members without a canonical name that do not decide the answer. */
const NO_MATTER_MEMBERS: ReadonlySet<string> = new Set([
  ...['cache_control', 'prompt_cache_breakpoint', 'prompt_cache_key', 'prompt_cache_retention', 'prompt_cache_options'],
  ...['user', 'safety_identifier', 'metadata', 'client_metadata', 'session_id', 'service_tier', 'store', 'stream'],
  ...['stream_options', 'previous_response_id', 'conversation', 'id', 'status', 'annotations', 'logprobs', 'phase'],
  ...['include', 'background', 'labels', 'signature', 'encrypted_content', 'thoughtSignature'],
])

export const digestOf = (value: Json): string => createHash('sha256').update(canonicalJson(value)).digest('hex')

/** Digests of the parts of a request, to compare it with others. */
export type AskDigests = { readonly messages: readonly string[]; readonly tools: string; readonly settings: string }

export const digestsOf = ({ messages, tools, settings }: TapeAsk): AskDigests => ({
  messages: messages.map(digestOf),
  tools: digestOf([...tools]),
  settings: digestOf(settings),
})

/** The key of a request. */
export const keyOf = (ask: TapeAsk): string => digestOf({ ...ask })

/** The request of a chat call. */
export const chatAsk = (request: ChatRequest, normalise: readonly Normaliser[], target?: string): MaskedAsk => {
  const media = new Map<string, string>()
  const calls = new Map<string, number>()
  const numberOf = (id: string): number => {
    const known = calls.get(id) ?? calls.size + 1
    calls.set(id, known)
    return known
  }
  const messages = request.messages.map((message) => messageOf(message, { numberOf, media }))
  const settings: Record<string, Json> = {}
  for (const [name, setting] of Object.entries(request.settings))
    if (setting && setting.at !== '' && !NO_MATTER.has(name)) settings[name] = plain(setting.value)
  for (const { name, value } of mattering(request.extras)) settings[name] = plain(value)
  if (request.mayTruncate) settings.truncation = 'auto'
  return masked(
    {
      call: 'chat',
      model: request.model,
      messages: messages.filter((message) => message !== null),
      tools: request.tools.map(toolOf),
      settings,
      ...(target !== undefined && { target }),
    },
    normalise,
    media,
  )
}

/** The request of a JSON call: its body as it is sent. */
export const jsonAsk = (
  path: string,
  body: JsonObject,
  target: string,
  normalise: readonly Normaliser[],
): MaskedAsk => {
  const settings = Object.fromEntries(Object.entries(body).filter(([name]) => !NO_MATTER_MEMBERS.has(name)))
  const model = typeof body.model === 'string' ? body.model : ''
  return masked({ call: path, model, messages: [], tools: [], settings, target }, normalise, new Map())
}

const masked = (ask: TapeAsk, normalise: readonly Normaliser[], media: MaskedAsk['media']): MaskedAsk => {
  const masks = new ExchangeMasks(normalise)
  const inAll = (values: readonly Json[]) => values.map((value) => withTexts(value, (text) => masks.ofRequest(text)))
  const messages = inAll(ask.messages)
  const tools = inAll(ask.tools)
  const [settings = {}] = inAll([ask.settings])
  // `withTexts` returns an object for one.
  return { ask: { ...ask, messages, tools, settings: settings as JsonObject }, masks, media }
}

type AskReading = { readonly numberOf: (id: string) => number; readonly media: Map<string, string> }

/** Null: the message has only what does not matter. */
const messageOf = (message: Message, reading: AskReading): Json => {
  const content = message.content.flatMap((part) => partOf(part, reading))
  if (content.length === 0 && message.content.length > 0) return null
  return {
    role: message.role,
    content,
    ...(message.role === 'tool' && { call: reading.numberOf(message.callId) }),
    ...(message.role === 'tool' && message.isError && { isError: true }),
    ...membersOf(message.extras),
  }
}

const partOf = (part: Part, reading: AskReading): readonly JsonObject[] => {
  switch (part.type) {
    case 'text':
      return [{ type: 'text', text: part.text, ...membersOf(part.extras) }]
    case 'refusal':
      return [{ type: 'refusal', text: part.text }]
    case 'image':
    case 'file': {
      const name = part.type === 'file' && part.filename !== undefined ? { filename: part.filename } : {}
      const detail = part.type === 'image' && part.detail !== undefined ? { detail: part.detail } : {}
      return [
        { type: part.type, source: sourceOf(part.source, reading), ...name, ...detail, ...membersOf(part.extras) },
      ]
    }
    case 'audio':
      return [{ type: 'audio', data: dataOf(part.data, reading), format: part.format }]
    case 'reasoning':
      // Earlier reasoning of the model: some clients send it back and others cannot.
      return []
    case 'tool-call': {
      const { name, custom } = part
      const call = reading.numberOf(part.id)
      const parsed = custom ? undefined : readJson(part.arguments)
      return [{ type: 'tool-call', call, name, arguments: parsed ?? part.arguments }]
    }
    case 'foreign':
      return [{ type: 'foreign', format: part.protocol, raw: plain(part.raw) }]
    default:
      throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
  }
}

const toolOf = (tool: Tool): JsonObject => {
  if (tool.kind === 'foreign') return { kind: 'foreign', format: tool.protocol, raw: plain(tool.raw) }
  const described = {
    kind: tool.kind,
    name: tool.name,
    ...(tool.description !== undefined && { description: tool.description }),
  }
  if (tool.kind === 'custom') return { ...described, ...(tool.format !== undefined && { format: tool.format }) }
  const isStated = tool.strict !== undefined && tool.paths?.strict !== null
  return {
    ...described,
    ...(tool.parameters !== undefined && { parameters: tool.parameters }),
    ...(isStated && { strict: tool.strict }),
    ...membersOf(tool.extras),
  }
}

const sourceOf = (source: MediaSource, reading: AskReading): JsonObject =>
  source.kind === 'data'
    ? { mediaType: source.mediaType, data: dataOf(source.data, reading) }
    : source.kind === 'url'
      ? { url: source.url }
      : { id: source.id, format: source.protocol }

const dataOf = (data: string, { media }: AskReading): string => {
  if (data.length <= SMALL_MEDIA) return data
  const digest = createHash('sha256').update(data, 'base64').digest('hex')
  media.set(digest, data)
  return `media/${digest}`
}

const mattering = (extras: readonly Extra[] = []): readonly Extra[] =>
  extras.filter(({ name, value }) => value !== null && !NO_MATTER_MEMBERS.has(name))

const membersOf = (extras: readonly Extra[] | undefined): JsonObject =>
  Object.fromEntries(mattering(extras).map(({ name, value }) => [name, plain(value)]))

/** A value of the client without members that do not matter, at any depth. Those of schemas and arguments are names of the client. */
const plain = (value: unknown): Json => {
  if (isList(value)) return value.map((item) => plain(item))
  // Settings and members are JSON.
  if (!isObject(value)) return value as Json
  const members = Object.entries(value).filter(
    ([name]) => !/^(?:cache_control|signature|encrypted_content)$/.test(name),
  )
  return Object.fromEntries(members.map(([name, inner]) => [name, plain(inner)]))
}
