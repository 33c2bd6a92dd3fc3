/**
 * How things go wrong: one row a kind, and everything else asks the row. A failure is a value; exceptions are for bugs.
 */

/** Whose fault it was. `client`: the request itself. `gateway`: ours, or our limits. `upstream`: the provider's, or the way there. */
export type Side = 'client' | 'gateway' | 'upstream'

/** The narrowest thing that explains a failure: what this request need not try again, and what a breaker is charged for. */
export type FailureScope = 'deployment' | 'model' | 'endpoint' | 'key' | 'request'

type FailureRow = {
  readonly side: Side
  /** What the client is told when this is the end of it. */
  readonly status: number
  readonly type: string
  readonly code: string
  /** What is out of the question for the rest of this request. `request`: no other target may be tried at all. */
  readonly excludes: FailureScope
  /** Which way to turn first: another key of the same provider, or another provider. */
  readonly prefer: 'key' | 'provider'
  /** The breaker this is booked to, if it is a failure of health. `answers`: that of answers with nothing in them. */
  readonly charges: 'deployment' | 'model' | 'endpoint' | 'answers' | null
  /** What becomes of the key, if it is the key's. */
  readonly key?: 'rate_limited' | 'quota_exhausted' | 'suspended' | 'model_denied'
}

const upstream = { side: 'upstream', status: 502, type: 'upstream_error', prefer: 'provider' } as const
const client = {
  side: 'client',
  status: 400,
  type: 'invalid_request_error',
  excludes: 'request',
  prefer: 'provider',
  charges: null,
} as const
const gateway = {
  side: 'gateway',
  type: 'server_error',
  excludes: 'request',
  prefer: 'provider',
  charges: null,
} as const

export const KINDS = {
  // The way there. The whole endpoint is in doubt, so no other key of it is tried.
  refused: { ...upstream, code: 'refused', excludes: 'endpoint', charges: 'endpoint' },
  dns: { ...upstream, code: 'dns', excludes: 'endpoint', charges: 'endpoint' },
  connect_timeout: { ...upstream, status: 504, code: 'timeout', excludes: 'endpoint', charges: 'endpoint' },
  tls: { ...upstream, code: 'tls', excludes: 'endpoint', charges: 'endpoint' },
  reset: { ...upstream, code: 'reset', excludes: 'endpoint', charges: 'endpoint' },
  not_http: { ...upstream, code: 'not_http', excludes: 'endpoint', charges: 'endpoint' },
  /** A page where an answer should be: a captive portal, a firewall, a CDN's error. */
  not_json: { ...upstream, code: 'not_json', excludes: 'endpoint', charges: 'endpoint' },

  // The deployment: this key at this model does not answer, or not well.
  timeout: { ...upstream, status: 504, code: 'timeout', excludes: 'deployment', charges: 'deployment' },
  no_first_content: { ...upstream, status: 504, code: 'timeout', excludes: 'deployment', charges: 'deployment' },
  status: { ...upstream, code: 'status', excludes: 'deployment', charges: 'deployment' },
  error_in_stream: { ...upstream, code: 'error_in_stream', excludes: 'deployment', charges: 'deployment' },
  /** Its base URL is wrong: another key would be sent the same way. */
  redirect: { ...upstream, code: 'redirect', excludes: 'endpoint', charges: 'deployment' },
  malformed: { ...upstream, code: 'malformed', excludes: 'deployment', charges: 'deployment' },
  /** The body ended, by whatever means, before the answer did. */
  truncated: { ...upstream, code: 'truncated', excludes: 'deployment', charges: 'deployment' },
  /** Bytes stopped, or only keep-alives came, in the middle of an answer. */
  stalled: { ...upstream, code: 'stalled', excludes: 'deployment', charges: 'deployment' },
  /** A well-formed answer without any content and without a reason for it. */
  empty: { ...upstream, code: 'empty', excludes: 'deployment', charges: 'answers' },
  /** Above the size limit: blanks without end, one event of many megabytes. Nonsense like `malformed`, so another target is tried. */
  too_large: { ...upstream, code: 'response_too_large', excludes: 'deployment', charges: 'deployment' },

  // The model at this provider, whatever the key.
  overloaded: { ...upstream, code: 'overloaded', excludes: 'model', charges: 'model' },
  /** Something there is locked, whoever asks. */
  conflict: { ...upstream, status: 409, code: 'conflict', excludes: 'model', charges: null },
  model_missing: { ...client, status: 404, code: 'model_not_found', excludes: 'model' },
  token_rate: {
    ...upstream,
    status: 429,
    type: 'rate_limit_error',
    code: 'rate_limited',
    excludes: 'model',
    charges: null,
  },

  // The key.
  rate_limited: {
    ...upstream,
    status: 429,
    type: 'rate_limit_error',
    code: 'rate_limited',
    excludes: 'deployment',
    prefer: 'key',
    charges: null,
    key: 'rate_limited',
  },
  quota: {
    ...upstream,
    status: 429,
    type: 'insufficient_quota',
    code: 'insufficient_quota',
    excludes: 'key',
    prefer: 'key',
    charges: null,
    key: 'quota_exhausted',
  },
  auth: { ...upstream, code: 'upstream_auth', excludes: 'key', prefer: 'key', charges: null, key: 'suspended' },
  /** Whoever signs the calls in (a cloud's token server) could not be reached or did not work. The key may be a good one. */
  sign_in: { ...upstream, code: 'upstream_sign_in', excludes: 'key', charges: 'deployment' },
  permission: {
    ...upstream,
    code: 'upstream_auth',
    excludes: 'deployment',
    prefer: 'key',
    charges: null,
    key: 'model_denied',
  },

  // The request's own fault, found by the upstream or here.
  invalid_request: { ...client, code: 'invalid_request' },
  invalid_json: { ...client, code: 'invalid_json' },
  invalid_value: { ...client, code: 'invalid_value' },
  missing_parameter: { ...client, code: 'missing_required_parameter' },
  /** Nothing that could answer can carry what was asked for. */
  unsupported: { ...client, code: 'unsupported_parameter' },
  unknown_model: { ...client, status: 404, code: 'model_not_found' },
  /** There is no answer of that id, or not for this client. */
  unknown_response: { ...client, status: 404, code: 'response_not_found' },
  unknown_previous: { ...client, code: 'previous_response_not_found' },
  unknown_url: { ...client, status: 404, code: 'unknown_url' },
  method_not_allowed: { ...client, status: 405, code: 'method_not_allowed' },
  body_too_large: { ...client, status: 413, code: 'request_too_large' },
  media_type: { ...client, status: 415, code: 'unsupported_media_type' },
  /** The key of one call was sent with another. */
  idempotency_key_reused: { ...client, status: 422, code: 'idempotency_key_reused' },
  /** Its answer is being given to another try, and cannot be given twice. */
  idempotency_key_in_use: { ...client, status: 409, code: 'idempotency_key_in_use' },
  upgrade_required: { ...client, status: 426, code: 'upgrade_required' },
  /** A WebSocket has been open for as long as one may. */
  connection_age: { ...client, code: 'websocket_connection_limit_reached' },
  request_timeout: { ...client, status: 408, code: 'request_timeout' },
  unauthenticated: { ...client, status: 401, type: 'authentication_error', code: 'invalid_api_key' },
  origin: { ...client, status: 403, type: 'permission_error', code: 'origin_not_allowed' },
  host: { ...client, status: 403, type: 'permission_error', code: 'host_not_allowed' },
  /** This model cannot do what was asked (call tools, think, look at an image); another may. */
  incapable: { ...client, code: 'unsupported_parameter', excludes: 'model' },
  /** This vendor refuses a member, a feature or a shape of the history that another vendor may accept. */
  incompatible: { ...client, code: 'incompatible', excludes: 'model' },
  /** Too long for this model; a model with a larger window may still take it. */
  context_length: { ...client, code: 'context_length_exceeded', excludes: 'deployment' },
  /** The reasoning of earlier turns was sealed by another provider, model or account; without it the same target may answer. */
  unknown_proof: { ...client, code: 'invalid_encrypted_content', excludes: 'deployment' },
  /** Refused for its content. Never asked again elsewhere: that would launder a policy. */
  content_policy: { ...client, code: 'content_policy_violation' },
  client_gone: { ...client, status: 499, code: 'client_gone' },

  // Ours.
  no_target: { ...upstream, status: 503, code: 'no_target_available', excludes: 'request', charges: null },
  unconfigured: { ...gateway, status: 503, type: 'configuration_error', code: 'no_provider_configured' },
  busy: { ...gateway, status: 503, type: 'overloaded_error', code: 'overloaded' },
  draining: { ...gateway, status: 503, type: 'overloaded_error', code: 'draining' },
  deadline: { ...gateway, status: 504, type: 'upstream_error', code: 'timeout' },
  shutdown: { ...gateway, status: 503, type: 'server_error', code: 'server_shutdown' },
  /** The response store cannot read or write: its disk is full, locked, read-only or missing. */
  storage: { ...gateway, status: 503, code: 'storage_unavailable' },
  internal: { ...gateway, status: 500, code: 'internal_error' },
  /** What a client is told, in the stream, of any failure after content has been sent. */
  interrupted: { ...upstream, code: 'stream_interrupted', excludes: 'request', charges: null },
} as const satisfies Record<string, FailureRow>

export type FailureKind = keyof typeof KINDS

export type Failure = {
  readonly kind: FailureKind
  /** What happened and what to do, in a sentence or two, for the person who reads the error. */
  readonly message: string
  /** The upstream's HTTP status, if it gave one. */
  readonly status?: number
  /** The upstream's own words for it, kept beside ours; secrets already masked. */
  readonly upstream?: {
    readonly type?: string
    readonly code?: string
    /** Words more exact than those, between blanks: `API_KEY_INVALID INVALID_ARGUMENT`. */
    readonly reason?: string
    readonly message?: string
    readonly requestId?: string
  }
  /** The client's field at fault, as a path: `messages[0].content`. */
  readonly param?: string
  /** Ms to wait before this can work again, if the upstream said. */
  readonly retryAfter?: number
  /** It is the last of several of different kinds: what the client is told is a bad gateway, whatever this one alone would be. */
  readonly mixed?: boolean
  /** The way there failed in a manner that proves no byte of the request arrived. */
  readonly unsent?: boolean
}

export const fail = (kind: FailureKind, message: string, more: Omit<Failure, 'kind' | 'message'> = {}): Failure => ({
  kind,
  message,
  ...more,
})

export const rowOf = ({ kind, mixed }: Failure): FailureRow =>
  mixed ? { ...KINDS[kind], status: upstream.status, type: upstream.type } : KINDS[kind]

/** A value, or how it failed. */
export type Outcome<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly failure: Failure }
export const good = <T>(value: T): Outcome<T> => ({ ok: true, value })
export const bad = (failure: Failure): { readonly ok: false; readonly failure: Failure } => ({ ok: false, failure })
