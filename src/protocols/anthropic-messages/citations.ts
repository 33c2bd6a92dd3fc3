import type { Citation } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, text } from '../../core/json.ts'
import { exceedsDepth, MAX_DEPTH } from '../shared/tool-arguments.ts'

const CITATION_TYPES: ReadonlySet<Json | undefined> = new Set([
  'char_location',
  'page_location',
  'content_block_location',
  'web_search_result_location',
  'search_result_location',
])

/** Decodes a citation. One of the client's own documents has no URL: `url` is empty and `raw` has the details. */
export const decodeCitation = (raw: Json): Citation | undefined => {
  if (!isObject(raw) || exceedsDepth(raw, MAX_DEPTH)) return undefined
  const url = text(raw.url) ?? text(raw.source) ?? ''
  const title = text(raw.title) ?? text(raw.document_title)
  return { url, ...(title !== undefined && { title }), raw }
}

/**
 * Encodes a citation: unchanged if it is of this format, otherwise as a web search result with an empty `encrypted_index`.
 * Without a title its URL is the title: the schema allows null, but the AI SDK refuses the whole answer.
 * A citation of another format without a URL is dropped (Mistral's reference numbers).
 */
export const encodeCitation = ({ url, title, raw }: Citation): JsonObject[] => {
  if (isObject(raw) && CITATION_TYPES.has(raw.type)) return [raw]
  if (url === '') return []
  return [{ type: 'web_search_result_location', url, title: title ?? url, cited_text: '', encrypted_index: '' }]
}
