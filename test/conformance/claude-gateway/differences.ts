/** Where Headgate answers differently from the reference, and why no client is affected. */
import type { Observed } from './probe.ts'

/** Members and headers that Headgate adds wherever they fit. */
export const ADDED: Readonly<Record<string, string>> = {
  error_description: 'RFC 6749, 5.2: people see it in the log of a program',
  email: 'the protocol has it: the client asks whether this is the right account. The reference omits it',
  'x-should-retry': 'the protocol recommends it for 401; without it the client repeats for three minutes',
  'www-authenticate': 'RFC 9110, 15.5.2: each 401 has it',
  revocation_endpoint: 'the protocol has it as optional: /logout ends the sign-in. The reference has no such path',
}

const OPENAI_ERROR = ['error.code', 'error.message', 'error.param', 'error.request_id']

export const DIFFERENCES: Readonly<Record<string, Partial<Observed> & { readonly because: string }>> = {
  metadata: {
    because: 'it is not kept, as all answers of a sign-in; scopes do not exist here',
    body: [
      'device_authorization_endpoint',
      'gateway_protocol_version',
      'grant_types_supported',
      'issuer',
      'response_types_supported',
      'token_endpoint',
      'token_endpoint_auth_methods_supported',
    ],
    headers: ['no-store'],
  },
  'a code, by GET': {
    because: 'the path exists, and takes POST',
    body: [...OPENAI_ERROR, 'error.type: invalid_request_error'],
    status: 405,
  },
  'a poll too soon': { because: 'RFC 8628, 3.5: 400. The protocol has both statuses', status: 400 },
  'an unknown code at the page': {
    because: 'the page is the same for people; programs see that it failed',
    status: 400,
  },
  'settings that the client has': {
    because: 'RFC 9110, 15.4.5: 304 has the ETag of 200',
    headers: ['etag', 'x-cc-gateway-version'],
  },
  'settings, by a weak tag': {
    because: 'RFC 9110, 13.1.2: If-None-Match compares weakly',
    body: [],
    status: 304,
    type: '',
  },
  'settings, in a list of tags': { because: 'RFC 9110, 13.1.2: any tag of the list', body: [], status: 304, type: '' },
  'settings, by POST': {
    because: 'the protocol has GET only',
    body: ['error.message', 'error.type: invalid_request_error', 'request_id', 'type: error'],
    headers: [],
    status: 405,
  },
  models: {
    because: 'the list serves clients of OpenAI and Codex too',
    body: ['data', 'first_id', 'has_more', 'last_id', 'models', 'object'],
  },
  'models without a token': {
    because: 'the path serves clients of OpenAI too; Claude Code falls back to its own list',
    body: [...OPENAI_ERROR, 'error.type: authentication_error'],
  },
  metrics: { because: 'OTLP: the type of a full success', type: 'application/x-protobuf' },
  'logs in JSON': { because: 'OTLP: an answer in JSON to a request in JSON', type: 'application/json' },
  'traces, compressed': { because: 'as metrics', type: 'application/x-protobuf' },
  'metrics that are none': { because: 'as metrics', type: 'application/x-protobuf' },
  'no metrics': { because: 'as metrics', type: 'application/x-protobuf' },
  'an unknown path': {
    because: 'every error is JSON with a hint',
    body: [...OPENAI_ERROR, 'error.type: invalid_request_error'],
    type: 'application/json',
  },
}
