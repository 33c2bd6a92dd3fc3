/** Decodes the parts of a chat message. */
import type { Extra, MediaSource, MemberPaths, Part } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { isObject, type Json, list, object, text } from '../../core/json.ts'
import { mediaSourceOf } from '../shared/data-url.ts'
import { mediaPart } from '../shared/media-part.ts'
import { describeValue, type Problems, type RequestFields, requestFields } from '../shared/request-fields.ts'

/** Problems found, and members that were read but have no canonical place. */
export type DecodeState = Problems & { readonly spare: Extra[] }

/** A list entry that must be an object. */
export const entryOf = (entry: Json, at: string, problems: DecodeState): RequestFields | undefined => {
  if (isObject(entry)) return requestFields(entry, at, problems)
  problems.first ??= fail('invalid_value', `An entry of a list is ${describeValue(entry)}; it must be an object.`, {
    param: at,
  })
  return undefined
}

/** The members of a message or part that no reader has read. */
export const extrasIn = (message: RequestFields, more: readonly Extra[] = []): { extras?: readonly Extra[] } => {
  // Clients send an answer's message back unchanged; an empty list of annotations is no loss.
  const unread = message.unread()
  if (unread.length === 0 && more.length === 0) return {}
  const unknown = unread.filter(({ name, value }) => name !== 'annotations' || list(value).length > 0)
  const extras = [...unknown, ...more]
  return extras.length > 0 ? { extras } : {}
}

const IMAGE_PATHS: MemberPaths = { detail: 'image_url.detail' }
const FILE_PATHS: MemberPaths = { filename: 'file.filename' }

/** Reads a part of a message; undefined for a type that this format does not define. */
export const readPart = (part: RequestFields, problems: DecodeState): Part[] | undefined => {
  const { at } = part
  const type = part.string('type')
  switch (type) {
    case 'text': {
      const content = part.string('text')
      if (content === undefined) part.missing('text', 'a string')
      return [{ type, at, text: content ?? '', ...extrasIn(part) }]
    }
    case 'refusal': {
      const refusal = part.string('refusal')
      if (refusal === undefined) part.missing('refusal', 'a string')
      problems.spare.push(...part.unread())
      return [{ type, at, text: refusal ?? '' }]
    }
    case 'image_url': {
      // Some clients send the URL instead of the object.
      const direct = text(part.any('image_url'))
      const inner = direct === undefined ? part.fields('image_url') : undefined
      const url = direct ?? inner?.string('url')
      if (url === undefined && !problems.first) part.missing('image_url.url', 'a URL or a data URL')
      const detail = inner?.string('detail')
      const extras = [...part.unread(), ...(inner?.unread() ?? [])]
      return [
        mediaPart({
          type: 'image',
          at,
          source: mediaSourceOf(url ?? ''),
          ...(detail !== undefined && { detail, paths: IMAGE_PATHS }),
          ...(extras.length > 0 && { extras }),
        }),
      ]
    }
    case 'input_audio': {
      const inner = part.fields('input_audio')
      const data = inner?.string('data')
      const format = inner?.string('format')
      if ((data === undefined || format === undefined) && !problems.first)
        part.missing(data === undefined ? 'input_audio.data' : 'input_audio.format', 'a string')
      problems.spare.push(...part.unread(), ...(inner?.unread() ?? []))
      return [{ type: 'audio', at, data: data ?? '', format: format ?? '' }]
    }
    case 'file':
      return readFile(part, problems)
    case 'thinking': {
      // Mistral's reasoning part.
      const thinking = thinkingText(part.any('thinking'))
      problems.spare.push(...part.unread())
      return [{ type: 'reasoning', at, text: thinking }]
    }
    case undefined:
      if (!problems.first) part.missing('type', 'text, image_url, input_audio, file or refusal')
      return []
    default:
      return undefined
  }
}

const readFile = (part: RequestFields, problems: DecodeState): Part[] => {
  const inner = part.fields('file')
  const data = inner?.string('file_data')
  const id = inner?.string('file_id')
  const filename = inner?.string('filename')
  if (data === undefined && id === undefined) {
    if (!problems.first) part.missing('file.file_data', 'a data URL, unless there is a file_id')
    return []
  }
  const source: MediaSource =
    data !== undefined ? sourceOfData(data) : { kind: 'id', id: id ?? '', protocol: 'openai-chat' }
  const extras = [...part.unread(), ...(inner?.unread() ?? [])]
  return [
    mediaPart({
      type: 'file',
      at: part.at,
      source,
      ...(filename !== undefined && { filename, paths: FILE_PATHS }),
      ...(extras.length > 0 && { extras }),
    }),
  ]
}

/** The text of Mistral's `thinking`: a string or a list of text parts. */
export const thinkingText = (thinking: Json | undefined): string =>
  text(thinking) ??
  list(thinking)
    .map((part) => text(object(part)?.text) ?? '')
    .join('')

/** The source in `file_data`: a data URL, or plain base64 from older clients. */
const sourceOfData = (data: string): MediaSource => {
  const source = mediaSourceOf(data)
  return source.kind === 'data' || /^(data:|https?:)/i.test(data.slice(0, 6))
    ? source
    : { kind: 'data', mediaType: '', data }
}
