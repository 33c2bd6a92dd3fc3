/** Bytes in JSON: data URLs, both directions. */
import type { MediaSource } from '../../core/chat.ts'

/**
 * The source a URL names: the bytes themselves for a base64 data URL, otherwise the URL. Only the comma ends the head:
 * a media type may have parameters (`data:image/png;charset=x;base64,`).
 */
export const mediaSourceOf = (url: string): MediaSource => {
  const comma = url.indexOf(',')
  const head = url.slice(0, comma)
  if (comma === -1 || !/^data:/i.test(head) || !/;base64$/i.test(head)) return { kind: 'url', url }
  const [mediaType = ''] = head.slice(5).split(';')
  return { kind: 'data', mediaType: mediaType.toLowerCase(), data: url.slice(comma + 1) }
}

export const dataUrl = ({ mediaType, data }: { readonly mediaType: string; readonly data: string }): string =>
  `data:${mediaType};base64,${data}`
