/** What is written down of one call while it is served, and how it ends when nobody could answer it. */

import type { Usage } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import type { Target } from '../../core/target.ts'
import type { Trace, TraceEvent } from '../../core/trace.ts'
import { attemptsOf, trail } from '../../core/trace-summary.ts'
import { statusOf } from '../../policy/reply/final-error.ts'
import type { RouterDeps } from '../gateway.ts'
import { errorResponse } from './error-response.ts'
import type { TokenUsage } from './usage.ts'

type Teller = Pick<RouterDeps, 'world' | 'emit'>

/** What happens to one request, written down once: the log line, the metrics and the headers are folds of it. */
export class Recorder {
  readonly id: string
  readonly #gateway: Teller
  #facts: TraceEvent[] = []
  #dropped: readonly string[] = []
  #answeredBy: { readonly provider: string; readonly model: string } | null = null
  /** The head has gone out: an error can no longer be a response of its own. */
  responseStarted = false
  ended = false

  /** `style`: the kind of call, as the log calls it. */
  constructor(gateway: Teller, received: IncomingRequest, style: string) {
    this.#gateway = gateway
    this.id = received.id
    const at = gateway.world.now()
    const client = received.clientKey ? { client: received.clientKey } : {}
    this.#facts.push({ type: 'received', at, id: received.id, style, model: '', stream: false, ...client })
  }

  get trace(): Trace {
    return this.#facts
  }

  /** What the request turned out to ask, once it could be read. */
  received(model: string, stream: boolean): void {
    const first = this.#facts[0]
    if (first?.type === 'received') this.#facts[0] = { ...first, model, stream }
  }

  note(fact: TraceEvent): void {
    this.#facts.push(fact)
  }

  /** Nothing is noted for a while: a list that was added to has room for seventeen. */
  releaseDetails(): void {
    this.#facts = this.#facts.slice()
  }

  answeredBy(won: { readonly target: Target; readonly prepared: { readonly dropped: readonly string[] } }): void {
    const { instance, model } = won.target.candidate
    this.#answeredBy = { provider: instance.id, model }
    this.#dropped = won.prepared.dropped
    if (this.#dropped.length > 0) this.note({ type: 'dropped', paths: this.#dropped })
  }

  /** Output the client's format has no place for, by its path: `output.image`. Whether it is the first of its kind. */
  lostOutput(path: string): boolean {
    if (this.#dropped.includes(path)) return false
    this.#dropped = [...this.#dropped, path]
    this.note({ type: 'dropped', paths: [path] })
    return true
  }

  usage(usage: Usage | null): void {
    if (usage) this.used({ usage })
  }

  used(used: TokenUsage): void {
    this.note({ type: 'usage', ...used })
  }

  headers(): { readonly [name: string]: string } {
    let attempts = 0
    let last: Extract<TraceEvent, { type: 'attempt' }> | undefined
    for (const fact of this.#facts)
      if (fact.type === 'attempt') {
        attempts++
        last = fact
      }
    // An error reports the last attempt.
    const by = this.#answeredBy ?? last
    const dropped = this.#answeredBy ? this.#dropped : (last?.dropped ?? [])
    const line = trail(this.#facts)
    const headers: Record<string, string> = { 'x-request-id': this.id, 'x-headgate-attempts': String(attempts) }
    if (by) {
      headers['x-headgate-provider'] = printable(by.provider)
      headers['x-headgate-model'] = printable(by.model)
    }
    if (line !== '') headers['x-headgate-trail'] = printable(line)
    if (dropped.length > 0) headers['x-headgate-dropped'] = droppedLine(dropped)
    return headers
  }

  end(how: (TraceEvent & { type: 'ended' })['how'], status: number, failure?: Failure): void {
    if (this.ended) return
    this.ended = true
    const attempted = this.#answeredBy ? undefined : this.#facts.findLast((fact) => fact.type === 'attempt')
    if (attempted?.dropped) this.note({ type: 'dropped', paths: attempted.dropped })
    this.note({ type: 'ended', at: this.#gateway.world.now(), how, status, ...(failure && { failure }) })
    this.#gateway.emit({ event: 'request', exchange: this.#facts })
  }
}

/** Longest value of a header of ours: proxies refuse heads of more than a few thousand bytes. */
const LONGEST = 1_024

const VISIBLE = /^[\x20-\x7e]*$/

/** A header's value in visible ASCII (RFC 9110, section 5.5): names come from clients and from configuration. */
export const printable = (value: string): string => {
  if (value.length <= LONGEST && VISIBLE.test(value)) return value
  const safe = value.replace(/[^\x20-\x7e]/gu, (char) => encodeURIComponent(char.isWellFormed() ? char : '\ufffd'))
  return safe.length > LONGEST ? `${safe.slice(0, LONGEST - 3)}...` : safe
}

/** Room for the count of paths that are left out. */
const COUNT_LENGTH = ', ... +9999999'.length

/**
 * Paths as a comma list of at most 1,024 characters. What does not fit is counted at its end: `a, b, ... +37`. A first
 * path that is too long by itself is cut and ends in `...`.
 */
export const droppedLine = (paths: readonly string[]): string => {
  const whole = paths.map(printable)
  let line = whole[0]?.slice(0, LONGEST - COUNT_LENGTH) ?? ''
  if (whole[0] !== undefined && line.length < whole[0].length) line = `${line.slice(0, -3)}...`
  for (const [index, path] of whole.entries()) {
    if (index === 0) continue
    const isLast = index === whole.length - 1
    const room = isLast ? LONGEST : LONGEST - COUNT_LENGTH
    if (line.length + 2 + path.length > room) return `${line}, ... +${whole.length - index}`
    line += `, ${path}`
  }
  return line
}

/** The client is told, and it is written down that it was. */
export const writeAndRecordError = (
  protocol: ClientProtocol,
  reply: ResponseWriter,
  record: Recorder,
  failure: Failure,
  soonest: number | null,
): void => {
  writeError(protocol, reply, record, failure, soonest)
  record.end('refused', statusOf(failure), failure)
}

/** An error as the whole answer. */
export const writeError = (
  protocol: ClientProtocol,
  reply: ResponseWriter,
  record: Recorder,
  failure: Failure,
  soonest: number | null,
): void => {
  const refusal = errorResponse(protocol, failure, {
    requestId: record.id,
    soonest,
    attempts: attemptsOf(record.trace),
  })
  record.responseStarted = true
  reply.head(refusal.status, { ...record.headers(), ...refusal.headers })
  reply.end(refusal.body)
}
