/**
 * Classifies upstream errors: the first matching row decides, of the provider's table and then of the common one. Without
 * a match the status decides: an unknown 4xx is a refusal that another provider may not share, an unknown 5xx a failure.
 */
import type { ErrorRow, ErrorSigns, ErrorTable } from '../../core/error-table.ts'
import { type ContextOverflow, type Failure, type FailureKind, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { COMMON_ERRORS } from './common-errors.ts'
import { overflowIn } from './context-overflow.ts'
import { maskSecrets } from './mask-secrets.ts'

/** The members of an error body, extracted by the format's decoder. */
export type UpstreamError = {
  readonly type?: string
  readonly code?: string
  readonly message?: string
  readonly param?: string
  readonly requestId?: string
  /** Tokens that the error states in members of their own (llama.cpp: `n_ctx`, `n_prompt_tokens`). */
  readonly overflow?: ContextOverflow
  /** More specific codes, such as a google.rpc status or reason, an inner error's code or `x-amzn-errortype`. */
  readonly hints?: readonly string[]
}

/**
 * The failure of an upstream's error response, for any status and body. `status` is 200 for an error inside a 200; if
 * its code is a status (OpenRouter's `code: 502`), the code takes precedence.
 */
export const classify = (status: number, error: UpstreamError): Failure => {
  const actual = status >= 300 ? status : (statusIn(error.code) ?? status)
  const { type, code, message, requestId, param } = error
  const masked = message === undefined ? undefined : maskSecrets(bounded(message))
  const reason = error.hints?.join(' ')
  const upstream = {
    ...(type !== undefined && { type: maskSecrets(bounded(type)) }),
    ...(code !== undefined && { code: maskSecrets(bounded(code)) }),
    ...(reason !== undefined && { reason: maskSecrets(bounded(reason)) }),
    ...(masked !== undefined && { message: masked }),
    ...(requestId !== undefined && { requestId: bounded(requestId) }),
  }
  const failure = fail('error_in_stream', '', { ...(actual >= 300 && { status: actual }), upstream })
  const kind = kindOf(signsOf(failure, NO_HEADERS), param)
  return {
    ...failure,
    kind,
    message: masked === undefined || masked.trim() === '' ? defaultMessage(kind, actual) : masked,
    ...(param !== undefined && { param: bounded(param) }),
    ...(kind === 'context_length' && { overflow: { ...overflowIn(message ?? ''), ...error.overflow } }),
  }
}

/** Characters of a text quoted from an upstream. */
const MAX_LENGTH = 4_000
const bounded = (text: string): string => (text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text)

const statusIn = (code: string | undefined): number | undefined =>
  code !== undefined && /^[45][0-9][0-9]$/.test(code) ? Number(code) : undefined

/** The signs of an error that rows match. */
type ObservedSigns = {
  /** 200 for an error inside a 200 without a status of its own. */
  readonly status: number
  /** Normalised codes, types and reasons. */
  readonly codes: readonly string[]
  readonly message: string
  readonly headers: HeaderLookup
}

/** Normalises a code: `Too_Many-Requests` equals `TooManyRequestsException`. */
const normalised = (code: string): string =>
  code
    .slice(0, 100)
    .toLowerCase()
    .replaceAll(/[_\- ]/g, '')
    .replace(/exception$/, '')

const isAmong = <T>(value: T, expected: T | readonly T[]): boolean =>
  Array.isArray(expected) ? expected.includes(value) : value === expected

const matches = ({ status, word, message, header }: ErrorSigns, observed: ObservedSigns): boolean =>
  (status === undefined || isAmong(observed.status, status)) &&
  (header === undefined || observed.headers(header) !== undefined) &&
  (word === undefined || [word].flat().some((code) => observed.codes.includes(normalised(code)))) &&
  (message === undefined || message.test(observed.message))

const firstRow = ({ rows }: ErrorTable, observed: ObservedSigns): ErrorRow | undefined =>
  rows.find(({ when }) => matches(when, observed))

const NO_HEADERS: HeaderLookup = () => undefined

const signsOf = ({ status, upstream }: Failure, headers: HeaderLookup): ObservedSigns => ({
  status: status ?? 200,
  codes: [...(upstream?.reason?.split(' ') ?? []), upstream?.code, upstream?.type].flatMap((code) =>
    code === undefined ? [] : [normalised(code)],
  ),
  message: upstream?.message ?? '',
  headers,
})

/** The first row that matches a failure; undefined for failures without an upstream error, such as a broken stream. */
export const matchingRow = (table: ErrorTable, failure: Failure, headers: HeaderLookup): ErrorRow | undefined =>
  failure.upstream && firstRow(table, signsOf(failure, headers))

/** Reclassifies a failure by the provider's own error table. */
export const applyErrorTable = (failure: Failure, table: ErrorTable | undefined, headers: HeaderLookup): Failure => {
  const kind = table && matchingRow(table, failure, headers)?.kind
  if (kind === undefined || kind === failure.kind) return failure
  const stated = failure.upstream?.message ?? ''
  const message = stated.trim() === '' ? defaultMessage(kind, failure.status ?? 200) : failure.message
  return { ...failure, kind, message, ...(kind === 'context_length' && { overflow: overflowIn(stated) }) }
}

const kindOf = (observed: ObservedSigns, param: string | undefined): FailureKind => {
  const { status } = observed
  if (status >= 300 && status < 400) return 'redirect'
  const row = firstRow(COMMON_ERRORS, observed)
  // A 404 about something other than the model: a stored response, a file.
  const isElsewhere = row?.kind === 'not_there' && param !== undefined && param !== 'model'
  if (status === 404 && param === 'model' && (!row || row.kind === 'not_there')) return 'model_missing'
  if (row && !isElsewhere) return row.kind
  if (status < 400) return 'error_in_stream'
  return status < 500 ? 'incompatible' : 'status'
}

/** The message for an error without one. Messages of final errors must not suggest a retry. */
const defaultMessage = (kind: FailureKind, status: number): string => {
  switch (kind) {
    case 'auth':
      return "The provider did not accept the gateway's key. Check the key in the gateway's configuration."
    case 'permission':
      return "The gateway's key may not use this model at this provider."
    case 'quota':
      return "The gateway's account at this provider has used up its quota."
    case 'model_missing':
      return 'The provider does not have this model.'
    case 'not_there':
      // A base URL without its /v1 gives a 404.
      return 'The provider does not have this model, or its base URL is wrong.'
    case 'too_large_for_target':
      return 'The request is larger than this provider takes. Send less, or add a provider that takes more.'
    case 'context_length':
      return 'The request is longer than the model can read.'
    case 'content_policy':
      return 'The provider refused the request because of its content.'
    case 'incompatible':
      return 'The provider refused the request and gave no reason.'
    case 'rate_limited':
    case 'token_rate':
      return "The provider's rate limit is reached."
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
