/**
 * From what an upstream said to what it means: the first row that fits, of the provider's own table and then of the
 * common one. What no row knows is judged by its status alone: an unknown 4xx is the request's fault, an unknown 5xx the
 * provider's.
 */
import type { ErrorRow, ErrorSigns, ErrorTable } from '../../core/error-table.ts'
import { type Failure, type FailureKind, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { COMMON_ERRORS } from './common-errors.ts'

/** What an error body said, found in it by the format's decoder. */
export type UpstreamError = {
  readonly type?: string
  readonly code?: string
  readonly message?: string
  readonly param?: string
  readonly requestId?: string
  /** More exact words than those: a google.rpc status or reason, an inner error's code, `x-amzn-errortype`. */
  readonly hints?: readonly string[]
}

/**
 * The failure an upstream's answer tells of. Total: any status, any words. An error inside a 200 has the status 200
 * here; if its code is a status (OpenRouter's `code: 502`), that one counts.
 */
export const classify = (status: number, said: UpstreamError): Failure => {
  const actual = status >= 300 ? status : (statusIn(said.code) ?? status)
  const { type, code, message, requestId, param } = said
  const words = message === undefined ? undefined : maskSecrets(bounded(message))
  const reason = said.hints?.join(' ')
  const heard = {
    ...(type !== undefined && { type: maskSecrets(bounded(type)) }),
    ...(code !== undefined && { code: maskSecrets(bounded(code)) }),
    ...(reason !== undefined && { reason: maskSecrets(bounded(reason)) }),
    ...(words !== undefined && { message: words }),
    ...(requestId !== undefined && { requestId: bounded(requestId) }),
  }
  const failure = fail('error_in_stream', '', { ...(actual >= 300 && { status: actual }), upstream: heard })
  const kind = kindOf(heardIn(failure, NO_HEADERS), param)
  return {
    ...failure,
    kind,
    message: words === undefined || words.trim() === '' ? sentence(kind, actual) : words,
    ...(param !== undefined && { param: bounded(param) }),
  }
}

const LONGEST = 4_000
const bounded = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text)

const statusIn = (code: string | undefined): number | undefined =>
  code !== undefined && /^[45][0-9][0-9]$/.test(code) ? Number(code) : undefined

/** What a row is held against. */
type Heard = {
  /** 200 where the error is inside a 200 and names no status. */
  readonly status: number
  readonly words: readonly string[]
  readonly message: string
  readonly headers: HeaderLookup
}

/** Compared without what vendors write differently: `Too_Many-Requests`, `TooManyRequestsException`. */
const plain = (word: string): string =>
  word
    .slice(0, 100)
    .toLowerCase()
    .replaceAll(/[_\- ]/g, '')
    .replace(/exception$/, '')

const among = <T>(one: T, wanted: T | readonly T[]): boolean =>
  Array.isArray(wanted) ? wanted.includes(one) : one === wanted

const fits = ({ status, word, message, header }: ErrorSigns, heard: Heard): boolean =>
  (status === undefined || among(heard.status, status)) &&
  (header === undefined || heard.headers(header) !== undefined) &&
  (word === undefined || [word].flat().some((one) => heard.words.includes(plain(one)))) &&
  (message === undefined || message.test(heard.message))

const firstRow = ({ rows }: ErrorTable, heard: Heard): ErrorRow | undefined =>
  rows.find(({ when }) => fits(when, heard))

const NO_HEADERS: HeaderLookup = () => undefined

const heardIn = ({ status, upstream }: Failure, headers: HeaderLookup): Heard => ({
  status: status ?? 200,
  words: [...(upstream?.reason?.split(' ') ?? []), upstream?.code, upstream?.type].flatMap((word) =>
    word === undefined ? [] : [plain(word)],
  ),
  message: upstream?.message ?? '',
  headers,
})

/** The row of a table that says what this failure means. What no upstream has said, a stream that broke off, no row can mean. */
export const matchingRow = (table: ErrorTable, failure: Failure, headers: HeaderLookup): ErrorRow | undefined =>
  failure.upstream && firstRow(table, heardIn(failure, headers))

/** The failure as this provider means it, whatever its format took it for. */
export const applyErrorTable = (failure: Failure, table: ErrorTable | undefined, headers: HeaderLookup): Failure => {
  const kind = table && matchingRow(table, failure, headers)?.kind
  if (kind === undefined || kind === failure.kind) return failure
  const silent = (failure.upstream?.message ?? '').trim() === ''
  return { ...failure, kind, message: silent ? sentence(kind, failure.status ?? 200) : failure.message }
}

const kindOf = (heard: Heard, param: string | undefined): FailureKind => {
  const { status } = heard
  if (status >= 300 && status < 400) return 'redirect'
  const row = firstRow(COMMON_ERRORS, heard)
  // A bare 404 about something else than the model: a stored response, a file.
  const byStatus = row?.when.word === undefined && row?.when.message === undefined
  if (status === 404 && byStatus && param !== undefined && param !== 'model') return 'invalid_request'
  if (row) return row.kind
  if (status < 400) return 'error_in_stream'
  return status < 500 ? 'invalid_request' : 'status'
}

/** What to say when the upstream said nothing. Of what must not be tried again no sentence may sound as if it could be. */
const sentence = (kind: FailureKind, status: number): string => {
  switch (kind) {
    case 'auth':
      return "The provider did not accept the gateway's key. Check the key in the gateway's configuration."
    case 'permission':
      return "The gateway's key may not use this model at this provider."
    case 'quota':
      return "The gateway's account at this provider has used up its quota."
    case 'model_missing':
      // A server asked at a path it has nothing at says no more than that either: a base URL without its /v1.
      return `The provider does not have this model${status === 404 ? ', or its base URL is wrong' : ''}.`
    case 'context_length':
      return 'The request is longer than the model can read.'
    case 'content_policy':
      return 'The provider refused the request for its content.'
    case 'invalid_request':
      return 'The provider refused the request and gave no reason.'
    case 'rate_limited':
    case 'token_rate':
      return 'The provider has a rate limit and it is reached for now.'
    case 'overloaded':
      return 'The provider is overloaded.'
    case 'timeout':
      return 'The provider took too long.'
    case 'redirect':
      return `The provider answered with a redirect (${status}), which is never followed. Check its base URL.`
    case 'error_in_stream':
      return 'The provider reported an error inside its answer.'
    default:
      return status >= 300
        ? `The provider answered with status ${status} and gave no reason.`
        : 'The provider failed and gave no reason.'
  }
}

/** Keys by their makers' prefixes. */
const PREFIXED =
  /(?<![A-Za-z0-9])(?:(?:sk|rk|pk|gsk|csk|xai|pplx|nvapi|hf|r8|fw|tgp|ghp|gho|ghs|github_pat|glpat|sess|ya29)[-_.]|AIza|AKIA|ASIA|eyJ)[A-Za-z0-9_\-.*~+/]{8,}/g
/** Anything that could be a key; whether it is one the words before it tell. */
const TOKEN = /[A-Za-z0-9_\-.*~+/]{8,}/g
const SCHEME_BEFORE = /(?:bearer|basic)[\s:='"`]{1,8}$/i
const KEY_BEFORE =
  /(?:key|token|secret|password|passwd|credential|authorization|signature)s?[\s:='"`(]{1,8}(?:(?:provided|is|was|of|given|value)[\s:='"`(]{1,8})?$/i

/** The text with everything that looks like a credential reduced to its last four characters. Linear in its length. */
export const maskSecrets = (text: string): string =>
  text.replaceAll(PREFIXED, masked).replaceAll(TOKEN, (token, at: number, whole: string) => {
    const before = whole.slice(Math.max(0, at - 40), at)
    if (SCHEME_BEFORE.test(before)) return masked(token)
    return looksRandom(token) && KEY_BEFORE.test(before) ? masked(token) : token
  })

const looksRandom = (token: string): boolean =>
  (token.length >= 12 && /[0-9]/.test(token) && /[A-Za-z]/.test(token)) || (token.length >= 24 && !/[./]/.test(token))

const masked = (token: string): string => {
  const end = token.endsWith('.') ? '.' : ''
  const bare = end ? token.slice(0, -1) : token
  return `***${bare.slice(-4)}${end}`
}
