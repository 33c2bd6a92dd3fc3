import type { AnswerBlock, Block, ChatAnswer, ChatEvent, Citation, Finish, Reasoning } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { isList, isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { append } from '../shared/append.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import {
  decodeCitation,
  decodeUsage,
  encodeCitation,
  encodeUsage,
  failureEvent,
  failureIn,
  finishEvent,
  finishReasonOf,
  hasUrl,
  isFiltered,
} from '../shared/openai-finish-and-usage.ts'
import { decodeImages, encodeImages, type ForeignBlock, reportLost } from '../shared/output-media.ts'
import { detailsOf, readDetails, reasoningText, writeDetails } from '../shared/reasoning-members.ts'
import { REFUSAL_TEXT } from '../shared/refusal-text.ts'
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
import { thinkingText } from './decode-request.ts'

const malformed = (what: string): ChatEvent[] => [failureEvent(fail('malformed', `The provider's answer ${what}.`))]

/** A part of a type, or at least a text. */
const PART: TypeCheck = (value) =>
  isObject(value) &&
  typeof (value.type ?? value.text) === 'string' &&
  optionalString(value.text) &&
  anyOf(optionalString, optionalList(optionalObject({ text: optionalString })))(value.thinking)
const SAID = {
  content: anyOf(optionalString, optionalList(PART)),
  refusal: optionalString,
  // No specification has it, so nobody's whole answer fails for what somebody else means by it.
  reasoning: anyOf(optionalString, optionalObject()),
  reasoning_content: optionalString,
  function_call: optionalObject({ name: optionalString, arguments: optionalArguments }),
}
const MESSAGE: TypeCheck = optionalObject({
  ...SAID,
  tool_calls: optionalList(
    optionalObject({
      function: optionalObject({ name: nonEmptyString, arguments: optionalArguments }),
      custom: optionalObject({ name: nonEmptyString, input: optionalString }),
    }),
  ),
})
/** Of a call in a stream only the first piece has the name. */
const DELTA: TypeCheck = optionalObject({
  ...SAID,
  tool_calls: optionalList(
    optionalObject({
      index: optionalNumber,
      function: optionalObject({ name: optionalString, arguments: optionalArguments }),
      custom: optionalObject({ name: optionalString, input: optionalString }),
    }),
  ),
})
/** Whether what a choice says, whole or in part, is of its types. */
export const isChoice: TypeCheck = optionalObject({
  message: MESSAGE,
  delta: DELTA,
  finish_reason: anyOf(optionalString, optionalNumber),
})

/** A whole answer as events. Of several choices the first is told. */
export const decodeAnswer = (body: Json): readonly ChatEvent[] => {
  const failure = failureIn(body)
  if (failure) return [failureEvent(failure)]
  if (!isObject(body)) return malformed('is not an object')
  const choices = list(body.choices)
  const choice = object(choices.find((entry) => object(entry)?.index === 0) ?? choices[0])
  // Azure sends a choice that its filter held back without a message: that is a refusal, with empty content.
  const message = object(choice?.message) ?? (choice && isFiltered(choice) ? {} : undefined)
  if (!choice || !message) return malformed('has no message')
  if (!isChoice(choice)) return malformed('says something that is not of its type')

  const id = text(body.id)
  const created = number(body.created)
  const blocks: AnswerBlock[] = [
    ...readReasoning(message),
    ...readContent(message, choice, list(body.citations)),
    ...readRefusal(message, choice),
    ...readCalls(message, id),
    ...readMedia(message),
  ]
  const end = finishEvent(finishReasonOf(choice), {
    calls: blocks.some((block) => block.type === 'tool-call'),
    refused: blocks.some((block) => block.type === 'refusal'),
  })
  if (end.type === 'failure') return [end]
  const usage = decodeUsage(body.usage) ?? decodeUsage(object(body.x_groq)?.usage)
  const model = text(body.model)
  return [
    { type: 'start', ...(id && { id }), ...(model && { model }), ...(created && { created }), raw: body },
    ...blocks.flatMap(eventsOf),
    ...(usage ? [{ type: 'usage', usage } as const] : []),
    end,
  ]
}

const eventsOf = ({ text: said, citations, logprobs, proof, ...block }: AnswerBlock): ChatEvent[] => [
  { type: 'open', block },
  ...(said !== '' || logprobs ? [{ type: 'delta', text: said, ...(logprobs && { logprobs }) } as const] : []),
  ...(citations ?? []).map((citation) => ({ type: 'citation', citation }) as const),
  ...(proof ? [{ type: 'proof', proof } as const] : []),
  { type: 'close' },
]

const readReasoning = (message: JsonObject): AnswerBlock[] => {
  const plain = reasoningText(message)
  const detailed = readDetails(detailsOf(message))
  if (detailed.length === 0) return plain ? [{ type: 'reasoning', text: plain }] : []
  if (!plain || detailed.some((block) => block.text !== '')) return detailed
  // The details are seals only; the text they seal stands beside them.
  const [first, ...more] = detailed as [Reasoning, ...Reasoning[]]
  return first.proof?.redacted
    ? [{ type: 'reasoning', text: plain }, ...detailed]
    : [{ ...first, text: plain }, ...more]
}

const readContent = (message: JsonObject, choice: JsonObject, sources: readonly Json[]): AnswerBlock[] => {
  const { content } = message
  const blocks: AnswerBlock[] =
    typeof content === 'string' && content !== ''
      ? [{ type: 'text', text: content }]
      : // Mistral's list, with thinking and text side by side.
        joined(list(content).flatMap((entry) => contentPart(object(entry))))
  const last = blocks.findLastIndex((block) => block.type === 'text')
  const block = blocks[last]
  if (!block) return blocks
  const annotated = list(message.annotations).flatMap(decodeCitation)
  // Perplexity lists its sources beside the choices.
  const citations =
    annotated.length > 0 ? annotated : sources.flatMap((url) => (typeof url === 'string' ? [{ url }] : []))
  const logprobs = list(object(choice.logprobs)?.content)
  blocks[last] = {
    ...block,
    ...(citations.length > 0 && { citations }),
    ...(logprobs.length > 0 && { logprobs }),
  }
  return blocks
}

/** A piece of such a list. Sources stand without words of their own: they are of the text around them. */
export type Piece =
  | { readonly type: 'text' | 'reasoning'; readonly text: string }
  | { readonly type: 'sources'; readonly citations: readonly Citation[] }

export const contentPart = (part: JsonObject | undefined): Piece[] => {
  if (part?.type === 'thinking') {
    const thought = thinkingText(part.thinking)
    const citations = list(part.thinking).flatMap(toolSource)
    return [
      ...(thought === '' ? [] : [{ type: 'reasoning', text: thought } as const]),
      ...(citations.length > 0 ? [{ type: 'sources', citations } as const] : []),
    ]
  }
  // Numbers of what a tool gave: they have no address, only the client knows what it numbered.
  if (part?.type === 'reference') return [{ type: 'sources', citations: [{ url: '', raw: part }] }]
  const said = text(part?.text)
  return said ? [{ type: 'text', text: said }] : []
}

/** What a connector of Mistral's found while the model was thinking. */
const toolSource = (value: Json): Citation[] => {
  const source = object(value)
  const url = text(source?.url)
  if (source?.type !== 'tool_reference' || url === undefined) return []
  const title = text(source.title)
  return [{ url, ...(title !== undefined && { title }), raw: source }]
}

/** Neighbours of one type are one block. Sources told before a text are its own. */
const joined = (pieces: readonly Piece[]): AnswerBlock[] => {
  const blocks: AnswerBlock[] = []
  let early: readonly Citation[] = []
  for (const piece of pieces) {
    const last = blocks.at(-1)
    if (piece.type === 'sources') {
      if (last?.type === 'text')
        blocks[blocks.length - 1] = { ...last, citations: [...(last.citations ?? []), ...piece.citations] }
      else early = [...early, ...piece.citations]
    } else if (last?.type === piece.type) blocks[blocks.length - 1] = { ...last, text: last.text + piece.text }
    else {
      const cited = piece.type === 'text' ? early : []
      blocks.push({ ...piece, ...(cited.length > 0 && { citations: cited }) })
      if (piece.type === 'text') early = []
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
  // Snowflake has one in every answer, its members empty when nothing was called.
  const name = text(legacy?.name) || undefined
  if (!legacy || name === undefined || calls.length > 0) return calls
  return [{ type: 'tool-call', id: derivedCallId(answerId, 0, name), name, text: argumentsText(legacy.arguments) }]
}

/** Arguments are text; some servers put the object itself. */
export const argumentsText = (given: Json | undefined): string =>
  typeof given === 'string' ? given : isObject(given) || isList(given) ? JSON.stringify(given) : ''

const readMedia = (message: JsonObject): AnswerBlock[] =>
  mediaOf(message).map((raw) => ({ ...mediaBlock(raw), text: text(object(raw.audio)?.transcript) ?? '' }))

/** Sound with its transcript as the text, or pictures. */
export const mediaBlock = (raw: JsonObject): ForeignBlock => ({
  type: 'foreign',
  protocol: 'openai-chat',
  raw,
  output: raw.audio === undefined ? { kind: 'image', images: decodeImages(raw.images) } : { kind: 'audio' },
})

export const mediaOf = (said: JsonObject): JsonObject[] => [
  // Snowflake's is always there, and empty.
  ...(isObject(said.audio) && Object.values(said.audio).some(Boolean) ? [{ audio: said.audio }] : []),
  ...(list(said.images).length > 0 ? [{ images: list(said.images) }] : []),
]

/** Sound and pictures of this format's own. */
export const isOwn = <B extends Block>(block: B): block is B & { readonly type: 'foreign' } =>
  block.type === 'foreign' && block.protocol === 'openai-chat'

// ── Writing ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** Functions were asked for in the old way, so calls are answered in it. */
export const isLegacy = ({ body }: AnswerContext): boolean => isList(body.functions) && !isList(body.tools)

export const reasonFor = (finish: Finish | undefined, refused: boolean, legacy: boolean): string => {
  switch (finish?.kind) {
    case 'tool-calls':
      return legacy ? 'function_call' : 'tool_calls'
    case 'length':
    // The answer is not complete: sent back as it is, it goes on.
    case 'pause':
      return 'length'
    case 'content-filter':
      return 'content_filter'
    case 'refusal':
      return refused ? 'stop' : 'content_filter'
    default:
      return 'stop'
  }
}

/** A whole answer in this format. */
export const encodeAnswer = (answer: ChatAnswer, context: AnswerContext): JsonObject => {
  const legacy = isLegacy(context)
  const texts = answer.blocks.filter((block) => block.type === 'text')
  const refusals = answer.blocks.filter((block) => block.type === 'refusal')
  const thoughts = answer.blocks.filter((block) => block.type === 'reasoning')
  const calls = answer.blocks.flatMap((block) => (block.type === 'tool-call' ? [writeCall(block)] : []))
  const said = texts.map((block) => block.text).join('')
  const refusal = refusals.length > 0 ? refusals.map((block) => block.text).join('') : undefined
  const thought = thoughts.map((block) => block.text).filter((each) => each !== '')
  const details = thoughts.flatMap((block, index) => (block.proof ? writeDetails(block, index) : []))
  const annotations = citationsOf(texts)
  const [first] = calls
  const refused = answer.finish?.kind === 'refusal' ? (refusal ?? REFUSAL_TEXT) : refusal
  const { images, audio } = encodeMedia(answer.blocks, context)
  return {
    id: answer.id ?? context.id('chatcmpl'),
    object: 'chat.completion',
    created: answer.created ?? context.created,
    model: answer.model ?? context.model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: said === '' && (calls.length > 0 || refused !== undefined) ? null : said,
          refusal: refused ?? null,
          ...(audio !== undefined && { audio }),
          ...(images.length > 0 && { images }),
          ...(thought.length > 0 && { reasoning_content: thought.join('\n\n') }),
          ...(details.length > 0 && { reasoning_details: details }),
          ...(annotations.length > 0 && { annotations }),
          ...(first && (legacy ? { function_call: first.function ?? first.custom } : { tool_calls: calls })),
        },
        logprobs: logprobsOf(texts, refusals),
        finish_reason: reasonFor(answer.finish, refusal !== undefined, legacy),
      },
    ],
    ...(answer.usage && { usage: encodeUsage(answer.usage) }),
  }
}

/** `images` and `audio` of a message. */
const encodeMedia = (blocks: readonly AnswerBlock[], context: AnswerContext): { images: Json[]; audio?: Json } => {
  const images: Json[] = []
  let audio: Json | undefined
  for (const block of blocks) {
    if (block.type !== 'foreign') continue
    const pictures = imagesOf(block)
    append(images, pictures)
    if (isOwn(block)) audio ??= block.raw.audio
    else reportLost(block, context, pictures.length)
  }
  return { images, ...(audio !== undefined && { audio }) }
}

/** The pictures of a block, as entries of `images`. */
export const imagesOf = ({ protocol, raw, output }: ForeignBlock): readonly Json[] =>
  protocol === 'openai-chat' ? list(raw.images) : encodeImages(output?.images)

const writeCall = (block: AnswerBlock & { type: 'tool-call' }): JsonObject =>
  block.custom
    ? { id: block.id, type: 'custom', custom: { name: block.name, input: block.text } }
    : { id: block.id, type: 'function', function: { name: block.name, arguments: block.text || '{}' } }

const citationsOf = (texts: readonly AnswerBlock[]): JsonObject[] => {
  let before = 0
  return texts.flatMap((block) => {
    const start = before
    before += block.text.length
    return (block.citations ?? []).filter(hasUrl).map((citation) => encodeCitation(citation, start, block.text.length))
  })
}

const logprobsOf = (texts: readonly AnswerBlock[], refusals: readonly AnswerBlock[]): JsonObject | null => {
  const content = texts.flatMap((block) => block.logprobs ?? [])
  const refusal = refusals.flatMap((block) => block.logprobs ?? [])
  if (content.length + refusal.length === 0) return null
  return { content: content.length > 0 ? content : null, refusal: refusal.length > 0 ? refusal : null }
}
