/** Vectors in their two forms. What is compared and stored by clients is never rounded more than the form itself does. */
import type { Encoding, Vector } from '../../core/embeddings.ts'
import { isList, type Json } from '../../core/json.ts'

/** Undefined: no vector. Large ones are looked at whole: one word among numbers would be stored by somebody. */
export const readVector = (value: Json | undefined): Vector | undefined => {
  if (typeof value === 'string')
    return bytesIn(value) % 4 === 0 && bytesIn(value) > 0 && isBase64(value) ? value : undefined
  if (!isList(value) || value.length === 0) return undefined
  // The list is what was just looked at; TypeScript does not narrow a list by its entries.
  return value.every(Number.isFinite) ? (value as readonly number[]) : undefined
}

/** How many numbers it has. */
export const lengthOf = (vector: Vector): number => (typeof vector === 'string' ? bytesIn(vector) / 4 : vector.length)

/** The same numbers in this form. */
export const inForm = (vector: Vector, form: Encoding): Vector => {
  if (form === 'base64') return typeof vector === 'string' ? vector : encodeFloats(vector)
  return typeof vector === 'string' ? decode(vector, 4, (view, at) => view.getFloat32(at, true)) : vector
}

/**
 * vLLM wrote base64 of 64-bit floats, until it did as others do, and every client reads 32-bit ones (recording
 * local-openai-compatible-embeddings-…-cdf9131a). They were made of shorter ones, so of each the lowest 29 bits are zero.
 * Read as 32-bit floats, every second number would be nothing and most of the others something: no model's vectors are so.
 */
export const isDoubles = (base64: string): boolean => {
  if (bytesIn(base64) % 8 !== 0 || bytesIn(base64) < FEWEST) return false
  const words = decode(base64, 4, (view, at) => view.getUint32(at, true))
  const isBare = (word: number, index: number) => index % 2 === 1 || (word & 0x1fff_ffff) === 0
  const filled = words.filter((word, index) => index % 2 === 1 && word !== 0).length
  return words.every(isBare) && filled > words.length / 4
}

/** Bytes below which nothing can be told. */
const FEWEST = 64

/** 64-bit floats as the 32-bit ones they are. */
export const fromDoubles = (base64: string): string =>
  encodeFloats(decode(base64, 8, (view, at) => view.getFloat64(at, true)))

const isBase64 = (text: string): boolean => text.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(text)

const bytesIn = (base64: string): number =>
  (base64.length / 4) * 3 - (base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0)

/** What lies in the bytes, one number after another; the lowest byte is the first, whatever the machine's own order. */
const decode = (base64: string, size: number, read: (view: DataView, at: number) => number): number[] => {
  const text = atob(base64)
  const bytes = new Uint8Array(text.length)
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at)
  const view = new DataView(bytes.buffer)
  const numbers = new Array<number>(Math.floor(text.length / size))
  for (let index = 0; index < numbers.length; index++) numbers[index] = read(view, index * size)
  return numbers
}

/** So many bytes at a time become characters: a call has only so many arguments. */
const PIECE = 8_192

const encodeFloats = (numbers: readonly number[]): string => {
  const view = new DataView(new ArrayBuffer(numbers.length * 4))
  for (let index = 0; index < numbers.length; index++) view.setFloat32(index * 4, numbers[index] ?? 0, true)
  const bytes = new Uint8Array(view.buffer)
  let text = ''
  for (let at = 0; at < bytes.length; at += PIECE) text += String.fromCharCode(...bytes.subarray(at, at + PIECE))
  return btoa(text)
}
