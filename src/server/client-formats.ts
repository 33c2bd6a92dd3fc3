/** What the client formats say of request and response headers, read once. */
import type { ClientProtocolName } from '../core/chat.ts'
import type { HeaderLookup } from '../core/headers.ts'
import type { ClientProtocol } from '../core/protocol.ts'
import { credentialReaders, exposedHeaders, presentedKeys } from '../policy/access.ts'
import { KEY_HEADERS, protocols } from '../protocols/index.ts'

/** Readers of the credentials of a request, in the order in which they are tried. */
export const CREDENTIALS = credentialReaders(KEY_HEADERS)

/** All credentials of a request, each once. */
export const credentialsOf = (headers: HeaderLookup): readonly string[] => presentedKeys(headers, CREDENTIALS)

/** Query parameters in which clients of any format send their key, for those formats that have them. */
const KEY_PARAMETERS: ReadonlyMap<ClientProtocolName, readonly string[]> = new Map(
  Object.values<ClientProtocol>(protocols).flatMap(({ name, keyParameters }) =>
    keyParameters ? [[name, keyParameters] as const] : [],
  ),
)

/** A query without the credentials in it. `headers`: those of the request, with the first of these where it has no other. */
type WithoutKeys = { readonly query: string; readonly headers: HeaderLookup }

/** Takes the credentials out of the query of a request in this format: what is left may be recorded and passed on. */
export const withoutKeys = (protocol: ClientProtocolName, query: string, headers: HeaderLookup): WithoutKeys => {
  const names = query === '' ? undefined : KEY_PARAMETERS.get(protocol)
  return names ? withoutParameters(protocol, names, { query, headers }) : { query, headers }
}

/** The same of a request in the format of any provider. */
export const withoutAnyKeys = (query: string, headers: HeaderLookup): WithoutKeys => {
  let left: WithoutKeys = { query, headers }
  for (const [protocol, names] of KEY_PARAMETERS) left = withoutParameters(protocol, names, left)
  return left
}

const withoutParameters = (
  protocol: ClientProtocolName,
  names: readonly string[],
  { query, headers }: WithoutKeys,
): WithoutKeys => {
  const parameters = new URLSearchParams(query)
  const key = names.map((name) => parameters.get(name) ?? '').find((value) => value !== '')
  const kept = query.split('&').filter((pair) => !names.includes(nameOf(pair)))
  const header = protocols[protocol].keyHeaders?.[0]
  if (key === undefined || header === undefined) return { query: kept.join('&'), headers }
  return { query: kept.join('&'), headers: (name) => (name === header ? headers(name) || key : headers(name)) }
}

/** The name of a pair of a query, decoded as its readers do. */
const nameOf = (pair: string): string => new URLSearchParams(pair).keys().next().value ?? ''

/** The response headers that web pages of listed origins may read. */
export const EXPOSED_HEADERS = exposedHeaders(
  Object.values<ClientProtocol>(protocols).flatMap(({ errorIdHeader, rateLimitNames: { requests, tokens } }) => [
    ...(errorIdHeader === undefined ? [] : [errorIdHeader]),
    ...Object.values(requests),
    ...Object.values(tokens),
  ]),
)
