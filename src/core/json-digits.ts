/** Keeps integers that a double cannot represent exactly as they were written (RFC 8259, section 6). */
import { COMMA, isClosing, isDigit, isOpening, MINUS, OPEN_BRACKET, QUOTE } from './char-codes.ts'
import { isNumberPart, stringEnd } from './json-text.ts'

/** ECMAScript's JSON.rawJSON (stage 4, V8 since 2023), not yet in TypeScript's library. */
type RawJson = { rawJSON(text: string): object; isRawJSON(value: unknown): boolean }
// The cast adds members that every supported Node version has.
const json = JSON as unknown as RawJson

/** Whether the value is a number kept as it was written. */
export const isRaw = (value: unknown): boolean => json.isRawJSON(value)

/**
 * A container that is open at the current position. `node`: null if the parsed value has no such container (a duplicate
 * member).
 */
type OpenContainer = {
  readonly node: { [at: string | number]: unknown } | null
  readonly isList: boolean
  /** In a list: the index of the next value. */
  index: number
  /** In an object: start of the key of the next value; -1: the key has not been read. */
  key: number
  keyEnd: number
}

/**
 * Replaces each integer that a double cannot represent by its source text. `value` is the result of
 * `JSON.parse(source)` and is changed in place. One pass over the text: a reviver is called for every value, which
 * takes seconds for the largest bodies.
 */
export const withDigits = (source: string, value: unknown): unknown => {
  const open: OpenContainer[] = []
  let top: OpenContainer | undefined
  let whole = value
  const placeIn = ({ isList, index, key, keyEnd }: OpenContainer): string | number => {
    if (isList) return index
    const text = source.slice(key, keyEnd)
    return text.includes('\\') ? JSON.parse(text) : text.slice(1, -1)
  }
  for (let at = 0; at < source.length; at++) {
    const code = source.charCodeAt(at)
    if (code === QUOTE) {
      const end = stringEnd(source, at)
      if (top && !top.isList && top.key === -1) {
        top.key = at
        top.keyEnd = end
      }
      at = end - 1
    } else if (isOpening(code)) {
      const node = top ? top.node?.[placeIn(top)] : value
      top = { node: isContainer(node) ? node : null, isList: code === OPEN_BRACKET, index: 0, key: -1, keyEnd: -1 }
      open.push(top)
    } else if (isClosing(code)) {
      open.pop()
      top = open.at(-1)
    } else if (code === COMMA && top) {
      top.index++
      top.key = -1
    } else if (code === MINUS || isDigit(code)) {
      let end = at + 1
      while (isNumberPart(source.charCodeAt(end))) end++
      const text = end - at < 16 ? '' : source.slice(at, end)
      at = end - 1
      if (!/^-?[0-9]{16,}$/.test(text)) continue
      const double = Number(text)
      if (Number.isSafeInteger(double) || !Number.isFinite(double)) continue
      if (!top) whole = json.rawJSON(text)
      else if (top.node) {
        const place = placeIn(top)
        // Of duplicate members the last one counts, and its value is in the node.
        if (top.node[place] === double || isRaw(top.node[place])) top.node[place] = json.rawJSON(text)
      }
    }
  }
  return whole
}

const isContainer = (node: unknown): node is { [at: string | number]: unknown } =>
  typeof node === 'object' && node !== null
