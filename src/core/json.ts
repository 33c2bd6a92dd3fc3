import type { Json, JsonObject } from './json-value.ts'

export type { Json, JsonObject } from './json-value.ts'

import { isRaw, withDigits } from './json-digits.ts'

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isRaw(value)

export const isList = (value: unknown): value is readonly Json[] => Array.isArray(value)

export const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)
export const number = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined
export const object = (value: unknown): JsonObject | undefined => (isObject(value) ? value : undefined)
export const list = (value: unknown): readonly Json[] => (isList(value) ? value : [])

/**
 * The source text of an integer that a double cannot represent (beyond 2^53; RFC 8259, section 6). Undefined for other
 * values.
 */
export const sourceOf = (value: unknown): string | undefined => {
  if (!isRaw(value)) return undefined
  return (value as { rawJSON: string }).rawJSON
}

/** The digits of an integer that has six or more, such as that of a card. Undefined for other values. */
export const digitsOf = (value: unknown): string | undefined => {
  const digits = typeof value === 'number' ? String(value) : sourceOf(value)
  return digits !== undefined && /^\d{6,64}$/.test(digits) ? digits : undefined
}

/** Minimum number of consecutive digits that a double may not represent. */
const MANY = 16

/**
 * Parses JSON without loss of digits: an integer that a double cannot represent keeps its source text and is serialized
 * as such. Throws SyntaxError like `JSON.parse`.
 */
export const parseJson = (source: string): unknown => {
  const value: unknown = JSON.parse(source)
  return hasManyDigits(source) ? withDigits(source, value) : value
}

/**
 * Whether an integer may have that many digits; digits after the decimal point do not matter. Tests every 16th
 * character, because a run of 16 digits contains one of them.
 */
const hasManyDigits = (source: string): boolean => {
  for (let at = MANY - 1; at < source.length; at += MANY) {
    let [first, end] = [at, at]
    while (end < source.length && isDigit(source.charCodeAt(end))) end++
    while (end > at && first > 0 && isDigit(source.charCodeAt(first - 1))) first--
    if (end - first < MANY) continue
    const sign = source[first - 1] === '-' ? first - 1 : first
    // Strings contain many digits; a number follows one of these characters.
    if (sign === 0 || BEFORE_A_NUMBER.has(source.charCodeAt(sign - 1))) return true
    at = end
  }
  return false
}

const BEFORE_A_NUMBER = new Set([...'[:, \t\r\n'].map((letter) => letter.charCodeAt(0)))
const isDigit = (code: number): boolean => code >= 48 && code <= 57

/** Like `parseJson`; undefined if the text is not JSON. */
export const readJson = (source: string): Json | undefined => {
  try {
    // `JSON.parse` returns nothing but JSON values.
    return parseJson(source) as Json
  } catch {
    return undefined
  }
}

/** Parses an object without loss of digits; undefined if the text is not a JSON object. */
export const parseObject = (source: string): JsonObject | undefined => object(readJson(source))
