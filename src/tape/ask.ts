/**
 * The part of a request that decides its answer, whatever the client's format. Left out are places in the body, streaming, users,
 * sessions, cache marks, service tier and earlier reasoning; IDs of tool calls are numbers by their place.
 */
import { createHash } from 'node:crypto'
import type { ChatRequest, Extra, MediaSource, Message, Part, Tool } from '../core/chat.ts'
import { type Json, type JsonObject, readJson } from '../core/json.ts'
import { canonicalJson } from '../policy/idempotency-key.ts'
import { ExchangeMasks, type Normaliser, withTexts } from './masking.ts'
import { VendorValues } from './vendor-values.ts'

/** A request in the order in which it is compared. `target`: of a tape that matches by target, and of JSON calls. */
export type TapeAsk = {
  readonly call: string
  readonly model: string
  readonly messages: readonly Json[]
  readonly tools: readonly Json[]
  readonly settings: JsonObject
  readonly target?: string
}

/**
 * The masks continue in the answer. `media`: bytes of the request that are kept apart, by digest. `credentials`: texts of the body
 * that the ask has not, and which nothing else may have.
 */
export type MaskedAsk = {
  readonly ask: TapeAsk
  readonly masks: ExchangeMasks
  readonly media: ReadonlyMap<string, string>
  readonly credentials: readonly string[]
}

/** Characters of base64 up to which media are kept in the request. */
const SMALL_MEDIA = 4_096

/** Settings that do not decide the answer. */
const NO_MATTER: ReadonlySet<string> = new Set([
  ...['user', 'metadata', 'promptCacheKey', 'serviceTier', 'store'],
  ...['streamUsage', 'encryptedReasoning', 'reasoningSummary'],
])

/** Members without a canonical name that do not decide the answer. */
const NO_MATTER_MEMBERS: ReadonlySet<string> = new Set([
  ...['cache_control', 'prompt_cache_breakpoint', 'prompt_cache_key', 'prompt_cache_retention', 'prompt_cache_options'],
  ...['user', 'safety_identifier', 'metadata', 'client_metadata', 'session_id', 'service_tier', 'store', 'stream'],
  ...['stream_options', 'id', 'status', 'annotations', 'logprobs', 'phase'],
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
  const vendor = new VendorValues()
  const messages = request.messages.map((message) => messageOf(message, { numberOf, media, vendor }))
  const settings: Record<string, Json> = {}
  // The canonical form of an answer's format has no member of a vendor, and its schema is that of the client.
  for (const [name, setting] of Object.entries(request.settings))
    if (setting && setting.at !== '' && !NO_MATTER.has(name))
      settings[name] = name === 'format' ? setting.value : vendor.value(setting.value)
  Object.assign(settings, membersOf(request.extras, vendor))
  if (request.mayTruncate) settings.truncation = 'auto'
  return masked(
    {
      call: 'chat',
      model: request.model,
      messages: messages.filter((message) => message !== null),
      tools: request.tools.map((tool) => toolOf(tool, vendor)),
      settings,
      ...(target !== undefined && { target }),
    },
    normalise,
    { media, credentials: vendor.credentials },
  )
}

/** The request of a JSON call: its body as it is sent. */
export const jsonAsk = (
  path: string,
  body: JsonObject,
  target: string,
  normalise: readonly Normaliser[],
): MaskedAsk => {
  const vendor = new VendorValues()
  const members = Object.entries(body).filter(([name]) => !NO_MATTER_MEMBERS.has(name))
  const settings = Object.fromEntries(members.map(([name, value]) => [name, vendor.member(name, value)]))
  const model = typeof body.model === 'string' ? body.model : ''
  return masked({ call: path, model, messages: [], tools: [], settings, target }, normalise, {
    media: new Map(),
    credentials: vendor.credentials,
  })
}

const masked = (
  ask: TapeAsk,
  normalise: readonly Normaliser[],
  apart: Pick<MaskedAsk, 'media' | 'credentials'>,
): MaskedAsk => {
  const masks = new ExchangeMasks(normalise)
  const inAll = (values: readonly Json[]) => values.map((value) => withTexts(value, (text) => masks.ofRequest(text)))
  const messages = inAll(ask.messages)
  const tools = inAll(ask.tools)
  const [settings = {}] = inAll([ask.settings])
  // `withTexts` returns an object for one.
  return { ask: { ...ask, messages, tools, settings: settings as JsonObject }, masks, ...apart }
}

type AskReading = {
  readonly numberOf: (id: string) => number
  readonly media: Map<string, string>
  readonly vendor: VendorValues
}

/** Null: the message has only what does not matter. */
const messageOf = (message: Message, reading: AskReading): Json => {
  const content = message.content.flatMap((part) => partOf(part, reading))
  if (content.length === 0 && message.content.length > 0) return null
  return {
    role: message.role,
    content,
    ...(message.role === 'tool' && { call: reading.numberOf(message.callId) }),
    ...(message.role === 'tool' && message.isError && { isError: true }),
    ...membersOf(message.extras, reading.vendor),
  }
}

const partOf = (part: Part, reading: AskReading): readonly JsonObject[] => {
  switch (part.type) {
    case 'text':
      return [{ type: 'text', text: part.text, ...membersOf(part.extras, reading.vendor) }]
    case 'refusal':
      return [{ type: 'refusal', text: part.text }]
    case 'image':
    case 'file': {
      const name = part.type === 'file' && part.filename !== undefined ? { filename: part.filename } : {}
      const detail = part.type === 'image' && part.detail !== undefined ? { detail: part.detail } : {}
      return [
        {
          type: part.type,
          source: sourceOf(part.source, reading),
          ...name,
          ...detail,
          ...membersOf(part.extras, reading.vendor),
        },
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
      return [{ type: 'foreign', format: part.protocol, raw: reading.vendor.value(part.raw) }]
    default:
      throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
  }
}

const toolOf = (tool: Tool, vendor: VendorValues): JsonObject => {
  if (tool.kind === 'foreign') return { kind: 'foreign', format: tool.protocol, raw: vendor.value(tool.raw) }
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
    ...membersOf(tool.extras, vendor),
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

const membersOf = (extras: readonly Extra[] | undefined, vendor: VendorValues): JsonObject =>
  Object.fromEntries(mattering(extras).map(({ name, value }) => [name, vendor.member(name, value)]))
