import { type Failure, type FailureKind, fail } from '../../core/failure.ts'
import type { AnswerProblem } from './answer-reader.ts'

/** What an error of the network layers is, by its code; never by the words of its message. */
type Cause = { readonly kind: FailureKind; readonly what: string }

const CONNECTING: { readonly [code: string]: Cause } = {
  ECONNREFUSED: { kind: 'refused', what: 'the connection was refused' },
  EHOSTUNREACH: { kind: 'refused', what: 'the host cannot be reached' },
  ENETUNREACH: { kind: 'refused', what: 'the network cannot be reached' },
  EHOSTDOWN: { kind: 'refused', what: 'the host is down' },
  EACCES: { kind: 'refused', what: 'connecting is not permitted here' },
  EPERM: { kind: 'refused', what: 'connecting is not permitted here' },
  ENOTFOUND: { kind: 'dns', what: 'the host name is not known' },
  EAI_AGAIN: { kind: 'dns', what: 'the name server gave no answer' },
  EAI_FAIL: { kind: 'dns', what: 'the name server failed' },
  EAI_NODATA: { kind: 'dns', what: 'the host name has no address' },
  EAI_NONAME: { kind: 'dns', what: 'the host name is not known' },
  ETIMEDOUT: { kind: 'connect_timeout', what: 'connecting took too long' },
  ECONNRESET: { kind: 'reset', what: 'the connection was closed while it was being made' },
  EPIPE: { kind: 'reset', what: 'the connection was closed while it was being made' },
  ECONNABORTED: { kind: 'reset', what: 'the connection was closed while it was being made' },
  // These are this machine's shortage, not the upstream's: no breaker of theirs is moved.
  EMFILE: { kind: 'busy', what: 'this machine has no file descriptor left for a connection' },
  ENFILE: { kind: 'busy', what: 'this machine has no file descriptor left for a connection' },
  ENOBUFS: { kind: 'busy', what: 'this machine has no memory left for a connection' },
  ENOMEM: { kind: 'busy', what: 'this machine has no memory left for a connection' },
  EADDRNOTAVAIL: { kind: 'busy', what: 'this machine has no port left for a connection' },
}

/** OpenSSL's verification results carry no common prefix. */
const CERTIFICATE =
  /^(CERT_|ERR_TLS_|ERR_SSL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_(CA|PURPOSE)|PATH_LENGTH_|CRL_|HOSTNAME_MISMATCH|ERROR_IN_)/

const codeOf = (error: unknown): string => {
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? code : ''
}

/** Why no connection came about. Nothing was sent in any of these cases. */
export const connectFailure = (error: unknown): Failure => {
  // Happy Eyeballs tries each address of a name and gives the errors together; the last tells most.
  const last = error instanceof AggregateError ? (error.errors.at(-1) ?? error) : error
  const code = codeOf(error) || codeOf(last)
  const known = CONNECTING[code]
  if (known)
    return fail(known.kind, sentence(known.what, code), {
      unsent: true,
      // The one that may be over in a moment: whoever decides what to try next knows it by its code.
      ...(code === 'EAI_AGAIN' && { upstream: { code } }),
    })
  if (CERTIFICATE.test(code) || code === 'EPROTO')
    return fail('tls', sentence('no secure connection could be made', code), { unsent: true })
  return fail('refused', sentence('no connection could be made', code), { unsent: true })
}

export const connectTimedOut = (ms: number): Failure =>
  fail('connect_timeout', `No connection was made within ${ms} ms.`, { unsent: true })

/** Why a call broke that had a connection. `answering`: its head had come already. */
export const callFailure = (error: unknown, answering: boolean): Failure => {
  const code = codeOf(error)
  if (code === 'UND_ERR_HEADERS_OVERFLOW')
    return fail('not_http', sentence('the head of the answer is larger than 16 KiB', code))
  if (answering && (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH' || code === 'HPE_INVALID_EOF_STATE'))
    return fail('truncated', sentence('the answer ended before its stated length', code))
  // undici does not give every parser error a code; and a broken head that states a length is a "mismatch" to it.
  if ((error instanceof Error && error.name === 'HTTPParserError') || code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH')
    return fail('not_http', sentence('what came back is not HTTP', code))
  if (code === 'UND_ERR_SOCKET') {
    // undici gives one code to a closed connection and to answers it must not accept; only its message tells them apart.
    const { message } = error as Error
    if (message.startsWith('bad ')) return fail('not_http', sentence('what came back is not an answer', code))
    return answering
      ? fail('truncated', sentence('the connection was closed in the middle of the answer', code))
      : fail('reset', sentence('the connection was closed without an answer', code))
  }
  if (code === 'UND_ERR_DESTROYED' || code === 'UND_ERR_CLOSED')
    return fail('shutdown', 'The gateway closed its connections.')
  if (code === 'UND_ERR_INVALID_ARG' || code === 'UND_ERR_NOT_SUPPORTED')
    // The message names the header, never its value.
    return fail('internal', `The request could not be written: ${(error as Error).message}.`, { unsent: true })
  if (code === 'ETIMEDOUT') return fail('reset', sentence('the connection went dead', code))
  return answering
    ? fail('reset', sentence('the connection broke in the middle of the answer', code))
    : fail('reset', sentence('the connection broke before the answer', code))
}

/** Why an answer could not be read. */
export const readFailure = ({ problem, why }: AnswerProblem, answering: boolean): Failure => {
  if (problem !== 'cut') return fail('not_http', sentence(`what came back is not an answer: ${why}`, ''))
  return fail(answering ? 'truncated' : 'reset', sentence(`the connection was closed ${why}`, ''))
}

const sentence = (what: string, code: string): string =>
  `${what.charAt(0).toUpperCase()}${what.slice(1)}${code && ` (${code})`}.`
