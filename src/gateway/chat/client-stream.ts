/**
 * A streaming answer on its way to the client: when the head goes out, what is sent while nothing else is, how a full
 * client holds the upstream back, and how a failure is told once content has gone out.
 */

import { type Failure, fail } from '../../core/failure.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import type { StreamStep, StreamWriter } from '../../core/protocol.ts'
import type { Settings } from '../../core/settings.ts'
import type { Sink } from '../../core/stage.ts'
import type { Cancel, World } from '../../core/world.ts'
import { splitStep } from '../../protocols/framing/sse.ts'
import { decodeUtf8 } from '../../protocols/framing/utf8.ts'
import type { Cancellation } from '../call/cancellation.ts'
import { NEVER, type SharedTimer, type TimerClient } from '../call/shared-timer.ts'
import type { RouterDeps } from '../gateway.ts'
import type { AnswerStream } from '../upstream/attempt.ts'

const HEAD = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // Buffering proxies hold a stream back until it is over (nginx's own switch against it).
  'x-accel-buffering': 'no',
}

const NONE = {}

/** An answer that takes longer (ms) is one of few: of those many may be open at once. */
const LONG = 5_000

/** Whose answer it is. */
export type StreamListener = {
  /** Everything has been said, or, by this failure, it has broken off. Once. */
  ended(failure: Failure | null): void
  /** It goes on for longer than most: what is kept for it should be little. */
  lasts(): void
}

export class ClientStream implements Sink<readonly StreamStep[]>, TimerClient {
  place = -1
  /** When it is to be looked whether there was silence. */
  until = NEVER
  readonly #world: World
  readonly #waits: SharedTimer<TimerClient>
  readonly #reply: ResponseWriter
  readonly #settings: Settings
  readonly #everything: Cancellation
  #poured: StreamListener | null = null
  #writer: StreamWriter | null = null
  #flow: AnswerStream | null = null
  #begun = false
  #over = false
  /** Nobody reads any more; the answer was complete. */
  #gone = false
  #lastWrite: number
  /** Until the head is out. */
  #headers: Readonly<Record<string, string>>
  /** Gives up on a client that reads no more; null while it reads. */
  #stuck: Cancel | null = null

  /**
   * `headers` are those of ours that do not depend on who answers. `stop`: told when the client reads no more, not even
   * the signs of life it is sent while nobody has answered yet; whatever is done for it has to end.
   */
  constructor(
    { world, activeCalls: live }: Pick<RouterDeps, 'world' | 'activeCalls'>,
    reply: ResponseWriter,
    settings: Settings,
    headers: Readonly<Record<string, string>>,
    stop: Cancellation,
  ) {
    this.#world = world
    this.#waits = live.timers
    this.#everything = stop
    this.#reply = reply
    this.#settings = settings
    this.#headers = headers
    this.#lastWrite = world.now()
    const { interval } = settings.keepAlive
    if (interval > 0) this.#lookAfter(Math.min(interval, LONG))
  }

  /** The head has gone out: from now on whatever happens is told in the stream. */
  get begun(): boolean {
    return this.#begun
  }

  /**
   * The choice is made: sends the head, or, where a keep-alive has already sent it, what it would have said as a comment,
   * and pours the answer through.
   */
  pour(
    writer: StreamWriter,
    flow: AnswerStream,
    headers: Readonly<Record<string, string>>,
    poured: StreamListener,
  ): void {
    if (this.#over) return poured.ended(fail('client_gone', 'the client left before the answer began'))
    this.#poured = poured
    this.#flow = flow
    this.#start(writer, headers)
    // A client may have left as its head was written; then nothing of what follows is for anybody.
    if (!this.#over) flow.pipeTo(this)
  }

  /** A comment between two events, for whoever looks at the wire. */
  remark(text: string): void {
    if (!this.#over && !this.#gone) this.#write(`: headgate ${text}\n`)
  }

  /** No target could answer, and the head is already out: says so in the stream. */
  refuse(writer: StreamWriter, failure: Failure, headers: Readonly<Record<string, string>>): void {
    this.#start(writer, headers)
    this.end(failure)
  }

  /**
   * The client left. Official SDKs do at `[DONE]`, before the body's end: whoever has taken an answer to its end was
   * answered, and the upstream may end its body too, so that its connection can be used again.
   */
  left(reason: Failure): void {
    if (!this.#flow?.finished() || this.#stuck) return this.abandon(reason)
    this.#gone = true
    this.#waits.delete(this)
  }

  /** The client is gone, or reads no more: the upstream is let go and nothing more is said. */
  abandon(reason: Failure): void {
    if (!this.#over) this.#breakOff(reason)
  }

  #breakOff(reason: Failure): void {
    this.#flow?.abort()
    this.stop()
    this.#reply.cut()
    this.#poured?.ended(reason)
    this.#everything.cancel(reason)
  }

  /** Nothing more is to be said here. */
  stop(): void {
    this.#over = true
    this.#waits.delete(this)
    this.#stuck?.()
  }

  push(steps: readonly StreamStep[]): boolean {
    if (this.#over || this.#gone || !this.#writer) return true
    let room = true
    for (const piece of wireOf(this.#writer, steps)) room = this.#write(piece) && room
    return room
  }

  end(failure?: Failure): void {
    if (this.#over || !this.#writer) return
    try {
      const told = failure ? this.#writer.push({ events: [{ type: 'failure', failure }] }) : []
      const last = [...told, ...this.#writer.end()].join('')
      this.stop()
      if (!this.#gone) this.#reply.end(last)
    } catch (error) {
      this.#breakOff(fail('internal', 'The gateway could not write the end of this answer.'))
      throw error
    }
    this.#poured?.ended(failure ?? null)
  }

  #start(writer: StreamWriter, headers: Readonly<Record<string, string>>): void {
    this.#writer = writer
    if (this.#begun) this.#write(`: headgate ${comment(headers)}\n`)
    else this.#begin(headers)
  }

  #write(piece: string | Uint8Array): boolean {
    if (piece.length === 0) return true
    this.#lastWrite = this.#world.now()
    const reply = this.#reply
    const room =
      typeof piece === 'string' ? reply.write(piece) : (reply.writeBytes?.(piece) ?? reply.write(decodeUtf8(piece)))
    if (!room) this.#wait()
    return room
  }

  /** The client reads slower than we write: the upstream is held back until it has caught up, or given up on. */
  #wait(): void {
    if (this.#stuck) return
    const { clientWrite } = this.#settings.timeout
    const giveUp = () => this.abandon(fail('client_gone', `the client read nothing for ${clientWrite} ms`))
    this.#stuck = clientWrite > 0 ? this.#world.later(clientWrite, giveUp) : () => {}
    this.#reply.onDrain(() => {
      this.#stuck?.()
      this.#stuck = null
      this.#flow?.resume()
    })
  }

  /** Looks once an interval whether there was silence, instead of anew with every write. */
  onDeadline(): void {
    const { interval } = this.#settings.keepAlive
    this.#poured?.lasts()
    const left = this.#lastWrite + interval - this.#world.now()
    // Behind the terminator nothing may stand; what is missing then is short of the upstream's own end.
    if (left <= 0 && !this.#stuck && !this.#flow?.finished()) {
      if (!this.#begun) this.#begin(this.#headers)
      this.#write(this.#writer ? this.#writer.keepAlive() : ': ping\n')
    }
    if (!this.#over) this.#lookAfter(left > 0 ? left : interval)
  }

  #lookAfter(ms: number): void {
    this.#waits.set(this.#world, this, this.#world.now() + ms)
  }

  #begin(headers: Readonly<Record<string, string>>): void {
    this.#reply.head(200, { ...HEAD, ...headers })
    this.#begun = true
    this.#headers = NONE
  }
}

/** So many bytes repay a write of their own; fewer, among other steps, join the text around them. */
const REPAYS = 4 * 1024

/** What a writer makes of the steps that one read brought: mostly one text, or the read's bytes as they came. */
export const wireOf = (writer: StreamWriter, steps: readonly StreamStep[]): readonly (string | Uint8Array)[] => {
  const wire: (string | Uint8Array)[] = []
  let text = ''
  for (const step of steps) {
    const { bytes } = step
    if (bytes && writer.passes?.(bytes)) {
      if (steps.length > 1 && bytes.length < REPAYS) text += decodeUtf8(bytes)
      else {
        if (text !== '') wire.push(text)
        text = ''
        wire.push(bytes)
      }
    } else if (bytes && writer.passes) {
      for (const one of splitStep(step)) for (const piece of writer.push(one)) text += piece
    } else for (const piece of writer.push(step)) text += piece
  }
  if (text !== '') wire.push(text)
  return wire
}

/** What the head could not say any more. */
const comment = (headers: Readonly<Record<string, string>>): string =>
  ['provider', 'model', 'trail', 'dropped']
    .map((name) => [name, headers[`x-headgate-${name}`]])
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ')
