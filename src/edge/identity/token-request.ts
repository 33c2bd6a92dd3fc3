/** One small question to a token server, over the same connections as every other call. */
import { bad, type Failure, good, type Outcome } from '../../core/failure.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import type { Dial, UpstreamCall } from '../../core/world.ts'

/** Bytes an answer may have; tokens have a few thousand. */
const MOST = 256 * 1024
/** ms to be connected in. Where there is no metadata server, its address leads nowhere. */
const CONNECT = 2_000

export type Answer = {
  readonly status: number
  /** Null: it was no JSON object. */
  readonly body: JsonObject | null
}

/** The answer whatever its status; failed when there was none. Aborted, it never answers. */
export const ask = (
  dial: Dial,
  call: Omit<UpstreamCall, 'connectTimeout' | 'identity'>,
  signal: AbortSignal,
): Promise<Outcome<Answer>> =>
  new Promise((resolve) => {
    if (signal.aborted) return
    const parts: Uint8Array[] = []
    let size = 0
    let status = 0
    const settle = (outcome: Outcome<Answer>) => {
      signal.removeEventListener('abort', leave)
      resolve(outcome)
    }
    const done = () => settle(good({ status, body: size > MOST ? null : objectIn(Buffer.concat(parts)) }))
    const ongoing = dial(
      {
        ...call,
        headers: { accept: 'application/json', 'accept-encoding': 'identity', ...call.headers },
        connectTimeout: CONNECT,
      },
      {
        head: (code) => {
          status = code
        },
        bytes: (chunk) => {
          size += chunk.length
          // The chunk is valid only now.
          if (size <= MOST) parts.push(Uint8Array.from(chunk))
          else {
            ongoing.abort()
            done()
          }
          return true
        },
        end: done,
        failed: (failure: Failure) => settle(bad(failure)),
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
    // A page, or half an answer: the status says the rest.
    return null
  }
}
