/** Parameters in which clients send a key: of the gateway on the way there, of the provider on the way back. */
const CREDENTIALS: ReadonlySet<string> = new Set(['key', 'access_token', 'api-key', 'api_key', 'apikey'])

/** A query as it was sent, without credentials. */
export const trimmedQuery = (query: string): string =>
  query === ''
    ? ''
    : query
        .split('&')
        .filter((pair) => !CREDENTIALS.has(nameOf(pair)))
        .join('&')

/** The name as readers of queries decode it. */
const nameOf = (pair: string): string => (new URLSearchParams(pair).keys().next().value ?? '').toLowerCase()
