import type { AnswerBlock, Block, ChatAnswer, Finish } from '../../core/chat.ts'

import { isList, type Json, type JsonObject, list } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { append } from '../shared/append.ts'

import { encodeCitation, encodeUsage, hasUrl } from '../shared/openai-finish-and-usage.ts'
import { encodeImages, type ForeignBlock, reportLost, reportLostCitation } from '../shared/output-media.ts'
import { issuedSignature, writeDetails } from '../shared/reasoning-members.ts'
import { REFUSAL_TEXT } from '../shared/refusal-text.ts'
import { openaiTier } from '../shared/service-tiers.ts'

/** Whether a block is audio or images of this format. */
export const isOwnBlock = <B extends Block>(block: B): block is B & { readonly type: 'foreign' } =>
  block.type === 'foreign' && block.protocol === 'openai-chat'

/** Whether the request uses the deprecated `functions`; calls are then returned as `function_call`. */
export const isLegacy = ({ body }: AnswerContext): boolean => isList(body.functions) && !isList(body.tools)

/** The `finish_reason` of an answer; `refused` means that it contains a refusal. */
export const finishReasonFor = (finish: Finish | undefined, refused: boolean, legacy: boolean): string => {
  switch (finish?.kind) {
    case 'tool-calls':
      return legacy ? 'function_call' : 'tool_calls'
    case 'length':
    // Incomplete: the client can continue the answer by sending it back.
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

/** Encodes a non-streaming answer. */
export const encodeAnswer = (answer: ChatAnswer, context: AnswerContext): JsonObject => {
  const legacy = isLegacy(context)
  const texts = answer.blocks.filter((block) => block.type === 'text')
  const refusals = answer.blocks.filter((block) => block.type === 'refusal')
  const reasonings = answer.blocks.filter((block) => block.type === 'reasoning')
  const calls = answer.blocks.flatMap((block) => (block.type === 'tool-call' ? [writeCall(block)] : []))
  const content = texts.map((block) => block.text).join('')
  const refusal = refusals.length > 0 ? refusals.map((block) => block.text).join('') : undefined
  const reasoningTexts = reasonings.map((block) => block.text).filter((each) => each !== '')
  const details = reasonings.flatMap((block, index) =>
    block.signature ? writeDetails({ ...block, signature: issuedSignature(block.signature, context) }, index) : [],
  )
  const annotations = citationsOf(texts, context)
  const [first] = calls
  const refused = answer.finish?.kind === 'refusal' ? (refusal ?? REFUSAL_TEXT) : refusal
  const { images, audio } = encodeMedia(answer.blocks, context)
  const tier = openaiTier(answer.usage?.serviceTier)
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
          content: content === '' && (calls.length > 0 || refused !== undefined) ? null : content,
          refusal: refused ?? null,
          ...(audio !== undefined && { audio }),
          ...(images.length > 0 && { images }),
          ...(reasoningTexts.length > 0 && { reasoning_content: reasoningTexts.join('\n\n') }),
          ...(details.length > 0 && { reasoning_details: details }),
          ...(annotations.length > 0 && { annotations }),
          ...(first && (legacy ? { function_call: first.function ?? first.custom } : { tool_calls: calls })),
        },
        logprobs: logprobsOf(texts, refusals),
        finish_reason: finishReasonFor(answer.finish, refusal !== undefined, legacy),
      },
    ],
    ...(tier !== undefined && { service_tier: tier }),
    ...(answer.usage && { usage: encodeUsage(answer.usage) }),
  }
}

/** The `images` and `audio` members of a message. */
const encodeMedia = (blocks: readonly AnswerBlock[], context: AnswerContext): { images: Json[]; audio?: Json } => {
  const images: Json[] = []
  let audio: Json | undefined
  for (const block of blocks) {
    if (block.type !== 'foreign') continue
    const encoded = imagesOf(block)
    append(images, encoded)
    if (isOwnBlock(block)) audio ??= block.raw.audio
    else reportLost(block, context, encoded.length)
  }
  return { images, ...(audio !== undefined && { audio }) }
}

/** The images of a block as `images` entries. */
export const imagesOf = ({ protocol, raw, output }: ForeignBlock): readonly Json[] =>
  protocol === 'openai-chat' ? list(raw.images) : encodeImages(output?.images)

const writeCall = (block: AnswerBlock & { type: 'tool-call' }): JsonObject =>
  block.custom
    ? { id: block.id, type: 'custom', custom: { name: block.name, input: block.text } }
    : { id: block.id, type: 'function', function: { name: block.name, arguments: block.text || '{}' } }

const citationsOf = (texts: readonly AnswerBlock[], context: AnswerContext): JsonObject[] => {
  if (texts.some(({ citations }) => citations?.some((citation) => !hasUrl(citation)))) reportLostCitation(context)
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
