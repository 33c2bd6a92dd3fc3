/** A request with a short answer, such as a token or a confirmation, over the gateway's own HTTP client and its proxy. */
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { Dial, UpstreamCall } from '../../core/world.ts'

/** Maximum size of a response in bytes. */
const MAX_RESPONSE = 256 * 1024

const ABORTED = fail('timeout', 'No response arrived in time.')

export type ShortResponse = {
  readonly status: number
  readonly headers: HeaderLookup
  /** Null: larger than 256 KiB. */
  readonly body: Buffer | null
}

/**
 * Resolves with the response, whatever its status, or a failure if there is none: of kind `timeout` after an abort. Redirects are
 * not followed: they could lead to a place that others control. Never rejects.
 */
export const shortRequest = (dial: Dial, call: UpstreamCall, signal: AbortSignal): Promise<Outcome<ShortResponse>> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve(bad(ABORTED))
    const parts: Uint8Array[] = []
    let size = 0
    let head: Pick<ShortResponse, 'status' | 'headers'> = { status: 0, headers: () => undefined }
    const settle = (outcome: Outcome<ShortResponse>) => {
      signal.removeEventListener('abort', leave)
      resolve(outcome)
    }
    const done = () => settle(good({ ...head, body: size > MAX_RESPONSE ? null : Buffer.concat(parts) }))
    const ongoing = dial(
      { ...call, headers: { 'accept-encoding': 'identity', ...call.headers } },
      {
        onHeaders: (status, headers) => {
          head = { status, headers }
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
    const leave = () => {
      ongoing.abort()
      settle(bad(ABORTED))
    }
    signal.addEventListener('abort', leave, { once: true })
  })
