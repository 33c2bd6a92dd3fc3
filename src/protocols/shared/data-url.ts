/** Reads and writes data URLs. */
import type { MediaSource } from '../../core/chat.ts'

/**
 * A media source from a URL: inline data for a base64 data URL, otherwise the URL. The media type may have parameters
 * (`data:image/png;charset=x;base64,`); only the comma ends it.
 */
export const mediaSourceOf = (url: string): MediaSource => {
  const comma = url.indexOf(',')
  const prefix = url.slice(0, comma)
  if (comma === -1 || !/^data:/i.test(prefix) || !/;base64$/i.test(prefix)) return { kind: 'url', url }
  const [mediaType = ''] = prefix.slice(5).split(';')
  return { kind: 'data', mediaType: mediaType.toLowerCase(), data: url.slice(comma + 1) }
}

/** A base64 data URL. */
export const dataUrl = ({ mediaType, data }: { readonly mediaType: string; readonly data: string }): string =>
  `data:${mediaType};base64,${data}`

/** A base64 data URL with another media type. */
export const withMediaType = (url: string, mediaType: string): string =>
  `data:${mediaType};base64,${url.slice(url.indexOf(',') + 1)}`
