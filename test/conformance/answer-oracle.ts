/**
 * Reads the content of an answer from its JSON without the gateway's codecs: a second opinion on both sides of a
 * translation. Streams are assembled first, as strictly as the official SDKs do it.
 */
import assert from 'node:assert/strict'
import type { ClientProtocolName, FinishKind } from '../../src/core/chat.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../src/core/json.ts'

/** The content of an answer, independent of its format. */
export type ObservedAnswer = {
  readonly text: string
  readonly refusal: string
  /** Without line breaks: formats divide reasoning differently. */
  readonly reasoning: string
  readonly calls: readonly { readonly id: string; readonly name: string; readonly input: Json }[]
  /** URLs of the cited sources. */
  readonly citedUrls: readonly string[]
  /** The format's own value; for responses `incomplete/max_output_tokens`. */
  readonly finishReason: string
  readonly usage: TokenCounts | null
  /** Blocks that exist only in this format and cannot be translated. */
  readonly foreign: readonly Json[]
}

export type TokenCounts = {
  readonly input: number
  readonly output: number
  readonly cacheRead: number
  readonly cacheWrite: number
  readonly reasoning: number
}

/** Parses a call's arguments, because models, servers and formats space JSON differently. Empty arguments are `{}`. */
export const parseArguments = (given: Json | undefined): Json => {
  if (typeof given !== 'string') return given ?? {}
  if (given.trim() === '') return {}
  try {
    return JSON.parse(given)
  } catch {
    return given
  }
}

const objects = (value: Json | undefined): JsonObject[] => list(value).filter(isObject)
const count = (value: Json | undefined): number => number(value) ?? 0
/** Joins reasoning without its line breaks. */
export const joinReasoning = (pieces: readonly string[]): string => pieces.join('').replaceAll(/\s*\n\s*/g, '')

// ── Chat completions ─────────────────────────────────────────────────────────────────────────────────────────────

const textOfParts = (content: Json | undefined, wanted: 'text' | 'thinking'): string =>
  list(content)
    .map((part) => {
      const piece = object(part)
      if (wanted === 'thinking')
        return list(piece?.thinking)
          .map((inner) => text(object(inner)?.text) ?? '')
          .join('')
      return piece?.type === 'thinking' ? '' : (text(piece?.text) ?? '')
    })
    .join('')

const reasoningDetails = (message: JsonObject): string =>
  list(message.reasoning_details)
    .map((detail) => text(object(detail)?.text) ?? text(object(detail)?.summary) ?? '')
    .join('')

const chatUsage = (body: JsonObject): TokenCounts | null => {
  const usage = object(body.usage) ?? object(object(body.x_groq)?.usage)
  if (!usage || (number(usage.prompt_tokens) === undefined && number(usage.completion_tokens) === undefined))
    return null
  const inputs = object(usage.prompt_tokens_details)
  const read = [inputs?.cached_tokens, usage.prompt_cache_hit_tokens, usage.num_cached_tokens, usage.cached_tokens]
  return {
    input: count(usage.prompt_tokens),
    // Gemini's endpoint and xAI count hidden reasoning in the total alone.
    output: Math.max(count(usage.completion_tokens), count(usage.total_tokens) - count(usage.prompt_tokens)),
    cacheRead: Math.max(...read.map(count)),
    cacheWrite: count(inputs?.cache_write_tokens),
    reasoning: count(object(usage.completion_tokens_details)?.reasoning_tokens),
  }
}

/** The id given to a call of the deprecated `function_call`, which has none. */
export const LEGACY_CALL_ID = 'function_call'

const readChat = (body: JsonObject): ObservedAnswer => {
  const choices = list(body.choices)
  const choice = object(choices.find((entry) => object(entry)?.index === 0) ?? choices[0])
  const message = object(choice?.message) ?? {}
  const old = object(message.function_call)
  // Snowflake sends an empty `function_call` in every answer.
  const legacy = old && text(old.name) ? old : undefined
  const calls = [...list(message.tool_calls), ...(legacy ? [{ id: LEGACY_CALL_ID, function: legacy }] : [])].map(
    (entry) => {
      const call = object(entry)
      const inner = object(call?.function) ?? object(call?.custom)
      return {
        id: text(call?.id) ?? '',
        name: text(inner?.name) ?? '',
        input: parseArguments(inner?.arguments ?? inner?.input),
      }
    },
  )
  const thoughts =
    text(message.reasoning_content) ||
    text(message.reasoning) ||
    textOfParts(message.content, 'thinking') ||
    reasoningDetails(message)
  const annotated = list(message.annotations).flatMap((entry) => text(object(object(entry)?.url_citation)?.url) ?? [])
  const content = text(message.content) ?? textOfParts(message.content, 'text')
  return {
    text: content,
    refusal: text(message.refusal) ?? '',
    reasoning: joinReasoning([thoughts]),
    calls,
    citedUrls:
      annotated.length > 0 || content === '' ? annotated : list(body.citations).flatMap((url) => text(url) ?? []),
    finishReason:
      typeof choice?.finish_reason === 'number' ? String(choice.finish_reason) : (text(choice?.finish_reason) ?? ''),
    usage: chatUsage(body),
    foreign: mediaIn(message),
  }
}

/** Audio and images, which no other format can express. Snowflake sends an empty `audio` in every answer. */
const mediaIn = ({ audio, images }: JsonObject): Json[] => [
  ...(Object.values(object(audio) ?? {}).some(Boolean) ? [{ audio: audio ?? null }] : []),
  ...(list(images).length > 0 ? [{ images: list(images) }] : []),
]

/** Assembles the chunks of the first choice into a whole answer. */
const assembleChat = (chunks: readonly JsonObject[]): JsonObject => {
  const whole = { content: '', refusal: '', reasoning: '', annotations: [] as Json[], details: [] as Json[] }
  const thinking: string[] = []
  const calls: { id: string; name: string; words: string }[] = []
  const old = { name: '', words: '' }
  const media: { [member: string]: Json } = {}
  let reason: Json = null
  let rest: JsonObject = {}
  for (const chunk of chunks) {
    const { choices, usage, ...head } = chunk
    rest = { ...rest, ...head, ...(isObject(usage) && { usage }) }
    for (const entry of list(choices)) {
      const choice = object(entry)
      if (count(choice?.index) !== 0) continue
      const delta = object(choice?.delta) ?? {}
      whole.content += text(delta.content) ?? textOfParts(delta.content, 'text')
      thinking.push(textOfParts(delta.content, 'thinking'))
      whole.refusal += text(delta.refusal) ?? ''
      whole.reasoning += text(delta.reasoning_content) || text(delta.reasoning) || ''
      whole.annotations.push(...list(delta.annotations))
      whole.details.push(...list(delta.reasoning_details))
      for (const [at, piece] of list(delta.tool_calls).entries()) {
        const more = object(piece)
        const inner = object(more?.function) ?? object(more?.custom)
        const words =
          text(inner?.arguments) ??
          text(inner?.input) ??
          (isObject(inner?.arguments) ? JSON.stringify(inner?.arguments) : '')
        const place = number(more?.index) ?? at
        const known = calls[place]
        if (known) known.words += words
        else calls[place] = { id: text(more?.id) ?? '', name: text(inner?.name) ?? '', words }
      }
      for (const member of ['audio', 'images']) if (delta[member]) media[member] = delta[member]
      const legacy = object(delta.function_call)
      old.name += text(legacy?.name) ?? ''
      old.words += text(legacy?.arguments) ?? ''
      reason = choice?.finish_reason || reason
    }
  }
  const message = {
    ...media,
    content: whole.content,
    refusal: whole.refusal,
    reasoning_content: whole.reasoning || thinking.join(''),
    reasoning_details: whole.details,
    annotations: whole.annotations,
    tool_calls: calls.map(({ id, name, words }) => ({ id, function: { name, arguments: words } })),
    ...(old.name !== '' && { function_call: { name: old.name, arguments: old.words } }),
  }
  return { ...rest, choices: [{ index: 0, message, finish_reason: reason }] }
}

/** Asserts the order that the official SDK requires, and that the stream is complete. */
const assertChatOrder = (chunks: readonly JsonObject[], names: readonly string[]): void => {
  assert.equal(names.at(-1), '[DONE]', 'the last event is not [DONE]')
  assert.equal(new Set(chunks.map(({ id }) => id)).size, 1, 'the id changes')
  const deltas = chunks.flatMap(({ choices }) => list(choices).map((choice) => object(choice)))
  assert.equal(
    deltas.filter((choice) => object(choice?.delta)?.role !== undefined).length,
    1,
    'the role is not sent exactly once',
  )
  assert.equal(deltas.filter((choice) => text(choice?.finish_reason)).length, 1, 'not exactly one finish reason')
  const calls = deltas.flatMap((choice) => objects(object(choice?.delta)?.tool_calls))
  const known = new Set<Json>()
  for (const call of calls) {
    assert.ok(Number.isInteger(call.index), 'a call without an index')
    const isNew = !known.has(call.index ?? null)
    known.add(call.index ?? null)
    assert.equal(
      text(call.id) !== undefined && text(call.type) !== undefined,
      isNew,
      'id and type belong to the first chunk of a call',
    )
  }
}

// ── Responses ────────────────────────────────────────────────────────────────────────────────────────────────────

const TRANSLATED_ITEMS = new Set<Json | undefined>(['message', 'function_call', 'custom_tool_call', 'reasoning'])

const readResponses = (response: JsonObject): ObservedAnswer => {
  const items = objects(response.output)
  const parts = items.flatMap((item) => (item.type === 'message' ? objects(item.content) : []))
  const thoughts = items.flatMap((item) =>
    item.type === 'reasoning'
      ? [...list(item.summary), ...list(item.content)].map((part) => text(object(part)?.text) ?? '')
      : [],
  )
  const usage = object(response.usage)
  const cause = text(object(response.incomplete_details)?.reason)
  return {
    text: parts.map((part) => (part.type === 'output_text' ? (text(part.text) ?? '') : '')).join(''),
    refusal: parts.map((part) => text(part.refusal) ?? '').join(''),
    reasoning: joinReasoning(thoughts),
    calls: items.flatMap((item) =>
      item.type === 'function_call'
        ? [{ id: text(item.call_id) ?? '', name: text(item.name) ?? '', input: parseArguments(item.arguments) }]
        : item.type === 'custom_tool_call'
          ? [{ id: text(item.call_id) ?? '', name: text(item.name) ?? '', input: parseArguments(item.input) }]
          : [],
    ),
    citedUrls: parts.flatMap((part) =>
      list(part.annotations).flatMap((one) =>
        object(one)?.type === 'url_citation' ? (text(object(one)?.url) ?? []) : [],
      ),
    ),
    finishReason: (text(response.status) ?? 'completed') + (cause === undefined ? '' : `/${cause}`),
    usage: usage
      ? {
          input: count(usage.input_tokens),
          output: count(usage.output_tokens),
          cacheRead: count(object(usage.input_tokens_details)?.cached_tokens),
          cacheWrite: count(object(usage.input_tokens_details)?.cache_write_tokens),
          reasoning: count(object(usage.output_tokens_details)?.reasoning_tokens),
        }
      : null,
    foreign: items.filter((item) => !TRANSLATED_ITEMS.has(item.type)),
  }
}

/**
 * The response of the last event, with each item as its `done` event has it: some servers omit streamed items from the
 * last event.
 */
const assembleResponses = (events: readonly JsonObject[]): JsonObject => {
  // A few recordings hold two answers; ignore everything after the end of the first.
  const last = events.findIndex(({ type }) => /^response\.(completed|incomplete|failed)$/.test(text(type) ?? ''))
  const final = object(events[last]?.response) ?? {}
  const output: Json[] = [...list(final.output)]
  for (const { type, item, output_index } of events.slice(0, last + 1))
    if (type === 'response.output_item.done') output[number(output_index) ?? 0] = item ?? null
  return { ...final, output }
}

const assertResponsesOrder = (events: readonly JsonObject[], names: readonly string[]): void => {
  assert.equal(names.at(-1), '[DONE]', 'the last event is not [DONE]')
  assert.equal(events[0]?.type, 'response.created')
  const added = new Map<Json | undefined, JsonObject>()
  const done: Json[] = []
  let part: string | undefined
  for (const [at, event] of events.entries()) {
    assert.equal(names[at], event.type, 'the name of an event differs from its type')
    assert.equal(event.sequence_number, at, 'a gap in the sequence')
    const item = object(event.item)
    const type = text(event.type) ?? ''
    if (type === 'response.output_item.added' && item) {
      assert.equal(event.output_index, done.length, 'items interleave')
      added.set(event.output_index, item)
    }
    if (type === 'response.output_item.done' && item) {
      const begun = added.get(event.output_index)
      for (const member of ['id', 'type', 'call_id', 'name'])
        assert.deepEqual(item[member], begun?.[member], `${member} changes`)
      done.push(item)
    }
    if (type.endsWith('part.added')) {
      assert.equal(part, undefined, 'parts interleave')
      part = type
    }
    if (type.endsWith('part.done')) part = undefined
    if (event.item_id !== undefined)
      assert.equal(event.item_id, added.get(event.output_index)?.id, 'an item id changes')
    if (/(text|refusal)\.delta$/.test(type)) assert.ok(part, `${type} without a part`)
  }
  assert.equal(new Set(events.flatMap((event) => object(event.response)?.id ?? [])).size, 1, 'the response id changes')
  assert.deepEqual(object(events.at(-1)?.response)?.output, done, 'the last event has other items')
}

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

const TRANSLATED_BLOCKS = new Set<Json | undefined>(['text', 'tool_use', 'thinking', 'redacted_thinking'])

const readMessages = (message: JsonObject): ObservedAnswer => {
  const blocks = objects(message.content)
  const details = object(message.stop_details)
  const usage = object(message.usage)
  const cacheRead = count(usage?.cache_read_input_tokens)
  const cacheWrite = count(usage?.cache_creation_input_tokens)
  return {
    text: blocks.map((block) => (block.type === 'text' ? (text(block.text) ?? '') : '')).join(''),
    refusal: (details?.type === 'refusal' && text(details.explanation)) || '',
    reasoning: joinReasoning(blocks.map((block) => (block.type === 'thinking' ? (text(block.thinking) ?? '') : ''))),
    calls: blocks.flatMap((block) =>
      block.type === 'tool_use'
        ? [{ id: text(block.id) ?? '', name: text(block.name) ?? '', input: block.input ?? {} }]
        : [],
    ),
    citedUrls: blocks.flatMap((block) =>
      block.type === 'text'
        ? list(block.citations).flatMap((one) => text(object(one)?.url) ?? text(object(one)?.source) ?? [])
        : [],
    ),
    finishReason: text(message.stop_reason) ?? '',
    usage: usage
      ? {
          input: count(usage.input_tokens) + cacheRead + cacheWrite,
          output: count(usage.output_tokens),
          cacheRead,
          cacheWrite,
          reasoning: count(object(usage.output_tokens_details)?.thinking_tokens),
        }
      : null,
    foreign: blocks.filter((block) => !TRANSLATED_BLOCKS.has(block.type)),
  }
}

const DELTA_MEMBERS: { readonly [delta: string]: { readonly block: string; readonly member: string } } = {
  text_delta: { block: 'text', member: 'text' },
  thinking_delta: { block: 'thinking', member: 'thinking' },
}

/** Assembles the first message of a stream. */
const assembleMessages = (events: readonly JsonObject[]): JsonObject => {
  let message: JsonObject = {}
  const blocks: { [member: string]: Json | undefined }[] = []
  const inputs = new Map<number, string>()
  for (const event of events) {
    const index = count(event.index)
    const delta = object(event.delta) ?? {}
    const block = blocks[index]
    if (event.type === 'message_start') message = { ...object(event.message) }
    else if (event.type === 'content_block_start') blocks[index] = { ...object(event.content_block) }
    else if (event.type === 'content_block_delta' && block) {
      const target = DELTA_MEMBERS[text(delta.type) ?? '']
      if (target) block[target.member] = `${text(block[target.member]) ?? ''}${text(delta[target.member]) ?? ''}`
      else if (delta.type === 'input_json_delta')
        inputs.set(index, (inputs.get(index) ?? '') + (text(delta.partial_json) ?? ''))
      else if (delta.type === 'citations_delta') block.citations = [...list(block.citations), delta.citation ?? null]
      else if (delta.type === 'compaction_delta') block.content = delta.content ?? null
    } else if (event.type === 'content_block_stop' && block) {
      const input = inputs.get(index)
      if (input) block.input = parseArguments(input)
    } else if (event.type === 'message_delta') {
      const reported = Object.fromEntries(
        Object.entries(object(event.usage) ?? {}).filter(([, value]) => value !== null),
      )
      message = { ...message, ...delta, usage: { ...object(message.usage), ...reported } }
    } else if (event.type === 'message_stop') break
  }
  return { ...message, content: blocks }
}

const assertMessagesOrder = (events: readonly JsonObject[], names: readonly string[]): void => {
  assert.equal(events[0]?.type, 'message_start')
  assert.equal(events.at(-1)?.type, 'message_stop')
  let open: JsonObject | undefined
  let blocks = 0
  for (const [at, event] of events.entries()) {
    assert.equal(names[at], event.type, 'the name of an event differs from its type')
    if (event.type === 'content_block_start') {
      assert.equal(open, undefined, 'blocks interleave')
      assert.equal(event.index, blocks++)
      open = object(event.content_block)
    }
    if (event.type === 'content_block_delta') {
      assert.equal(event.index, blocks - 1)
      const target = DELTA_MEMBERS[text(object(event.delta)?.type) ?? '']
      if (target) assert.equal(open?.type, target.block, 'a delta that does not fit its block')
    }
    if (event.type === 'content_block_stop') open = undefined
  }
  assert.equal(open, undefined, 'a block stays open')
}

// ── Completions ──────────────────────────────────────────────────────────────────────────────────────────────────

/** Completions have only text, a finish reason and usage. */
const readCompletions = (body: JsonObject): ObservedAnswer => {
  const choice = object(list(body.choices)[0])
  return {
    text: text(choice?.text) ?? '',
    refusal: '',
    reasoning: '',
    calls: [],
    citedUrls: [],
    finishReason: text(choice?.finish_reason) ?? '',
    usage: chatUsage(body),
    foreign: [],
  }
}

const assembleCompletions = (chunks: readonly JsonObject[]): JsonObject => {
  const choices = chunks.flatMap((chunk) => objects(chunk.choices))
  const words = choices.map((choice) => text(choice.text) ?? '').join('')
  const reason = choices.findLast((choice) => choice.finish_reason !== null)?.finish_reason ?? null
  const usage = chunks.findLast((chunk) => isObject(chunk.usage))?.usage ?? null
  return { ...chunks[0], choices: [{ index: 0, text: words, finish_reason: reason }], usage }
}

const assertCompletionsOrder = (chunks: readonly JsonObject[], names: readonly string[]): void => {
  assert.equal(names.at(-1), '[DONE]', 'the last event is not [DONE]')
  assert.equal(new Set(chunks.map(({ id }) => id)).size, 1, 'the id changes')
  const ends = chunks.flatMap((chunk) => objects(chunk.choices)).filter((choice) => choice.finish_reason !== null)
  assert.equal(ends.length, 1, 'not exactly one finish reason')
}

// ── Gemini ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Names of numeric finish reasons, which some clients request. */
const NUMBERED_REASONS = ['', 'STOP', 'MAX_TOKENS', 'SAFETY']

/** Reads the responses of an answer: one, or those of a stream. */
export const readGemini = (responses: readonly JsonObject[]): ObservedAnswer => {
  const candidates = responses.map((response) => object(list(response.candidates)[0]) ?? {})
  const parts = candidates.flatMap((candidate) => objects(object(candidate.content)?.parts))
  const words = (thought: boolean) =>
    parts.filter((part) => (part.thought === true) === thought).map((part) => text(part.text) ?? '')
  const calls = parts.map((part) => part.functionCall).filter(isObject)
  const reason = candidates.findLast(({ finishReason }) => finishReason !== undefined)?.finishReason
  const usage = responses.findLast(({ usageMetadata }) => isObject(usageMetadata))?.usageMetadata
  return {
    refusal: '',
    text: words(false).join(''),
    reasoning: joinReasoning(words(true)),
    calls: calls.map(({ id, name, args }) => ({ id: text(id) ?? '', name: text(name) ?? '', input: args ?? {} })),
    citedUrls: candidates.flatMap(groundingUrls).filter((url) => url !== ''),
    finishReason: typeof reason === 'number' ? (NUMBERED_REASONS[reason] ?? '') : (text(reason) ?? ''),
    usage: isObject(usage) ? geminiUsage(usage) : null,
    foreign: parts.filter((part) => part.text === undefined && !part.functionCall),
  }
}

/** URLs of the sources that support a passage, else of all sources; and of recited texts. */
const groundingUrls = ({ groundingMetadata, citationMetadata }: JsonObject): string[] => {
  const grounds = object(groundingMetadata)
  const chunks = list(grounds?.groundingChunks).map((chunk) => {
    const source = Object.values(object(chunk) ?? {}).find(isObject)
    return text(source?.uri) ?? text(source?.sourceUri) ?? ''
  })
  const indices = list(grounds?.groundingSupports).flatMap((support) => list(object(support)?.groundingChunkIndices))
  const supporting = indices.map((index) => chunks[Number(index)] ?? '')
  const recited = object(citationMetadata)
  const uris = [...objects(recited?.citations), ...objects(recited?.citationSources)].map(({ uri }) => text(uri) ?? '')
  return [...(supporting.length > 0 ? supporting : chunks), ...uris]
}

const geminiUsage = (usage: JsonObject): TokenCounts => ({
  input: count(usage.promptTokenCount) + count(usage.toolUsePromptTokenCount),
  output: count(usage.candidatesTokenCount) + count(usage.thoughtsTokenCount),
  cacheRead: count(usage.cachedContentTokenCount),
  cacheWrite: 0,
  reasoning: count(usage.thoughtsTokenCount),
})

/** Responses of a stream as one. */
const assembleGemini = (responses: readonly JsonObject[]): JsonObject => {
  const candidates = responses.flatMap((response) => objects(response.candidates))
  const parts = candidates.flatMap((candidate) => list(object(candidate.content)?.parts))
  const last = responses.at(-1)
  if (candidates.length === 0) return last ?? {}
  return { ...last, candidates: [{ ...candidates.at(-1), content: { role: 'model', parts } }] }
}

/** What every reader of Google's SDKs takes: a part in each candidate, no names of events, one end. */
const assertGeminiOrder = (responses: readonly JsonObject[], names: readonly string[]): void => {
  assert.ok(!names.includes('[DONE]'))
  for (const [at, response] of responses.entries()) {
    assert.equal(names[at], JSON.stringify(response), 'an event has a name')
    const [candidate] = objects(response.candidates)
    if (!candidate) assert.ok(isObject(response.promptFeedback), 'a response without a candidate')
    else assert.ok(list(object(candidate.content)?.parts).length > 0, 'a candidate without a part')
  }
  const ends = responses.filter(
    ({ candidates, promptFeedback }) => isObject(promptFeedback) || objects(candidates)[0]?.finishReason,
  )
  assert.equal(ends.length, 1, 'not exactly one end')
  assert.equal(ends[0], responses.at(-1))
  assert.ok(isObject(responses.at(-1)?.usageMetadata))
  assert.equal(new Set(responses.map(({ responseId }) => responseId)).size, 1, 'the id changes')
}

// ── All of them ──────────────────────────────────────────────────────────────────────────────────────────────────

type AnswerReader = {
  readonly read: (body: JsonObject) => ObservedAnswer
  readonly assemble: (events: readonly JsonObject[]) => JsonObject
  /** Throws if a complete stream violates the order that clients require. `names`: the name of each event, else its data. */
  readonly assertOrder: (events: readonly JsonObject[], names: readonly string[]) => void
}

/** A reader for each format that clients use. */
export const answerReaders: { readonly [name in ClientProtocolName]: AnswerReader } = {
  'openai-chat': { read: readChat, assemble: assembleChat, assertOrder: assertChatOrder },
  'openai-responses': { read: readResponses, assemble: assembleResponses, assertOrder: assertResponsesOrder },
  'anthropic-messages': { read: readMessages, assemble: assembleMessages, assertOrder: assertMessagesOrder },
  'openai-completions': { read: readCompletions, assemble: assembleCompletions, assertOrder: assertCompletionsOrder },
  gemini: { read: (body) => readGemini([body]), assemble: assembleGemini, assertOrder: assertGeminiOrder },
}

const FINISH_KINDS: readonly (readonly [RegExp, FinishKind])[] = [
  [/^(length|max_tokens|model_length|model_context_window_exceeded|\w+\/max_output_tokens|incomplete)$/i, 'length'],
  [
    /^(content_filter|content_filtered|safety|error_toxic|model_armor|guardrail_intervened|\w+\/content_filter)$/i,
    'content-filter',
  ],
  [/^refusal$/, 'refusal'],
  [/^(pause_turn|compaction)$/, 'pause'],
]

/** The kind of the finish reason. Calls and refusals are found by the content, because many servers report `stop` for both. */
export const finishKindOf = ({ finishReason, calls, refusal }: ObservedAnswer): FinishKind => {
  const kind = FINISH_KINDS.find(([pattern]) => pattern.test(finishReason))?.[1]
  if (kind) return kind
  if (calls.length > 0) return 'tool-calls'
  return refusal === '' ? 'stop' : 'refusal'
}

/**
 * The finish reason of a client format for this kind. `hasRefusal`: the model wrote a refusal. `functions`: the client
 * uses the deprecated `functions`.
 */
export const finishReasonFor: {
  readonly [name in ClientProtocolName]: (
    end: FinishKind,
    hasRefusal: boolean,
    calls: 'none' | 'tools' | 'functions',
  ) => string
} = {
  'openai-chat': (end, hasRefusal, calls) => {
    if (end === 'refusal') return hasRefusal ? 'stop' : 'content_filter'
    if (end === 'tool-calls' && calls === 'functions') return 'function_call'
    return end === 'tool-calls'
      ? 'tool_calls'
      : end === 'content-filter'
        ? 'content_filter'
        : end === 'length'
          ? 'length'
          : 'stop'
  },
  'openai-responses': (end) => {
    if (end === 'length' || end === 'pause') return 'incomplete/max_output_tokens'
    return end === 'content-filter' ? 'incomplete/content_filter' : 'completed'
  },
  'anthropic-messages': (end, _hasRefusal, calls) => {
    if (end === 'length') return 'max_tokens'
    if (end === 'pause') return 'pause_turn'
    if (end === 'content-filter' || end === 'refusal') return 'refusal'
    return calls === 'none' ? 'end_turn' : 'tool_use'
  },
  'openai-completions': (end) => {
    if (end === 'length') return 'length'
    return end === 'content-filter' || end === 'refusal' ? 'content_filter' : 'stop'
  },
  gemini: (end) => {
    if (end === 'length') return 'MAX_TOKENS'
    if (end === 'pause') return 'OTHER'
    return end === 'content-filter' || end === 'refusal' ? 'SAFETY' : 'STOP'
  },
}
