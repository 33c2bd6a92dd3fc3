/**
 * Tries targets in order until one has produced its first content. From then on the choice is made. What to try next is
 * decided by `policy/routing/next-target.ts`, whether it may be tried now by the board; here it is done. One attempt is under way at a
 * time, or two where the first is late and may be hedged: then the first to open is taken, and the other is let go.
 */

import type { Config } from '../../core/config.ts'
import { type Failure, rowOf } from '../../core/failure.ts'
import type { Instance, ProviderKey } from '../../core/provider.ts'
import type { Settings } from '../../core/settings.ts'
import { type Candidate, namesOf, type Plan, type Target } from '../../core/target.ts'
import type { GatewayEvent, SkippedTarget, TraceEvent } from '../../core/trace.ts'
import { finalError, type SkippedReason } from '../../policy/reply/final-error.ts'
import { factsOf } from '../../policy/routing/models.ts'
import {
  emptyHistory,
  isSoon,
  isTooSmall,
  onceMore,
  recordFailure,
  remaining,
} from '../../policy/routing/next-target.ts'
import type { Cancellation } from '../call/cancellation.ts'
import type { RouterDeps } from '../gateway.ts'
import {
  type AdmissionMode,
  type AttemptPermit,
  PAST_OPEN,
  type Refusal,
  type UpstreamHealth,
} from '../health/upstream-health.ts'
import type { AnswerStream, Attempt, AttemptOutcome } from '../upstream/attempt.ts'
import { type Compatibility, dropOptional, type OutboundRequest } from '../upstream/outbound-request.ts'
import type { AttemptSpec } from './attempt-spec.ts'

/** What trying needs of them: a board may also only be watched. */
export type RoutingDeps = Pick<RouterDeps, 'world' | 'catalogue' | 'emit' | 'activeCalls'> & {
  readonly health: Pick<UpstreamHealth, 'admit' | 'refuses' | 'peek' | 'firstTry' | 'mayRepeat'>
}

export type RouteContext = {
  readonly id: string
  /** Who asks; empty where clients are not told apart. */
  readonly client: string
  /** The id of the client's key for logs; absent or empty where there is none. */
  readonly clientKey?: string | undefined
  readonly plan: Plan
  readonly config: Config
  /** ms of the monotonic clock at which everything has to be over. */
  readonly deadline: number
  readonly stop: Cancellation
  /** The first at once, the others when they are asked for. */
  readonly keysOf: (candidate: Candidate) => Iterable<ProviderKey>
  readonly note: (fact: TraceEvent) => void
}

/** `prepared`: what the target was sent. */
export type Routed<Ready extends Compatibility = OutboundRequest> = {
  readonly ok: true
  readonly target: Target
  readonly prepared: Ready
  readonly flow: AnswerStream
  readonly permit: AttemptPermit
}
/** `soonest`: ms until some target may be tried again; null: none as things stand. */
export type NotRouted = { readonly ok: false; readonly failure: Failure; readonly soonest: number | null }

/** A target that may be tried now, with everything needed to. */
type Choice<Ready> = { readonly target: Target; readonly prepared: Ready; readonly ticket: AttemptPermit }

/** An attempt that has begun, at `began` (ms of the monotonic clock), as the request's `number`-th from 0. */
type Running<Ready> = Choice<Ready> & {
  readonly attempt: Attempt
  readonly number: number
  readonly began: number
  /** The request's first attempt at this deployment (provider and model). */
  readonly first: boolean
}

/** A target that was passed over, and why. */
type Skip = SkippedReason & { readonly target: Target }

/** Skipped targets that one request lists; the others are counted. The trail must fit in a header of 1,024 characters. */
const MOST_SKIPPED = 12

/** What is worth waiting for (ms). */
type Wish<Ready> = { readonly target: Target; readonly prepared: Ready; readonly wait: number }

type Settled<Ready> = { readonly running: Running<Ready>; readonly opened: AttemptOutcome }

type Chosen<Ready> = {
  readonly choice: Choice<Ready> | null
  readonly leftOut: readonly Skip[]
  /** The least grade at which more would have been allowed; null: none would. */
  readonly next: Grade | null
}

/**
 * How much is put up with: nothing; a model that by the catalogue cannot do what is asked, which says so itself if it is
 * true; leaving out by name a tool that the model need not use.
 */
type Grade = 0 | 1 | 2
const gradeOf = ({ doubts, droppable: onlyWithout }: Compatibility): Grade =>
  onlyWithout.length > 0 ? 2 : doubts.length > 0 ? 1 : 0

/** Whether more would have to be put up with. */
const exceeds = (whole: Compatibility, grade: Grade): boolean => whole.unfit.length > 0 || gradeOf(whole) > grade

/** The lesser of both grades; of what cannot be carried at all there is none. */
const lesser = (grade: Grade | null, whole: Compatibility | null): Grade | null => {
  if (!whole || whole.unfit.length > 0) return grade
  const its = gradeOf(whole)
  return grade === null || its < grade ? its : grade
}

const unfitBy = (target: Target, whole: Compatibility | null): Skip => ({
  why: 'unfit',
  paths: whole ? pathsAgainst(whole) : ['model'],
  target,
})

const refusedBy = (target: Target, { why, until }: Refusal, now: number): Skip => ({
  why,
  wait: until === null ? null : until - now,
  target,
})

const overBudget = (target: Target): Skip => ({ why: 'budget', wait: 1_000, target })

export const route = <Ready extends Compatibility>(
  tools: RoutingDeps,
  errand: RouteContext,
  asking: AttemptSpec<Ready>,
): Promise<Routed<Ready> | NotRouted> => new RoutingRun(tools, errand, asking).run()

/** One request's search for who answers it, and what it has met on its way. */
class RoutingRun<Ready extends Compatibility> {
  readonly #tools: RoutingDeps
  readonly #errand: RouteContext
  readonly #asking: AttemptSpec<Ready>
  readonly #settings: Settings
  /** Attempts that have neither opened nor failed, in the order they began: one, or two while a hedge is among them. */
  readonly #underWay: Running<Ready>[] = []
  /** Deployments (provider and model) this request has been tried at: a further attempt there needs the retry budget. */
  readonly #tried: Candidate[] = []
  readonly #failures: Failure[] = []
  #history = emptyHistory
  #attempts = 0
  #counted = 0
  #last: { readonly target: Target; readonly prepared: Ready; readonly failure: Failure } | null = null
  #repeated = false
  #empty: Routed<Ready> | null = null
  /** Reason and name of each skip that has been noted; null before the first. */
  #noted: Set<string> | null = null
  /** It has had its chance of a hedge. */
  #hedged = false

  constructor(tools: RoutingDeps, errand: RouteContext, asking: AttemptSpec<Ready>) {
    this.#tools = tools
    this.#errand = errand
    this.#asking = asking
    this.#settings = errand.config.settings
  }

  async run(): Promise<Routed<Ready> | NotRouted> {
    const { stop } = this.#errand
    this.#asking.hedging?.started()
    try {
      for (;;) {
        if (this.#underWay.length === 0) {
          if (stop.reason) return { ok: false, failure: stop.reason, soonest: 0 }
          const allowed = this.#counted < this.#settings.retry.maxAttempts
          const ahead = allowed ? this.#asking.prepareAhead?.(this.#openTargets()) : null
          if (ahead) {
            await ahead
            if (stop.reason) continue
          }
          const { choice: found, leftOut } = allowed ? this.#chooseOrProbe() : NOBODY
          if (leftOut.length > 0) this.#noteSkipped(leftOut)
          const choice = found ?? (allowed ? await this.#again(leftOut) : null)
          if (stop.reason) continue
          if (!choice) {
            if (this.#empty) return this.#empty
            if (allowed && this.#last && this.#asking.reduceRequest?.(this.#last.failure)) {
              this.#history = emptyHistory
              continue
            }
            return this.#lost(leftOut)
          }
          const work = this.#asking.makeReady?.(choice.prepared)
          if (work && !(await this.#isDone(work, choice.ticket))) continue
          this.#tellFallback(choice.target)
          this.#start(choice, false)
        }
        const happened = await this.#next()
        if (!happened) await this.#hedge()
        else if (happened.opened.ok) return this.#won(happened.running, happened.opened.flow)
        else {
          const empty = this.#failed(happened.running, happened.opened)
          if (empty) return empty
        }
      }
    } finally {
      for (const running of this.#underWay) this.#letGo(running)
    }
  }

  // ── Whom to ask ────────────────────────────────────────────────────────────────────────────────────────────────

  #windowOf({ instance, model }: Candidate): number | undefined {
    return factsOf(this.#tools.catalogue, instance, model)?.contextWindow
  }

  /** One key of each deployment that may be tried now. */
  *#openTargets(): Generator<Target, void, undefined> {
    const seen = new Set<Candidate>()
    for (const target of remaining(this.#errand.plan, this.#history, this.#errand.keysOf)) {
      if (seen.has(target.candidate) || this.#tools.health.peek(target, this.#settings)) continue
      seen.add(target.candidate)
      yield target
    }
  }

  #mayRepeat({ candidate }: Target): boolean {
    if (!this.#tried.includes(candidate)) return true
    return this.#tools.health.mayRepeat(candidate, this.#settings, this.#errand.client)
  }

  /** Records which targets were passed over: each once per reason, an unfit model once for all its keys. */
  #noteSkipped(skips: readonly Skip[]): void {
    this.#noted ??= new Set()
    const targets: SkippedTarget[] = []
    let more = 0
    for (const { why, target } of skips) {
      const { model, deployment } = namesOf(target)
      const id = `${why} ${why === 'unfit' || why === 'window' ? model : deployment}`
      if (this.#noted.has(id)) continue
      this.#noted.add(id)
      const { candidate, key } = target
      if (this.#noted.size > MOST_SKIPPED) more++
      else targets.push({ provider: candidate.instance.id, model: candidate.model, key: key.id, why })
    }
    if (targets.length > 0 || more > 0) this.#errand.note({ type: 'skipped', targets, more })
  }

  /** The best target that may be tried now, at this grade or a lesser one; otherwise why each of the others may not. */
  #choose(how: AdmissionMode, grade: Grade, among?: (instance: Instance) => boolean): Chosen<Ready> {
    const { health: board, world } = this.#tools
    const { plan, keysOf } = this.#errand
    const leftOut: Skip[] = []
    /** Those that may not be tried now, by their places there: what they would be sent is only written if nobody is found. */
    const shut: (readonly [at: number, target: Target])[] = []
    let next: Grade | null = null
    const history = this.#history
    for (const target of remaining(plan, history, keysOf)) {
      if (among?.(target.candidate.instance) === false) continue
      if (history.largerThan !== null && isTooSmall(history, this.#windowOf(target.candidate))) {
        leftOut.push({ why: 'window', wait: null, target })
        continue
      }
      const refused = board.refuses(target, this.#settings, how)
      if (refused) {
        shut.push([leftOut.length, target])
        leftOut.push(refusedBy(target, refused, world.now()))
        continue
      }
      const whole = this.#asking.prepare(target)
      if (!whole || exceeds(whole, grade)) {
        next = lesser(next, whole)
        leftOut.push(unfitBy(target, whole))
        continue
      }
      const prepared = dropOptional(whole)
      const ticket = board.admit(target, this.#settings, how)
      if ('why' in ticket) {
        leftOut.push(refusedBy(target, ticket, world.now()))
        continue
      }
      if (!this.#mayRepeat(target)) {
        ticket.release()
        leftOut.push(overBudget(target))
        continue
      }
      return { choice: { target, prepared, ticket }, leftOut, next }
    }
    for (const [at, target] of shut) {
      const whole = this.#asking.prepare(target)
      if (whole && !exceeds(whole, grade)) continue
      next = lesser(next, whole)
      leftOut[at] = unfitBy(target, whole)
    }
    return { choice: null, leftOut, next }
  }

  /** One that has just recovered is given more than it can bear yet only where nobody else may be asked. */
  #chooseAt(grade: Grade): Chosen<Ready> {
    const chosen = this.#choose('normal', grade)
    return chosen.choice || !chosen.leftOut.some(({ why }) => why === 'warming') ? chosen : this.#choose('warm', grade)
  }

  /** When nothing else is left, more is put up with, which beats no answer; then past every open circuit, if the settings allow it. */
  #chooseOrProbe(): Chosen<Ready> {
    let grade: Grade = 0
    let normal = this.#chooseAt(grade)
    while (!normal.choice && normal.next !== null) {
      grade = normal.next
      normal = this.#chooseAt(grade)
    }
    if (normal.choice) return normal
    const { whenAllOpen } = this.#settings.circuit
    const closedByCircuit = normal.leftOut.some(({ why }) => why === 'circuit')
    if (!closedByCircuit || whenAllOpen === 'fail') return normal
    return this.#choose(PAST_OPEN[whenAllOpen], grade)
  }

  /** Where everybody who could answer is at a limit: whoever is first to be below it again, if that is soon and was said. */
  #soonestLimited(): Wish<Ready> | null {
    if (this.#failures.some(({ kind }) => kind !== 'rate_limited' && kind !== 'incompatible')) return null
    const { health: board, world } = this.#tools
    const { plan, keysOf, deadline } = this.#errand
    let first: Wish<Ready> | null = null
    for (const candidate of plan.candidates)
      for (const key of keysOf(candidate)) {
        const target = { candidate, key }
        const refusal = board.peek(target, this.#settings)
        if (refusal?.why !== 'rate_limited' || !refusal.fromUpstream || refusal.until === null) continue
        const wait = refusal.until - world.now()
        if ((first && first.wait <= wait) || !isSoon(wait, deadline - world.now())) continue
        const whole = this.#asking.prepare(target)
        if (whole && whole.unfit.length === 0) first = { target, prepared: dropOptional(whole), wait }
      }
    return first
  }

  /** The same target, when it is the only one and its failure may be over in a moment. */
  #same(leftOut: readonly SkippedReason[]): Wish<Ready> | null {
    if (!this.#last || leftOut.length > 0 || this.#attempts !== 1) return null
    const { target, prepared, failure } = this.#last
    const { health: board, world } = this.#tools
    const once = onceMore(failure, this.#errand.deadline - world.now(), world.random)
    // What the circuit or the key will not allow then is not worth waiting for.
    return once && !board.peek(target, this.#settings) ? { target, prepared, wait: once.wait } : null
  }

  /** When nobody is left to be asked at once, somebody after a wait; once. */
  async #again(leftOut: readonly SkippedReason[]): Promise<Choice<Ready> | null> {
    if (this.#repeated || this.#history.final) return null
    const wish = this.#soonestLimited() ?? this.#same(leftOut)
    if (!wish) return null
    const { target, prepared, wait } = wish
    if (!this.#mayRepeat(target)) {
      this.#noteSkipped([overBudget(target)])
      return null
    }
    this.#repeated = true
    const { stop } = this.#errand
    const { health: board, world } = this.#tools
    await stop.sleep(world, wait)
    if (stop.reason) return null
    // Nobody else is left: one that has just recovered is asked too.
    const asked = board.admit(target, this.#settings, 'warm')
    const isOpen = 'why' in asked && asked.why === 'circuit'
    const ticket = isOpen ? board.admit(target, this.#settings, PAST_OPEN[this.#settings.circuit.whenAllOpen]) : asked
    return 'why' in ticket ? null : { target, prepared, ticket }
  }

  // ── Asking ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** What failed last is gone on from. */
  #tellFallback(to: Target): void {
    if (this.#last) this.#tools.emit(fallbackEvent(this.#errand, this.#last.target, to, this.#last.failure))
  }

  /** Whether what is to be sent is written, and the request was not stopped meanwhile. */
  async #isDone(work: Promise<void>, ticket: AttemptPermit): Promise<boolean> {
    try {
      await work
    } catch (error) {
      ticket.release()
      throw error
    }
    if (!this.#errand.stop.reason) return true
    ticket.release()
    return false
  }

  /** From now on it is one of those under way. */
  #start({ target, prepared, ticket }: Choice<Ready>, hedge: boolean): void {
    const { health: board, world } = this.#tools
    const { note, stop } = this.#errand
    const { instance, model } = target.candidate
    const first = !this.#tried.includes(target.candidate)
    if (first) {
      board.firstTry(target.candidate)
      this.#tried.push(target.candidate)
    }
    const number = this.#attempts++
    const began = world.now()
    const { dropped } = prepared
    const more = { ...(dropped.length > 0 && { dropped }), ...(hedge && { hedge }) }
    note({ type: 'attempt', at: began, provider: instance.id, model, key: target.key.id, ...more })
    const attempt = this.#asking.begin(target, prepared)
    this.#underWay.push({ target, prepared, ticket, attempt, number, began, first })
    stop.onCancel((reason) => {
      for (const { attempt } of this.#underWay) attempt.failWith(reason)
    })
  }

  /** Another was quicker, or what a later one was begun for is over. That is no verdict on it. */
  #letGo({ attempt, ticket, number }: Running<Ready>): void {
    attempt.abort()
    ticket.release()
    this.#errand.note({ type: 'abandoned', at: this.#tools.world.now(), attempt: number })
  }

  /** What happens next to those under way: one has opened or failed; or, null, the only one of them is late. */
  #next(): Promise<Settled<Ready> | null> {
    const [first, second] = this.#underWay
    if (!first) throw new Error('nobody has been asked')
    if (second) return Promise.race(this.#underWay.map(settled))
    const only = settled(first)
    const { hedging } = this.#asking
    if (this.#hedged || !hedging) return only
    return new Promise((resolve) => {
      const cancel = this.#tools.world.later(hedging.after(first.target.candidate), () => resolve(null))
      void only.then((one) => {
        cancel()
        resolve(one)
      })
    })
  }

  /** Asks another provider as well, if one may be asked at once and it can be paid for. A request has one chance of that. */
  async #hedge(): Promise<void> {
    this.#hedged = true
    const [late] = this.#underWay
    const tries = this.#counted + this.#underWay.length
    if (!late || this.#errand.stop.reason || tries >= this.#settings.retry.maxAttempts) return
    const { choice } = this.#choose('normal', 0, (other) => !this.#tried.some(({ instance }) => instance === other))
    if (!choice) return
    if (!this.#asking.hedging?.allowed(late.target.candidate, this.#errand.client)) return choice.ticket.release()
    const work = this.#asking.makeReady?.(choice.prepared)
    if (!work || (await this.#isDone(work, choice.ticket))) this.#start(choice, true)
  }

  // ── What became of it ──────────────────────────────────────────────────────────────────────────────────────────

  #over(running: Running<Ready>): void {
    this.#underWay.splice(this.#underWay.indexOf(running), 1)
  }

  #won(running: Running<Ready>, flow: AnswerStream): Routed<Ready> {
    const { target, prepared, ticket, attempt, number, began } = running
    const { world } = this.#tools
    this.#over(running)
    ticket.commit(attempt.age)
    this.#asking.hedging?.opened(target.candidate, world.now() - began)
    this.#errand.note({ type: 'committed', at: world.now(), attempt: number, status: flow.status })
    return { ok: true, target, prepared, flow, permit: ticket }
  }

  /** Somebody else is to be asked, unless there is an answer at last: an empty one. */
  #failed(
    running: Running<Ready>,
    { failure, flow }: Extract<AttemptOutcome, { readonly ok: false }>,
  ): Routed<Ready> | null {
    const { target, prepared, ticket, number } = running
    const { note, stop } = this.#errand
    const { candidate } = target
    const asksOtherwise = this.#asking.retrySameTarget?.(target, failure)
    this.#over(running)
    // Asked for otherwise, nothing is wrong with anybody.
    if (asksOtherwise) ticket.release()
    else ticket.failed(failure)
    note({ type: 'failed', at: this.#tools.world.now(), attempt: number, failure })
    if (asksOtherwise || stop.reason) return null
    if (flow) {
      const answer: Routed<Ready> = { ok: true, target, prepared, flow, permit: ticket }
      // Nothing, twice: then nothing is the answer.
      if (this.#empty) return answer
      this.#empty = answer
    }
    // A key found dead says nothing of the request: it is not one of its attempts, and the next key is no repetition.
    // What another key met before it there is still to be paid for.
    if (rowOf(failure).excludes !== 'key') this.#counted++
    else if (running.first) this.#tried.splice(this.#tried.indexOf(candidate), 1)
    this.#failures.push(failure)
    this.#history = recordFailure(this.#history, target, failure, this.#windowOf(candidate))
    this.#last = { target, prepared, failure }
    // The hedge that is already there takes over.
    const [other] = this.#underWay
    if (other && other.number > number) this.#tellFallback(other.target)
    if (this.#asking.mayFailOver?.(failure) === false) this.#history = { ...this.#history, final: true }
    // What nobody else may be asked any more, nobody else was asked: what a model refuses is not had from another.
    if (this.#history.final)
      for (const later of this.#underWay.filter((one) => one.number > number)) {
        this.#over(later)
        this.#letGo(later)
      }
    return null
  }

  #lost(leftOut: readonly SkippedReason[]): NotRouted {
    return { ok: false, failure: finalError(this.#failures, leftOut), soonest: soonest(this.#tools, this.#errand) }
  }
}

/** Of a request that may not be tried any more. */
const NOBODY = { choice: null, leftOut: [] } as const

const settled = async <Ready>(running: Running<Ready>): Promise<Settled<Ready>> => ({
  running,
  opened: await running.attempt.opened,
})

const pathsAgainst = ({ unfit, droppable: onlyWithout, doubts }: Compatibility): readonly string[] => [
  ...unfit,
  ...onlyWithout,
  ...doubts.map(({ at }) => at),
]

const nameOf = ({ candidate, key }: Target): string => `${candidate.instance.id}#${key.id}/${candidate.model}`

/** That another goes on where one has failed. */
export const fallbackEvent = (
  { id, clientKey }: Pick<RouteContext, 'id' | 'clientKey'>,
  from: Target,
  to: Target,
  { kind, message }: Failure,
): GatewayEvent => ({
  event: 'fallback',
  id,
  ...(clientKey && { client: clientKey }),
  from: nameOf(from),
  to: nameOf(to),
  kind,
  detail: message,
})

/** ms until one of the plan's targets may be tried. */
const soonest = ({ health: board, world }: RoutingDeps, { plan, config, keysOf }: RouteContext): number | null => {
  let least: number | null = null
  for (const candidate of plan.candidates)
    for (const key of keysOf(candidate)) {
      const refusal = board.peek({ candidate, key }, config.settings)
      if (!refusal) return 0
      const wait = refusal.until === null ? null : Math.max(0, refusal.until - world.now())
      if (wait !== null && (least === null || wait < least)) least = wait
    }
  return least
}
