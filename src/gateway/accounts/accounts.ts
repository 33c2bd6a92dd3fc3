/** The accounts of this process: limits and budgets of its clients, and the journal of its calls. */
import type { Client } from '../../core/accounts.ts'
import { type CallSpan, callSpan, traceState } from '../../core/call-span.ts'
import type { Failure } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Nano } from '../../core/money.ts'
import { SESSION_ID } from '../../core/session.ts'
import { SharedTimer } from '../../core/shared-timer.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { traceParent } from '../../core/trace-parent.ts'
import type { Counters } from '../../policy/accounts/attempt-admission.ts'
import type { BudgetScope } from '../../policy/accounts/budget-scope.ts'
import { programOf } from '../../policy/client-programs.ts'
import { namedSession } from '../../policy/sessions/named-session.ts'
import type { AccountsState } from './accounts-state.ts'
import { AnswerHistory } from './answer-history.ts'
import {
  BudgetCounters,
  type BudgetState,
  type CounterUse,
  type SpentSum,
  stateOf,
  type UnrestoredCounters,
} from './budget-counters.ts'
import type { CounterStore } from './counter-store.ts'
import { type CallDemand, endUsersOf, NO_DEMAND } from './demand.ts'
import { blockOf } from './end-user-block.ts'
import { LimitCounters } from './limit-counters.ts'
import { planAttempt } from './open-attempt.ts'
import { type RefusedCall, RefusedCalls } from './refused-calls.ts'
import { RequestAccount } from './request-account.ts'
import { type ReservationRules, Reservations } from './reservations.ts'
import { SessionIds, type SessionLetters } from './session-ids.ts'
import { ShapeSamples } from './shape-samples.ts'

export type AccountsOptions = Pick<
  AccountsState,
  'world' | 'prices' | 'journal' | 'rules' | 'blockedUsers' | 'stoppedSessions'
> & {
  /** The current budgets. A change is another array. */
  readonly budgets: () => readonly BudgetScope[]
  /** The counters that several processes share, and the rules of leases. Absent: this process has its counters alone. */
  readonly shared?: SharedCounterOptions | undefined
  /** Resolves when what was spent of new budgets is read; null: nothing is read. */
  readonly reading?: (() => Promise<unknown> | null | undefined) | undefined
  readonly sessionLetters: SessionLetters
}

export type SharedCounterOptions = { readonly store: CounterStore; readonly rules: () => ReservationRules }

/** The members of a request that its account records. */
type ReceivedCall = Pick<IncomingRequest, 'id' | 'ownId' | 'client' | 'headers' | 'method'>

export class Accounts {
  readonly #state: AccountsState
  readonly #reservations: Reservations
  readonly #refused: RefusedCalls
  #calls = 0

  constructor({ budgets, shared, reading, sessionLetters, ...options }: AccountsOptions) {
    const { world } = options
    this.#reservations = new Reservations({ world, reading, ...shared })
    this.#state = {
      ...options,
      authority: this.#reservations,
      sessions: new SessionIds(sessionLetters),
      limits: new LimitCounters(),
      budgets: new BudgetCounters(budgets, { servesUnknown: () => options.rules().whenUnknown === 'serve' }),
      history: new AnswerHistory(),
      streams: new SharedTimer(),
      shapes: new ShapeSamples(),
    }
    this.#refused = new RefusedCalls(options)
  }

  /** Opens the account of a call. `style`: the kind of call, as named in the log. */
  open({ id, ownId, client, headers, method }: ReceivedCall, style: string): RequestAccount {
    const received = this.#state.world.date()
    const trace = traceParent(headers('traceparent'))
    const program = programOf(headers('user-agent') ?? '').family
    const ids = ownId === undefined ? { id, clientRequestId: null } : { id: ownId, clientRequestId: id }
    const call = {
      number: this.#calls++,
      ...ids,
      style,
      client,
      received,
      trace,
      program,
      method,
      demand: NO_DEMAND,
      session: null,
      agent: null,
      isOver: false,
      sample: null,
      span: this.#spanOf(ids.id, trace, headers),
      asked: NOTHING,
    }
    return new RequestAccount(this.#state, call)
  }

  #spanOf(id: string, trace: string | null, headers: HeaderLookup): CallSpan | null {
    const { telemetry } = this.#state.rules()
    return telemetry ? callSpan(id, trace, telemetry.sampling, trace && traceState(headers('tracestate'))) : null
  }

  /** Records a request that was refused before it became a call. */
  refused(call: RefusedCall): void {
    this.#refused.record(call, () => this.#calls++)
  }

  /**
   * What refuses a call for text with these members whatever its target: a block, limit or budget. Takes nothing. `plan`: its
   * targets; null: they are not known.
   */
  async refusal(
    received: ReceivedCall,
    style: string,
    { members, plan }: { readonly members: JsonObject; readonly plan: Plan | null },
  ): Promise<Failure | null> {
    const account = this.open(received, style)
    account.describe({ ...NO_DEMAND, output: 'text', plan, ...endUsersOf(members) })
    return account.identify({ members, headers: received.headers }) ?? account.admission.refusal()
  }

  /** Why a client receives nothing for an end user with these names; null: none of them is blocked. */
  blockOf(client: Client, users: readonly string[]): Failure | null {
    return blockOf(this.#state, client, users)
  }

  /** The ID of a client's session: of one that has this ID, or that it names so. */
  sessionId(client: Client, session: string): string {
    return SESSION_ID.test(session) ? session : this.#state.sessions.named(client, session).id
  }

  /** The ID of the session that a request names; null: it names none. */
  sessionOf(client: Client, headers: HeaderLookup, members: JsonObject): string | null {
    const named = namedSession(headers, members)
    return named && this.#state.sessions.named(client, named.value).id
  }

  /** What an attempt at a candidate is estimated to cost, as budgets reserve it; null: it is unknown. Takes nothing. */
  estimate(
    { id, client }: Pick<IncomingRequest, 'id' | 'client'>,
    demand: CallDemand,
    planned: { readonly candidate: Candidate; readonly modelMaximum: number | undefined },
  ): Nano | null {
    const received = this.#state.world.date()
    const call = {
      number: 0,
      id,
      clientRequestId: null,
      style: '',
      client,
      received,
      trace: null,
      program: '',
      session: null,
    }
    const found = planAttempt(this.#state, call, demand, planned)
    return 'id' in found ? null : found.estimated
  }

  /** What each budget has spent and reserved in its current period, in all processes together. */
  async budgetFigures(): Promise<BudgetFigures> {
    const { budgets, authority, world } = this.#state
    budgets.know(await authority.known(), world.date())
    const isCurrent = await authority.refresh(budgets.current(world.date()))
    return { states: this.budgetStates(), authority: isCurrent ? 'ok' : 'degraded' }
  }

  /** The limits of a client, and the budgets that count it except those per end user, with what is left of them. */
  async figuresOf(client: Client): Promise<ClientFigures> {
    const { budgets, authority, world } = this.#state
    const cells = budgets.cellsOf(client, world.date())
    await authority.refresh(cells)
    return { ...this.limitsOf(client), budgets: cells.map(stateOf) }
  }

  /** The counters of a client's limits. Those that others share are as of the last answer. */
  limitsOf(client: Client): Pick<Counters, 'slots' | 'rates'> {
    const { slots, rates } = this.#state.limits.cellsFor(client, this.#state.world.now())
    return { slots, rates }
  }

  /** What each budget has spent and reserved, at once. Where processes share it, as of the last answer. */
  budgetStates(): readonly BudgetState[] {
    return this.#state.budgets.current(this.#state.world.date()).map(stateOf)
  }

  /** Adds a correction to what a counter has spent; negative: a credit. Resolves when all processes decide by it. */
  async adjust({ counter, period_start, spent }: SpentSum): Promise<void> {
    const cell = this.#state.budgets.cellOfSum({ counter, period_start })
    if (cell) await this.#state.authority.adjust(cell, spent)
  }

  /** Why the counters that several processes share cannot be used, or null. */
  get sharedProblem(): string | null {
    return this.#reservations.problem
  }

  /** Gives back what this process was granted and does not use. */
  close(): Promise<void> {
    return this.#reservations.close()
  }

  /** The counters of budgets that lack what was spent before they were created. */
  unrestored(): readonly UnrestoredCounters[] {
    return this.#state.budgets.unrestored()
  }

  /** What the counters of this budget have used now. */
  usesOf(counters: UnrestoredCounters): readonly CounterUse[] {
    return this.#state.budgets.usesOf(counters)
  }

  /** Adds what the ledger contains, once. `recorded`: uses that it contains too. */
  restore(counters: UnrestoredCounters, sums: readonly SpentSum[], recorded: readonly CounterUse[]): void {
    this.#state.budgets.restore(counters, sums, recorded)
  }
}

const NOTHING = {}

/** The figures of all budgets. `degraded`: the store that has them does not answer, and they are those of its last answers. */
export type BudgetFigures = { readonly states: readonly BudgetState[]; readonly authority: 'ok' | 'degraded' }

/** What is left of a client's limits and budgets. */
export type ClientFigures = Pick<Counters, 'slots' | 'rates'> & { readonly budgets: readonly BudgetState[] }
