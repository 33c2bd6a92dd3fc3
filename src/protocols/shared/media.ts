/** Images and files: what their bytes are, and how formats want them that take bytes and type apart. */
import type { MediaSource } from '../../core/chat.ts'

const IMAGES: ReadonlySet<string> = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp'])

/** How the base64 of a kind of file begins. */
const BEGINNINGS: readonly (readonly [string, string])[] = [
  ['iVBORw0KGgo', 'image/png'],
  ['/9j/', 'image/jpeg'],
  ['R0lGOD', 'image/gif'],
  ['JVBERi0', 'application/pdf'],
]
/** WebP is a RIFF file that says so in its bytes 8 to 11. */
const WEBP = /^UklGR.{6}XRUJQ/

const ENDINGS: readonly (readonly [RegExp, string])[] = [
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

/** A media type as vendors write it: lower case, without parameters. */
export const plainType = (mediaType: string): string => {
  const bare = (mediaType.split(';', 1)[0] ?? '').trim().toLowerCase()
  return bare === 'image/jpg' ? 'image/jpeg' : bare
}

/** What a file's bytes, or failing that its name, say it is. */
export const detectMediaType = (base64: string, filename?: string): string => {
  const beginning = BEGINNINGS.find(([start]) => base64.startsWith(start))
  if (beginning) return beginning[1]
  if (WEBP.test(base64)) return 'image/webp'
  return ENDINGS.find(([ending]) => filename !== undefined && ending.test(filename))?.[1] ?? ''
}

/** Said types that say nothing. */
const UNSAID: ReadonlySet<string> = new Set(['', 'application/octet-stream', 'image/*', '*/*'])

export const mediaTypeOf = (mediaType: string, base64: string, filename?: string): string => {
  const said = plainType(mediaType)
  return UNSAID.has(said) ? detectMediaType(base64, filename) : said
}

export const isImageType = (mediaType: string): boolean => IMAGES.has(mediaType)

/** Text in one of its many names. */
export const isTextType = (mediaType: string): boolean =>
  mediaType.startsWith('text/') ||
  /^application\/(?:json|x-ndjson|jsonl|xml|yaml|x-yaml|toml|javascript|typescript|sql|x-sh)$/.test(mediaType) ||
  /\+(?:json|xml|yaml)$/.test(mediaType)

/**
 * A data URL taken apart (RFC 2397). Split at the first comma; parameters are skipped wherever they stand. Undefined for
 * anything else.
 */
export const parseDataUrl = (url: string): MediaSource | undefined => {
  if (!/^data:/i.test(url)) return undefined
  const comma = url.indexOf(',')
  if (comma === -1) return undefined
  const head = url.slice(5, comma)
  const data = url.slice(comma + 1)
  const mediaType = plainType(head)
  if (/;\s*base64\s*$/i.test(head)) return { kind: 'data', mediaType, data: standardBase64(data) }
  const text = percentDecoded(data)
  return text === undefined ? undefined : { kind: 'data', mediaType: mediaType || 'text/plain', data: toBase64(text) }
}

/** A data URL is data, whoever left it as it was. */
export const inlineDataUrl = (source: MediaSource): MediaSource =>
  source.kind === 'url' ? (parseDataUrl(source.url) ?? source) : source

/** The text of a file of text whose bytes are here; undefined for any other. */
export const textOfFile = (file: { readonly source: MediaSource; readonly filename?: string }): string | undefined => {
  const source = inlineDataUrl(file.source)
  if (source.kind !== 'data' || !isTextType(mediaTypeOf(source.mediaType, source.data, file.filename))) return undefined
  return fromBase64(standardBase64(source.data))
}

const percentDecoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    // Not UTF-8 behind the percent signs; then nobody can read it as text.
    return undefined
  }
}

/** base64 as RFC 4648 section 4 writes it: not the alphabet for URLs, no white space, padded. */
export const standardBase64 = (base64: string): string => {
  if (/^[A-Za-z0-9+/]+={0,2}$/.test(base64) && base64.length % 4 === 0) return base64
  const bare = base64
    .replace(/\s+|(?<!=)=+$/g, '')
    .replaceAll('-', '+')
    .replaceAll('_', '/')
  return bare.padEnd(Math.ceil(bare.length / 4) * 4, '=')
}

/** A text as base64 of its UTF-8. */
export const toBase64 = (text: string): string => {
  const bytes = new TextEncoder().encode(text)
  let binary = ''
  // In slices: an argument list of a million entries overflows the stack.
  for (let at = 0; at < bytes.length; at += 8_192) binary += String.fromCharCode(...bytes.subarray(at, at + 8_192))
  return btoa(binary)
}

/** The text behind base64; undefined when it is not base64 or not UTF-8. */
export const fromBase64 = (base64: string): string | undefined => {
  try {
    const binary = atob(base64)
    const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0))
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    // Bytes that are no text: the caller says that the file cannot be carried.
    return undefined
  }
}
