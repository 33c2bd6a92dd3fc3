/**
 * From what an upstream said to what it means. The rules here hold for every vendor; a vendor's own peculiarity is a
 * quirk in its own file and is asked first. Evidence in this order: the most exact code, its type, the status; words of a message
 * only where vendors give nothing better, each listed below with who does so.
 */
import { type Failure, type FailureKind, fail } from '../core/failure.ts'

/** What an error body said, found in it by the format's decoder. */
export type Said = {
  readonly type?: string
  readonly code?: string
  readonly message?: string
  readonly param?: string
  readonly requestId?: string
  /** More exact words than those: a google.rpc status or reason, an inner error's code, `x-amzn-errortype`. */
  readonly hints?: readonly string[]
}

/** Codes and types that say what happened whatever the status is. Compared in lower case, without `_`, `-` and a last `exception`. */
const WORDS: { readonly [kind in FailureKind]?: readonly string[] } = {
  quota: [
    'insufficient_quota',
    'insufficient_user_quota',
    'billing_hard_limit_reached',
    'billing_not_active',
    'billing_error',
    'enforced_spend_limit_reached',
    'insufficient_balance',
    'insufficient_credits',
  ],
  auth: [
    'invalid_api_key',
    'incorrect_api_key',
    'api_key_invalid',
    'api_key_expired',
    'authentication_error',
    'invalid_authentication_error',
    'unauthenticated',
    'account_deactivated',
    'UnrecognizedClientException',
    'ExpiredTokenException',
  ],
  permission: [
    'permission_error',
    'permission_denied',
    'unsupported_country_region_territory',
    'model_not_available',
    'AccessDeniedException',
  ],
  rate_limited: [
    'rate_limit_exceeded',
    'rate_limit_error',
    'rate_limited',
    'too_many_requests',
    'resource_exhausted',
    'ThrottlingException',
  ],
  overloaded: [
    'overloaded_error',
    'overloaded',
    'server_is_overloaded',
    'engine_overloaded',
    'engine_overloaded_error',
    'model_overloaded',
    'slow_down',
    'unavailable',
    'service_unavailable',
    'service_unavailable_error',
    'capacity_exceeded',
    'ServiceUnavailableException',
    'ModelNotReadyException',
  ],
  timeout: ['timeout_error', 'deadline_exceeded', 'ModelTimeoutException'],
  model_missing: ['model_not_found', 'model_not_exist', 'model_decommissioned', 'invalid_model', 'DeploymentNotFound'],
  context_length: ['context_length_exceeded', 'context_window_exceeded', 'model_max_prompt_tokens_exceeded'],
  content_policy: [
    'content_filter',
    'content_policy_violation',
    'ResponsibleAIPolicyViolation',
    'moderation_blocked',
    'invalid_prompt',
    'data_inspection_failed',
  ],
  /** Groq: the model wrote a call that is none; the same request may well succeed. */
  malformed: ['tool_use_failed'],
}

/** Words so general that a status, where there is one, says more. They decide only about an error inside a 200. */
const GENERAL_WORDS: { readonly [kind in FailureKind]?: readonly string[] } = {
  invalid_request: ['invalid_request_error', 'invalid_argument', 'bad_request', 'ValidationException', 'invalid_value'],
  model_missing: ['not_found_error', 'not_found'],
  conflict: ['conflict_error', 'aborted'],
}

const STATUS: { readonly [status: number]: FailureKind } = {
  401: 'auth',
  402: 'quota',
  403: 'permission',
  404: 'model_missing',
  408: 'timeout',
  409: 'conflict',
  424: 'overloaded',
  429: 'rate_limited',
  498: 'overloaded',
  499: 'timeout',
  503: 'overloaded',
  522: 'timeout',
  524: 'timeout',
  529: 'overloaded',
}

/** Meanings only the words of a message tell. Plain prefixes or substrings in lower case: nothing here can backtrack. */
const SENTENCES: readonly { readonly kind: FailureKind; readonly has: readonly string[] }[] = [
  // Anthropic, 400 invalid_request_error.
  { kind: 'quota', has: ['your credit balance is too low'] },
  { kind: 'quota', has: ['you have reached your specified', 'api usage limits'] },
  // Gemini's compatible endpoint and xAI, 400 without a code.
  { kind: 'auth', has: ['api key not valid'] },
  { kind: 'auth', has: ['incorrect api key provided'] },
  // Anthropic.
  { kind: 'context_length', has: ['prompt is too long'] },
  { kind: 'context_length', has: ['exceed context limit'] },
  // vLLM and its kin, older OpenAI, OpenRouter.
  { kind: 'context_length', has: ['maximum context length is'] },
  { kind: 'context_length', has: ['you passed', 'input tokens', 'context length'] },
  // llama.cpp.
  { kind: 'context_length', has: ['exceeds the available context size'] },
  // Gemini.
  { kind: 'context_length', has: ['input token count', 'exceeds the maximum number of tokens'] },
]

/**
 * What puts a key to rest has to be how the message begins: further in it may be the client's own words, quoted by an
 * upstream that found fault with them, and nobody's prompt may take a key out of service.
 */
const RESTS_A_KEY: ReadonlySet<FailureKind> = new Set(['quota', 'auth'])

const tells = (message: string, { kind, has }: (typeof SENTENCES)[number]): boolean =>
  has.every((part, index) => (index === 0 && RESTS_A_KEY.has(kind) ? message.startsWith(part) : message.includes(part)))

/** Statuses under which a sentence is believed: those that otherwise blame the request. */
const SENTENCE_STATUS = new Set([400, 413, 422])

const plain = (word: string): string =>
  word
    .slice(0, 100)
    .toLowerCase()
    .replaceAll(/[_\- ]/g, '')
    .replace(/exception$/, '')

const byWord = (table: typeof WORDS): ReadonlyMap<string, FailureKind> =>
  new Map(
    // The keys of a table typed by kind are kinds.
    (Object.entries(table) as [FailureKind, readonly string[]][]).flatMap(([kind, words]) =>
      words.map((word) => [plain(word), kind] as const),
    ),
  )
const KIND_OF_WORD = byWord(WORDS)
const KIND_OF_GENERAL_WORD = byWord(GENERAL_WORDS)

/**
 * The failure an upstream's answer tells of. Total: any status, any words. An error inside a 200 has the status 200
 * here; if its code is a status (OpenRouter's `code: 502`), that one counts.
 */
export const classify = (status: number, said: Said): Failure => {
  const actual = status >= 300 ? status : (statusIn(said.code) ?? status)
  const kind = kindOf(actual, said)
  const { type, code, message, requestId } = said
  const words = message === undefined ? undefined : maskSecrets(bounded(message))
  return fail(kind, words === undefined || words.trim() === '' ? sentence(kind, actual) : words, {
    ...(actual >= 300 && { status: actual }),
    upstream: {
      ...(type !== undefined && { type: maskSecrets(bounded(type)) }),
      ...(code !== undefined && { code: maskSecrets(bounded(code)) }),
      ...(words !== undefined && { message: words }),
      ...(requestId !== undefined && { requestId: bounded(requestId) }),
    },
    ...(said.param !== undefined && { param: bounded(said.param) }),
  })
}

const LONGEST = 4_000
const bounded = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text)

const statusIn = (code: string | undefined): number | undefined =>
  code !== undefined && /^[45][0-9][0-9]$/.test(code) ? Number(code) : undefined

const kindOf = (status: number, said: Said): FailureKind => {
  if (status >= 300 && status < 400) return 'redirect'
  const words = [...(said.hints ?? []), said.code, said.type].filter((word) => word !== undefined).map(plain)
  const told = first(words, KIND_OF_WORD)
  // Groq: more tokens than a minute's allowance. Waiting does not help, another provider may.
  if (told === 'rate_limited' && status === 413) return 'token_rate'
  if (told !== undefined) return told
  if (status < 400 || SENTENCE_STATUS.has(status)) {
    const message = said.message?.slice(0, LONGEST).toLowerCase() ?? ''
    const telling = SENTENCES.find((one) => tells(message, one))
    if (telling) return telling.kind
  }
  if (status < 400) return first(words, KIND_OF_GENERAL_WORD) ?? 'error_in_stream'
  // A 404 about something else than the model: a stored response, a file.
  if (status === 404 && said.param !== undefined && said.param !== 'model') return 'invalid_request'
  const known = STATUS[status]
  if (known !== undefined) return known
  return status < 500 ? 'invalid_request' : 'status'
}

const first = (words: readonly string[], table: ReadonlyMap<string, FailureKind>): FailureKind | undefined => {
  for (const word of words) {
    const kind = table.get(word)
    if (kind !== undefined) return kind
  }
  return undefined
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
      return 'The provider does not have this model.'
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
