/**
 * Kept bodies as a conversation. Requests and answers are read by their shape, in all API styles, whatever the path was: an
 * answer has the style of its provider. Pure.
 */

/** `json`: shown folded. */
export type TurnPart =
  | { readonly kind: 'text' | 'reasoning'; readonly text: string }
  | { readonly kind: 'call'; readonly id: string; readonly name: string; readonly json: string }
  | { readonly kind: 'result'; readonly id: string; readonly isError: boolean; readonly parts: readonly TurnPart[] }
  | { readonly kind: 'media'; readonly about: string }
  | { readonly kind: 'other'; readonly name: string; readonly json: string }

export type Turn = { readonly role: string; readonly parts: readonly TurnPart[] }
export type UnreadBody = 'truncated' | 'not_json' | 'unknown_shape'
export type ReadBodies = { readonly turns: readonly Turn[] } | { readonly problem: UnreadBody }

type BodyMembers = { readonly [name: string]: unknown }
type BodyText = { readonly text: string | null; readonly truncated: boolean }

const membersOf = (value: unknown): BodyMembers | null =>
  // An object that is no list has members by name.
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as BodyMembers) : null
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
const objectsIn = (value: unknown): readonly BodyMembers[] =>
  listOf(value)
    .map(membersOf)
    .filter((one) => one !== null)
const textIn = (value: unknown): string => (typeof value === 'string' ? value : '')
const jsonOf = (value: unknown): string => (typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? ''))
/** The members of the first of some names that is an object. */
const within = (of: BodyMembers, ...names: readonly string[]): BodyMembers | null =>
  names.reduce<BodyMembers | null>((found, name) => found ?? membersOf(of[name]), null)

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

// ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const plain = (text: unknown, kind: 'text' | 'reasoning' = 'text'): readonly TurnPart[] =>
  textIn(text) === '' ? [] : [{ kind, text: textIn(text) }]

const callPart = (id: unknown, name: unknown, input: unknown): TurnPart => {
  const value = typeof input === 'string' ? (parsed(input) ?? input) : (input ?? {})
  return { kind: 'call', id: textIn(id), name: textIn(name), json: jsonOf(value) }
}

const resultPart = (id: unknown, content: unknown, isError = false): TurnPart => ({
  kind: 'result',
  id: textIn(id),
  isError,
  parts: typeof content === 'string' || Array.isArray(content) ? partsOf(content) : plain(jsonOf(content)),
})

/** `image/png, 48213 bytes`, as the gateway writes it in place of the data; of a link its address. */
const mediaPart = (part: BodyMembers, type: string): TurnPart => {
  const of =
    within(part, 'source', 'image_url', 'input_audio', 'file', 'inlineData', 'inline_data', 'fileData', 'file_data') ??
    part
  const texts = [of.data, of.url, of.file_data, of.fileUri, of.image_url, of.file_id, part.file_url].map(textIn)
  const mark = texts.map((text) => /^\[([^\]]{1,200})\]$/.exec(text)?.[1]).find((found) => found !== undefined)
  const name = textIn(of.filename) || textIn(part.filename) || textIn(part.title)
  const media = textIn(of.media_type) || textIn(of.mimeType) || textIn(of.mime_type) || type
  const where =
    mark?.split(', sha256')[0] ?? [media, ...texts.filter((text) => text !== '' && text.length < 500)].join(', ')
  return { kind: 'media', about: name === '' ? where : `${name}: ${where}` }
}

const MEDIA = /^(?:input_)?(?:image|image_url|audio|file|document|video)$/

const partOf = (part: BodyMembers): readonly TurnPart[] => {
  const type = textIn(part.type)
  const call = within(part, 'functionCall', 'function_call')
  const result = within(part, 'functionResponse', 'function_response')
  if (call) return [callPart(call.id ?? call.name, call.name, call.args)]
  if (result) return [resultPart(result.id ?? result.name, result.response)]
  if (within(part, 'inlineData', 'inline_data', 'fileData', 'file_data')) return [mediaPart(part, 'file')]
  if (type === 'thinking' || type === 'reasoning' || type === 'summary_text' || part.thought === true)
    return plain(part.thinking ?? part.text, 'reasoning')
  if (type === 'tool_use' || type === 'server_tool_use') return [callPart(part.id, part.name, part.input)]
  if (type === 'tool_result') return [resultPart(part.tool_use_id, part.content ?? '', part.is_error === true)]
  if (MEDIA.test(type)) return [mediaPart(part, type.replace(/^input_|_url$/g, ''))]
  if (typeof part.text === 'string') return plain(part.text)
  if (typeof part.refusal === 'string') return plain(part.refusal)
  return [{ kind: 'other', name: type, json: jsonOf(part) }]
}

const partsOf = (content: unknown): readonly TurnPart[] =>
  typeof content === 'string'
    ? plain(content)
    : listOf(content).flatMap((one) =>
        typeof one === 'string' ? plain(one) : partOf(membersOf(one) ?? { value: one }),
      )

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const toolCalls = (message: BodyMembers): readonly TurnPart[] =>
  objectsIn(message.tool_calls).map((call) => {
    const of = within(call, 'function', 'custom') ?? call
    return callPart(call.id, of.name, of.arguments ?? of.input)
  })

/** A message of chat or messages. */
const messageTurn = (message: BodyMembers): Turn => {
  const role = textIn(message.role) || 'assistant'
  if (role === 'tool') return { role, parts: [resultPart(message.tool_call_id, message.content)] }
  const reasoning = plain(message.reasoning_content ?? message.reasoning, 'reasoning')
  const refusal = plain(message.refusal ?? within(message, 'stop_details')?.explanation)
  return { role, parts: [...reasoning, ...partsOf(message.content), ...refusal, ...toolCalls(message)] }
}

/** An item of responses. */
const itemTurn = (item: BodyMembers): Turn => {
  const type = textIn(item.type)
  if (type === 'reasoning')
    return {
      role: 'assistant',
      parts: [...objectsIn(item.summary), ...objectsIn(item.content)].flatMap(({ text }) => plain(text, 'reasoning')),
    }
  if (type.endsWith('_call_output')) return { role: 'tool', parts: [resultPart(item.call_id, item.output)] }
  if (type === 'function_call' || type === 'custom_tool_call')
    return { role: 'assistant', parts: [callPart(item.call_id, item.name, item.arguments ?? item.input)] }
  if (type !== '' && type !== 'message')
    return { role: 'assistant', parts: [{ kind: 'other', name: type, json: jsonOf(item) }] }
  return messageTurn(item)
}

const geminiTurn = (content: BodyMembers): Turn => ({
  role: textIn(content.role) === 'model' ? 'assistant' : textIn(content.role) || 'user',
  parts: partsOf(content.parts),
})

/** Inputs of embeddings: each is a text, or a list of tokens. */
const inputTurns = (input: unknown): readonly Turn[] =>
  [input].flat().map((one) => ({ role: 'user', parts: typeof one === 'string' ? plain(one) : partsOf([one]) }))

const requestTurns = (body: BodyMembers): readonly Turn[] | null => {
  const guidance = body.system ?? body.instructions ?? within(body, 'systemInstruction', 'system_instruction')?.parts
  const system: readonly Turn[] = guidance === undefined ? [] : [{ role: 'system', parts: partsOf(guidance) }]
  if (Array.isArray(body.messages)) return [...system, ...objectsIn(body.messages).map(messageTurn)]
  if (Array.isArray(body.contents)) return [...system, ...objectsIn(body.contents).map(geminiTurn)]
  if (membersOf(body.content) && within(body, 'content')?.parts) return [geminiTurn(within(body, 'content') ?? {})]
  if (Array.isArray(body.requests)) return objectsIn(body.requests).flatMap((one) => requestTurns(one) ?? [])
  if (Array.isArray(body.input) && objectsIn(body.input).length > 0)
    return [...system, ...objectsIn(body.input).map(itemTurn)]
  if (body.input !== undefined) return [...system, ...inputTurns(body.input)]
  if (body.prompt !== undefined) return [...system, ...inputTurns(body.prompt)]
  return null
}

// ── Answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const answerTurns = (body: BodyMembers): readonly Turn[] | null => {
  const response = within(body, 'response') ?? body
  if (Array.isArray(response.choices))
    return objectsIn(response.choices).map((choice) =>
      messageTurn(within(choice, 'message', 'delta') ?? { content: choice.text }),
    )
  if (Array.isArray(response.output)) return objectsIn(response.output).map(itemTurn)
  if (Array.isArray(response.candidates))
    return objectsIn(response.candidates).map((one) => ({
      ...geminiTurn(within(one, 'content') ?? {}),
      role: 'assistant',
    }))
  if (Array.isArray(body.content) && body.type === 'message') return [messageTurn(body)]
  return null
}

/** The data of the events of a stream; null: the text is no stream. */
const eventsIn = (text: string): readonly BodyMembers[] | null => {
  const lines = text.split(/\r?\n/).filter((line) => line.startsWith('data:'))
  if (lines.length === 0) return null
  return objectsIn(lines.map((line) => parsed(line.slice(5))))
}

/** Adds a piece to the last part if that is of the same kind. */
const joined = (parts: readonly TurnPart[], next: TurnPart): readonly TurnPart[] => {
  const last = parts.at(-1)
  const isSame = (next.kind === 'text' || next.kind === 'reasoning') && last?.kind === next.kind
  return isSame && 'text' in last ? [...parts.slice(0, -1), { ...last, text: last.text + next.text }] : [...parts, next]
}
const joinedParts = (parts: readonly TurnPart[]): readonly TurnPart[] => parts.reduce<readonly TurnPart[]>(joined, [])

type ChatPieces = {
  readonly texts: TurnPart[]
  readonly calls: Map<unknown, { readonly id: string; readonly name: string; readonly json: string }>
}

/** The whole message of pieces of chat, by choice: texts and arguments follow each other. */
const ofChatPieces = (events: readonly BodyMembers[]): readonly Turn[] => {
  const choices = new Map<unknown, ChatPieces>()
  for (const choice of events.flatMap(({ choices: list }) => objectsIn(list))) {
    const known: ChatPieces = choices.get(choice.index) ?? { texts: [], calls: new Map() }
    choices.set(choice.index, known)
    const delta = within(choice, 'delta', 'message') ?? { content: choice.text }
    const { tool_calls, ...rest } = delta
    known.texts.push(...messageTurn({ ...rest, role: 'assistant' }).parts)
    for (const [at, call] of objectsIn(tool_calls).entries()) {
      const of = within(call, 'function') ?? {}
      const before = known.calls.get(call.index ?? at) ?? { id: '', name: '', json: '' }
      known.calls.set(call.index ?? at, {
        id: before.id || textIn(call.id),
        name: before.name || textIn(of.name),
        json: before.json + textIn(of.arguments),
      })
    }
  }
  return [...choices.values()].map(({ texts, calls }) => ({
    role: 'assistant',
    parts: [...joinedParts(texts), ...[...calls.values()].map(({ id, name, json }) => callPart(id, name, json))],
  }))
}

/** The blocks of a streamed message. */
const ofBlocks = (events: readonly BodyMembers[]): Turn => {
  const blocks = new Map<unknown, { block: BodyMembers; text: string; json: string }>()
  let refusal: BodyMembers | null = null
  for (const event of events) {
    const block = within(event, 'content_block')
    if (block) blocks.set(event.index, { block, text: textIn(block.text ?? block.thinking), json: '' })
    const delta = within(event, 'delta')
    const open = blocks.get(event.index)
    if (delta) refusal = within(delta, 'stop_details') ?? refusal
    if (!delta || !open) continue
    open.text += textIn(delta.text ?? delta.thinking)
    open.json += textIn(delta.partial_json)
  }
  const parts = [...blocks.values()].flatMap(({ block, text, json }) =>
    partOf({
      ...block,
      ...(block.type === 'thinking' ? { thinking: text } : block.type === 'text' ? { text } : {}),
      ...(json !== '' && { input: parsed(json) ?? json }),
    }),
  )
  return { role: 'assistant', parts: [...parts, ...plain(refusal?.explanation)] }
}

/** The items of a streamed response: whole ones, and the text of one that broke off. */
const ofItems = (events: readonly BodyMembers[]): readonly Turn[] => {
  const end = events.findLast(
    ({ type }) => textIn(type) === 'response.completed' || textIn(type) === 'response.incomplete',
  )
  const whole = end && answerTurns(end)
  if (whole && whole.length > 0) return whole
  const done = events.filter(({ type }) => type === 'response.output_item.done')
  const open = events.filter(
    ({ type, output_index }) =>
      type === 'response.output_text.delta' && !done.some((item) => item.output_index === output_index),
  )
  const rest = joinedParts(open.flatMap(({ delta }) => plain(delta)))
  const turns = done.flatMap((event) => (within(event, 'item') ? [itemTurn(within(event, 'item') ?? {})] : []))
  return rest.length === 0 ? turns : [...turns, { role: 'assistant', parts: rest }]
}

const streamedTurns = (events: readonly BodyMembers[]): readonly Turn[] | null => {
  if (events.some(({ choices }) => Array.isArray(choices))) return ofChatPieces(events)
  if (events.some(({ type }) => type === 'message_start')) return [ofBlocks(events)]
  if (events.some(({ type }) => textIn(type).startsWith('response.'))) return ofItems(events)
  const pieces = events.flatMap((event) => answerTurns(event) ?? [])
  return pieces.length === 0 ? null : [{ role: 'assistant', parts: joinedParts(pieces.flatMap(({ parts }) => parts)) }]
}

// ── Bodies ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Turns of the model that follow each other are one. */
const merged = (turns: readonly Turn[]): readonly Turn[] => {
  const all: Turn[] = []
  for (const turn of turns) {
    const last = all.at(-1)
    if (last?.role === 'assistant' && turn.role === 'assistant')
      all[all.length - 1] = { ...last, parts: [...last.parts, ...turn.parts] }
    else all.push(turn)
  }
  return all
}

const found = (turns: readonly Turn[] | null): ReadBodies => {
  const shown = merged((turns ?? []).filter(({ parts }) => parts.length > 0))
  return shown.length === 0 ? { problem: 'unknown_shape' } : { turns: shown }
}

/** The turns of a request. */
export const readRequest = ({ text, truncated }: BodyText): ReadBodies => {
  const body = membersOf(parsed(text ?? ''))
  if (body) return found(requestTurns(body))
  return { problem: truncated ? 'truncated' : 'not_json' }
}

/** The turn of an answer: whole, or joined from its events, as far as they were kept. */
export const readAnswer = ({ text, truncated }: BodyText): ReadBodies => {
  const whole = parsed(text ?? '')
  const events = whole === undefined ? eventsIn(text ?? '') : Array.isArray(whole) ? objectsIn(whole) : null
  if (events) return found(streamedTurns(events))
  const body = membersOf(whole)
  if (body) return found(answerTurns(body))
  return { problem: truncated ? 'truncated' : 'not_json' }
}

/** The results of calls that stand beside them, by the ID of the call. */
export const resultsOf = (turns: readonly Turn[]): ReadonlyMap<string, TurnPart & { readonly kind: 'result' }> => {
  const parts = turns.flatMap((turn) => turn.parts)
  const calls = new Set(parts.flatMap((part) => (part.kind === 'call' ? [part.id] : [])))
  return new Map(
    parts.flatMap((part) => (part.kind === 'result' && calls.has(part.id) ? [[part.id, part] as const] : [])),
  )
}
