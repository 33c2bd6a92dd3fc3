/** Format-specific parts of an answer: their encoding in other formats, and reports of their loss. */
import type { Block, MediaSource, Output } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { dataUrl, mediaSourceOf } from './data-url.ts'

/** A block that only its own format can express. */
export type ForeignBlock = Block & { readonly type: 'foreign' }

/** Maximum length of a name taken from an upstream's answer. */
const LONGEST_NAME = 64

/** The path under which a lost block is reported: `output.image`, `output.code`, `output.web_search_call`. */
export const outputPath = ({ output, raw }: ForeignBlock): string => {
  // A part of Gemini has no type; its content is an object beside its signature.
  const members = Object.keys(raw)
  const name = output?.kind ?? text(raw.type) ?? members.find((member) => isObject(raw[member])) ?? members[0] ?? ''
  if (/^(?:bash_|text_editor_)?code_(?:execution|interpreter)/.test(name)) return 'output.code'
  // The name comes from the upstream and is written into a header: limit characters and length.
  return `output.${/^[\w-]+$/.test(name) ? name.slice(0, LONGEST_NAME) : 'other'}`
}

/**
 * Reports a block of another format that the client's format cannot express. `images` is the number of its images that
 * were encoded; an image block with at least one is not reported.
 */
export const reportLost = (block: ForeignBlock, { onLoss: lost }: Pick<AnswerContext, 'onLoss'>, images = 0): void => {
  if (images === 0 || block.output?.kind !== 'image') lost?.(outputPath(block))
}

/** Reports a citation that the client's format cannot express: of a passage in the client's own document, without a URL. */
export const reportLostCitation = ({ onLoss: lost }: Pick<AnswerContext, 'onLoss'>): void => lost?.('output.citations')

/** Whether the block's text is the transcript of its audio. */
export const isTranscript = ({ output }: ForeignBlock): boolean => output?.kind === 'audio'

// ── Images ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** Images as `images` entries of chat completions, as OpenRouter writes them. File IDs are skipped. */
export const encodeImages = (images: readonly MediaSource[] = []): JsonObject[] =>
  images.flatMap((source) => {
    const url = source.kind === 'data' ? dataUrl(source) : source.kind === 'url' ? source.url : undefined
    return url === undefined ? [] : [{ type: 'image_url', image_url: { url } }]
  })

/** The images in `images` of a message or delta. */
export const decodeImages = (images: Json | undefined): MediaSource[] =>
  list(images).flatMap((entry) => {
    const url = text(object(object(entry)?.image_url)?.url)
    return url === undefined ? [] : [mediaSourceOf(url)]
  })

/** Images as output items of the responses format. Only inline data has an item. */
export const encodeImageCalls = (images: readonly MediaSource[] = [], id: () => string): JsonObject[] =>
  images.flatMap((source) => {
    if (source.kind !== 'data') return []
    const format = /^image\/(png|jpeg|webp)$/.exec(source.mediaType)?.[1]
    const made = { type: 'image_generation_call', id: id(), status: 'completed', result: source.data }
    return [format === undefined ? made : { ...made, output_format: format }]
  })

/** The visible output of a response item: an image, or executed code with the images it created. */
export const outputOfItem = (item: JsonObject): Output | undefined => {
  const data = text(item.result)
  if (item.type === 'image_generation_call')
    return {
      kind: 'image',
      images: data ? [{ kind: 'data', mediaType: `image/${text(item.output_format) ?? 'png'}`, data }] : [],
    }
  if (item.type !== 'code_interpreter_call') return undefined
  const urls = list(item.outputs).flatMap((made) =>
    object(made)?.type === 'image' ? (text(object(made)?.url) ?? []) : [],
  )
  return { kind: 'code', images: urls.map(mediaSourceOf) }
}
