/**
 * Paths of clients for Google, which cannot be given other paths: with each version of the API, and below a publisher or a project
 * as for Vertex AI. Project and location are ignored: the gateway has its own.
 */
import type { HeaderLookup } from '../core/headers.ts'

const VERSION = `(?:/v1(?:beta1?|alpha)?)?`
const OWNER = `(?:/projects/[^/]+/locations/[^/]+)?(?:/publishers/([^/]+))?`
const METHODS = 'generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents|predict'
/** The method follows the last colon: names of models have colons too. */
const CALL = new RegExp(`^${VERSION}${OWNER}/models/(.+):(${METHODS})/?$`, 's')
/** As the AI SDK writes a model whose name has a slash. */
const SHORT_CALL = new RegExp(`^/v1(?:beta1?|alpha)/(?!(?:models|projects|publishers)/)(.+/.+):(${METHODS})/?$`, 's')
const LIST = new RegExp(`^(${VERSION})${OWNER}/models(/[^:]+?)?/?$`, 's')

/** Collections that are not served, as newer SDKs ask for them. OpenAI has some of the names below `/v1` too. */
const COLLECTION =
  /^\/v1(?=\/(?:files|batches|cachedContents|fileSearchStores|interactions|operations|tunedModels)(?:\/|$))/

/** Where the routes of this API are. */
const VERSIONED = '/v1beta'
const BASE = `${VERSIONED}/models`

/** The path as the table of routes has it. Any other path is returned unchanged. */
export const googlePath = (path: string, query: string, headers: HeaderLookup): string => {
  if (!path.includes('/models')) {
    if (!path.startsWith('/v1')) return path
    if (COLLECTION.test(path)) return isOfGoogle(query, headers) ? path.replace(COLLECTION, VERSIONED) : path
    const short = SHORT_CALL.exec(path)
    return short ? `${BASE}/${short[1]}:${short[2]}` : path
  }
  const call = CALL.exec(path)
  if (call) return `${BASE}/${named(call[2] ?? '', call[1])}:${call[3]}`
  const list = LIST.exec(path)
  if (!list) return path
  const [, version = '', publisher, model] = list
  // OpenAI and Anthropic have their lists at this path too.
  const isShared = publisher === undefined && (version === '' || version === '/v1')
  if (isShared && !isOfGoogle(query, headers)) return path
  return model === undefined ? BASE : `${BASE}/${named(model.slice(1), publisher)}`
}

/** A model of another publisher has its name before its own. */
const named = (model: string, publisher: string | undefined): string =>
  publisher === undefined || publisher === 'google' ? model : `${publisher}%2F${model}`

const isOfGoogle = (query: string, headers: HeaderLookup): boolean =>
  headers('x-goog-api-key') !== undefined ||
  headers('x-goog-api-client') !== undefined ||
  (query !== '' && new URLSearchParams(query).has('key'))
