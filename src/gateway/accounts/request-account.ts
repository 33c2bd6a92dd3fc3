/** The account of one call: what it reserves and is charged, and its record in the journal. Amounts in nano-dollars. */
import type { UsageSource } from '../../core/accounts.ts'
import { traceHeader } from '../../core/call-span.ts'
import type { ChatRequest, GenerationSettings } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { JsonObject } from '../../core/json.ts'
import { formatDollars, type Nano } from '../../core/money.ts'
import type { RequestStyle } from '../../core/request-styles.ts'
import { fullest, type SpendStanding } from '../../core/spend-standing.ts'
import type { Target } from '../../core/target.ts'
import type { EndedEvent, Trace } from '../../core/trace.ts'
import { namedUsers } from '../../policy/accounts/blocked-users.ts'
import { isPersonal, standingOf } from '../../policy/accounts/spend-standing.ts'
import { affinityOf } from '../../policy/routing/affinity.ts'
import { namedSession } from '../../policy/sessions/named-session.ts'
import { stopOf } from '../../policy/sessions/stopped-session.ts'
import type { AccountsState } from './accounts-state.ts'
import { CallAdmission } from './call-admission.ts'
import { CallAttempts } from './call-attempts.ts'
import { type CallDemand, endUsersOf } from './demand.ts'
import { blockOf } from './end-user-block.ts'
import { endedRecord } from './journal-records.ts'
import { type OpenCall, planAttempt } from './open-attempt.ts'
import type { ShapedRequest } from './shape-samples.ts'
import { askedFacts, requestSpan } from './span-facts.ts'

/** What names the session and the end user of a call. `request`: of a chat call, whose session may be guessed. */
export type NamingRequest = {
  readonly members: JsonObject
  readonly headers: HeaderLookup
  readonly request?: ChatRequest
}

export class RequestAccount {
  /** Whether the call and its attempts may be made. */
  readonly admission: CallAdmission
  readonly attempts: CallAttempts
  readonly #state: AccountsState
  readonly #call: OpenCall
  /** What a shared answer would have cost. */
  #saved: Nano = 0

  constructor(state: AccountsState, call: OpenCall) {
    this.#state = state
    this.#call = call
    this.attempts = new CallAttempts(state, call)
    this.admission = new CallAdmission(state, call, this.attempts)
  }

  /** The ID of the request. */
  get id(): string {
    return this.#call.id
  }

  /** When the call was received, in ms since 1970. */
  get received(): number {
    return this.#call.received
  }

  /** The kind of client. */
  get family(): string {
    return this.#call.program
  }

  /** `traceresponse`, which states the span of the call to its client (W3C Trace Context, level 2); null: no traces are exported. */
  get traceResponse(): string | null {
    const { span } = this.#call
    return span && this.#state.rules().telemetry?.traces ? traceHeader(span, span.spanId) : null
  }

  /** Tokens of the answer so far, counted or estimated; null: there are none yet. */
  get outputTokens(): number | null {
    return this.attempts.outputTokens
  }

  /** The ID of the session that the request names; null: it names none. */
  get session(): string | null {
    const { session } = this.#call
    return session === null || session.name === null ? null : session.id
  }

  /** Sets the session and the end user of the request. Returns why the call must not be answered, or null. */
  identify(naming: NamingRequest): Failure | null {
    const { members } = naming
    const refused = this.#setSession(naming)
    if (refused) return refused
    const users = endUsersOf(members)
    if (users.endUser === null) return null
    this.#call.demand = { ...this.#call.demand, ...users }
    return blockOf(this.#state, this.#call.client, namedUsers(members))
  }

  /** Sets what the attempts of this call need. */
  describe(demand: CallDemand): void {
    this.#call.demand = demand
  }

  /** Prepares an attempt for what was used already, which no limit or budget refuses. False: a budget has no counter for it. */
  owe(target: Target): boolean {
    const wanted = { candidate: target.candidate, modelMaximum: undefined }
    const planned = planAttempt(this.#state, this.#call, this.#call.demand, wanted)
    if ('id' in planned) return false
    this.attempts.prepare(target, planned, this.#state.authority.owe(planned.cells))
    return true
  }

  /** Sets the settings that spans of the call state. */
  describeSpan(settings: GenerationSettings): void {
    if (this.#call.span) this.#call.asked = askedFacts(settings)
  }

  /** Notes the shape of the request when the call ends, if it is in the sample. */
  noteShape(shaped: ShapedRequest, route: string): void {
    const { style, received: at } = this.#call
    // Only calls in a client format have one.
    this.#call.sample = this.#state.shapes.begin({ shaped, style: style as RequestStyle, route, at })
  }

  /** Releases the request whose shape may be noted. Called before a long stream, to save memory. */
  releaseRequest(trace: Trace): void {
    const { sample } = this.#call
    this.#call.sample = sample && this.#state.shapes.settle(sample, trace)
  }

  /** The answer of a call that shares it would have cost this much. */
  save(cost: Nano): void {
    this.#saved = cost
  }

  /** Settles all attempts because the call has ended. Returns its cost; undefined: unknown, or no attempt was made. */
  settleAll(how: EndedEvent['how'], failure: Failure | undefined): Nano | undefined {
    return this.attempts.settleAll(how, failure)
  }

  /** The fullest budget that only this person uses; null: there is none. */
  get ownStanding(): SpendStanding | null {
    const { client, received } = this.#call
    const own = this.#state.budgets.cellsOf(client, received).filter(({ budget }) => isPersonal(budget))
    return fullest(own.map(standingOf))
  }

  /** Headers of a complete answer: its cost, and whether it is exact. */
  costHeaders(): Readonly<Record<string, string>> {
    const stated = this.statedCost()
    return stated ? { 'x-headgate-cost': stated.cost, 'x-headgate-usage': stated.usage } : NO_HEADERS
  }

  /** Settles a complete answer and returns its cost in dollars. Null: the cost is unknown. */
  statedCost(): { readonly cost: string; readonly usage: UsageSource } | null {
    const cost = this.settleAll('answered', undefined)
    return cost === undefined ? null : { cost: formatDollars(cost), usage: this.attempts.usageSource }
  }

  /** The call has ended. */
  end(trace: Trace): void {
    this.#finish()
    const journal = this.#state.journal()
    if (!journal) return
    const about = { at: this.#state.world.date(), rules: this.#state.rules(), saved: this.#saved }
    if (this.#call.span) journal.append(requestSpan(this.#call, about.at))
    journal.append(endedRecord(this.#call, this.#call.demand, trace, about))
    const { sample, client, demand } = this.#call
    const note = sample && this.#state.shapes.note(sample, { client, demand, trace, at: about.at })
    if (note) journal.append(note)
  }

  /** The call is over, whether or not it has ended as it should. */
  close(): void {
    if (this.#call.isOver) return
    this.settleAll('refused', undefined)
    this.#finish()
  }

  /** Sets the session. Returns why its requests are refused, or null. */
  #setSession({ members, headers, request }: NamingRequest): Failure | null {
    const { sessions, rules, stoppedSessions, world } = this.#state
    const named = namedSession(headers, members)
    if (named) {
      this.#call.session = sessions.named(this.#call.client, named.value)
      this.#call.agent = named.agent
    } else if (request && rules().guessSessions) {
      this.#call.session = sessions.guessed(this.#call.client, affinityOf(request))
    }
    const { session, client } = this.#call
    if (client.requireSession && !named) return SESSION_REQUIRED
    const stopped = session && stoppedSessions?.()
    return stopped ? stopOf(stopped, session.id, world.date()) : null
  }

  #finish(): void {
    if (this.#call.isOver) return
    this.#call.isOver = true
    this.#state.streams.delete(this.attempts)
    this.admission.release()
  }
}

const NO_HEADERS = {}

const SESSION_REQUIRED = fail(
  'session_required',
  'This key may be used in sessions only. Send the header x-headgate-session with a name of 1 to 128 visible ASCII characters, or use a client that names its sessions.',
)
