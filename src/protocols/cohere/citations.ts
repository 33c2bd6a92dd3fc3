/** What an answer's words rest on: a document of the request, or what a tool gave. */
import type { Citation } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { exceedsDepth, MAX_DEPTH } from '../shared/tool-arguments.ts'

/**
 * A citation for each of its sources, or one without. Few sources have an address: then `url` is empty, `title` names the
 * source, and `raw` is all that was said.
 */
export const citationsOf = (raw: Json | undefined, said: string): Citation[] => {
  if (!isObject(raw) || exceedsDepth(raw, MAX_DEPTH)) return []
  const place = placeOf(raw, said)
  const sources = list(raw.sources).filter(isObject)
  if (sources.length === 0) return [{ url: '', ...place, raw }]
  return sources.map((source) => ({ ...namesOf(source), ...place, raw: { ...raw, sources: [source] } }))
}

/** The plan and the thoughts are cited too (`PLAN`, `THINKING_CONTENT`), but what they rest on is told of the text alone. */
export const isOfText = (raw: Json | undefined): boolean => {
  const type = object(raw)?.type
  return type === undefined || type === null || type === 'TEXT_CONTENT'
}

const namesOf = (source: JsonObject): Pick<Citation, 'url' | 'title'> => {
  const given = object(source.document) ?? object(source.tool_output)
  const url = text(given?.url) ?? text(given?.uri) ?? ''
  const title = text(given?.title) || text(source.id)
  return { url, ...(title && { title }) }
}

/**
 * Its place, if it holds the words it is said to. Recorded ones count characters; in which unit those beyond the basic
 * plane count nobody says, so both are tried, and then the words themselves are looked for.
 */
const placeOf = (raw: JsonObject, said: string): { start?: number; end?: number } => {
  const start = number(raw.start)
  const end = number(raw.end)
  if (start === undefined || end === undefined || start < 0 || end < start || !Number.isInteger(start + end)) return {}
  const words = text(raw.text)
  if (words === undefined) return end <= said.length ? { start, end } : {}
  if (said.slice(start, end) === words) return { start, end }
  const before = lengthOf(said, start)
  if (said.startsWith(words, before)) return { start: before, end: before + words.length }
  const found = said.indexOf(words)
  return found === -1 || words === '' ? {} : { start: found, end: found + words.length }
}

/** UTF-16 units that so many characters take, from the beginning. Counted, since a list of them takes thirty times as long. */
const lengthOf = (said: string, characters: number): number => {
  let at = 0
  for (let left = characters; left > 0 && at < said.length; left--) at += (said.codePointAt(at) ?? 0) > 0xffff ? 2 : 1
  return at
}
