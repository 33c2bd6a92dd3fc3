/** Changes one value of a JSON text, which may have comments and commas at the end. All other characters stay as they are. */
import type { Json, JsonObject } from '../core/json.ts'
import { isObject, parseJson } from '../core/json.ts'

type Member = { readonly name: string; readonly start: number; readonly valueStart: number; readonly valueEnd: number }
type JsonObjectPlace = {
  readonly open: number
  readonly close: number
  readonly members: readonly Member[]
  /** End of the last text before the closing bracket, comments included. */
  readonly contentEnd: number
  readonly endsWithComma: boolean
}

/** Thrown for a text that is not JSON. */
export class JsonTextError extends Error {}

const COMMENT = /\/\/[^\n\r]*|\/\*[\s\S]*?\*\//y
const BLANK = /\s+/y
const STRING = /"(?:[^"\\\n\r]|\\.)*"/y
const PLAIN = /[^\s,\]}[{:"/]+/y

const matchAt = (pattern: RegExp, text: string, at: number): string | null => {
  pattern.lastIndex = at
  return pattern.exec(text)?.[0] ?? null
}

/** The position after blanks and comments. */
const skip = (text: string, from: number): number => {
  let at = from
  for (;;) {
    const part = matchAt(BLANK, text, at) ?? matchAt(COMMENT, text, at)
    if (part === null) return at
    at += part.length
  }
}

const fail = (text: string, at: number): never => {
  throw new JsonTextError(`line ${text.slice(0, at).split('\n').length} is not JSON`)
}

/** The position after the value that starts here. */
const endOfValue = (text: string, at: number): number => {
  if (text[at] === '{') return readObject(text, at).close + 1
  if (text[at] === '[') {
    let next = skip(text, at + 1)
    while (text[next] !== ']') {
      next = skip(text, endOfValue(text, next))
      if (text[next] === ',') next = skip(text, next + 1)
      else if (text[next] !== ']') fail(text, next)
    }
    return next + 1
  }
  const value = matchAt(STRING, text, at) ?? matchAt(PLAIN, text, at)
  return value === null ? fail(text, at) : at + value.length
}

const readObject = (text: string, open: number): JsonObjectPlace => {
  const members: Member[] = []
  let at = skip(text, open + 1)
  let endsWithComma = false
  while (text[at] !== '}') {
    const name = matchAt(STRING, text, at)
    if (name === null) return fail(text, at)
    const colon = skip(text, at + name.length)
    if (text[colon] !== ':') return fail(text, colon)
    const valueStart = skip(text, colon + 1)
    const valueEnd = endOfValue(text, valueStart)
    members.push({ name: String(parseJson(name)), start: at, valueStart, valueEnd })
    at = skip(text, valueEnd)
    endsWithComma = text[at] === ','
    if (endsWithComma) at = skip(text, at + 1)
    else if (text[at] !== '}') fail(text, at)
  }
  const contentEnd = open + 1 + text.slice(open + 1, at).trimEnd().length
  return { open, close: at, members, contentEnd, endsWithComma }
}

const rootOf = (text: string): JsonObjectPlace => {
  const start = skip(text, 0)
  if (text[start] !== '{') fail(text, start)
  const root = readObject(text, start)
  const after = skip(text, root.close + 1)
  if (after !== text.length) fail(text, after)
  return root
}

const nested = (path: readonly string[], value: Json): Json =>
  path.reduceRight<Json>((inner, name) => ({ [name]: inner }), value)

const indentAt = (text: string, at: number): string =>
  /^[ \t]*/.exec(text.slice(text.lastIndexOf('\n', at - 1) + 1))?.[0] ?? ''

const written = (value: Json, indent: string, unit: string, newline: string): string =>
  JSON.stringify(value, null, unit).replaceAll('\n', newline + indent)

/** Returns the text with the value at the path. Objects on the way are created. Throws `JsonTextError`. */
export const setJson = (source: string, path: readonly string[], value: Json): string => {
  const text = source.trim() === '' ? '{}\n' : source
  const newline = text.includes('\r\n') ? '\r\n' : '\n'
  const unit = /\n(\t+| {2,8})"/.exec(text)?.[1]?.replace(/^\t+$/, '\t') ?? '  '
  const root = rootOf(text)
  return setIn(text, root, path, { value, newline, unit })
}

/** Returns the text without the member at the path. Without such a member it is as it was. Throws `JsonTextError`. */
export const removeJson = (text: string, path: readonly string[]): string => {
  let place = rootOf(text)
  for (const name of path.slice(0, -1)) {
    const member = place.members.findLast((one) => one.name === name)
    if (!member || text[member.valueStart] !== '{') return text
    place = readObject(text, member.valueStart)
  }
  const at = place.members.findLastIndex(({ name }) => name === path.at(-1))
  const [before, member, next] = [place.members[at - 1], place.members[at], place.members[at + 1]]
  if (!member) return text
  const [from, to] = before
    ? [before.valueEnd, member.valueEnd]
    : next
      ? [member.start, next.start]
      : [place.open + 1, place.close]
  return text.slice(0, from) + text.slice(to)
}

type Style = { readonly value: Json; readonly newline: string; readonly unit: string }

const setIn = (text: string, place: JsonObjectPlace, path: readonly string[], style: Style): string => {
  const [name = '', ...rest] = path
  const member = place.members.findLast((one) => one.name === name)
  if (!member) return insert(text, place, name, { ...style, value: nested(rest, style.value) })
  if (rest.length > 0 && text[member.valueStart] === '{')
    return setIn(text, readObject(text, member.valueStart), rest, style)
  const indent = indentAt(text, member.start)
  const replacement = written(nested(rest, style.value), indent, style.unit, style.newline)
  return text.slice(0, member.valueStart) + replacement + text.slice(member.valueEnd)
}

const insert = (text: string, place: JsonObjectPlace, name: string, { value, newline, unit }: Style): string => {
  const last = place.members.at(-1)
  const first = place.members[0]
  const isOneLine = last !== undefined && !text.slice(place.open, place.close).includes('\n')
  const outer = indentAt(text, place.open)
  const indent =
    first && !isOneLine && text.slice(place.open, first.start).includes('\n')
      ? indentAt(text, first.start)
      : outer + unit
  const comma = last && !place.endsWithComma ? ',' : ''
  const shown = isOneLine ? JSON.stringify(value) : written(value, indent, unit, newline)
  const member = `${isOneLine ? ' ' : newline + indent}${JSON.stringify(name)}: ${shown}`
  const valueEnd = last?.valueEnd ?? place.contentEnd
  const kept = text.slice(valueEnd, place.contentEnd)
  const rest = isOneLine ? text.slice(place.contentEnd) : newline + outer + text.slice(place.close)
  return text.slice(0, valueEnd) + comma + kept + member + rest
}

/** The value of a JSON text with comments. Throws `JsonTextError`. */
export const readJsonText = (text: string): JsonObject => {
  if (text.trim() === '') return {}
  rootOf(text)
  let bare = ''
  for (let at = 0; at < text.length; ) {
    const string = matchAt(STRING, text, at)
    const comment = string === null ? matchAt(COMMENT, text, at) : null
    bare += string ?? (comment === null ? text[at] : ' ')
    at += (string ?? comment ?? ' ').length
  }
  // Commas before a closing bracket; strings are matched first so that they stay.
  const value = parseJson(
    bare.replace(/("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])/g, (_, string: string | undefined) => string ?? ''),
  )
  return isObject(value) ? value : {}
}
