/** Base URLs that contain too much or too little: the gateway adds the path of a call, and no version. */
import type { Provider } from '../core/provider.ts'
import { withoutSlashes } from '../core/trailing-slashes.ts'
import { embeddingsProtocols } from '../protocols/embeddings/index.ts'
import { upstreamProtocols } from '../protocols/index.ts'
import { quote } from './problem.ts'

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

/** The paths of all calls at the end of a URL path, the longest first. `{model}` is one segment. */
const CALLS: readonly RegExp[] = [
  ...Object.values(upstreamProtocols).flatMap(({ path, streamPath }) => [path, streamPath ?? path]),
  ...Object.values(embeddingsProtocols).map(({ path }) => path),
  ...['/models', '/completions', '/messages/count_tokens'],
]
  .map((path) => path.replace(/\?.*$/, ''))
  .toSorted((a, b) => b.length - a.length)
  .map((path) => new RegExp(`${path.split('{model}').map(escaped).join('[^/]{1,200}')}$`))

/** The path that base URLs of the provider end with; empty: none. */
const pathOf = ({ baseUrl, basePath, normalizeBaseUrl }: Provider): string => {
  if (normalizeBaseUrl) return ''
  return basePath ?? (baseUrl === undefined ? '' : new URL(baseUrl).pathname.replace(/\/$/, ''))
}

/** What is probably wrong with a valid base URL, with the corrected value; null: nothing. */
export const baseUrlProblem = (url: URL, provider: Provider): string | null => {
  const path = withoutSlashes(url.pathname)
  const call = CALLS.map((pattern) => pattern.exec(path)?.[0]).find((found) => found !== undefined)
  const bare = call === undefined ? path : path.slice(0, -call.length)
  const expected = pathOf(provider)
  // `/api` instead of `/api/v1` too. Another path may be that of a proxy.
  const whole = expected !== bare && `${expected}/`.startsWith(`${bare}/`) ? expected : bare
  const found = quote(url.origin + path)
  const meant = `did you mean ${url.origin}${whole}?`
  if (call !== undefined)
    return `${found} ends with an endpoint (${call.slice(0, 60)}), which the gateway adds itself; ${meant}`
  return whole === bare ? null : `${found} lacks ${whole.slice(bare.length)}, which this provider usually has; ${meant}`
}
