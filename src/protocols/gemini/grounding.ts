/** Decodes grounding and recitations as citations of the answer's text. */
import type { Citation, Usage } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import { toolCallsOf } from '../shared/usage.ts'

/** The sources in a candidate's grounding metadata, as citations of its text. */
export const citationsOf = (metadata: JsonObject, answer: string): Citation[] => {
  const sources = list(metadata.groundingChunks).map(sourceOf)
  const supports = list(metadata.groundingSupports).map((support) => object(support) ?? {})
  const supported = supports.flatMap((support) => {
    const range = rangeOf(object(support.segment), answer)
    return list(support.groundingChunkIndices).flatMap((place): Citation[] => {
      const source = typeof place === 'number' ? sources[place] : undefined
      return source ? [{ ...source, ...range }] : []
    })
  })
  return supported.length > 0 ? supported : sources.filter((source) => source !== undefined)
}

/**
 * Calls of hosted tools that a candidate's grounding metadata shows. Google bills each distinct query (BerriAI/litellm#36377),
 * and its maps once an answer.
 */
export const groundedCalls = (metadata: Json | undefined): Usage['toolCalls'] => {
  const grounding = object(metadata)
  if (!grounding) return undefined
  const chunks = list(grounding.groundingChunks).map((chunk) => object(chunk) ?? {})
  const maps = chunks.some((chunk) => object(chunk.maps) !== undefined)
  // Where all that was found is places, the queries are those of the maps.
  const isWeb = !maps || chunks.some((chunk) => object(chunk.web) !== undefined)
  const queries = isWeb ? new Set(list(grounding.webSearchQueries).filter(Boolean)).size : 0
  return toolCallsOf({ web_search: queries, maps: maps ? 1 : 0 })
}

/** Passages recited from known works, with their sources. */
export const recitationsOf = (metadata: JsonObject): Citation[] =>
  // The Developer API uses the older name `citationSources`.
  [...list(metadata.citations), ...list(metadata.citationSources)].flatMap((raw): Citation[] => {
    const entry = object(raw)
    const url = text(entry?.uri)
    const title = text(entry?.title)
    return url ? [{ url, ...(title && { title }), raw }] : []
  })

const sourceOf = (raw: Json): Citation | undefined => {
  const chunk = object(raw)
  const source = object(chunk?.web) ?? object(chunk?.retrievedContext) ?? object(chunk?.maps) ?? object(chunk?.image)
  if (!source) return undefined
  const url = text(source.uri) ?? text(source.sourceUri) ?? ''
  const title = text(source.title)
  return { url, ...(title && { title }), raw }
}

/** The cited range in UTF-16 code units. Gemini counts bytes of UTF-8. Empty if the cited text is not found. */
const rangeOf = (segment: JsonObject | undefined, answer: string): { start?: number; end?: number } => {
  const bytes = segment && byteOffset(segment.endIndex)
  if (!segment || bytes === undefined) return {}
  const start = codeUnitsOf(answer, byteOffset(segment.startIndex) ?? 0)
  const end = codeUnitsOf(answer, bytes)
  if (start === undefined || end === undefined) return {}
  const cited = text(segment.text)
  if (cited === undefined || answer.slice(start, end) === cited) return { start, end }
  const found = answer.indexOf(cited)
  return found === -1 ? {} : { start: found, end: found + cited.length }
}

const byteOffset = (value: Json | undefined): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : undefined

/** The UTF-16 code units of the first `bytes` bytes of UTF-8; undefined beyond the end. */
const codeUnitsOf = (answer: string, bytes: number): number | undefined => {
  let left = bytes
  let units = 0
  for (const character of answer) {
    if (left <= 0) return units
    const code = character.codePointAt(0) ?? 0
    left -= code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4
    units += character.length
  }
  return left <= 0 ? units : undefined
}
