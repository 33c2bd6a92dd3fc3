/**
 * Finds and changes the texts of a request which a model reads, in the client's own body. All formats share this: a member that
 * is not known to be something else is a text. So a format's own parts, and those that clients mix, are read too.
 */
import type { RequestText } from '../../core/guard.ts'
import { digitsOf, isList, isObject, type Json, type JsonObject, readJson, text } from '../../core/json.ts'
import { exceedsDepth, MAX_DEPTH } from './tool-arguments.ts'

/** Returns the text that replaces this one, or the same. */
type ChangeText = (found: RequestText) => string

/** Changes the texts of a body. Returns the same object if none changes. */
export const changedTexts = (body: JsonObject, change: ChangeText): JsonObject =>
  mappedMembers(body, (value, name) => (NOT_READ.has(name) ? value : changed(value, name, placeOf(name, change))))

/** Members of a request that no model reads: they identify the call, or control it. */
const NOT_READ: ReadonlySet<string> = new Set([
  ...['model', 'user', 'metadata', 'client_metadata', 'safety_identifier', 'prompt_cache_key', 'service_tier', 'speed'],
  ...['previous_response_id', 'conversation', 'container', 'include', 'inference_geo', 'truncation', 'encoding_format'],
  ...['tool_choice', 'modalities', 'audio', 'reasoning', 'reasoning_effort', 'thinking', 'verbosity', 'stream_options'],
  ...['toolConfig', 'tool_config', 'safetySettings', 'safety_settings', 'cachedContent', 'cached_content', 'labels'],
])

/** Members of a request that declare tools or the form of the answer. */
const DECLARING: ReadonlySet<string> = new Set([
  ...['tools', 'functions', 'mcp_servers', 'response_format', 'text', 'output_config'],
  ...['generationConfig', 'generation_config'],
])

/** Where a value stands. `free`: the client has chosen the names of the members, so each of them is read. */
type TextPlace = Omit<RequestText, 'text'> & { readonly free: boolean; readonly change: ChangeText }

const placeOf = (member: string, change: ChangeText): TextPlace => ({
  role: null,
  kind: DECLARING.has(member) ? 'tools' : 'text',
  free: false,
  change,
})

const changed = (value: Json, name: string, place: TextPlace): Json => {
  if (typeof value === 'string') return changedText(value, place)
  if (isList(value)) return mappedList(value, (item) => changed(item, name, place))
  if (!isObject(value)) return place.kind === 'arguments' ? changedDigits(value, place) : value
  if (place.free) return mappedMembers(value, (member, key) => changed(member, key, place))
  if (place.kind === 'tools') return mappedMembers(value, (member, key) => changedDeclaration(member, key, place))
  if (isSigned(value)) return value
  const kind = isResult(value) ? 'result' : place.kind
  const inside = { ...place, kind, role: text(value.role) ?? place.role }
  return mappedMembers(value, (member, key) => changedMember(value, member, key, inside))
}

/** An integer in arguments is read as its digits. One that changes becomes a text, since a mask is no number. */
const changedDigits = (value: Json, place: TextPlace): Json => {
  const digits = digitsOf(value)
  if (digits === undefined) return value
  const after = changedText(digits, place)
  return after === digits ? value : after
}

/** Reasoning whose signature is valid for its text only. Other parts with such members are no reasoning. */
const isSigned = (part: JsonObject): boolean =>
  (part.thought === true && (part.thoughtSignature ?? part.thought_signature) !== undefined) || isSignedBlock(part)

const isSignedBlock = (part: JsonObject): boolean =>
  typeof part.type === 'string' &&
  /^(?:redacted_thinking|thinking|reasoning)(?:$|\.)/.test(part.type) &&
  ['signature', 'encrypted_content', 'data'].some((member) => typeof part[member] === 'string')

/** What a tool returned: a message, an item or a block. */
const isResult = ({ role, type }: JsonObject): boolean =>
  role === 'tool' || role === 'function' || (typeof type === 'string' && /(?:tool_result|call_output)$/.test(type))

const changedMember = (parent: JsonObject, value: Json, name: string, place: TextPlace): Json => {
  const inside = isObject(value) ? GIVEN[name] : undefined
  if (inside) return changedGiven(value, inside, place)
  if (name === 'arguments' && typeof value === 'string') return changedArguments(value, place)
  if (INPUTS.has(name) && isCall(parent)) return changed(value, name, { ...place, kind: 'arguments', free: true })
  // The name of an author is a text; that of a function identifies it.
  if (name === 'name' && parent.role === undefined) return value
  // Claude's documents of plain text.
  if (name === 'data' && parent.type === 'text') return changed(value, name, place)
  const isBytes = ADDRESSES.has(name) && typeof value === 'string' && value.startsWith('data:')
  return isBytes || IDENTIFIERS.has(name) || name.endsWith('_id') ? value : changed(value, name, place)
}

/** Parts of Gemini with an object of a tool, whose members it names: what it receives, and what it returned. */
const GIVEN: { readonly [part: string]: { readonly member: string; readonly kind: RequestText['kind'] } | undefined } =
  {
    functionCall: { member: 'args', kind: 'arguments' },
    function_call: { member: 'args', kind: 'arguments' },
    functionResponse: { member: 'response', kind: 'result' },
    function_response: { member: 'response', kind: 'result' },
  }

const changedGiven = (
  part: Json,
  { member, kind }: { readonly member: string; readonly kind: RequestText['kind'] },
  place: TextPlace,
): Json =>
  !isObject(part)
    ? part
    : mappedMembers(part, (value, name) =>
        name === member
          ? changed(value, name, { ...place, kind, free: true })
          : changedMember(part, value, name, { ...place, kind }),
      )

/** Members with the address of a file, or its bytes. */
const ADDRESSES: ReadonlySet<string> = new Set(['url', 'image_url', 'file_url', 'video_url', 'audio_url'])

/** A member of a tool or of a schema. Names of properties, and lists of them, are no texts. */
const changedDeclaration = (value: Json, name: string, place: TextPlace): Json => {
  if (VALUES.has(name)) return changed(value, name, { ...place, free: true })
  if (NAMED_SCHEMAS.has(name) && isObject(value)) return mappedMembers(value, (schema) => changed(schema, name, place))
  return CONTROLS.has(name) || /_ids?$/.test(name) ? value : changed(value, name, place)
}

/** Members of a schema that have values of the arguments. */
const VALUES: ReadonlySet<string> = new Set(['enum', 'const', 'default', 'examples'])

/** Members of a schema whose own members are schemas, by names that the client has chosen. */
const NAMED_SCHEMAS: ReadonlySet<string> = new Set(['properties', 'patternProperties', '$defs', 'definitions'])

/** Members of tools and schemas that are names, rules of a schema, or credentials for a server of tools. */
const CONTROLS: ReadonlySet<string> = new Set([
  ...['type', 'name', 'id', 'strict', 'cache_control', 'pattern', '$ref', '$id', '$schema', '$anchor', '$dynamicRef'],
  ...[
    'required',
    'dependentRequired',
    'propertyOrdering',
    'contentEncoding',
    'contentMediaType',
    'syntax',
    'verbosity',
  ],
  ...[
    'authorization',
    'authorization_token',
    'headers',
    'server_url',
    'server_label',
    'url',
    'container',
    'model',
    'effort',
  ],
])

/** Members with a value of the format, an identifier, or bytes. */
const IDENTIFIERS: ReadonlySet<string> = new Set([
  ...['type', 'role', 'id', 'status', 'phase', 'detail', 'format', 'media_type', 'mime_type', 'cache_control'],
  ...['data', 'file_data', 'signature', 'encrypted_content', 'thought_signature', 'thoughtSignature', 'mimeType'],
])

/** What a tool receives: an object whose members it names, or text without a form. */
const INPUTS: ReadonlySet<string> = new Set(['input', 'action', 'operation'])

const isCall = ({ type }: JsonObject): boolean => typeof type === 'string' && /(?:tool_use|_call)$/.test(type)

const changedText = (value: string, { role, kind, change }: TextPlace): string =>
  value === '' ? value : change({ text: value, role, kind })

/** Arguments are JSON in a string. Escapes in it may hide a text, so its values are read. */
const changedArguments = (source: string, place: TextPlace): string => {
  const inside: TextPlace = { ...place, kind: 'arguments', free: true }
  const value = readJson(source)
  const isReadable = (isObject(value) || isList(value)) && !exceedsDepth(value, MAX_DEPTH)
  if (!isReadable) return changedText(source, inside)
  const after = changed(value, 'arguments', inside)
  return after === value ? source : JSON.stringify(after)
}

const mappedList = (list: readonly Json[], map: (item: Json) => Json): readonly Json[] => {
  let copy: Json[] | null = null
  for (const [index, item] of list.entries()) {
    const after = map(item)
    if (after === item) continue
    copy ??= [...list]
    copy[index] = after
  }
  return copy ?? list
}

const mappedMembers = (object: JsonObject, map: (value: Json, name: string) => Json): JsonObject => {
  let copy: Map<string, Json | undefined> | null = null
  for (const [name, value] of Object.entries(object)) {
    const after = value === undefined ? value : map(value, name)
    if (after === value) continue
    copy ??= new Map(Object.entries(object))
    copy.set(name, after)
  }
  return copy ? Object.fromEntries(copy) : object
}
