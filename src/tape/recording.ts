/** Listens to an attempt while it is answered, and keeps a complete answer. */
import type { HeaderLookup } from '../core/headers.ts'
import { isObject, readJson } from '../core/json.ts'
import type { UpstreamProtocol } from '../core/protocol.ts'
import type { OngoingCall, UpstreamListener, World } from '../core/world.ts'
import { readerFor } from '../gateway/upstream/body-reader.ts'
import { framesOf } from './answer-texts.ts'
import { type TapeAnswer, type TapeEvent, textOfBytes } from './tape-file.ts'

/** Headers that are kept. All others may have names, addresses and credentials. */
const KEPT_HEADERS = ['content-type', 'retry-after']

/** `protocol`: null for a JSON call. */
export type RecordingOptions = {
  readonly now: World['now']
  readonly protocol: UpstreamProtocol | null
  readonly stream: boolean
  /** Bytes of an answer above which it is not kept. */
  readonly most: number
  readonly onEnd: (answer: FollowedAnswer) => void
}

/** `isComplete`: a whole answer with a status of 2xx. `isTooLarge`: its events are not kept. */
export type FollowedAnswer = { readonly answer: TapeAnswer; readonly isComplete: boolean; readonly isTooLarge: boolean }

/** Follows one call. `onEnd` is called once, unless the call fails before the head. */
export class Recording implements UpstreamListener {
  readonly #listener: UpstreamListener
  readonly #options: RecordingOptions
  readonly #begun: number
  #head: { readonly status: number; readonly headers: Readonly<Record<string, string>>; readonly at: number } | null =
    null
  readonly #chunks: TapeEvent[] = []
  #size = 0
  #isOver = false

  constructor(listener: UpstreamListener, options: RecordingOptions) {
    this.#listener = listener
    this.#options = options
    this.#begun = options.now()
  }

  /** The call, whose end by the gateway may be the end of a complete answer: it does not wait for the end of the body. */
  followed(call: OngoingCall): OngoingCall {
    return {
      ...call,
      abort: () => {
        this.#finish()
        call.abort()
      },
      resume: () => call.resume(),
    }
  }

  onHeaders(status: number, headers: HeaderLookup): void {
    const kept = KEPT_HEADERS.flatMap((name) => {
      const value = headers(name)
      return value === undefined ? [] : [[name, value] as const]
    })
    this.#head = { status, headers: Object.fromEntries(kept), at: this.#options.now() }
    this.#listener.onHeaders(status, headers)
  }

  onBody(chunk: Uint8Array): boolean {
    this.#size += chunk.length
    if (!this.#isOver && this.#size <= this.#options.most)
      this.#chunks.push({ ms: this.#sinceHead(), bytes: new Uint8Array(chunk) })
    return this.#listener.onBody(chunk)
  }

  onEnd(): void {
    this.#finish()
    this.#listener.onEnd()
  }

  onFailure(failure: Parameters<UpstreamListener['onFailure']>[0]): void {
    this.#finish(false)
    this.#listener.onFailure(failure)
  }

  onPaused(stopped: boolean): void {
    this.#listener.onPaused?.(stopped)
  }

  #sinceHead(): number {
    return this.#head ? Math.round(this.#options.now() - this.#head.at) : 0
  }

  #finish(mayBeComplete = true): void {
    if (this.#isOver || !this.#head) return
    this.#isOver = true
    const { status, headers, at } = this.#head
    const isTooLarge = this.#size > this.#options.most
    const type = headers['content-type'] ?? ''
    const events = framed(this.#chunks, type)
    const answer = { status, headers, ms: Math.round(at - this.#begun), events }
    const isGood = status >= 200 && status < 300
    const isComplete = mayBeComplete && isGood && (isTooLarge || isWhole(answer, this.#options))
    this.#options.onEnd({ answer, isComplete, isTooLarge })
  }
}

/** Whether its reader finds the end of the answer and no failure. */
const isWhole = ({ status, headers, events }: TapeAnswer, { protocol, stream }: RecordingOptions): boolean => {
  if (!protocol) return isObject(readJson(Buffer.concat(events.map(({ bytes }) => bytes)).toString()))
  const lookup: HeaderLookup = (name) => headers[name]
  const context = { protocol, quirks: undefined, translated: null, stream, date: 0 }
  const reader = readerFor({ status, headers: lookup }, context)
  const steps = [...events.flatMap(({ bytes }) => reader.push(bytes)), ...reader.end()]
  const found = steps.flatMap((step) => step.events.map(({ type }) => type))
  return found.includes('finish') && !found.includes('failure')
}

/** One entry for each event of a stream, with the time at which its last byte arrived. Bytes that are not a text stay as they arrived. */
const framed = (chunks: readonly TapeEvent[], type: string): readonly TapeEvent[] => {
  const whole = textOfBytes(Buffer.concat(chunks.map(({ bytes }) => bytes)))
  if (whole === undefined) return chunks
  let [at, arrived, end] = [0, 0, 0]
  return framesOf(whole, type).map((piece) => {
    const bytes = Buffer.from(piece)
    end += bytes.length
    while (arrived < end && at < chunks.length) arrived += chunks[at++]?.bytes.length ?? 0
    return { ms: chunks[at - 1]?.ms ?? 0, bytes }
  })
}
