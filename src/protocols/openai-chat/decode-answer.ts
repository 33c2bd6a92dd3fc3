import type { AnswerBlock, Block, ChatEvent, Citation, Reasoning, Usage } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { isList, isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { thinkingText } from '../client-parts/chat-parts.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import { tokenCount } from '../shared/numbers.ts'
import {
  decodeCitation,
  failureEvent,
  failureIn,
  finishEvent,
  finishReasonOf,
  hasUrl,
  isFiltered,
  stopSequenceIn,
} from '../shared/openai-finish-and-usage.ts'
import { decodeImages, type ForeignBlock } from '../shared/output-media.ts'
import { detailsOf, readDetails, reasoningText } from '../shared/reasoning-members.ts'
import {
  anyOf,
  nonEmptyString,
  optionalArguments,
  optionalList,
  optionalNumber,
  optionalObject,
  optionalString,
  type TypeCheck,
} from '../shared/type-checks.ts'
import { usageOf } from '../shared/usage.ts'
import { decodeUsage } from '../shared/usage-members.ts'

const malformed = (what: string): ChatEvent[] => [failureEvent(fail('malformed', `The provider's answer ${what}.`))]

/** A content part with a type, or at least a text. */
const PART: TypeCheck = (value) =>
  isObject(value) &&
  typeof (value.type ?? value.text) === 'string' &&
  optionalString(value.text) &&
  anyOf(optionalString, optionalList(optionalObject({ text: optionalString })))(value.thinking)
const COMMON_MEMBERS = {
  content: anyOf(optionalString, optionalList(PART)),
  refusal: optionalString,
  // Not standardised: both observed types are accepted.
  reasoning: anyOf(optionalString, optionalObject()),
  reasoning_content: optionalString,
  function_call: optionalObject({ name: optionalString, arguments: optionalArguments }),
}
const MESSAGE: TypeCheck = optionalObject({
  ...COMMON_MEMBERS,
  tool_calls: optionalList(
    optionalObject({
      function: optionalObject({ name: nonEmptyString, arguments: optionalArguments }),
      custom: optionalObject({ name: nonEmptyString, input: optionalString }),
    }),
  ),
})
/** In a stream only the first fragment of a call has the name. */
const DELTA: TypeCheck = optionalObject({
  ...COMMON_MEMBERS,
  tool_calls: optionalList(
    optionalObject({
      index: optionalNumber,
      function: optionalObject({ name: optionalString, arguments: optionalArguments }),
      custom: optionalObject({ name: optionalString, input: optionalString }),
    }),
  ),
})
/** Checks the types of a choice of an answer or chunk. */
export const isChoice: TypeCheck = optionalObject({
  message: MESSAGE,
  delta: DELTA,
  finish_reason: anyOf(optionalString, optionalNumber),
})

/** Decodes a non-streaming answer. Only the first choice is decoded. */
export const decodeAnswer = (body: Json): readonly ChatEvent[] => {
  const failure = failureIn(body)
  if (failure) return [failureEvent(failure)]
  if (!isObject(body)) return malformed('is not an object')
  const choices = list(body.choices)
  const choice = object(choices.find((entry) => object(entry)?.index === 0) ?? choices[0])
  // Azure omits the message of a choice that its content filter blocked: treated as empty content.
  const message = object(choice?.message) ?? (choice && isFiltered(choice) ? {} : undefined)
  if (!choice || !message) return malformed('has no message')
  if (!isChoice(choice)) return malformed('has a member of the wrong type')

  const id = text(body.id)
  const created = number(body.created)
  const blocks: AnswerBlock[] = []
  blocks.push(
    ...readReasoning(message),
    ...readContent(message, choice, list(body.citations)),
    ...readRefusal(message, choice),
    ...readCalls(message, id),
    ...readMedia(message),
  )
  const end = finishEvent(finishReasonOf(choice), {
    calls: blocks.some((block) => block.type === 'tool-call'),
    refused: blocks.some((block) => block.type === 'refusal'),
    stopSequence: stopSequenceIn(choice),
  })
  if (end.type === 'failure') return [end]
  const searched = blocks.some(({ citations }) => citations?.some(hasUrl))
  const usage = usageIn(body, choice, searched)
  const model = text(body.model)
  const start: { -readonly [name in keyof StartEvent]: StartEvent[name] } = { type: 'start', raw: body }
  if (id) start.id = id
  if (model) start.model = model
  if (created) start.created = created
  const events: ChatEvent[] = [start]
  for (const block of blocks) addEvents(events, block)
  if (usage) events.push({ type: 'usage', usage })
  events.push(end)
  return events
}

/**
 * The usage of an answer or chunk, wherever the server puts it: at the top, in the choice (Moonshot,
 * earendil-works/pi#2017), in its message, in `x_groq`, or as the timings of llama.cpp. Chat usage counts no searches, but their results are cited: that is
 * one search at least. `searched`: there are such citations.
 */
export const usageIn = (body: JsonObject, choice: JsonObject | undefined, searched = false): Usage | undefined => {
  const context = { serviceTier: body.service_tier, toolCalls: searched ? ONE_SEARCH : undefined }
  return (
    decodeUsage(body.usage, context) ??
    decodeUsage(choice?.usage, context) ??
    decodeUsage(object(choice?.message)?.usage, context) ??
    decodeUsage(object(choice?.delta)?.usage, context) ??
    decodeUsage(object(body.message)?.usage, context) ??
    decodeUsage(object(body.x_groq)?.usage, context) ??
    timedUsage(body.timings)
  )
}

type StartEvent = Extract<ChatEvent, { type: 'start' }>
const ONE_SEARCH = { web_search: 1 }

/** Counts in `timings` of llama.cpp, which older versions return without usage. Cached tokens are beside the prompt's. */
const timedUsage = (value: Json | undefined): Usage | undefined => {
  const timings = object(value)
  if (!timings) return undefined
  const [prompt, cacheRead, output] = [timings.prompt_n, timings.cache_n, timings.predicted_n].map(tokenCount)
  return usageOf({ input: prompt === undefined ? undefined : prompt + (cacheRead ?? 0), output, cacheRead }, timings)
}

const addEvents = (events: ChatEvent[], of: AnswerBlock): void => {
  const { text: content, citations, logprobs, signature } = of
  events.push({ type: 'open', block: openBlock(of) })
  if (logprobs) events.push({ type: 'delta', text: content, logprobs })
  else if (content !== '') events.push({ type: 'delta', text: content })
  for (const citation of citations ?? []) events.push({ type: 'citation', citation })
  if (signature) events.push({ type: 'signature', signature })
  events.push({ type: 'close' })
}

/** The block as it opens. Most are texts, and to copy the rest of an object is slow. */
const openBlock = (of: AnswerBlock): Block => {
  if (of.type === 'text') return TEXT
  const { text: _, citations: __, logprobs: ___, signature: ____, ...block } = of
  return block
}
const TEXT = { type: 'text' } as const

const readReasoning = (message: JsonObject): AnswerBlock[] => {
  const plain = reasoningText(message)
  const detailed = readDetails(detailsOf(message))
  if (detailed.length === 0) return plain ? [{ type: 'reasoning', text: plain }] : []
  if (!plain || detailed.some((block) => block.text !== '')) return detailed
  // The details hold signatures only; the plain member holds their text.
  const [first, ...more] = detailed as [Reasoning, ...Reasoning[]]
  return first.signature?.redacted
    ? [{ type: 'reasoning', text: plain }, ...detailed]
    : [{ ...first, text: plain }, ...more]
}

const readContent = (message: JsonObject, choice: JsonObject, sources: readonly Json[]): AnswerBlock[] => {
  const { content } = message
  const blocks: AnswerBlock[] =
    typeof content === 'string' && content !== ''
      ? [{ type: 'text', text: content }]
      : // Mistral: a list of thinking and text parts.
        joinFragments(list(content).flatMap((entry) => contentPart(object(entry))))
  const last = blocks.findLastIndex((block) => block.type === 'text')
  const block = blocks[last]
  if (!block) return blocks
  const { annotations } = message
  const annotated = annotations ? list(annotations).flatMap(decodeCitation) : NO_CITATIONS
  // Perplexity lists its sources outside of the choices.
  const citations =
    annotated.length > 0 ? annotated : sources.flatMap((url) => (typeof url === 'string' ? [{ url }] : []))
  const logprobs = list(object(choice.logprobs)?.content)
  if (citations.length === 0 && logprobs.length === 0) return blocks
  blocks[last] = {
    ...block,
    ...(citations.length > 0 && { citations }),
    ...(logprobs.length > 0 && { logprobs }),
  }
  return blocks
}

const NO_CITATIONS: readonly Citation[] = []

/** A decoded content part. Sources have no text; they belong to the text around them. */
export type ContentFragment =
  | { readonly type: 'text' | 'reasoning'; readonly text: string }
  | { readonly type: 'sources'; readonly citations: readonly Citation[] }

/** Decodes a content part of a message or delta. */
export const contentPart = (part: JsonObject | undefined): ContentFragment[] => {
  if (part?.type === 'thinking') {
    const thinking = thinkingText(part.thinking)
    const citations = list(part.thinking).flatMap(toolSource)
    return [
      ...(thinking === '' ? [] : [{ type: 'reasoning', text: thinking } as const]),
      ...(citations.length > 0 ? [{ type: 'sources', citations } as const] : []),
    ]
  }
  // Numbers of sources in tool results, without URLs. The client's tool results define the numbers.
  if (part?.type === 'reference') return [{ type: 'sources', citations: [{ url: '', raw: part }] }]
  const content = text(part?.text)
  return content ? [{ type: 'text', text: content }] : []
}

/** A source found by a Mistral connector while the model was thinking. */
const toolSource = (value: Json): Citation[] => {
  const source = object(value)
  const url = text(source?.url)
  if (source?.type !== 'tool_reference' || url === undefined) return []
  const title = text(source.title)
  return [{ url, ...(title !== undefined && { title }), raw: source }]
}

/** Joins adjacent fragments of one type into blocks. Sources before a text belong to it. */
const joinFragments = (fragments: readonly ContentFragment[]): AnswerBlock[] => {
  const blocks: AnswerBlock[] = []
  let pendingSources: readonly Citation[] = []
  for (const fragment of fragments) {
    const last = blocks.at(-1)
    if (fragment.type === 'sources') {
      if (last?.type === 'text')
        blocks[blocks.length - 1] = { ...last, citations: [...(last.citations ?? []), ...fragment.citations] }
      else pendingSources = [...pendingSources, ...fragment.citations]
    } else if (last?.type === fragment.type) blocks[blocks.length - 1] = { ...last, text: last.text + fragment.text }
    else {
      const cited = fragment.type === 'text' ? pendingSources : []
      blocks.push({ ...fragment, ...(cited.length > 0 && { citations: cited }) })
      if (fragment.type === 'text') pendingSources = []
    }
  }
  return blocks
}

const readRefusal = (message: JsonObject, choice: JsonObject): AnswerBlock[] => {
  const refusal = text(message.refusal)
  if (!refusal) return []
  const logprobs = list(object(choice.logprobs)?.refusal)
  return [{ type: 'refusal', text: refusal, ...(logprobs.length > 0 && { logprobs }) }]
}

const readCalls = (message: JsonObject, answerId: string | undefined): AnswerBlock[] => {
  const calls = list(message.tool_calls).flatMap((entry, index): AnswerBlock[] => {
    const call = object(entry)
    const inner = object(call?.function)
    const custom = object(call?.custom)
    const name = text((inner ?? custom)?.name)
    if (!call || name === undefined) return []
    const given = argumentsText(inner ? inner.arguments : custom?.input)
    const id = text(call.id) || derivedCallId(answerId, index, name)
    return [{ type: 'tool-call', id, name, ...(!inner && { custom: true }), text: given }]
  })
  const legacy = object(message.function_call)
  // Snowflake always returns one, with empty members if there is no call.
  const name = text(legacy?.name) || undefined
  if (!legacy || name === undefined || calls.length > 0) return calls
  return [{ type: 'tool-call', id: derivedCallId(answerId, 0, name), name, text: argumentsText(legacy.arguments) }]
}

/** The arguments of a call as text; some servers return an object. */
export const argumentsText = (given: Json | undefined): string =>
  typeof given === 'string' ? given : isObject(given) || isList(given) ? JSON.stringify(given) : ''

/** A transcript that repeats the text is left out: formats without audio would write the words twice. */
const readMedia = (message: JsonObject): AnswerBlock[] =>
  mediaOf(message).map((raw) => {
    const transcript = text(object(raw.audio)?.transcript) ?? ''
    return { ...mediaBlock(raw), text: transcript.trim() === text(message.content)?.trim() ? '' : transcript }
  })

/** A block of audio, with its transcript as the text, or of images. */
export const mediaBlock = (raw: JsonObject): ForeignBlock => ({
  type: 'foreign',
  protocol: 'openai-chat',
  raw,
  output: raw.audio === undefined ? { kind: 'image', images: decodeImages(raw.images) } : { kind: 'audio' },
})

/** The non-empty `audio` and `images` members of a message or delta. */
export const mediaOf = (message: JsonObject): JsonObject[] => [
  // Snowflake always returns an empty `audio`.
  ...(isObject(message.audio) && Object.values(message.audio).some(Boolean) ? [{ audio: message.audio }] : []),
  ...(list(message.images).length > 0 ? [{ images: list(message.images) }] : []),
]
