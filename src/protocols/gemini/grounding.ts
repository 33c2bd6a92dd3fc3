/** What an answer is grounded on, as citations of its text. */
import type { Citation } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object, text } from '../../core/json.ts'

/** The citations a candidate's metadata tells of, for the text it wrote. */
export const citationsOf = (metadata: JsonObject, said: string): Citation[] => {
  const sources = list(metadata.groundingChunks).map(sourceOf)
  const supports = list(metadata.groundingSupports).map((support) => object(support) ?? {})
  const supported = supports.flatMap((support) => {
    const place = placeOf(object(support.segment), said)
    return list(support.groundingChunkIndices).flatMap((index): Citation[] => {
      const source = typeof index === 'number' ? sources[index] : undefined
      return source ? [{ ...source, ...place }] : []
    })
  })
  return supported.length > 0 ? supported : sources.filter((source) => source !== undefined)
}

/** Passages recited from known works, with where they are from. */
export const recitationsOf = (metadata: JsonObject): Citation[] =>
  // The Developer API has an older name for them.
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

/** Their places are counted in bytes of UTF-8, ours in UTF-16 code units. A place that does not hold its words is none. */
const placeOf = (segment: JsonObject | undefined, said: string): { start?: number; end?: number } => {
  const bytes = segment && number(segment.endIndex)
  if (!segment || bytes === undefined) return {}
  const start = unitsAt(said, number(segment.startIndex) ?? 0)
  const end = unitsAt(said, bytes)
  if (start === undefined || end === undefined) return {}
  const words = text(segment.text)
  if (words === undefined || said.slice(start, end) === words) return { start, end }
  const found = said.indexOf(words)
  return found === -1 ? {} : { start: found, end: found + words.length }
}

const number = (value: Json | undefined): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : undefined

/** The index in code units of so many bytes into a text; undefined behind its end. */
const unitsAt = (said: string, bytes: number): number | undefined => {
  let left = bytes
  let units = 0
  for (const character of said) {
    if (left <= 0) return units
    const code = character.codePointAt(0) ?? 0
    left -= code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4
    units += character.length
  }
  return left <= 0 ? units : undefined
}
