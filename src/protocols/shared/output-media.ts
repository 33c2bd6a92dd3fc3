/** Parts of an answer that only their own format has a block for: what another can carry of them, and how they are named. */
import type { Block, MediaSource, Output } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { dataUrl, mediaSourceOf } from './data-url.ts'

export type ForeignBlock = Block & { readonly type: 'foreign' }

/** Longest name taken from an upstream's answer. */
const LONGEST_NAME = 64

/** How a block is reported where it is lost: `output.image`, `output.code`, `output.web_search_call`. */
export const outputPath = ({ output, raw }: ForeignBlock): string => {
  const name = output?.kind ?? text(raw.type) ?? Object.keys(raw)[0] ?? ''
  if (/^(?:bash_|text_editor_)?code_(?:execution|interpreter)/.test(name)) return 'output.code'
  // The name comes from the upstream, and goes into a header and a comment.
  return `output.${/^[\w-]+$/.test(name) ? name.slice(0, LONGEST_NAME) : 'other'}`
}

/**
 * Reports a block of another format that the client's style has no place for. `pictures`: how many of its pictures are
 * carried; then only a block that is more than pictures is reported.
 */
export const reportLost = (block: ForeignBlock, { lost }: Pick<AnswerContext, 'lost'>, pictures = 0): void => {
  if (pictures === 0 || block.output?.kind !== 'image') lost?.(outputPath(block))
}

/** Whether the block's text is a transcript: what was spoken, without the sound. */
export const isTranscript = ({ output }: ForeignBlock): boolean => output?.kind === 'audio'

// ── Pictures ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Pictures as `images` in chat completions, as OpenRouter writes them. A file kept by another provider has no entry. */
export const encodeImages = (images: readonly MediaSource[] = []): JsonObject[] =>
  images.flatMap((source) => {
    const url = source.kind === 'data' ? dataUrl(source) : source.kind === 'url' ? source.url : undefined
    return url === undefined ? [] : [{ type: 'image_url', image_url: { url } }]
  })

/** The pictures in `images` of a message or a delta. */
export const decodeImages = (images: Json | undefined): MediaSource[] =>
  list(images).flatMap((entry) => {
    const url = text(object(object(entry)?.image_url)?.url)
    return url === undefined ? [] : [mediaSourceOf(url)]
  })

/** Pictures as items of a response. One whose bytes are not here has no item. */
export const encodeImageCalls = (images: readonly MediaSource[] = [], id: () => string): JsonObject[] =>
  images.flatMap((source) => {
    if (source.kind !== 'data') return []
    const format = /^image\/(png|jpeg|webp)$/.exec(source.mediaType)?.[1]
    const made = { type: 'image_generation_call', id: id(), status: 'completed', result: source.data }
    return [format === undefined ? made : { ...made, output_format: format }]
  })

/** What an item of a response shows the user: a picture, or code that was run and the pictures it made. */
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
