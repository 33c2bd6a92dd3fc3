/** Fetches one small document of an issuer, with limits of time and size. */
import type { World } from '../core/world.ts'

/** Bytes of a document. */
const MAX_BYTES = 256 * 1024

export type FetchedText =
  | { readonly ok: true; readonly text: string; readonly cacheControl: string | undefined }
  | { readonly ok: false; readonly problem: string }

export type FetchOptions = {
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  /** ms for everything. */
  readonly within: number
}

/** Never rejects. A redirect is a failure: it could lead to a place that others control. */
export const fetchText = (
  { dial, later }: Pick<World, 'dial' | 'later'>,
  { url, headers = {}, within }: FetchOptions,
): Promise<FetchedText> =>
  new Promise((resolve) => {
    const pieces: Uint8Array[] = []
    let [size, status] = [0, 0]
    let cacheControl: string | undefined
    let isDone = false
    const finish = (result: FetchedText) => {
      if (isDone) return
      isDone = true
      cancel()
      call.abort()
      resolve(result)
    }
    const failed = (problem: string) => finish({ ok: false, problem: `${problem} (${url})` })
    const cancel = later(within, () => failed(`no answer within ${within} ms`))
    const call = dial(
      { method: 'GET', url, headers: { accept: 'application/json', ...headers }, connectTimeout: within },
      {
        onHeaders(code, find) {
          status = code
          cacheControl = find('cache-control')
        },
        onBody(chunk) {
          size += chunk.length
          if (size > MAX_BYTES) failed(`the answer is larger than ${MAX_BYTES / 1024} KB`)
          else pieces.push(Uint8Array.from(chunk))
          return true
        },
        onEnd() {
          if (status !== 200) return failed(`status ${status}`)
          finish({ ok: true, text: Buffer.concat(pieces).toString(), cacheControl })
        },
        onFailure: ({ message }) => failed(message.replace(/\.$/, '')),
      },
    )
  })
