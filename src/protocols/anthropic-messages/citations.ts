import type { Citation } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, text } from '../../core/json.ts'
import { exceedsDepth, MAX_DEPTH } from '../shared/tool-arguments.ts'

const KINDS: ReadonlySet<Json | undefined> = new Set([
  'char_location',
  'page_location',
  'content_block_location',
  'web_search_result_location',
  'search_result_location',
])

/** A source in the middle's words. One of the client's own documents has no address: then `url` is empty and `raw` tells. */
export const decodeCitation = (raw: Json): Citation | undefined => {
  if (!isObject(raw) || exceedsDepth(raw, MAX_DEPTH)) return undefined
  const url = text(raw.url) ?? text(raw.source) ?? ''
  const title = text(raw.title) ?? text(raw.document_title)
  return { url, ...(title !== undefined && { title }), raw }
}

/**
 * A source as this format has it: as it came, if it came from here; otherwise as the result of a search, without its
 * seal. One of another format without an address (Mistral's numbers of what a tool gave) cannot be told.
 */
export const encodeCitation = ({ url, title, raw }: Citation): JsonObject[] => {
  if (isObject(raw) && KINDS.has(raw.type)) return [raw]
  if (url === '') return []
  return [{ type: 'web_search_result_location', url, title: title ?? null, cited_text: '', encrypted_index: '' }]
}
