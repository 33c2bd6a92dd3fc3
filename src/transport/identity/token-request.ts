/** One request to a token server, over the gateway's own HTTP client. */
import { good, type Outcome } from '../../core/failure.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import type { Dial, UpstreamCall } from '../../core/world.ts'
import { shortRequest } from '../net/short-request.ts'

/** Connect timeout in ms. Without a metadata server its address, which uses http, is a black hole. */
export const connectTimeoutFor = (url: string): number => (url.startsWith('http:') ? 2_000 : 5_000)

export type TokenResponse = {
  readonly status: number
  /** Null if the body is not a JSON object. */
  readonly body: JsonObject | null
}

/** Resolves with the response, whatever its status, or a failure if there is none: of kind `timeout` after an abort. */
export const requestToken = async (
  dial: Dial,
  call: Omit<UpstreamCall, 'connectTimeout' | 'identity'>,
  signal: AbortSignal,
): Promise<Outcome<TokenResponse>> => {
  const headers = { accept: 'application/json', ...call.headers }
  const response = await shortRequest(dial, { ...call, headers, connectTimeout: connectTimeoutFor(call.url) }, signal)
  if (!response.ok) return response
  const { status, body } = response.value
  return good({ status, body: body && objectIn(body) })
}

const objectIn = (bytes: Buffer): JsonObject | null => {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'))
    return isObject(value) ? value : null
  } catch {
    // Not JSON or incomplete: callers fall back to the status.
    return null
  }
}
