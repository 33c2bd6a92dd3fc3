/** Media types and base64 data of images and files. */

import { toBase64 } from '../../core/base64.ts'
import type { MediaSource } from '../../core/chat.ts'
import { percentDecoded } from '../../core/percent-decoded.ts'

const IMAGES: ReadonlySet<string> = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp'])

/** Magic numbers in base64. */
const MAGIC_NUMBERS: readonly (readonly [string, string])[] = [
  ['iVBORw0KGgo', 'image/png'],
  ['/9j/', 'image/jpeg'],
  ['R0lGOD', 'image/gif'],
  ['JVBERi0', 'application/pdf'],
  ['T2dnU', 'audio/ogg'],
  ['ZkxhQ', 'audio/flac'],
  ['SUQz', 'audio/mpeg'],
]
/** RIFF files, with their kind in bytes 8 to 11. */
const RIFF: readonly (readonly [RegExp, string])[] = [
  [/^UklGR.{6}XRUJQ/, 'image/webp'],
  [/^UklGR.{6}XQVZF/, 'audio/wav'],
]

const FILE_EXTENSIONS: readonly (readonly [RegExp, string])[] = [
  [/\.pdf$/i, 'application/pdf'],
  [/\.png$/i, 'image/png'],
  [/\.jpe?g$/i, 'image/jpeg'],
  [/\.gif$/i, 'image/gif'],
  [/\.webp$/i, 'image/webp'],
  [
    /\.(?:txt|md|csv|tsv|log|json|jsonl|xml|html?|css|ya?ml|toml|ini|py|js|ts|java|c|h|cpp|go|rs|rb|sh|sql)$/i,
    'text/plain',
  ],
]

/** A media type in lower case, without parameters. */
export const plainType = (mediaType: string): string => {
  const bare = (mediaType.split(';', 1)[0] ?? '').trim().toLowerCase()
  return bare === 'image/jpg' ? 'image/jpeg' : bare
}

/** The media type that the first bytes prove; undefined if they prove none. */
export const provenMediaType = (base64: string): string | undefined =>
  MAGIC_NUMBERS.find(([start]) => base64.startsWith(start))?.[1] ?? RIFF.find(([kind]) => kind.test(base64))?.[1]

/** Detects the media type by the first bytes, then by file extension; empty if unknown. */
export const detectMediaType = (base64: string, filename?: string): string =>
  provenMediaType(base64) ??
  FILE_EXTENSIONS.find(([extension]) => filename !== undefined && extension.test(filename))?.[1] ??
  ''

/** Declared types that carry no information. */
const GENERIC_TYPES: ReadonlySet<string> = new Set(['', 'application/octet-stream', 'image/*', '*/*'])

/**
 * The media type of data. The first bytes prevail over the declared type: vendors refuse an image with a wrong type
 * (github.com/vybestack/llxprt-code/issues/2130). A missing or generic type is detected.
 */
export const mediaTypeOf = (mediaType: string, base64: string, filename?: string): string => {
  const declared = plainType(mediaType)
  return provenMediaType(base64) ?? (GENERIC_TYPES.has(declared) ? detectMediaType(base64, filename) : declared)
}

/** Characters of data that the detection of a type reads. */
const HEAD_LENGTH = 32

/** The media type of a base64 data URL, by its head: the data may be long. Empty if unknown, undefined for other URLs. */
export const mediaTypeOfUrl = (url: string): string | undefined => {
  if (!/^data:/i.test(url)) return undefined
  const comma = url.indexOf(',')
  const header = url.slice(5, comma)
  if (comma === -1 || !/;\s*base64\s*$/i.test(header)) return undefined
  return mediaTypeOf(header, url.slice(comma + 1, comma + 1 + HEAD_LENGTH))
}

/** Whether all image-capable formats accept this type. */
export const isImageType = (mediaType: string): boolean => IMAGES.has(mediaType)

/** Whether the media type is text, including JSON, XML, YAML and source code. */
export const isTextType = (mediaType: string): boolean =>
  mediaType.startsWith('text/') ||
  /^application\/(?:json|x-ndjson|jsonl|xml|yaml|x-yaml|toml|javascript|typescript|sql|x-sh)$/.test(mediaType) ||
  /\+(?:json|xml|yaml)$/.test(mediaType)

/** Parses a data URL (RFC 2397): parameters are ignored; unencoded data becomes base64. Undefined for other URLs. */
export const parseDataUrl = (url: string): MediaSource | undefined => {
  if (!/^data:/i.test(url)) return undefined
  const comma = url.indexOf(',')
  if (comma === -1) return undefined
  const header = url.slice(5, comma)
  const data = url.slice(comma + 1)
  const mediaType = plainType(header)
  if (/;\s*base64\s*$/i.test(header)) return { kind: 'data', mediaType, data: standardBase64(data) }
  const text = percentDecoded(data)
  return text === undefined ? undefined : { kind: 'data', mediaType: mediaType || 'text/plain', data: toBase64(text) }
}

/** Replaces a data URL by inline data; other sources stay. */
export const inlineDataUrl = (source: MediaSource): MediaSource =>
  source.kind === 'url' ? (parseDataUrl(source.url) ?? source) : source

/** The content of an inline text file; undefined for other files. */
export const textOfFile = (file: { readonly source: MediaSource; readonly filename?: string }): string | undefined => {
  const source = inlineDataUrl(file.source)
  if (source.kind !== 'data' || !isTextType(mediaTypeOf(source.mediaType, source.data, file.filename))) return undefined
  return fromBase64(standardBase64(source.data))
}

/** Normalises base64 to RFC 4648 section 4: standard alphabet, no white space, padded. */
export const standardBase64 = (base64: string): string => {
  if (/^[A-Za-z0-9+/]+={0,2}$/.test(base64) && base64.length % 4 === 0) return base64
  const bare = base64
    .replace(/\s+|(?<!=)=+$/g, '')
    .replaceAll('-', '+')
    .replaceAll('_', '/')
  return bare.padEnd(Math.ceil(bare.length / 4) * 4, '=')
}

/** Decodes base64 to text; undefined if it is not base64 or not UTF-8. */
export const fromBase64 = (base64: string): string | undefined => {
  try {
    const binary = atob(base64)
    const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0))
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    // Not text: the caller reports that the file cannot be carried.
    return undefined
  }
}
