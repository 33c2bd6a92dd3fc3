/** Vectors in their two encodings. Only the conversion to 32-bit floats rounds, because clients store and compare vectors. */
import type { Encoding, Vector } from '../../core/embeddings.ts'
import { isList, type Json } from '../../core/json.ts'

/** The vectors in a list of values. Undefined if the list is empty or a value is not a vector. */
export const readVectors = (values: readonly (Json | undefined)[]): readonly Vector[] | undefined => {
  const vectors = values.map(readVector).filter((vector) => vector !== undefined)
  return vectors.length > 0 && vectors.length === values.length ? vectors : undefined
}

/** A vector, or undefined if the value is none. Every number is checked, because clients store vectors unchecked. */
export const readVector = (value: Json | undefined): Vector | undefined => {
  if (typeof value === 'string')
    return bytesIn(value) % 4 === 0 && bytesIn(value) > 0 && isBase64(value) ? value : undefined
  if (!isList(value) || value.length === 0) return undefined
  // `every` does not narrow the type of a list.
  return value.every(Number.isFinite) ? (value as readonly number[]) : undefined
}

/** The number of dimensions of a vector. */
export const dimensionsOf = (vector: Vector): number =>
  typeof vector === 'string' ? bytesIn(vector) / 4 : vector.length

/** The same vector in an encoding. */
export const withEncoding = (vector: Vector, encoding: Encoding): Vector => {
  if (encoding === 'base64') return typeof vector === 'string' ? vector : encodeFloats(vector)
  return typeof vector === 'string' ? decode(vector, 4, (view, at) => view.getFloat32(at, true)) : vector
}

/**
 * Whether base64 contains 64-bit floats. Older versions of vLLM return them, while clients read 32-bit floats (recording
 * local-openai-compatible-embeddings-…-cdf9131a). They were converted from 32-bit floats, so their lowest 29 bits are zero:
 * of the 32-bit words, every other one has at most its three highest bits set. No model returns such 32-bit floats.
 */
export const isDoubles = (base64: string): boolean => {
  if (bytesIn(base64) % 8 !== 0 || bytesIn(base64) < MIN_BYTES) return false
  const words = decode(base64, 4, (view, at) => view.getUint32(at, true))
  const isConverted = (word: number, index: number) => index % 2 === 1 || (word & 0x1fff_ffff) === 0
  const nonZero = words.filter((word, index) => index % 2 === 1 && word !== 0).length
  return words.every(isConverted) && nonZero > words.length / 4
}

/** Shorter vectors cannot be distinguished. */
const MIN_BYTES = 64

/** Converts base64 of 64-bit floats to base64 of 32-bit floats. */
export const fromDoubles = (base64: string): string =>
  encodeFloats(decode(base64, 8, (view, at) => view.getFloat64(at, true)))

const isBase64 = (text: string): boolean => text.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(text)

const bytesIn = (base64: string): number =>
  (base64.length / 4) * 3 - (base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0)

/** Decodes base64 to numbers of `size` bytes each, in little-endian order on every machine. */
const decode = (base64: string, size: number, read: (view: DataView, at: number) => number): number[] => {
  const text = atob(base64)
  const bytes = new Uint8Array(text.length)
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at)
  const view = new DataView(bytes.buffer)
  const numbers = new Array<number>(Math.floor(text.length / size))
  for (let index = 0; index < numbers.length; index++) numbers[index] = read(view, index * size)
  return numbers
}

/** Bytes per call of `String.fromCharCode`: the number of arguments is limited. */
const CHUNK_BYTES = 8_192

const encodeFloats = (numbers: readonly number[]): string => {
  const view = new DataView(new ArrayBuffer(numbers.length * 4))
  for (let index = 0; index < numbers.length; index++) view.setFloat32(index * 4, numbers[index] ?? 0, true)
  const bytes = new Uint8Array(view.buffer)
  let text = ''
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES)
    text += String.fromCharCode(...bytes.subarray(at, at + CHUNK_BYTES))
  return btoa(text)
}
