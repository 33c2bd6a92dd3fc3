/** One request to a token server, over the gateway's own HTTP client. */
import { bad, type Failure, good, type Outcome } from '../../core/failure.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import type { Dial, UpstreamCall } from '../../core/world.ts'

/** Maximum response size in bytes; tokens take a few thousand. */
const MAX_RESPONSE = 256 * 1024
/** Connect timeout in ms. Without a metadata server its address is a black hole. */
const CONNECT_TIMEOUT = 2_000

export type TokenResponse = {
  readonly status: number
  /** Null if the body is not a JSON object. */
  readonly body: JsonObject | null
}

/** Resolves with the response, whatever its status, or a failure if there is none. After an abort it never settles. */
export const requestToken = (
  dial: Dial,
  call: Omit<UpstreamCall, 'connectTimeout' | 'identity'>,
  signal: AbortSignal,
): Promise<Outcome<TokenResponse>> =>
  new Promise((resolve) => {
    if (signal.aborted) return
    const parts: Uint8Array[] = []
    let size = 0
    let status = 0
    const settle = (outcome: Outcome<TokenResponse>) => {
      signal.removeEventListener('abort', leave)
      resolve(outcome)
    }
    const done = () => settle(good({ status, body: size > MAX_RESPONSE ? null : objectIn(Buffer.concat(parts)) }))
    const ongoing = dial(
      {
        ...call,
        headers: { accept: 'application/json', 'accept-encoding': 'identity', ...call.headers },
        connectTimeout: CONNECT_TIMEOUT,
      },
      {
        onHeaders: (code) => {
          status = code
        },
        onBody: (chunk) => {
          size += chunk.length
          // The chunk is only valid during this call.
          if (size <= MAX_RESPONSE) parts.push(Uint8Array.from(chunk))
          else {
            ongoing.abort()
            done()
          }
          return true
        },
        onEnd: done,
        onFailure: (failure: Failure) => settle(bad(failure)),
      },
    )
    const leave = () => ongoing.abort()
    signal.addEventListener('abort', leave, { once: true })
  })

const objectIn = (bytes: Buffer): JsonObject | null => {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'))
    return isObject(value) ? value : null
  } catch {
    // Not JSON or incomplete: callers fall back to the status.
    return null
  }
}
