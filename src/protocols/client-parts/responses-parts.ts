/** Decodes the parts of an item's content. */
import type { Extra, MediaSource, Part } from '../../core/chat.ts'
import { isList, type JsonObject, object, text } from '../../core/json.ts'
import { mediaSourceOf } from '../shared/data-url.ts'
import { mediaPart } from '../shared/media-part.ts'
import type { Problems, RequestFields } from '../shared/request-fields.ts'

/** The member `extras`, if there are any. */
export const extrasOf = (extras: readonly Extra[]) => (extras.length > 0 ? { extras } : {})

/** A required, non-empty string. */
export const requiredText = (fields: RequestFields, member: string, what: string): string => {
  const found = fields.string(member)
  if (!found) fields.missing(member, what)
  return found ?? ''
}

/** Decodes a part of an item's content; undefined for a type that this format does not define. */
export const decodePart = (fields: RequestFields, part: JsonObject, problems: Problems): Part[] | undefined => {
  const { at } = fields
  const type = fields.string('type')
  switch (type) {
    case 'input_text':
    case 'output_text':
    case 'text': {
      if (type === 'text') problems.reshaped = true
      const content = fields.string('text')
      if (content === undefined) fields.missing('text', 'a string')
      // Clients send back the log probabilities of an earlier answer.
      fields.any('logprobs')
      const extras = fields.unread().filter(({ value }) => !(isList(value) && value.length === 0))
      return [{ type: 'text', at, text: content ?? '', ...extrasOf(extras) }]
    }
    case 'refusal': {
      const content = fields.string('refusal')
      if (content === undefined) fields.missing('refusal', 'a string')
      return [{ type: 'refusal', at, text: content ?? '' }]
    }
    case 'input_image': {
      // Chat completions nest the URL.
      const nested = object(part.image_url)
      if (nested) problems.reshaped = true
      const source = nested
        ? decodeSource(fields.fields('image_url') ?? fields, { url: mediaSourceOf })
        : decodeSource(fields, { image_url: mediaSourceOf, file_id: ownFile })
      const detail = fields.string('detail') ?? text(nested?.detail)
      return source
        ? [
            mediaPart({
              type: 'image',
              at,
              source,
              ...(detail !== undefined && { detail }),
              ...extrasOf(fields.unread()),
            }),
          ]
        : []
    }
    case 'input_file': {
      const source = decodeSource(fields, { file_data: fileData, file_url: mediaSourceOf, file_id: ownFile })
      const filename = fields.string('filename')
      return source
        ? [
            mediaPart({
              type: 'file',
              at,
              source,
              ...(filename !== undefined && { filename }),
              ...extrasOf(fields.unread()),
            }),
          ]
        : []
    }
    case 'input_audio': {
      // Nested as in chat completions, or flat.
      const inner = fields.fields('input_audio') ?? fields
      const data = requiredText(inner, 'data', 'base64')
      const format = requiredText(inner, 'format', 'the name of a format')
      return [{ type: 'audio', at, data, format }]
    }
    default:
      return undefined
  }
}

const ownFile = (id: string): MediaSource => ({ kind: 'id', id, protocol: 'openai-responses' })

/** The format specifies a data URL; clients also send bare base64, whose media type is unknown. */
const fileData = (data: string): MediaSource => {
  const source = mediaSourceOf(data)
  return source.kind === 'url' ? { kind: 'data', mediaType: '', data } : source
}

/** The first of these members that is present, as a source. */
const decodeSource = (
  fields: RequestFields,
  members: { readonly [member: string]: (value: string) => MediaSource },
): MediaSource | undefined => {
  let source: MediaSource | undefined
  for (const [member, read] of Object.entries(members)) {
    const value = fields.string(member)
    if (value && !source) source = read(value)
  }
  const names = Object.keys(members)
  if (!source) fields.missing(names[0] ?? '', `a string; or else ${names.slice(1).join(', ')}`)
  return source
}
