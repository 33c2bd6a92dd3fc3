import { type Failure, type FailureKind, fail } from '../../core/failure.ts'
import type { AnswerProblem } from './http-answer-reader.ts'

/** The failure kind and description of a network error code. Messages are not used: they vary. */
type NetworkCause = { readonly kind: FailureKind; readonly what: string }

const CONNECTING: { readonly [code: string]: NetworkCause } = {
  ECONNREFUSED: { kind: 'refused', what: 'the connection was refused' },
  EHOSTUNREACH: { kind: 'refused', what: 'the host cannot be reached' },
  ENETUNREACH: { kind: 'refused', what: 'the network cannot be reached' },
  EHOSTDOWN: { kind: 'refused', what: 'the host is down' },
  EACCES: { kind: 'refused', what: 'connecting is not permitted here' },
  EPERM: { kind: 'refused', what: 'connecting is not permitted here' },
  ENOTFOUND: { kind: 'dns', what: 'the host name is not known' },
  EAI_AGAIN: { kind: 'dns', what: 'the name server did not answer' },
  EAI_FAIL: { kind: 'dns', what: 'the name server failed' },
  EAI_NODATA: { kind: 'dns', what: 'the host name has no address' },
  EAI_NONAME: { kind: 'dns', what: 'the host name is not known' },
  ETIMEDOUT: { kind: 'connect_timeout', what: 'connecting took too long' },
  ECONNRESET: { kind: 'reset', what: 'the connection was closed while it was being made' },
  EPIPE: { kind: 'reset', what: 'the connection was closed while it was being made' },
  ECONNABORTED: { kind: 'reset', what: 'the connection was closed while it was being made' },
  // Shortages of this machine: they do not count against the upstream's circuit.
  EMFILE: { kind: 'busy', what: 'this machine has no file descriptor left for a connection' },
  ENFILE: { kind: 'busy', what: 'this machine has no file descriptor left for a connection' },
  ENOBUFS: { kind: 'busy', what: 'this machine has no memory left for a connection' },
  ENOMEM: { kind: 'busy', what: 'this machine has no memory left for a connection' },
  EADDRNOTAVAIL: { kind: 'busy', what: 'this machine has no port left for a connection' },
}

/** OpenSSL's verification results have no common prefix. */
const CERTIFICATE =
  /^(CERT_|ERR_TLS_|ERR_SSL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_(CA|PURPOSE)|PATH_LENGTH_|CRL_|HOSTNAME_MISMATCH|ERROR_IN_)/

const codeOf = (error: unknown): string => {
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? code : ''
}

/** An issuer that is not known here. Other errors of certificates are those of the server. */
const UNTRUSTED = /^(?:UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|CERT_UNTRUSTED)/

/** The failure for an error while connecting. Nothing has been sent. `issuer`: of the certificate that was shown. */
export const connectFailure = (error: unknown, issuer: () => string | null = () => null): Failure => {
  // Happy Eyeballs tries each address of a name and aggregates the errors; the last is the most specific.
  const last = error instanceof AggregateError ? (error.errors.at(-1) ?? error) : error
  const code = codeOf(error) || codeOf(last)
  const known = CONNECTING[code]
  if (known)
    return fail(known.kind, sentence(known.what, code), {
      unsent: true,
      // Temporary: the retry policy recognises it by this code.
      ...(code === 'EAI_AGAIN' && { upstream: { code } }),
    })
  const signer = UNTRUSTED.test(code) ? issuer() : null
  if (signer !== null)
    return fail(
      'tls',
      `The certificate is signed by ${JSON.stringify(signer)}, which is not trusted: add its certificate to network.ca (${code}).`,
      { unsent: true },
    )
  if (CERTIFICATE.test(code) || code === 'EPROTO')
    return fail('tls', sentence('the TLS handshake failed', code), { unsent: true })
  return fail('refused', sentence('the connection failed', code), { unsent: true })
}

/** The failure for a connection that was not open after `ms`. */
export const connectTimedOut = (ms: number): Failure =>
  fail('connect_timeout', `Connecting took longer than ${ms} ms.`, { unsent: true })

/** The failure for an error of a connected call. `answering`: its response header block had been received. */
export const callFailure = (error: unknown, answering: boolean): Failure => {
  const code = codeOf(error)
  if (code === 'UND_ERR_HEADERS_OVERFLOW')
    return fail('not_http', sentence('the header block of the response is larger than 16 KiB', code))
  if (answering && (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH' || code === 'HPE_INVALID_EOF_STATE'))
    return fail('truncated', sentence('the response ended before its stated length', code))
  // Some of undici's parser errors have no code; it reports an invalid header block with a length as a "mismatch".
  if ((error instanceof Error && error.name === 'HTTPParserError') || code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH')
    return fail('not_http', sentence('the response is not HTTP', code))
  if (code === 'UND_ERR_SOCKET') {
    // undici uses one code for closed connections and for invalid responses; only the message differs.
    const { message } = error as Error
    if (message.startsWith('bad ')) return fail('not_http', sentence('the response is not valid HTTP', code))
    return answering
      ? fail('truncated', sentence('the connection was closed before the end of the response', code))
      : fail('reset', sentence('the connection was closed before a response', code))
  }
  if (code === 'UND_ERR_DESTROYED' || code === 'UND_ERR_CLOSED')
    return fail('shutdown', 'The gateway closed its connections.')
  if (code === 'UND_ERR_INVALID_ARG' || code === 'UND_ERR_NOT_SUPPORTED')
    // The message names the header, never its value.
    return fail('internal', `Cannot send the request: ${(error as Error).message}.`, { unsent: true })
  if (code === 'ETIMEDOUT') return fail('reset', sentence('the connection timed out', code))
  return answering
    ? fail('reset', sentence('the connection failed before the end of the response', code))
    : fail('reset', sentence('the connection failed before a response', code))
}

/** The failure for a response that the parser rejects. `answering` as above. */
export const readFailure = ({ problem, why }: AnswerProblem, answering: boolean): Failure => {
  if (problem !== 'cut') return fail('not_http', sentence(`the response is not valid HTTP: ${why}`, ''))
  return fail(answering ? 'truncated' : 'reset', sentence(`the connection was closed ${why}`, ''))
}

const sentence = (what: string, code: string): string =>
  `${what.charAt(0).toUpperCase()}${what.slice(1)}${code && ` (${code})`}.`
