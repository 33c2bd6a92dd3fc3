/** A request as a curl command for any common shell. Pure. */
import { REQUEST_STYLES, type RequestStyle, STYLE_PATHS } from '../../../../src/core/request-styles.ts'
import type { StoredBodies } from '../../../../src/usage/bodies/recorded-calls.ts'
import { bodyIn } from '../../example-body.ts'
import type { ListedRequest } from '../../request-row.ts'

const styleOf = ({ style }: Pick<ListedRequest, 'style'>): RequestStyle =>
  REQUEST_STYLES.find((one) => one === style) ?? 'chat'

/** A body of the same shape, where the real one was not kept. */
const bodyLike = ({ asked, style, stream }: Pick<ListedRequest, 'asked' | 'style' | 'stream'>): object => {
  const example = bodyIn(styleOf({ style }), { model: asked, text: 'Hello', needs: [] })
  return { ...example, ...(stream && { stream }) }
}

/** Quotes for a POSIX shell: nothing in the text has a meaning. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

export const curlOf = (
  request: Pick<ListedRequest, 'asked' | 'style' | 'stream' | 'key'>,
  bodies: StoredBodies | null,
  origin: string,
): string => {
  const kept = bodies && !bodies.request.truncated ? bodies.request.text : null
  const path = bodies?.path ?? `/v1${STYLE_PATHS[styleOf(request)]}`
  return [
    `curl ${request.stream ? '-N ' : ''}${quoted(`${origin}${path}`)}`,
    `-H 'content-type: application/json'`,
    // The gateway does not have the key itself.
    ...(request.key === null ? [] : ['-H "authorization: Bearer $HEADGATE_KEY"']),
    `-d ${quoted(kept ?? JSON.stringify(bodyLike(request)))}`,
  ].join(' \\\n  ')
}
