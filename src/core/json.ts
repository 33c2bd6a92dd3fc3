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

/** A number as it was written, where a double would change it: an integer beyond 2^53 (RFC 8259, section 6). */
export const sourceOf = (value: unknown): string | undefined => {
  if (!isRaw(value)) return undefined
  return (value as { rawJSON: string }).rawJSON
}

/** Digits in a row that a double may not hold. */
const MANY = 16

/**
 * Parses JSON and loses no digit: an integer that a double cannot hold stays as it was written and is written so again.
 * Throws SyntaxError like JSON.parse.
 */
export const parseJson = (source: string): unknown => {
  const value: unknown = JSON.parse(source)
  return hasManyDigits(source) ? withDigits(source, value) : value
}

/**
 * Whether a number may have so many digits before its point; behind it a double is as exact as it was meant. Looks at every
 * sixteenth letter only: a row of so many digits has one there.
 */
const hasManyDigits = (source: string): boolean => {
  for (let at = MANY - 1; at < source.length; at += MANY) {
    let [first, end] = [at, at]
    while (end < source.length && isDigit(source.charCodeAt(end))) end++
    while (end > at && first > 0 && isDigit(source.charCodeAt(first - 1))) first--
    if (end - first < MANY) continue
    const sign = source[first - 1] === '-' ? first - 1 : first
    // Texts are full of digits; a number stands behind one of these.
    if (sign === 0 || BEFORE_A_NUMBER.has(source.charCodeAt(sign - 1))) return true
    at = end
  }
  return false
}

const BEFORE_A_NUMBER = new Set([...'[:, \t\r\n'].map((letter) => letter.charCodeAt(0)))
const isDigit = (code: number): boolean => code >= 48 && code <= 57

/** The same; undefined where it is no JSON, which then is the caller's to judge. */
export const readJson = (source: string): Json | undefined => {
  try {
    // Parsed JSON is nothing but JSON.
    return parseJson(source) as Json
  } catch {
    return undefined
  }
}

/** The object in this text, with every digit; undefined where it is no JSON or no object. */
export const parseObject = (source: string): JsonObject | undefined => object(readJson(source))
