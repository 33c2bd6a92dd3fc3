/** Decodes citations: the documents and tool results that an answer is based on. */
import type { Citation } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { exceedsDepth, MAX_DEPTH } from '../shared/tool-arguments.ts'

/**
 * One citation for each source, or one without a source. Few sources have a URL; otherwise `url` is empty, `title` names
 * the source, and `raw` has the details.
 */
export const citationsOf = (raw: Json | undefined, answer: string): Citation[] => {
  if (!isObject(raw) || exceedsDepth(raw, MAX_DEPTH)) return []
  const range = rangeOf(raw, answer)
  const sources = list(raw.sources).filter(isObject)
  if (sources.length === 0) return [{ url: '', ...range, raw }]
  return sources.map((source) => ({ ...labelsOf(source), ...range, raw: { ...raw, sources: [source] } }))
}

/** Whether a citation belongs to the text; others belong to the plan or to thinking (`PLAN`, `THINKING_CONTENT`). */
export const isTextCitation = (raw: Json | undefined): boolean => {
  const type = object(raw)?.type
  return type === undefined || type === null || type === 'TEXT_CONTENT'
}

const labelsOf = (source: JsonObject): Pick<Citation, 'url' | 'title'> => {
  const content = object(source.document) ?? object(source.tool_output)
  const url = text(content?.url) ?? text(content?.uri) ?? ''
  const title = text(content?.title) || text(source.id)
  return { url, ...(title && { title }) }
}

/**
 * The cited range in UTF-16 code units; empty if the cited text is not found. Recordings count characters. Cohere does not
 * document the unit outside the basic multilingual plane, so both units are tried, and then a search.
 */
const rangeOf = (raw: JsonObject, answer: string): { start?: number; end?: number } => {
  const start = number(raw.start)
  const end = number(raw.end)
  if (start === undefined || end === undefined || start < 0 || end < start || !Number.isInteger(start + end)) return {}
  const cited = text(raw.text)
  if (cited === undefined) return end <= answer.length ? { start, end } : {}
  if (answer.slice(start, end) === cited) return { start, end }
  const inUnits = codeUnitsOf(answer, start)
  if (answer.startsWith(cited, inUnits)) return { start: inUnits, end: inUnits + cited.length }
  const found = answer.indexOf(cited)
  return found === -1 || cited === '' ? {} : { start: found, end: found + cited.length }
}

/** The UTF-16 code units of the first `characters` characters. Counting is 30 times as fast as splitting the text. */
const codeUnitsOf = (answer: string, characters: number): number => {
  let at = 0
  for (let left = characters; left > 0 && at < answer.length; left--)
    at += (answer.codePointAt(at) ?? 0) > 0xffff ? 2 : 1
  return at
}
