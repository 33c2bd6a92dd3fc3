/**
 * Mistral's schema forbids every member it does not name, at every level (`additionalProperties: false`; the answer is
 * 422 `extra_forbidden`). So a request is written anew from what the schema names: what has another name there is
 * renamed, what it has no word for is given up and said.
 */
import { isObject, type Json, type JsonObject, list, number, object, text } from '../core/json.ts'
import type { Provider } from '../core/provider.ts'
import { errorIn, meant } from './quirks/failures.ts'
import { idsWhere } from './quirks/model-list.ts'
import { developerAsSystem, inOrder, mapped, olderTokenLimit, type RequestQuirk, without } from './quirks/request.ts'

type Lost = Parameters<RequestQuirk>[2]

/** Says a loss, unless what is lost said nothing. */
const giveUp = (lost: Lost, path: string, value: Json | undefined, unfit = false): void => {
  if (value === undefined || value === null || value === false) return
  if (Array.isArray(value) && value.length === 0) return
  lost(path, unfit)
}

/** The object with only these members; the same one if it has no others. Nulls go where the schema has none. */
const only = (value: JsonObject, names: ReadonlySet<string>, at: string, lost: Lost): JsonObject => {
  const extra = Object.keys(value).filter((name) => !names.has(name) || value[name] === undefined)
  if (extra.length === 0) return value
  for (const name of extra) giveUp(lost, at === '' ? name : `${at}.${name}`, value[name])
  return without(value, ...extra)
}

/** The object with one member changed; the same one if it is the same. Undefined takes it out. */
const having = (value: JsonObject, name: string, now: Json | undefined): JsonObject =>
  value[name] === now ? value : now === undefined ? without(value, name) : { ...value, [name]: now }

const REQUEST = new Set([
  'model',
  'temperature',
  'top_p',
  'max_tokens',
  'stream',
  'stop',
  'random_seed',
  'metadata',
  'messages',
  'response_format',
  'tools',
  'tool_choice',
  'presence_penalty',
  'frequency_penalty',
  'n',
  'prediction',
  'parallel_tool_calls',
  'prompt_mode',
  'reasoning_effort',
  'guardrails',
  'prompt_cache_key',
  'safe_prompt',
])
/** Of these the schema allows null; from others a null is taken out, which means the same. */
const NULLABLE = new Set([
  'temperature',
  'max_tokens',
  'random_seed',
  'metadata',
  'tools',
  'n',
  'prompt_mode',
  'guardrails',
  'prompt_cache_key',
])

// ── Tool calls ───────────────────────────────────────────────────────────────────────────────────────────────────

const CALL_ID = /^[a-zA-Z0-9]{9}$/
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/**
 * A call's id has to be nine letters and digits (400, code 3280; karthink/gptel#1203). Ids of others become a hash:
 * the same for call and result, in every turn, without anything remembered. FNV-1a in 64 bits: 1e16 ids fit in nine
 * digits, a conversation has hundreds.
 */
const callId = (id: string): string => {
  if (CALL_ID.test(id)) return id
  let hash = 0xcbf29ce484222325n
  for (let at = 0; at < id.length; at++) hash = BigInt.asUintN(64, (hash ^ BigInt(id.charCodeAt(at))) * 0x100000001b3n)
  // The low bits of the product alone would favour the last characters.
  hash ^= hash >> 29n
  let name = ''
  for (let digit = 0; digit < 9; digit++) {
    name += DIGITS[Number(hash % 62n)]
    hash /= 62n
  }
  return name
}

const CALL = new Set(['id', 'type', 'function', 'index'])
const CALLED = new Set(['name', 'arguments'])

const toolCall = (call: Json, at: string, lost: Lost): Json | undefined => {
  if (!isObject(call) || !isObject(call.function)) {
    lost(at, true)
    return undefined
  }
  let now = only(call, CALL, at, lost)
  const id = text(call.id)
  if (id !== undefined) now = having(now, 'id', callId(id))
  return having(now, 'function', only(call.function, CALLED, `${at}.function`, lost))
}

// ── Content ──────────────────────────────────────────────────────────────────────────────────────────────────────

const PART: { readonly [type: string]: ReadonlySet<string> } = {
  text: new Set(['type', 'text']),
  image_url: new Set(['type', 'image_url']),
  document_url: new Set(['type', 'document_url', 'document_name']),
  reference: new Set(['type', 'reference_ids']),
  thinking: new Set(['type', 'thinking', 'closed']),
  file: new Set(['type', 'file_id']),
  input_audio: new Set(['type', 'input_audio']),
}
const IMAGE = new Set(['url', 'detail'])
const DETAIL = new Set(['low', 'auto', 'high'])

/** A part as the schema has it; undefined: it cannot be carried, and has been said to be lost. */
const part = (value: Json, at: string, lost: Lost): Json | undefined => {
  const type = isObject(value) ? text(value.type) : undefined
  if (!isObject(value) || type === undefined) {
    lost(at, true)
    return undefined
  }
  if (type === 'refusal') return { type: 'text', text: text(value.refusal) ?? '' }
  if (type === 'file' && isObject(value.file)) return document(value.file, at, lost)
  const names = PART[type]
  if (!names) {
    lost(at, true)
    return undefined
  }
  const now = only(value, names, at, lost)
  // OpenAI gives the format beside the data; Mistral hears it from the data.
  const audio = object(now.input_audio)
  if (audio) return having(now, 'input_audio', text(audio.data) ?? '')
  const image = object(now.image_url)
  if (!image) return now
  const bare = only(image, IMAGE, `${at}.image_url`, lost)
  const known = bare.detail === undefined || bare.detail === null || DETAIL.has(text(bare.detail) ?? '')
  if (!known) giveUp(lost, `${at}.image_url.detail`, bare.detail)
  return having(now, 'image_url', known ? bare : without(bare, 'detail'))
}

/** A file that is sent along becomes a document with a data URL; one that lies at another provider cannot be had. */
const document = (file: JsonObject, at: string, lost: Lost): Json | undefined => {
  const data = text(file.file_data)
  if (data === undefined) {
    lost(at, true)
    return undefined
  }
  const name = text(file.filename)
  const url = /^(?:data|https?):/.test(data) ? data : `data:application/pdf;base64,${data}`
  return { type: 'document_url', document_url: url, ...(name !== undefined && { document_name: name }) }
}

const content = (value: Json | undefined, at: string, lost: Lost): Json | undefined => {
  if (!Array.isArray(value)) return value
  return mapped(value, (item, index) => part(item, `${at}[${index}]`, lost))
}

/** System messages hold text and thoughts only. */
const textOnly = (value: Json | undefined, at: string, lost: Lost): Json | undefined => {
  if (!Array.isArray(value)) return value ?? ''
  return mapped(value, (item, index) => {
    if (isObject(item) && (item.type === 'text' || item.type === 'thinking')) return item
    lost(`${at}[${index}]`, true)
    return undefined
  })
}

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

const MESSAGE: { readonly [role: string]: ReadonlySet<string> } = {
  system: new Set(['role', 'content']),
  user: new Set(['role', 'content']),
  assistant: new Set(['role', 'content', 'tool_calls', 'prefix']),
  tool: new Set(['role', 'content', 'tool_call_id', 'name']),
}

const message = (value: Json, at: string, lost: Lost): Json | undefined => {
  const role = isObject(value) ? text(value.role) : undefined
  const names = role === undefined ? undefined : MESSAGE[role]
  if (!isObject(value) || !names) {
    lost(at, true)
    return undefined
  }
  let now = value
  // What it refused to say is what it said.
  const refusal = text(value.refusal)
  if (refusal !== undefined) now = { ...without(now, 'refusal'), content: now.content ?? refusal }
  if (role === 'assistant' && value.tool_calls === undefined && value.function_call != null) {
    lost(`${at}.function_call`, true)
    now = without(now, 'function_call')
  }
  now = only(now, names, at, lost)
  const said = role === 'system' ? textOnly(now.content, `${at}.content`, lost) : now.content
  now = having(now, 'content', content(said, `${at}.content`, lost))
  if (role !== 'assistant' && now.content === undefined) now = { ...now, content: '' }
  if (Array.isArray(now.tool_calls)) {
    const calls = now.tool_calls
    const kept = mapped(calls, (call, index) => toolCall(call, `${at}.tool_calls[${index}]`, lost))
    now = having(now, 'tool_calls', kept)
  }
  const answered = text(now.tool_call_id)
  return answered === undefined ? now : having(now, 'tool_call_id', callId(answered))
}

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────

const TOOL = new Set(['type', 'function'])
const FUNCTION = new Set(['name', 'description', 'strict', 'parameters'])
const NOTHING: JsonObject = { type: 'object', properties: {} }

const withoutNulls = (value: JsonObject): JsonObject =>
  without(value, ...Object.keys(value).filter((name) => value[name] === null))

const tool = (value: Json, at: string, lost: Lost): Json | undefined => {
  if (!isObject(value) || (value.type ?? 'function') !== 'function' || !isObject(value.function)) {
    lost(at, true)
    return undefined
  }
  const now = withoutNulls(only(value.function, FUNCTION, `${at}.function`, lost))
  return having(
    only(value, TOOL, at, lost),
    'function',
    isObject(now.parameters) ? now : { ...now, parameters: NOTHING },
  )
}

/** A choice among some of the tools has no word here: then only those are sent, which says the same. */
const choice = (body: JsonObject, lost: Lost): JsonObject => {
  const wanted = object(body.tool_choice)
  if (!wanted) return body
  const allowed = wanted.type === 'allowed_tools' ? object(wanted.allowed_tools) : undefined
  if (allowed) {
    const names = new Set(list(allowed.tools).map((item) => text(object(object(item)?.function)?.name)))
    const tools = list(body.tools).filter((item) => names.has(text(object(object(item)?.function)?.name)))
    return { ...body, tools, tool_choice: allowed.mode === 'required' ? 'required' : 'auto' }
  }
  const named = object(wanted.function)
  if (wanted.type !== 'function' || !named) {
    lost('tool_choice', true)
    return without(body, 'tool_choice')
  }
  const bare = only(named, new Set(['name']), 'tool_choice.function', lost)
  return having(body, 'tool_choice', having(only(wanted, TOOL, 'tool_choice', lost), 'function', bare))
}

// ── The rest ─────────────────────────────────────────────────────────────────────────────────────────────────────

const FORMAT = new Set(['type', 'json_schema'])
const SCHEMA = new Set(['name', 'description', 'schema', 'strict'])
const FORMATS = new Set(['text', 'json_object', 'json_schema'])

const format = (body: JsonObject, lost: Lost): JsonObject => {
  const wanted = object(body.response_format)
  if (!wanted) return body
  if (!FORMATS.has(text(wanted.type) ?? '')) {
    lost('response_format', true)
    return without(body, 'response_format')
  }
  const bare = only(wanted, FORMAT, 'response_format', lost)
  const schema = object(bare.json_schema)
  if (!schema) return having(body, 'response_format', bare)
  const now = withoutNulls(only(schema, SCHEMA, 'response_format.json_schema', lost))
  const whole = isObject(now.schema) ? now : { ...now, schema: NOTHING }
  return having(body, 'response_format', having(bare, 'json_schema', whole))
}

/** The expected text is a string here, never parts. */
const prediction = (body: JsonObject): JsonObject => {
  const expected = object(body.prediction)
  if (!expected || !Array.isArray(expected.content)) return body
  const words = expected.content.map((item) => text(object(item)?.text) ?? '').join('')
  return { ...body, prediction: { type: 'content', content: words } }
}

/** Its limits of a value, where OpenAI's are wider. */
const within = (body: JsonObject, name: string, most: number, lost: Lost): JsonObject => {
  const value = number(body[name])
  if (value === undefined || value <= most) return body
  lost(name)
  return { ...body, [name]: most }
}

/** It reasons or it does not. */
const effort = (body: JsonObject, lost: Lost): JsonObject => {
  const wanted = text(body.reasoning_effort)
  if (wanted === undefined || wanted === 'high' || wanted === 'none') return body
  lost('reasoning_effort')
  return { ...body, reasoning_effort: wanted === 'minimal' ? 'none' : 'high' }
}

/** `seed` is `random_seed` here, and never negative. */
const seed = (body: JsonObject, lost: Lost): JsonObject => {
  if (body.seed === undefined) return body
  const value = number(body.seed)
  const rest = without(body, 'seed')
  if (value !== undefined && Number.isSafeInteger(value) && value >= 0) return { ...rest, random_seed: value }
  giveUp(lost, 'seed', body.seed)
  return rest
}

/** Usage comes without being asked for in every recorded stream; nobody keeps anything; and there is one tier. */
const SILENT: { readonly [member: string]: (value: Json) => boolean } = {
  stream_options: () => true,
  service_tier: (value) => value === 'auto' || value === 'default',
  modalities: (value) => Array.isArray(value) && value.every((kind) => kind === 'text'),
}

const mistralsMembers: RequestQuirk = (body, _model, lost) => {
  const silent = Object.keys(SILENT).filter((name) => {
    const value = body[name]
    return value !== undefined && !REQUEST.has(name) && SILENT[name]?.(value)
  })
  const nulls = Object.keys(body).filter((name) => body[name] === null && !NULLABLE.has(name))
  let now = without(body, ...silent, ...nulls)
  now = seed(now, lost)
  now = only(now, REQUEST, '', lost)
  const { messages, tools } = now
  if (Array.isArray(messages)) {
    const kept = mapped(messages, (item, index) => message(item, `messages[${index}]`, lost))
    now = having(now, 'messages', kept)
  }
  if (Array.isArray(tools)) {
    const kept = mapped(tools, (item, index) => tool(item, `tools[${index}]`, lost))
    now = having(now, 'tools', kept)
  }
  return within(effort(format(prediction(choice(now, lost)), lost), lost), 'temperature', 1.5, lost)
}

/** 429 is also what it says when the model has no room for anybody (errors.reported mistral-mistral-429-17). */
const noRoom = (status: number, body: Json | undefined) => {
  const error = errorIn(body)
  const told =
    error?.type === 'service_tier_capacity_exceeded' ||
    /^service tier capacity exceeded/i.test(text(error?.message) ?? '')
  return status === 429 && told
    ? meant('overloaded', 'Mistral has no capacity for this model.', status, error)
    : undefined
}

const EMBEDDINGS = new Set(['model', 'metadata', 'input', 'output_dimension', 'output_dtype', 'encoding_format'])

/** Its schema for embeddings has another name for the length, knows nothing else, and takes no tokens. */
const embeddingMembers = ({ dimensions, ...body }: JsonObject, lost: Lost): JsonObject => {
  if (list(body.input).some((entry) => typeof entry !== 'string')) lost('input', true)
  const named = dimensions === undefined || dimensions === null ? body : { ...body, output_dimension: dimensions }
  return only(named, EMBEDDINGS, '', lost)
}

/** Its list says of each model whether it chats. */
const chatting = idsWhere((entry) => object(entry.capabilities)?.completion_chat !== false)

export default {
  name: 'mistral',
  title: 'Mistral AI',
  order: 40,
  baseUrl: 'https://api.mistral.ai/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'mistral-small-latest',
  models: { path: '/models', decode: chatting },
  quirks: { requestBody: inOrder(olderTokenLimit, developerAsSystem, mistralsMembers), failure: noRoom },
  embeds: {
    protocol: 'openai-embeddings',
    models: ['mistral-embed', 'codestral-embed'],
    requestBody: embeddingMembers,
  },
} satisfies Provider
