/** Failure kinds and how each is handled: one table row per kind. Failures are values; exceptions are bugs. */

import { maskOwnKeys } from './own-keys.ts'
import type { SkippedTarget } from './skipped-target.ts'
import type { SpendStanding } from './spend-standing.ts'

/** Who caused a failure. `client`: the request. `gateway`: the gateway or its limits. `upstream`: the provider or the connection to it. */
export type Side = 'client' | 'gateway' | 'upstream'

/** The narrowest scope that explains a failure: excluded from further attempts of the request. */
export type FailureScope = 'deployment' | 'model' | 'endpoint' | 'proxy' | 'key' | 'request'

type FailureRow = {
  readonly side: Side
  /** HTTP status for the client if this is the final failure. */
  readonly status: number
  readonly type: string
  readonly code: string
  /** Excluded for the rest of the request. `request`: no failover at all. */
  readonly excludes: FailureScope
  /** What to try first: another key of the same provider, or another provider. */
  readonly prefer: 'key' | 'provider'
  /** The circuit that counts this failure; null: none. `answers`: the circuit for empty answers. */
  readonly charges: 'deployment' | 'model' | 'endpoint' | 'proxy' | 'answers' | null
  /** New state of the key, if the key caused the failure. */
  readonly key?: 'rate_limited' | 'quota_exhausted' | 'suspended' | 'model_denied'
}

const upstream = { side: 'upstream', status: 502, type: 'upstream_error', prefer: 'provider' } as const
const endpoint = { ...upstream, excludes: 'endpoint', charges: 'endpoint' } as const
const deployment = { ...upstream, excludes: 'deployment', charges: 'deployment' } as const
const rateLimit = { ...upstream, status: 429, type: 'rate_limit_error', code: 'rate_limited', charges: null } as const
const key = { ...upstream, prefer: 'key', charges: null } as const
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
  // Connection failures. They affect the whole endpoint, so none of its keys is tried.
  refused: { ...endpoint, code: 'refused' },
  dns: { ...endpoint, code: 'dns' },
  connect_timeout: { ...endpoint, status: 504, code: 'timeout' },
  tls: { ...endpoint, code: 'tls' },
  reset: { ...endpoint, code: 'reset' },
  not_http: { ...endpoint, code: 'not_http' },
  /** The proxy that leads to the endpoint. Its other endpoints are affected too, unless `endpointOnly`. */
  proxy: { ...upstream, code: 'proxy_failed', excludes: 'proxy', charges: 'proxy' },
  /** A passed call is redirected to another place than the provider's own paths. */
  redirect_refused: { ...upstream, code: 'redirect_refused', excludes: 'request', charges: null },
  /** A web page instead of JSON: a captive portal, a firewall or a CDN error. */
  not_json: { ...endpoint, code: 'not_json' },

  // Deployment failures: this key with this model fails or responds incorrectly.
  timeout: { ...deployment, status: 504, code: 'timeout' },
  no_first_content: { ...deployment, status: 504, code: 'timeout' },
  status: { ...deployment, code: 'status' },
  error_in_stream: { ...deployment, code: 'error_in_stream' },
  /** The base URL is wrong, for every key. */
  redirect: { ...upstream, code: 'redirect', excludes: 'endpoint', charges: 'deployment' },
  malformed: { ...deployment, code: 'malformed' },
  /** The body ended before the answer was complete. */
  truncated: { ...deployment, code: 'truncated' },
  /** No bytes, or only keep-alives, in the middle of an answer. */
  stalled: { ...deployment, code: 'stalled' },
  /** A well-formed answer without content and without a reason. */
  empty: { ...upstream, code: 'empty', excludes: 'deployment', charges: 'answers' },
  /** Above the size limit, such as an event of many megabytes. Retried on another target, like `malformed`. */
  too_large: { ...deployment, code: 'response_too_large' },

  // Failures of the model at this provider, independent of the key.
  overloaded: { ...upstream, code: 'overloaded', excludes: 'model', charges: 'model' },
  /** A resource at the provider is locked, for every key. */
  conflict: { ...upstream, status: 409, code: 'conflict', excludes: 'model', charges: null },
  model_missing: { ...client, status: 404, code: 'model_not_found', excludes: 'model' },
  /** A 404 that does not state what is missing: the model, or the address. Unlike `model_missing` it is not remembered. */
  not_there: { ...client, status: 404, code: 'model_not_found', excludes: 'model' },
  token_rate: { ...rateLimit, excludes: 'model' },

  // Key failures.
  rate_limited: { ...rateLimit, excludes: 'deployment', prefer: 'key', key: 'rate_limited' },
  quota: {
    ...key,
    status: 429,
    type: 'insufficient_quota',
    code: 'insufficient_quota',
    excludes: 'key',
    key: 'quota_exhausted',
  },
  auth: { ...key, code: 'upstream_auth', excludes: 'key', key: 'suspended' },
  /** The cloud's token server is unreachable or failed. The key may be valid. */
  sign_in: { ...upstream, code: 'upstream_sign_in', excludes: 'key', charges: 'deployment' },
  permission: { ...key, code: 'upstream_auth', excludes: 'deployment', key: 'model_denied' },

  // Request errors, detected by the gateway, or proven by upstreams.
  invalid_request: { ...client, code: 'invalid_request' },
  invalid_json: { ...client, code: 'invalid_json' },
  /** The path of a passed call may be read differently by the provider. */
  invalid_path: { ...client, code: 'invalid_path' },
  invalid_value: { ...client, code: 'invalid_value' },
  missing_parameter: { ...client, code: 'missing_required_parameter' },
  /** No target supports the request. */
  unsupported: { ...client, code: 'unsupported_parameter' },
  unknown_model: { ...client, status: 404, code: 'model_not_found' },
  /** No stored response with this ID belongs to this client. */
  unknown_response: { ...client, status: 404, code: 'response_not_found' },
  unknown_previous: { ...client, code: 'previous_response_not_found' },
  unknown_url: { ...client, status: 404, code: 'unknown_url' },
  method_not_allowed: { ...client, status: 405, code: 'method_not_allowed' },
  body_too_large: { ...client, status: 413, code: 'request_too_large' },
  media_type: { ...client, status: 415, code: 'unsupported_media_type' },
  /** An idempotency key was reused with a different request. */
  idempotency_key_reused: { ...client, status: 422, code: 'idempotency_key_reused' },
  /** The response for this idempotency key is in use by another retry. */
  idempotency_key_in_use: { ...client, status: 409, code: 'idempotency_key_in_use' },
  upgrade_required: { ...client, status: 426, code: 'upgrade_required' },
  /** A WebSocket reached its maximum age. */
  connection_age: { ...client, code: 'websocket_connection_limit_reached' },
  request_timeout: { ...client, status: 408, code: 'request_timeout' },
  unauthenticated: { ...client, status: 401, type: 'authentication_error', code: 'invalid_api_key' },
  /** The team of the client's key is blocked. */
  team_blocked: { ...client, status: 403, type: 'permission_error', code: 'team_blocked' },
  /** The client's token is valid, and names no team of this gateway. */
  team_unknown: { ...client, status: 403, type: 'permission_error', code: 'team_unknown' },
  /** An operator has blocked the end user that the request names. */
  end_user_blocked: { ...client, status: 403, type: 'permission_error', code: 'end_user_blocked' },
  /** The client's key requires a session, and the request names none. */
  session_required: { ...client, code: 'session_required' },
  /** An operator has stopped the session, or it repeats itself. Clients show 402 at once, while they retry 429. */
  loop_stopped: { ...client, status: 402, type: 'billing_error', code: 'loop_stopped' },
  /** The key may not be used from the client's address. */
  address_not_allowed: { ...client, status: 403, type: 'permission_error', code: 'address_not_allowed' },
  origin: { ...client, status: 403, type: 'permission_error', code: 'origin_not_allowed' },
  host: { ...client, status: 403, type: 'permission_error', code: 'host_not_allowed' },
  /** The access lists of the client's key or team exclude the model, its route or every target of it. */
  model_not_allowed: { ...client, status: 403, type: 'permission_error', code: 'model_not_allowed' },
  /** They exclude the API style. */
  style_not_allowed: { ...client, status: 403, type: 'permission_error', code: 'style_not_allowed' },
  /** The instance, the team or the key does not allow this call of the provider's own API. */
  pass_through_denied: { ...client, status: 403, type: 'permission_error', code: 'pass_through_denied' },
  /** No target satisfies what is required of its data: region, retention, training. */
  data_policy: { ...client, status: 403, type: 'permission_error', code: 'data_policy' },
  /** The conditions of all targets, or the request's own, leave none. */
  no_matching_target: { ...client, code: 'no_matching_target' },
  /** This model lacks a capability (tools, reasoning, images); another model may have it. */
  incapable: { ...client, code: 'unsupported_parameter', excludes: 'model' },
  /** This provider refuses the request; another may accept it. */
  incompatible: { ...client, code: 'incompatible', excludes: 'model' },
  /** The body is larger than this provider takes; another may take it. */
  too_large_for_target: { ...client, status: 413, code: 'request_too_large', excludes: 'model' },
  /** Too long for this model; another may have a larger context window. */
  context_length: { ...client, code: 'context_length_exceeded', excludes: 'model' },
  /** A reasoning signature of another provider, model or account. Retried on the same target without signatures. */
  unknown_proof: { ...client, code: 'invalid_encrypted_content', excludes: 'deployment' },
  /** Rejected for its content. No failover, because that would evade a provider's policy. */
  content_policy: { ...client, code: 'content_policy_violation' },
  /** A rule of the operator refuses a text of the request. */
  guardrail_blocked: { ...client, code: 'guardrail_blocked' },
  /** The service of a rule cannot check the request, and the rule does not let it pass. */
  guard_unavailable: { ...gateway, status: 503, type: 'overloaded_error', code: 'guard_unavailable' },
  /** A budget of the client is used up. Clients show 402 at once, while they retry 429. */
  budget_exceeded: { ...gateway, status: 402, type: 'billing_error', code: 'budget_exceeded' },
  /** The process that counts what is spent does not answer, and a strict budget must not be spent without it. */
  budget_unavailable: { ...gateway, status: 503, type: 'overloaded_error', code: 'budget_unavailable' },
  /** A limit of the client's key or team: requests or tokens per minute, or concurrent requests. */
  client_limit: { ...gateway, status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded' },
  /** The client accepts an answer from the cache only, and there is none. */
  not_cached: { ...client, status: 504, code: 'not_cached' },
  /** Recordings answer all calls, and none of them has this request. */
  tape_miss: { ...client, code: 'tape_miss' },
  client_gone: { ...client, status: 499, code: 'client_gone' },

  // Requests to the admin API.
  /** The role does not permit it. */
  forbidden: { ...client, status: 403, type: 'permission_error', code: 'forbidden' },
  not_found: { ...client, status: 404, code: 'not_found' },
  /** The state of the object does not permit it; the failure has a code of its own. */
  record_conflict: { ...client, status: 409, code: 'conflict' },
  /** Another request changed the object. */
  precondition_failed: { ...client, status: 412, code: 'precondition_failed' },
  precondition_required: { ...client, status: 428, code: 'precondition_required' },
  /** Too many wrong credentials from one address. */
  too_many_attempts: { ...client, status: 429, type: 'rate_limit_error', code: 'too_many_attempts' },

  // Gateway failures.
  no_target: { ...upstream, status: 503, code: 'no_target_available', excludes: 'request', charges: null },
  unconfigured: { ...gateway, status: 503, type: 'configuration_error', code: 'no_provider_configured' },
  busy: { ...gateway, status: 503, type: 'overloaded_error', code: 'overloaded' },
  draining: { ...gateway, status: 503, type: 'overloaded_error', code: 'draining' },
  deadline: { ...gateway, status: 504, type: 'upstream_error', code: 'timeout' },
  shutdown: { ...gateway, status: 503, type: 'server_error', code: 'server_shutdown' },
  /** The database of client keys, or the keys of a token's issuer, could not be read so far, so a key cannot be checked. */
  keys_unavailable: { ...gateway, status: 503, type: 'overloaded_error', code: 'keys_unavailable' },
  /** The response store failed: its disk is full, locked, read-only or missing. */
  storage: { ...gateway, status: 503, code: 'storage_unavailable' },
  /** There is no space for a form: the disk is full, or `limit.spoolMegabytes` is reached. */
  spool_full: { ...gateway, status: 507, code: 'spool_full' },
  internal: { ...gateway, status: 500, code: 'internal_error' },
  /** Sent in the stream for any failure after content was sent. */
  interrupted: { ...upstream, code: 'stream_interrupted', excludes: 'request', charges: null },
} as const satisfies Record<string, FailureRow>

export type FailureKind = keyof typeof KINDS

const OWN_LIMITS: ReadonlySet<string> = new Set<FailureKind>(['budget_exceeded', 'budget_unavailable', 'client_limit'])

/** Whether an account of the gateway refuses the attempt, by a limit or a budget: then nothing was sent. */
export const isOwnLimit = (kind: string): boolean => OWN_LIMITS.has(kind)

/** The figures in a refusal of a prompt that is too long. Members that the refusal does not state are absent. */
export type ContextOverflow = {
  /** The model's context window in tokens. */
  readonly window?: number
  /** If it is below `window`, the prompt fits, and only the requested output beside it does not. */
  readonly promptTokens?: number
  /** The output limit that the request asked for. */
  readonly requestedOutput?: number
}

/** An expected failure as a value. */
export type Failure = {
  readonly kind: FailureKind
  /** What happened and the remedy, in one or two sentences. */
  readonly message: string
  /** The upstream's HTTP status, if it gave one. */
  readonly status?: number
  /** Error members from the upstream, with secrets masked. */
  readonly upstream?: {
    readonly type?: string
    readonly code?: string
    /** More specific codes, separated by spaces: `API_KEY_INVALID INVALID_ARGUMENT`. */
    readonly reason?: string
    readonly message?: string
    readonly requestId?: string
  }
  /** The reason, for the log of the gateway only. */
  readonly detail?: string
  /** Path of the invalid member in the client's body: `messages[0].content`. */
  readonly param?: string
  /** Only of `context_length`: what the refusal states. */
  readonly overflow?: ContextOverflow
  /** Of `data_policy` and `no_matching_target`: what was required of the data, and targets that were left out, for the trail. */
  readonly withheld?: { readonly require?: string; readonly targets: readonly SkippedTarget[] }
  /** More specific than the code of the kind. */
  readonly code?: string
  /** Every invalid member of a request to the admin API. */
  readonly errors?: readonly FieldError[]
  /** Milliseconds to wait before a retry, from the upstream's headers or body. */
  readonly retryAfter?: number
  /** The last of several different failures: the client receives 502 instead of this kind's status. */
  readonly mixed?: boolean
  /** The limit of the client that refused the request, for `x-headgate-limit`: `budget; id=bud_…; resets=2026-12-01`. */
  readonly limit?: string
  /** Only of `budget_exceeded`: the budget, where one refuses. */
  readonly spend?: SpendStanding
  /** The status and type for a client that would misread those of the kind. */
  readonly shown?: { readonly status: number; readonly type: string }
  /** Further headers of its response. */
  readonly headers?: Readonly<Record<string, string>>
  /** The connection failed before any byte of the request was sent. */
  readonly unsent?: boolean
  /** The proxy works, but opens no connection to this endpoint: other endpoints that use it are not affected. */
  readonly endpointOnly?: true
}

/** An invalid member or parameter. `path`: `limits.concurrent`. */
export type FieldError = { readonly path: string; readonly message: string }

/** Creates a failure. Keys of this gateway in the message are masked. */
export const fail = (kind: FailureKind, message: string, more: Omit<Failure, 'kind' | 'message'> = {}): Failure => ({
  kind,
  message: maskOwnKeys(message),
  ...more,
})

/** The table row of a failure; of a mixed failure with status 502, and for some clients with what they read. */
export const rowOf = ({ kind, mixed, endpointOnly, shown }: Failure): FailureRow => {
  if (shown) return { ...KINDS[kind], ...shown }
  const row = endpointOnly
    ? { ...KINDS[kind], excludes: 'endpoint' as const, charges: 'endpoint' as const }
    : KINDS[kind]
  return mixed ? { ...row, status: upstream.status, type: upstream.type } : row
}

/** A value or a failure. */
export type Outcome<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly failure: Failure }
/** Creates a successful outcome. */
export const good = <T>(value: T): Outcome<T> => ({ ok: true, value })
/** Creates a failed outcome. */
export const bad = (failure: Failure): { readonly ok: false; readonly failure: Failure } => ({ ok: false, failure })
