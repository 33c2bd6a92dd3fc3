/** Records one call while it is served, and writes its error response if it fails. */

import type { Failure } from '../../core/failure.ts'
import { type RuleVerdict, summedVerdicts, verdictHeader } from '../../core/guard-verdict.ts'
import type { IncomingRequest, RequestBody, ResponseWriter } from '../../core/http-exchange.ts'
import type { BodyKeeper, CallBodies } from '../../core/kept-bodies.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import { SWITCH_HEADER, type Switch, switchText } from '../../core/switch.ts'
import type { Target } from '../../core/target.ts'
import type { EndedEvent, GatewayEvent, Trace, TraceEvent } from '../../core/trace.ts'
import { attemptsOf, trail, verdictsIn } from '../../core/trace-summary.ts'
import type { World } from '../../core/world.ts'
import { statusOf } from '../../policy/reply/final-error.ts'
import { personRefusal } from '../../policy/sign-in/person-refusal.ts'
import type { Accounts } from '../accounts/accounts.ts'
import type { NamingRequest, RequestAccount } from '../accounts/request-account.ts'
import type { TokenUsage } from '../accounts/token-usage.ts'
import { errorResponse } from './error-response.ts'

/** The dependencies of recording a call. */
export type RecorderDeps = {
  readonly world: World
  /** Publishes an event to the log and the metrics. */
  readonly emit: (event: GatewayEvent) => void
  /** Limits and budgets of clients, and the journal. */
  readonly accounts: Accounts
  /** Keeps bodies of calls. Absent: none are kept. */
  readonly bodies?: BodyKeeper
}

/** The client's format, and the kind of call as named in the log. */
export type CallKind = { readonly protocol: ClientProtocol; readonly style: string }

/** What is known of a call after its request is parsed. `members`: of the client's own body. */
type ParsedCall = NamingRequest & { readonly model: string; readonly stream: boolean }

/** The trace of one request. The log line, the metrics and the response headers are derived from it. */
export class Recorder {
  readonly id: string
  /** What the call reserves and is charged. It is derived from the events. */
  readonly account: RequestAccount
  /** Null: the bodies of the call are not kept. */
  readonly bodies: CallBodies | null
  readonly #gateway: RecorderDeps
  readonly #protocol: ClientProtocol
  /** A person who signed in. */
  readonly #isPerson: boolean
  #events: TraceEvent[] = []
  #dropped: readonly string[] = []
  #extraHeaders: Readonly<Record<string, string>> | null = null
  #answeredBy: { readonly provider: string; readonly model: string } | null = null
  /** The header block has been sent, so an error can no longer become the response. */
  responseStarted = false
  ended = false

  constructor(gateway: RecorderDeps, received: IncomingRequest<RequestBody>, { protocol, style }: CallKind) {
    this.#gateway = gateway
    this.#protocol = protocol
    this.#isPerson = received.client.person !== undefined
    this.id = received.id
    this.account = gateway.accounts.open(received, style)
    this.bodies = gateway.bodies?.open(received) ?? null
    const { traceResponse } = this.account
    if (traceResponse !== null) this.addHeaders({ traceresponse: traceResponse })
    const at = gateway.world.now()
    const { id, ownId } = received
    const { received: date, family } = this.account
    const client = received.client.id === '' ? {} : { client: received.client.id, team: received.client.team.name }
    this.#events.push({ type: 'received', at, date, family, id, ownId, style, model: '', stream: false, ...client })
  }

  /** The events so far, in order. */
  get trace(): Trace {
    return this.#events
  }

  /** Adds the model, the session and the end user after the request is parsed. Returns why the call is refused, or null. */
  received(parsed: ParsedCall): Failure | null {
    const { model, stream } = parsed
    const first = this.#events[0]
    if (first?.type === 'received') this.#events[0] = { ...first, model, stream }
    return this.account.identify(parsed)
  }

  /** Appends an event. */
  note(event: TraceEvent): void {
    this.#events.push(event)
    this.account.attempts.observe(event)
  }

  /** Records the verdict of a rule. Those of one rule, phase and action are one event. */
  judged(verdict: RuleVerdict): void {
    const at = this.#events.findIndex((event) => event.type === 'guard' && isSameRule(event.verdict, verdict))
    const known = this.#events[at]
    if (known?.type === 'guard') this.#events[at] = { type: 'guard', verdict: summedVerdicts(known.verdict, verdict) }
    else this.note({ type: 'guard', verdict })
  }

  /** Frees the spare capacity of the event list, and the request whose shape may be noted, before a long stream. */
  releaseDetails(): void {
    this.#events = this.#events.slice()
    this.account.releaseRequest(this.#events)
  }

  /** Records the target that answered, and the dropped members of the request. */
  answeredBy(routed: { readonly target: Target; readonly prepared: { readonly dropped: readonly string[] } }): void {
    const { instance, model } = routed.target.candidate
    this.#answeredBy = { provider: instance.id, model }
    this.#dropped = routed.prepared.dropped
    if (this.#dropped.length > 0) this.note({ type: 'dropped', paths: this.#dropped })
  }

  /** Records output that the client's protocol cannot carry, by its path (`output.image`). Returns false if already recorded. */
  lostOutput(path: string): boolean {
    if (this.#dropped.includes(path)) return false
    this.#dropped = [...this.#dropped, path]
    this.note({ type: 'dropped', paths: [path] })
    return true
  }

  /** Records token usage, counted or estimated. */
  used(used: TokenUsage): void {
    const { usage, estimated } = used
    this.note(estimated ? { type: 'usage', usage, estimated } : { type: 'usage', usage })
  }

  /** Adds response headers, such as those of the cache. */
  addHeaders(headers: Readonly<Record<string, string>>): void {
    this.#extraHeaders = { ...this.#extraHeaders, ...headers }
  }

  /** The response headers that do not depend on a target, for a header block that is sent before one has answered. */
  earlyHeaders(): Readonly<Record<string, string>> {
    return { 'x-request-id': this.id, ...this.#extraHeaders }
  }

  /** The `x-headgate-*` response headers, from the events so far, in a new object. */
  headers(): Record<string, string> {
    let attempts = 0
    let last: Extract<TraceEvent, { type: 'attempt' }> | undefined
    let switched: Switch | undefined
    for (const event of this.#events)
      if (event.type === 'attempt') {
        attempts++
        last = event
      } else if (event.type === 'switch') switched = event.switched
    // An error reports the last attempt.
    const by = this.#answeredBy ?? last
    const dropped = this.#answeredBy ? this.#dropped : (last?.dropped ?? [])
    const line = trail(this.#events)
    const guards = verdictHeader(verdictsIn(this.#events))
    const headers: Record<string, string> = { 'x-request-id': this.id, 'x-headgate-attempts': String(attempts) }
    if (by) {
      headers['x-headgate-provider'] = printable(by.provider)
      headers['x-headgate-model'] = printable(by.model)
    }
    if (line !== '') headers['x-headgate-trail'] = printable(line)
    if (dropped.length > 0) headers['x-headgate-dropped'] = droppedLine(dropped)
    if (guards !== '') headers['x-headgate-guards'] = printable(guards)
    if (switched) headers[SWITCH_HEADER] = printable(switchText(switched))
    const { admission } = this.account
    admission.addLimitHeaders(headers, this.#protocol.rateLimitNames)
    if (admission.warnings.length > 0) headers['x-headgate-warning'] = printable(admission.warnings.join(', '))
    return this.#extraHeaders ? Object.assign(headers, this.#extraHeaders) : headers
  }

  /** The same of an answer: people also see how much of their own budget is used. */
  successHeaders(): Record<string, string> {
    const headers = this.headers()
    const { spend } = this.#protocol
    const standing = this.#isPerson && spend ? this.account.ownStanding : null
    return standing && spend ? Object.assign(headers, spend.headers(standing)) : headers
  }

  /** A failure as the client has to receive it. */
  refusalOf(failure: Failure): Failure {
    if (!this.#isPerson) return failure
    const { spend } = this.#protocol
    const shown = personRefusal(failure)
    return spend ? spend.refusal(shown, this.#gateway.world.date()) : shown
  }

  /** The same of a complete JSON answer, with its cost. */
  answerHeaders(): Record<string, string> {
    // Settled first: unused tokens are available again.
    const cost = this.account.costHeaders()
    const headers = this.successHeaders()
    headers['content-type'] = 'application/json'
    return Object.assign(headers, cost)
  }

  /** Ends the trace and emits it. Later calls are ignored. */
  end(how: (TraceEvent & { type: 'ended' })['how'], status: number, failure?: Failure): void {
    if (this.ended) return
    this.ended = true
    const attempted = this.#answeredBy ? undefined : this.#events.findLast((event) => event.type === 'attempt')
    if (attempted?.dropped) this.note({ type: 'dropped', paths: attempted.dropped })
    const cost = this.account.settleAll(how, failure)
    const { isPriceAssumed } = this.account.attempts
    const end: { -readonly [name in keyof EndedEvent]: EndedEvent[name] } = {
      type: 'ended',
      at: this.#gateway.world.now(),
      how,
      status,
    }
    if (failure) end.failure = failure
    if (cost !== undefined) end.cost = cost
    if (isPriceAssumed) end.isPriceAssumed = isPriceAssumed
    this.note(end)
    this.account.end(this.#events)
    this.bodies?.end()
    this.#gateway.emit({ event: 'request', trace: this.#events })
  }
}

const isSameRule = (a: RuleVerdict, b: RuleVerdict): boolean =>
  a.guard === b.guard && a.phase === b.phase && a.action === b.action

/** Maximum length of a response header value. Proxies reject header blocks of more than a few thousand bytes. */
const MAX_HEADER_LENGTH = 1_024

const VISIBLE = /^[\x20-\x7e]*$/

/** Encodes a header value as visible ASCII (RFC 9110, section 5.5), at most 1,024 characters. */
export const printable = (value: string): string => {
  if (value.length <= MAX_HEADER_LENGTH && VISIBLE.test(value)) return value
  const safe = value.replace(/[^\x20-\x7e]/gu, (char) => encodeURIComponent(char.isWellFormed() ? char : '\ufffd'))
  return safe.length > MAX_HEADER_LENGTH ? `${safe.slice(0, MAX_HEADER_LENGTH - 3)}...` : safe
}

/** Space reserved for the count of omitted paths. */
const COUNT_LENGTH = ', ... +9999999'.length

/**
 * Paths as a comma-separated list of at most 1,024 characters. Omitted paths are counted at the end: `a, b, ... +37`. A
 * first path that is too long is truncated and ends in `...`.
 */
export const droppedLine = (paths: readonly string[]): string => {
  const values = paths.map(printable)
  let line = values[0]?.slice(0, MAX_HEADER_LENGTH - COUNT_LENGTH) ?? ''
  if (values[0] !== undefined && line.length < values[0].length) line = `${line.slice(0, -3)}...`
  for (const [index, path] of values.entries()) {
    if (index === 0) continue
    const isLast = index === values.length - 1
    const room = isLast ? MAX_HEADER_LENGTH : MAX_HEADER_LENGTH - COUNT_LENGTH
    if (line.length + 2 + path.length > room) return `${line}, ... +${values.length - index}`
    line += `, ${path}`
  }
  return line
}

/** Where a response is written and recorded. */
export type RecordedReply = {
  readonly protocol: ClientProtocol
  readonly responseWriter: ResponseWriter
  readonly recorder: Recorder
}

/** Writes a failure as the complete response and ends the record. `availableIn`: as in `ErrorContext`. */
export const writeAndRecordError = (
  { protocol, responseWriter, recorder }: RecordedReply,
  cause: Failure,
  availableIn: number | null,
): void => {
  const failure = recorder.refusalOf(cause)
  if (failure.withheld) recorder.note({ type: 'skipped', targets: failure.withheld.targets, more: 0 })
  const attempts = attemptsOf(recorder.trace)
  const response = errorResponse(protocol, failure, { requestId: recorder.id, availableIn, attempts })
  recorder.responseStarted = true
  responseWriter.writeHead(response.status, { ...recorder.headers(), ...response.headers })
  responseWriter.end(response.body)
  recorder.end('refused', statusOf(failure), failure)
}

/** Writes a JSON body as the complete response and ends the record. `headers`: with its content type. */
export const writeAndRecordAnswer = (
  { responseWriter, recorder }: RecordedReply,
  body: string,
  { headers = recorder.answerHeaders() }: { readonly headers?: Readonly<Record<string, string>> } = {},
): void => {
  recorder.responseStarted = true
  responseWriter.writeHead(200, headers)
  responseWriter.end(body)
  recorder.end('answered', 200)
}

/** The client disconnected: closes the connection and ends the record. */
export const recordDisconnect = ({ responseWriter, recorder }: RecordedReply, reason: Failure): void => {
  responseWriter.abort()
  recorder.end('client_gone', statusOf(reason), reason)
}
