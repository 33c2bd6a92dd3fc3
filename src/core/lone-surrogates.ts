/**
 * Halves of surrogate pairs in JSON. JavaScript and Python write a text that was cut inside a character as `\ud83d`, which
 * is valid JSON (RFC 8259, section 8.2). Strict parsers refuse the whole body: "no low surrogate in string"
 * (anomalyco/opencode#13988, anthropics/claude-code#60394).
 */
import { isList, isObject, type Json, type JsonObject } from './json.ts'

/** The same value with U+FFFD for each half, and the paths of the strings that had one. */
export type Mended = { readonly value: JsonObject; readonly paths: readonly string[] }

/**
 * Whether a JSON text has an escaped surrogate. Valid UTF-8 has no others. The pattern takes 7 µs for 30 KB, whatever they
 * contain. A search for `\u` stops at every backslash: 0.2 µs without any, 5 µs with one in 50 characters, 15 µs with one in 15.
 */
export const hasSurrogateEscapes = (source: string): boolean =>
  isSparse(source) ? source.includes('\\u') && SURROGATE.test(source) : SURROGATE.test(source)

const SURROGATE = /\\u[dD][89a-fA-F]/

/** Whether the first few backslashes are far apart, or there are fewer. */
const isSparse = (source: string): boolean => {
  let at = 0
  for (let found = 0; found < 8; found++) {
    at = source.indexOf('\\', at) + 1
    if (at === 0) return true
  }
  return at > 8 * 32
}

/** Replaces halves in every string and name. Members named `arguments` are JSON in a string: their escapes count too. */
export const withoutLoneSurrogates = (body: JsonObject): Mended => {
  const paths: string[] = []
  const value = mendedMembers(body, [], paths)
  return { value, paths: [...new Set(paths)] }
}

type JsonPlace = (string | number)[]

const mended = (value: Json, place: JsonPlace, paths: string[]): Json => {
  if (typeof value === 'string') return mendedText(value, place, paths)
  if (isList(value)) return mendedList(value, place, paths)
  return isObject(value) ? mendedMembers(value, place, paths) : value
}

const mendedText = (text: string, place: JsonPlace, paths: string[]): string => {
  const whole = text.isWellFormed() ? text : text.toWellFormed()
  const result = place.at(-1) === 'arguments' && hasSurrogateEscapes(whole) ? mendedEscapes(whole) : whole
  if (result !== text) paths.push(pathOf(place))
  return result
}

const mendedList = (list: readonly Json[], place: JsonPlace, paths: string[]): readonly Json[] => {
  let copy: Json[] | null = null
  for (const [index, element] of list.entries()) {
    if (typeof element === 'number') continue
    place.push(index)
    const result = mended(element, place, paths)
    if (result !== element) {
      copy ??= [...list]
      copy[index] = result
    }
    place.pop()
  }
  return copy ?? list
}

const mendedMembers = (object: JsonObject, place: JsonPlace, paths: string[]): JsonObject => {
  let copy: [string, Json | undefined][] | null = null
  const entries = Object.entries(object)
  for (const [index, [name, value]] of entries.entries()) {
    const wholeName = name.toWellFormed()
    place.push(wholeName)
    if (wholeName !== name) paths.push(pathOf(place))
    const result = value === undefined ? value : mended(value, place, paths)
    if (result !== value || wholeName !== name) {
      copy ??= [...entries]
      copy[index] = [wholeName, result]
    }
    place.pop()
  }
  return copy ? Object.fromEntries(copy) : object
}

/** One escape each: a whole pair, half of one, or another. Escaped backslashes are consumed, so that `\\ud83d` is text. */
const ESCAPES = /\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\./g
const HALF = '\\ud83d'.length

const mendedEscapes = (json: string): string =>
  json.replace(ESCAPES, (found) => (found.length === HALF ? '\\ufffd' : found))

const pathOf = (place: JsonPlace): string =>
  place.reduce<string>((path, step) => {
    if (typeof step === 'number') return `${path}[${step}]`
    return path === '' ? step : `${path}.${step}`
  }, '')
