/** Encodes images, documents, videos and audio. This format requires their bytes, in one member per kind. */
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
/** File extensions that name a document format, used if the media type is unknown. */
const EXTENSIONS = new Set(['csv', 'html', 'md', 'doc', 'docx', 'xls', 'xlsx'])

/** Audio formats of the published schema. */
const AUDIO_FORMATS = new Set('mp3 opus wav aac flac mp4 ogg mkv mka x-aac m4a mpeg mpga pcm webm'.split(' '))

/** An image block; undefined, reported as a loss, for other types and for URLs. */
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

/** An audio block; undefined, reported as a loss, for an unknown format. */
export const encodeAudio = (part: Part & { readonly type: 'audio' }, losses: Losses): JsonObject | undefined => {
  if (AUDIO_FORMATS.has(part.format))
    return { audio: { format: part.format, source: { bytes: standardBase64(part.data) } } }
  losses.unfit(part.at)
  return undefined
}

/** A document, video or image block of a file. `names`: names of the request's documents so far, which must be unique. */
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
  return { document: { format, name: documentName(part, names, losses), source } }
}

const documentFormat = (type: string, filename: string | undefined): string | undefined => {
  if (Object.hasOwn(DOCUMENTS, type)) return DOCUMENTS[type]
  const extension = /\.([a-z]+)$/i.exec(filename ?? '')?.[1]?.toLowerCase()
  if (extension !== undefined && EXTENSIONS.has(extension) && (type === '' || isTextType(type))) return extension
  return isTextType(type) ? 'txt' : undefined
}

/**
 * The bytes of inline media. URLs are never passed on: Bedrock fetches S3 URLs only, with the gateway's credentials, so a
 * client could read any of the operator's buckets.
 */
const bytesOf = (source: MediaSource): { readonly mediaType: string; readonly data: string } | undefined => {
  const inline = source.kind === 'url' ? parseDataUrl(source.url) : source
  return inline?.kind === 'data' ? inline : undefined
}

const MAX_NAME_LENGTH = 200
const DEFAULT_NAME = 'Document'

/**
 * A unique document name without extension. Allowed are letters, digits, single spaces, hyphens, parentheses and brackets
 * (API reference, DocumentBlock).
 */
const documentName = (part: Part & { readonly type: 'file' }, names: Set<string>, losses: Losses): string => {
  const stem = (part.filename ?? '').replace(/\.[a-z0-9]{1,5}$/i, '')
  const cleaned = stem
    .replace(/[^a-zA-Z0-9()[\]-]+/g, ' ')
    .trim()
    .slice(0, MAX_NAME_LENGTH)
    .trim()
  if (cleaned !== stem) losses.loseMember(part, 'filename')
  const base = cleaned === '' ? DEFAULT_NAME : cleaned
  let name = base
  for (let count = 2; names.has(name); count++) name = `${base.slice(0, MAX_NAME_LENGTH - 12)} (${count})`
  names.add(name)
  return name
}

/** Converts a member of an Anthropic document block; undefined if it has no equivalent. */
export const documentMember = (name: string, value: unknown): JsonObject | undefined => {
  if (name === 'context' && typeof value === 'string' && value !== '') return { context: value }
  if (name === 'citations' && isObject(value) && typeof value.enabled === 'boolean')
    return { citations: { enabled: value.enabled } }
  return undefined
}
