/** Images, documents, films and sound: this format takes their bytes, each kind under its own name and format. */
import type { MediaSource, Part } from '../../core/chat.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import type { Losses } from '../shared/losses.ts'
import { isTextType, mediaTypeOf, parseDataUrl, standardBase64 } from '../shared/media.ts'

const IMAGES: { readonly [mediaType: string]: string } = {
  'image/png': 'png',
  'image/jpeg': 'jpeg',
  'image/gif': 'gif',
  'image/webp': 'webp',
}

const VIDEOS: { readonly [mediaType: string]: string } = {
  'video/mp4': 'mp4',
  'video/quicktime': 'mov',
  'video/x-matroska': 'mkv',
  'video/webm': 'webm',
  'video/x-flv': 'flv',
  'video/mpeg': 'mpeg',
  'video/x-ms-wmv': 'wmv',
  'video/3gpp': 'three_gp',
}

const DOCUMENTS: { readonly [mediaType: string]: string } = {
  'application/pdf': 'pdf',
  'text/csv': 'csv',
  'text/html': 'html',
  'text/markdown': 'md',
  'application/msword': 'doc',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'application/vnd.ms-excel': 'xls',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
}
/** What a name's ending says, where the type says nothing. */
const ENDINGS = new Set(['csv', 'html', 'md', 'doc', 'docx', 'xls', 'xlsx'])

/** The names the published schema has for kinds of sound. */
const SOUNDS = new Set('mp3 opus wav aac flac mp4 ogg mkv mka x-aac m4a mpeg mpga pcm webm'.split(' '))

export const encodeImage = (part: Part & { readonly type: 'image' }, losses: Losses): JsonObject | undefined => {
  const bytes = bytesOf(part.source)
  const type = bytes && mediaTypeOf(bytes.mediaType, bytes.data)
  const format = type !== undefined && Object.hasOwn(IMAGES, type) ? IMAGES[type] : undefined
  if (!bytes || format === undefined) {
    losses.unfit(part.at)
    return undefined
  }
  if (part.detail !== undefined && part.detail !== 'auto') losses.loseMember(part, 'detail')
  return { image: { format, source: { bytes: standardBase64(bytes.data) } } }
}

export const encodeAudio = (part: Part & { readonly type: 'audio' }, losses: Losses): JsonObject | undefined => {
  if (SOUNDS.has(part.format)) return { audio: { format: part.format, source: { bytes: standardBase64(part.data) } } }
  losses.unfit(part.at)
  return undefined
}

/** A document, a film, or an image sent as a file. `names`: those of the request's documents so far; two may not be the same. */
export const encodeFile = (
  part: Part & { readonly type: 'file' },
  names: Set<string>,
  losses: Losses,
): JsonObject | undefined => {
  const bytes = bytesOf(part.source)
  const type = bytes && mediaTypeOf(bytes.mediaType, bytes.data, part.filename)
  const source = { bytes: standardBase64(bytes?.data ?? '') }
  if (type !== undefined && Object.hasOwn(IMAGES, type)) {
    if (part.filename) losses.loseMember(part, 'filename')
    return { image: { format: IMAGES[type], source } }
  }
  if (type !== undefined && Object.hasOwn(VIDEOS, type)) {
    if (part.filename) losses.loseMember(part, 'filename')
    return { video: { format: VIDEOS[type], source } }
  }
  const format = type === undefined ? undefined : documentFormat(type, part.filename)
  if (format === undefined) {
    losses.unfit(part.at)
    return undefined
  }
  return { document: { format, name: nameOf(part, names, losses), source } }
}

const documentFormat = (type: string, filename: string | undefined): string | undefined => {
  if (Object.hasOwn(DOCUMENTS, type)) return DOCUMENTS[type]
  const ending = /\.([a-z]+)$/i.exec(filename ?? '')?.[1]?.toLowerCase()
  if (ending !== undefined && ENDINGS.has(ending) && (type === '' || isTextType(type))) return ending
  return isTextType(type) ? 'txt' : undefined
}

/**
 * Its bytes, where they are here. An address is never handed on: Bedrock fetches nothing from the web, and what it would
 * fetch from S3 it reads as the gateway, so that a client could name any bucket of the operator's.
 */
const bytesOf = (source: MediaSource): { readonly mediaType: string; readonly data: string } | undefined => {
  const inline = source.kind === 'url' ? parseDataUrl(source.url) : source
  return inline?.kind === 'data' ? inline : undefined
}

const LONGEST_NAME = 200
const UNNAMED = 'Document'

/**
 * The name of a document. This format takes letters, digits, single blanks, hyphens, parentheses and brackets (its
 * document on DocumentBlock), and two documents of one name are refused; the ending is said by the format.
 */
const nameOf = (part: Part & { readonly type: 'file' }, names: Set<string>, losses: Losses): string => {
  const bare = (part.filename ?? '').replace(/\.[a-z0-9]{1,5}$/i, '')
  const neutral = bare
    .replace(/[^a-zA-Z0-9()[\]-]+/g, ' ')
    .trim()
    .slice(0, LONGEST_NAME)
    .trim()
  if (neutral !== bare) losses.loseMember(part, 'filename')
  const base = neutral === '' ? UNNAMED : neutral
  let name = base
  for (let times = 2; names.has(name); times++) name = `${base.slice(0, LONGEST_NAME - 12)} (${times})`
  names.add(name)
  return name
}

/** Members of a document clients of Anthropic's format know. Undefined: it says nothing this format could carry. */
export const documentMember = (name: string, value: unknown): JsonObject | undefined => {
  if (name === 'context' && typeof value === 'string' && value !== '') return { context: value }
  if (name === 'citations' && isObject(value) && typeof value.enabled === 'boolean')
    return { citations: { enabled: value.enabled } }
  return undefined
}
