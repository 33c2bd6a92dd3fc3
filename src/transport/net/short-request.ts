/** A request with a short answer, such as a token or a confirmation, over the gateway's own HTTP client and its proxy. */
import { bad, type Failure, good, type Outcome } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { Dial, UpstreamCall } from '../../core/world.ts'

/** Maximum size of a response in bytes. */
const MAX_RESPONSE = 256 * 1024

export type ShortResponse = {
  readonly status: number
  readonly headers: HeaderLookup
  /** Null: larger than 256 KiB. */
  readonly body: Buffer | null
}

/** Resolves with the response, whatever its status, or a failure if there is none. After an abort it never settles. */
export const shortRequest = (dial: Dial, call: UpstreamCall, signal: AbortSignal): Promise<Outcome<ShortResponse>> =>
  new Promise((resolve) => {
    if (signal.aborted) return
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
    const leave = () => ongoing.abort()
    signal.addEventListener('abort', leave, { once: true })
  })
