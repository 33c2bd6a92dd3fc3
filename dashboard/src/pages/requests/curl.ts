/** A request as a curl command for any common shell. Pure. */
import type { StoredBodies } from '../../../../src/usage/bodies/messages.ts'
import type { ListedRequest } from '../../request-row.ts'

const PATHS: { readonly [style: string]: string } = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
  completions: '/v1/completions',
  embeddings: '/v1/embeddings',
}

const HELLO = [{ role: 'user', content: 'Hello' }]

/** A body of the same shape, where the real one was not kept. */
const bodyLike = ({ asked, style, stream }: Pick<ListedRequest, 'asked' | 'style' | 'stream'>): object => {
  const streamed = stream ? { stream: true } : {}
  switch (style) {
    case 'responses':
      return { model: asked, input: 'Hello', ...streamed }
    case 'messages':
      return { model: asked, max_tokens: 1_024, messages: HELLO, ...streamed }
    case 'completions':
      return { model: asked, prompt: 'Hello', ...streamed }
    case 'embeddings':
      return { model: asked, input: 'Hello' }
    default:
      return { model: asked, messages: HELLO, ...streamed }
  }
}

/** Quotes for a POSIX shell: nothing in the text has a meaning. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

export const curlOf = (
  request: Pick<ListedRequest, 'asked' | 'style' | 'stream' | 'key'>,
  bodies: StoredBodies | null,
  origin: string,
): string => {
  const kept = bodies && !bodies.request.truncated ? bodies.request.text : null
  const path = bodies?.path ?? PATHS[request.style] ?? '/v1/chat/completions'
  return [
    `curl ${request.stream ? '-N ' : ''}${quoted(`${origin}${path}`)}`,
    `-H 'content-type: application/json'`,
    // The gateway does not have the key itself.
    ...(request.key === null ? [] : ['-H "authorization: Bearer $HEADGATE_KEY"']),
    `-d ${quoted(kept ?? JSON.stringify(bodyLike(request)))}`,
  ].join(' \\\n  ')
}
