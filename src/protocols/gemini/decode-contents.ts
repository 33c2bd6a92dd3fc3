/** Decodes the conversation of a generateContent request. */
import type { Extra, MediaSource, Message, Part } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, object, text } from '../../core/json.ts'
import { foreignPart } from '../shared/foreign-parts.ts'
import { mediaPart } from '../shared/media-part.ts'
import type { Problems, RequestFields } from '../shared/request-fields.ts'
import { argumentsText, MAX_DEPTH } from '../shared/tool-arguments.ts'
import { PLACEHOLDER_SIGNATURE, unpackThought } from './packed-signature.ts'
import { protoFields, protoFieldsIn, protoMember } from './proto-fields.ts'

/** A call of the conversation, with whether a result has answered it. */
type DecodedCall = { readonly id: string; readonly name: string; answered: boolean }

/** What the parts of a conversation share. */
type ContentsContext = {
  readonly problems: Problems
  readonly calls: DecodedCall[]
  /** Members of the parts of one message that their canonical parts cannot have. */
  extras: Extra[]
  by: 'model' | 'client'
}

/** The system instruction as one message. */
export const decodeSystem = (fields: RequestFields, problems: Problems): readonly Message[] => {
  const at = fields.path('systemInstruction')
  const instruction = fields.any('systemInstruction')
  if (instruction === undefined) return []
  if (!isObject(instruction)) {
    fields.invalid('systemInstruction', 'an object with `parts`')
    return []
  }
  const inner = protoFields(instruction, at, problems)
  // Clients set any role; it has no effect.
  inner.any('role')
  const context: ContentsContext = { problems, calls: [], extras: [], by: 'client' }
  const content = (inner.list('parts') ?? []).flatMap((part, index) =>
    decodePart(part, `${at}.parts[${index}]`, context),
  )
  const extras = [...inner.unread(), ...context.extras]
  return [{ role: 'system', at, as: 'system', content, ...withExtras(extras) }]
}

/** The messages of `contents`. Adjacent contents of the model are one turn: SDKs store each chunk of a stream as one. */
export const decodeContents = (fields: RequestFields, problems: Problems): readonly Message[] => {
  const contents = fields.list('contents')
  if (!contents) fields.missing('contents', 'a list of contents')
  else if (contents.length === 0) fields.invalid('contents', 'a list with at least one content')
  const context: ContentsContext = { problems, calls: [], extras: [], by: 'client' }
  const answered = (contents ?? []).findLastIndex((content) => object(content)?.role === 'model')
  const messages: Message[] = []
  for (const [index, content] of (contents ?? []).entries()) {
    context.by = index < answered ? 'model' : 'client'
    for (const message of decodeContent(content, `${fields.path('contents')}[${index}]`, context)) {
      const last = messages.at(-1)
      if (message.role === 'assistant' && last?.role === 'assistant')
        messages[messages.length - 1] = joined(last, message)
      else messages.push(message)
    }
  }
  return messages
}

const joined = (first: Message, second: Message): Message => {
  const extras = [...(first.extras ?? []), ...(second.extras ?? [])]
  return { ...first, content: [...first.content, ...second.content], ...withExtras(extras) }
}

const decodeContent = (content: Json, at: string, context: ContentsContext): readonly Message[] => {
  const fields = protoFields(content, at, context.problems)
  const role = fields.string('role')
  const parts = fields.list('parts')
  if (!parts) fields.missing('parts', 'a list of parts')
  const isModel = role === 'model'
  // Without a role the content is the user's; older clients return results with the role `function`.
  if (!isModel && role !== undefined && role !== '' && role !== 'user' && role !== 'function')
    fields.invalid('role', 'user or model')
  context.extras = fields.unread()
  if (isModel) context.by = 'model'
  const messages: Message[] = []
  let inTurn: Part[] = []
  const flush = () => {
    if (inTurn.length > 0) messages.push({ role: isModel ? 'assistant' : 'user', at, content: inTurn })
    inTurn = []
  }
  for (const [index, part] of (parts ?? []).entries()) {
    const path = `${at}.parts[${index}]`
    if (isObject(part) && isObject(protoMember(part, 'functionResponse'))) {
      flush()
      messages.push(decodeResult(part, path, context))
    } else inTurn.push(...decodePart(part, path, context))
  }
  flush()
  const last = messages.at(-1)
  if (!last || context.extras.length === 0) return withoutRepeatedThoughts(messages)
  return withoutRepeatedThoughts([
    ...messages.slice(0, -1),
    { ...last, extras: [...(last.extras ?? []), ...context.extras] },
  ])
}

/** A thought that the client returns is the text of a packed one too, which has the signature. */
const withoutRepeatedThoughts = (messages: readonly Message[]): readonly Message[] =>
  messages.map((message) => {
    const signed = new Set(
      message.content.flatMap((part) =>
        part.type === 'reasoning' && part.signature && part.text !== '' ? [part.text] : [],
      ),
    )
    if (signed.size === 0) return message
    const content = message.content.filter(
      (part) => part.type !== 'reasoning' || part.signature || !signed.has(part.text),
    )
    return { ...message, content }
  })

const withExtras = (extras: readonly Extra[]): { extras?: readonly Extra[] } => (extras.length > 0 ? { extras } : {})

// ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Members of a part that describe its content. */
const BESIDE = /^(?:thought|video_?metadata$|part_?metadata$|media_?resolution$)/i

const decodePart = (part: Json, at: string, context: ContentsContext): Part[] => {
  const { problems, extras } = context
  if (!isObject(part)) {
    protoFields({}, at, problems).missing('text', 'a part with a text, data or a call')
    return []
  }
  const fields = protoFields(part, at, problems)
  const signature = fields.string('thoughtSignature') ?? ''
  const isThought = fields.flag('thought') ?? false
  const [first, ...more] = contentOf(fields, part, isThought, context)
  const rest = first?.type === 'foreign' ? [] : fields.unread()
  const takesExtras = first?.type === 'text' || first?.type === 'image' || first?.type === 'file'
  if (!takesExtras) extras.push(...rest)
  const own = first && takesExtras ? { ...first, ...withExtras([...(first.extras ?? []), ...rest]) } : first
  return signed(own ? [own, ...more] : more, signature, { at, isThought })
}

const contentOf = (fields: RequestFields, part: JsonObject, isThought: boolean, context: ContentsContext): Part[] => {
  const { at } = fields
  if (fields.has('text')) {
    const content = fields.string('text') ?? ''
    // Gemini returns summaries of its reasoning.
    if (isThought) return [{ type: 'reasoning', at, text: content, summary: true }]
    return content === '' ? [] : [{ type: 'text', at, text: content }]
  }
  const data = protoFieldsIn(fields, 'inlineData', context.problems)
  if (data) return decodeData(data, at, context)
  const file = protoFieldsIn(fields, 'fileData', context.problems)
  if (file) return decodeFile(file, at, context)
  const call = protoFieldsIn(fields, 'functionCall', context.problems)
  if (call) return decodeCall(call, at, context)
  const kind = Object.keys(part).find((name) => !BESIDE.test(name) && isObject(part[name]))
  if (kind === undefined) return []
  const found = foreignPart({ type: kind, ...object(part[kind]) }, { at, protocol: 'gemini', by: context.by })
  return [{ ...found, raw: part }]
}

/**
 * The parts with the signature: a packed one is the reasoning before them. Gemini's own is that of the thought, of the call, or of the
 * text before it.
 */
const signed = (
  parts: Part[],
  value: string,
  { at, isThought }: { readonly at: string; readonly isThought: boolean },
): Part[] => {
  if (value === '' || value === PLACEHOLDER_SIGNATURE) return parts
  const packed = unpackThought(value)
  if (packed) return [{ at, ...packed }, ...parts]
  const [first] = parts
  if (first?.type === 'reasoning' && isThought) return [{ ...first, signature: { origin: 'gemini', value } }]
  const id = first?.type === 'tool-call' ? first.id : undefined
  const own: Part = {
    type: 'reasoning',
    at,
    text: '',
    signature: { origin: 'gemini', value, ...(id !== undefined && { id }) },
  }
  return id === undefined ? [...parts, own] : [own, ...parts]
}

const decodeData = (fields: RequestFields, at: string, { extras }: ContentsContext): Part[] => {
  const mediaType = fields.string('mimeType') ?? ''
  const data = fields.string('data')
  if (mediaType === '') fields.missing('mimeType', 'a media type such as image/png')
  if (data === undefined) fields.missing('data', 'base64')
  const source: MediaSource = { kind: 'data', mediaType, data: data ?? '' }
  if (/^(?:image|audio)\//i.test(mediaType)) {
    extras.push(...fields.unread())
    return [mediaPart({ type: 'image', at, source })]
  }
  const filename = fields.string('displayName')
  extras.push(...fields.unread())
  const name = filename ? { filename, paths: { filename: 'inlineData.displayName' } } : {}
  return [mediaPart({ type: 'file', at, source, ...name })]
}

/** Files that only Google can read: of its Files API, and of its storage. */
const OF_GOOGLE = /^(?:files\/|gs:\/\/|https:\/\/generativelanguage\.googleapis\.com\/)/

const decodeFile = (fields: RequestFields, at: string, { extras }: ContentsContext): Part[] => {
  const uri = fields.string('fileUri')
  const mediaType = fields.string('mimeType') ?? ''
  if (!uri) fields.missing('fileUri', 'the address of a file')
  const filename = fields.string('displayName')
  extras.push(...fields.unread())
  const source: MediaSource = OF_GOOGLE.test(uri ?? '')
    ? { kind: 'id', id: uri ?? '', protocol: 'gemini' }
    : { kind: 'url', url: uri ?? '' }
  if (/^image\//i.test(mediaType)) return [{ type: 'image', at, source }]
  const name = filename ? { filename, paths: { filename: 'fileData.displayName' } } : {}
  return [{ type: 'file', at, source, ...name }]
}

const decodeCall = (fields: RequestFields, at: string, { calls, extras }: ContentsContext): Part[] => {
  const name = fields.string('name')
  if (!name) fields.missing('name', 'the name of the function')
  const given = argumentsText(fields.object('args'))
  if (given === undefined) fields.invalid('args', `an object nested at most ${MAX_DEPTH} levels deep`)
  const id = fields.string('id') || `call_${calls.length + 1}`
  extras.push(...fields.unread())
  calls.push({ id, name: name ?? '', answered: false })
  return [{ type: 'tool-call', at, id, name: name ?? '', arguments: given ?? '{}' }]
}

// ── Results ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The result of a call: that of its ID, otherwise the first open one of that name. */
const decodeResult = (part: JsonObject, at: string, context: ContentsContext): Message => {
  const outer = protoFields(part, at, context.problems)
  const fields = protoFieldsIn(outer, 'functionResponse', context.problems) ?? outer
  const path = fields.at
  const id = fields.string('id')
  const name = fields.string('name') ?? ''
  const open = context.calls.filter(({ answered }) => !answered)
  const call = open.find((one) => id !== undefined && one.id === id) ?? open.find((one) => one.name === name)
  if (!call) fields.invalid('name', 'the name of a call before it that has no result yet')
  else call.answered = true
  const response = fields.object('response')
  const result = resultText(response)
  const media = (fields.list('parts') ?? []).flatMap((inner, index) =>
    decodePart(inner, `${path}.parts[${index}]`, context),
  )
  const extras = [...fields.unread(), ...outer.unread()]
  return {
    role: 'tool',
    at,
    callId: call?.id ?? '',
    content: [{ type: 'text', at: `${path}.response`, text: result.text }, ...media],
    ...(result.isError && { isError: true }),
    ...withExtras(extras),
  }
}

/** The text of a result. Google's own form is one member, `output` or `error`; any other object is JSON. */
const resultText = (response: JsonObject | undefined): { readonly text: string; readonly isError: boolean } => {
  const names = Object.keys(response ?? {})
  const [name = ''] = names
  const only = names.length === 1 ? response?.[name] : undefined
  if (name === 'error' && only !== undefined) return { text: text(only) ?? JSON.stringify(only), isError: true }
  if (name === 'output' && typeof only === 'string') return { text: only, isError: false }
  return { text: JSON.stringify(response ?? {}), isError: false }
}
