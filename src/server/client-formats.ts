/** What the client formats say of request and response headers, read once. */
import type { HeaderLookup } from '../core/headers.ts'
import type { ClientProtocol } from '../core/protocol.ts'
import { credentialReaders, exposedHeaders, presentedKeys } from '../policy/access.ts'
import { KEY_HEADERS, protocols } from '../protocols/index.ts'

/** Readers of the credentials of a request, in the order in which they are tried. */
export const CREDENTIALS = credentialReaders(KEY_HEADERS)

/** All credentials of a request, each once. */
export const credentialsOf = (headers: HeaderLookup): readonly string[] => presentedKeys(headers, CREDENTIALS)

/** The response headers that web pages of listed origins may read. */
export const EXPOSED_HEADERS = exposedHeaders(
  Object.values<ClientProtocol>(protocols).flatMap(({ errorIdHeader, rateLimitNames: { requests, tokens } }) => [
    ...(errorIdHeader === undefined ? [] : [errorIdHeader]),
    ...Object.values(requests),
    ...Object.values(tokens),
  ]),
)
