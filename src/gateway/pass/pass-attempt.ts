/** One call of a provider's own API: sends the request, and passes on the answer as it arrives, or keeps it until it is complete. */
import { type Failure, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { joinedBytes } from '../../core/joined-bytes.ts'
import type { Settings } from '../../core/settings.ts'
import { NEVER, type SharedTimer, type TimerClient } from '../../core/shared-timer.ts'
import type { Sink } from '../../core/stage.ts'
import type { StreamedBody } from '../../core/streamed-body.ts'
import type { OngoingCall, UpstreamCall, UpstreamListener, World } from '../../core/world.ts'
import type { AnswerUsage } from './answer-usage.ts'

/** Largest answer that is kept until it is complete, in bytes: its usage and its errors are read. */
export const MAX_KEPT = 1024 * 1024

/** The header block of an answer. */
export type PassHead = { readonly status: number; readonly headers: HeaderLookup }

/** Whether an answer is kept until it is complete, to be read. `small`: unless it is larger than `MAX_KEPT`. */
export type KeptPass = 'whole' | 'small' | 'none'

export type PassInput = {
  readonly call: Omit<UpstreamCall, 'connectTimeout' | 'passed'>
  readonly timeout: Settings['timeout']
  readonly keep: (head: PassHead) => KeptPass
  /** Reads the usage. */
  readonly usage: AnswerUsage
}

/** `whole`: the complete body; null: it is passed on from here. */
export type PassOutcome =
  | { readonly ok: true; readonly head: PassHead; readonly whole: Uint8Array | null }
  | { readonly ok: false; readonly failure: Failure }

type PassDeps = {
  readonly world: World
  readonly activeCalls: { readonly timers: SharedTimer<TimerClient> }
}

export class PassAttempt implements UpstreamListener {
  readonly opened: Promise<PassOutcome>
  readonly #input: PassInput
  readonly #call: OngoingCall
  #settle: (outcome: PassOutcome) => void = () => {}
  #head: PassHead | null = null
  /** Parts that are kept: all of a kept answer, otherwise those that arrived before there was a sink. */
  #parts: Uint8Array[] = []
  #size = 0
  #kept: KeptPass = 'none'
  #sink: Sink<Uint8Array> | null = null
  readonly #clock: PassClock
  #isOver = false
  /** How it ended before there was a sink; undefined: it has not. */
  #ended: Failure | null | undefined

  constructor(deps: PassDeps, input: PassInput) {
    this.#input = input
    this.#clock = new PassClock(deps, input.timeout, (failure) => this.failWith(failure))
    this.opened = new Promise((resolve) => {
      this.#settle = resolve
    })
    const { call, timeout } = input
    const upload = call.upload && this.#clock.observed(call.upload)
    this.#call = deps.world.dial({ ...call, upload, connectTimeout: timeout.connect, passed: true }, this)
    this.#clock.schedule()
  }

  // ── The answer ─────────────────────────────────────────────────────────────────────────────────────────────────

  /** Passes on the body of an answer that is not kept. */
  pipeTo(sink: Sink<Uint8Array>): void {
    let hasRoom = true
    for (const part of this.#parts.splice(0)) hasRoom = sink.push(part) && hasRoom
    if (this.#ended !== undefined) return sink.end(this.#ended ?? undefined)
    this.#sink = sink
    this.#clock.isPaused = !hasRoom
    if (hasRoom) this.resume()
  }

  resume(): void {
    if (this.#isOver) return
    this.#clock.isPaused = false
    this.#clock.active()
    this.#call.resume()
  }

  /** Ends it without calling the sink. */
  abort(): void {
    this.#sink = null
    this.#stop()
  }

  failWith(failure: Failure): void {
    if (!this.#isOver) this.#end(failure)
  }

  onHeaders(status: number, headers: HeaderLookup): void {
    if (this.#isOver) return
    this.#clock.active()
    this.#clock.hasAnswered = true
    const head = { status, headers }
    this.#head = head
    this.#kept = this.#input.keep(head)
    this.#input.usage.begin(head)
    if (this.#kept === 'none') this.#settle({ ok: true, head, whole: null })
  }

  onBody(chunk: Uint8Array): boolean {
    if (this.#isOver) return true
    this.#clock.active()
    this.#input.usage.push(chunk)
    if (this.#sink) {
      this.#clock.isPaused = !this.#sink.push(chunk)
      return !this.#clock.isPaused
    }
    this.#size += chunk.length
    if (this.#kept === 'whole' && this.#size > MAX_KEPT) {
      this.#end(fail('too_large', `The provider's answer is larger than ${MAX_KEPT} bytes, so it cannot be checked.`))
      return true
    }
    this.#parts.push(new Uint8Array(chunk))
    if (this.#kept === 'small' && this.#size > MAX_KEPT && this.#head) {
      this.#kept = 'none'
      this.#settle({ ok: true, head: this.#head, whole: null })
    }
    return this.#kept !== 'none'
  }

  onEnd(): void {
    this.#input.usage.end()
    this.#end(null)
  }

  onFailure(failure: Failure): void {
    if (this.#isOver) return
    const status = this.#head?.status
    const isCut = status !== undefined && failure.kind === 'reset'
    this.#end(status === undefined ? failure : { ...failure, ...(isCut && { kind: 'truncated' as const }), status })
  }

  #end(failure: Failure | null): void {
    if (this.#isOver) return
    this.#stop()
    this.#ended = failure
    const sink = this.#sink
    this.#sink = null
    if (sink) return sink.end(failure ?? undefined)
    const isKept = this.#kept !== 'none'
    if (failure && (isKept || !this.#head)) return this.#settle({ ok: false, failure })
    if (isKept && this.#head) this.#settle({ ok: true, head: this.#head, whole: joinedBytes(this.#parts, this.#size) })
  }

  #stop(): void {
    this.#isOver = true
    this.#clock.stop()
    this.#input.usage.isFinished = true
    // Undefined while `dial` runs.
    this.#call?.abort()
  }
}

/** The timeouts of a call: until the answer, and between its parts. */
class PassClock implements TimerClient {
  place = -1
  until = NEVER
  /** The client reads nothing. */
  isPaused = false
  hasAnswered = false
  readonly #deps: PassDeps
  readonly #timeout: PassInput['timeout']
  readonly #onTimeout: (failure: Failure) => void
  /** When the provider or the client last sent something. */
  #activeAt: number

  constructor(deps: PassDeps, timeout: PassInput['timeout'], onTimeout: (failure: Failure) => void) {
    this.#deps = deps
    this.#timeout = timeout
    this.#onTimeout = onTimeout
    this.#activeAt = deps.world.now()
  }

  active(): void {
    this.#activeAt = this.#deps.world.now()
  }

  /** The timer is not moved with each part: when it fires, it is set again. */
  schedule(): void {
    const { world, activeCalls } = this.#deps
    activeCalls.timers.set(world, this, this.#limit > 0 ? this.#activeAt + this.#limit : NEVER)
  }

  stop(): void {
    this.#deps.activeCalls.timers.delete(this)
  }

  get #limit(): number {
    return this.hasAnswered ? this.#timeout.idle : this.#timeout.firstContent
  }

  onDeadline(now: number): void {
    if (this.isPaused) this.active()
    if (this.#limit === 0 || now < this.#activeAt + this.#limit) return this.schedule()
    const kind = this.hasAnswered ? 'stalled' : 'timeout'
    this.#onTimeout(fail(kind, `The provider sent nothing for ${this.#limit / 1000} s.`))
  }

  /** A body that arrives counts as activity. */
  observed(upload: StreamedBody): StreamedBody {
    const active = () => this.active()
    return {
      length: upload.length,
      pipeTo: (sink) =>
        upload.pipeTo({
          push(part) {
            active()
            return sink.push(part)
          },
          end: (failure) => sink.end(failure),
        }),
      resume() {
        active()
        upload.resume()
      },
      drop: () => upload.drop(),
    }
  }
}
