/** Media parts by what their data is. Clients send PDFs, texts and audio in image parts, and images in file parts. */
import type { Extra, Part } from '../../core/chat.ts'
import { isObject, type Json, object, text } from '../../core/json.ts'
import { withMediaType } from './data-url.ts'
import { inlineDataUrl, isImageType, isTextType, mediaTypeOf, mediaTypeOfUrl, textOfFile } from './media.ts'

type MediaPart = Part & { readonly type: 'image' | 'file' }

/** Audio formats that have another name than the subtype of their media type. */
const AUDIO_FORMATS: { readonly [subtype: string]: string } = {
  mpeg: 'mp3',
  'x-wav': 'wav',
  wave: 'wav',
  'vnd.wave': 'wav',
  'x-flac': 'flac',
  'x-m4a': 'm4a',
}

/**
 * An image or file part, as the part of its kind: by its first bytes, otherwise by its declared type. Data of unknown kind,
 * URLs and file IDs stay what the client called them.
 */
export const mediaPart = (part: MediaPart): Part => {
  const source = inlineDataUrl(part.source)
  if (source.kind !== 'data') return part
  const mediaType = mediaTypeOf(source.mediaType, source.data, part.type === 'file' ? part.filename : undefined)
  if (part.type === 'file') return isImageType(mediaType) ? asImage(part) : part
  if (mediaType === '' || mediaType.startsWith('image/')) return part
  const [kind, subtype = ''] = mediaType.split('/')
  if (kind === 'audio')
    return { type: 'audio', at: part.at, data: source.data, format: AUDIO_FORMATS[subtype] ?? subtype }
  const { at, detail } = part
  const extras = [...(part.extras ?? []), ...(detail === 'auto' ? [] : memberExtra(part, 'detail', detail))]
  return { type: 'file', at, source: { ...source, mediaType }, ...(extras.length > 0 && { extras }) }
}

const asImage = (part: Part & { readonly type: 'file' }): Part => {
  const { at, source, filename } = part
  const extras = [...(part.extras ?? []), ...memberExtra(part, 'filename', filename)]
  return { type: 'image', at, source, ...(extras.length > 0 && { extras }) }
}

/** A member that the other kind of part does not have, so that its loss is reported. */
const memberExtra = ({ at, paths }: MediaPart, name: string, value: string | undefined): Extra[] =>
  value === undefined ? [] : [{ at: `${at}.${paths?.[name] ?? name}`, name, value, essential: false }]

/** An image part of chat completions that holds a PDF or a text, as a file part or a text. Other parts stay. */
export const asChatFile = (part: Json): Json => {
  if (!isObject(part) || part.type !== 'image_url') return part
  const url = text(part.image_url) ?? text(object(part.image_url)?.url) ?? ''
  const mediaType = mediaTypeOfUrl(url) ?? ''
  if (mediaType === 'application/pdf')
    return { type: 'file', file: { filename: 'file.pdf', file_data: withMediaType(url, mediaType) } }
  const content = isTextType(mediaType) ? textOfFile({ source: { kind: 'url', url } }) : undefined
  return content === undefined ? part : { type: 'text', text: content }
}
