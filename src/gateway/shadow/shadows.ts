/**
 * The shadows of routes: a share of the requests of a route is sent once more to another target, after their clients have their
 * answers. A copy is a call of its own: it has its own account, health and cancellation, and nothing of it reaches the client.
 */
import type { Team } from '../../core/accounts.ts'
import type { ChatEvent } from '../../core/chat.ts'
import type { TextOrBytes } from '../../core/encoded-text.ts'
import { fail } from '../../core/failure.ts'
import type { AnswerFollower, CompleteAnswer } from '../../core/guard.ts'
import type { Route, ShadowRules } from '../../core/route.ts'
import type { LeftOut, ShadowCounts, ShadowPair, ShadowState } from '../../core/shadow.ts'
import type { Trace } from '../../core/trace.ts'
import { isDrawn } from '../../policy/routing/canary.ts'
import { ComparedAnswer, NO_COPIES, uncopied, withLeftOut, withPair } from '../../policy/routing/shadow.ts'
import { ActiveCalls } from '../call/cancellation.ts'
import type { ChatDeps, PlannedCall } from '../chat/plan-call.ts'
import { UpstreamHealth } from '../health/upstream-health.ts'
import { type CopyOutcome, sendCopy } from './send-copy.ts'

/** Copies in progress, those that wait, and characters of the bodies of all drawn requests. */
const MAX = { inFlight: 10, waiting: 100, characters: 32 * 1_048_576 }
const RECENT = 20

/** The shadow of one route. `rules`: of the configuration that it has counted for. */
type RouteShadow = {
  rules: ShadowRules
  counts: ShadowCounts
  recent: readonly ShadowPair[]
  stopped: string | null
  /** The minute, in ms of the monotonic clock, and its copies. */
  minute: number
  inMinute: number
}

/** A request that is to be copied. `trace`: of the client's request, which has ended when the copy is sent. */
type WaitingCopy = {
  readonly call: PlannedCall
  readonly route: Route
  readonly answer: ComparedAnswer
  readonly trace: Trace
}

export type ShadowDeps = {
  readonly gateway: () => ChatDeps
  /** The team that copies are charged to. */
  readonly team: () => Team | undefined
}

export class Shadows {
  readonly #deps: ShadowDeps
  readonly #routes = new Map<string, RouteShadow>()
  readonly #health: UpstreamHealth
  readonly #calls = new ActiveCalls()
  readonly #waiting: WaitingCopy[] = []
  #characters = 0
  #inFlight = 0
  #isClosed = false

  constructor(deps: ShadowDeps) {
    this.#deps = deps
    // Of the copies alone: their failures open no circuit of the requests of clients.
    this.#health = new UpstreamHealth(deps.gateway().world, () => {})
  }

  /** Follows an answer whose request is to be copied. Null: it is not. */
  follow(call: PlannedCall): AnswerFollower | null {
    const { plan, config, inbound, request, sent, recorder } = call
    const route = plan.route === undefined ? undefined : config.routes.get(plan.route)
    if (!route?.shadow || this.#isClosed) return null
    const { session } = recorder.account
    const { percent } = route.shadow
    const { world } = this.#deps.gateway()
    const drawn =
      session === null ? 100 * world.random() < percent : isDrawn(`shadow ${route.name} ${session}`, percent)
    if (!drawn) return null
    const { length } = sent.source.text
    const reason = uncopied(inbound.request, length, inbound.request !== request)
    if (reason) return this.#leaveOut(route, reason)
    if (this.#shadowOf(route).stopped !== null) return this.#leaveOut(route, 'unpriced')
    if (this.#characters + length > MAX.characters) return this.#leaveOut(route, 'busy')
    this.#characters += length
    return new FollowedCopy({
      complete: (answer, trace) => this.#add({ call, route, answer, trace }),
      discard: (isComplete) => {
        if (isComplete) return
        this.#characters -= length
        this.#leaveOut(route, 'unanswered')
      },
    })
  }

  /** The shadows of the current configuration. */
  states(): readonly ShadowState[] {
    return [...this.#deps.gateway().config().routes.values()].flatMap((route) => {
      if (!route.shadow) return []
      const { counts, stopped, recent } = this.#shadowOf(route)
      const waiting = this.#waiting.reduce((sum, one) => sum + (one.route.name === route.name ? 1 : 0), 0)
      return [{ route: route.name, counts, waiting, stopped, recent }]
    })
  }

  /** Ends the copies in progress. */
  close(): void {
    this.#isClosed = true
    this.#waiting.length = 0
    for (const call of [...this.#calls]) call.cancel(fail('shutdown', 'The gateway is shutting down.'))
  }

  #shadowOf({ name, shadow }: Route): RouteShadow {
    const known = this.#routes.get(name)
    // Another configuration is another object. Counts of another target would say nothing.
    const isSame = known && shadow && JSON.stringify(known.rules.target) === JSON.stringify(shadow.target)
    if (known && (known.rules === shadow || !shadow)) return known
    if (!shadow) throw new Error(`the route ${name} has no shadow`)
    const { counts, recent } = isSame ? known : { counts: NO_COPIES, recent: [] }
    const made = { rules: shadow, counts, recent, stopped: null, minute: 0, inMinute: 0 }
    this.#routes.set(name, made)
    return made
  }

  #leaveOut(route: Route, reason: LeftOut): null {
    const shadow = this.#shadowOf(route)
    shadow.counts = withLeftOut(shadow.counts, reason)
    this.#deps.gateway().emit({ event: 'shadow', route: route.name, result: reason })
    return null
  }

  #add(copy: WaitingCopy): void {
    const { route, call } = copy
    const reason = this.#waiting.length >= MAX.waiting ? 'busy' : this.#takeOfMinute(route) ? null : 'rate'
    if (reason === null && !this.#isClosed) {
      this.#waiting.push(copy)
      // The trace of the client's request ends with the work that is in progress now.
      this.#deps.gateway().world.later(0, () => this.#next())
      return
    }
    this.#characters -= call.sent.source.text.length
    if (reason) this.#leaveOut(route, reason)
  }

  #takeOfMinute(route: Route): boolean {
    const shadow = this.#shadowOf(route)
    const minute = Math.floor(this.#deps.gateway().world.now() / 60_000)
    if (shadow.minute !== minute) Object.assign(shadow, { minute, inMinute: 0 })
    if (shadow.inMinute >= shadow.rules.perMinute) return false
    shadow.inMinute++
    return true
  }

  #next(): void {
    while (this.#inFlight < MAX.inFlight) {
      const copy = this.#waiting.shift()
      if (!copy) return
      this.#inFlight++
      void this.#send(copy).finally(() => {
        this.#inFlight--
        this.#characters -= copy.call.sent.source.text.length
        this.#next()
      })
    }
  }

  async #send({ call, route, answer, trace }: WaitingCopy): Promise<void> {
    const gateway = this.#deps.gateway()
    const team = this.#deps.team()
    if (team?.status !== 'active') return void this.#leaveOut(route, 'budget')
    const deps = { gateway, health: this.#health, activeCalls: this.#calls, team }
    try {
      const outcome = await sendCopy(deps, { call, route, answer: answer.facts, trace })
      if ('leftOut' in outcome) this.#leaveOut(route, outcome.leftOut)
      else this.#compared(route, outcome)
    } catch (error) {
      gateway.emit({ event: 'error', error })
    }
  }

  #compared(route: Route, { pair, isUnpriced }: Extract<CopyOutcome, { readonly pair: ShadowPair }>): void {
    const shadow = this.#shadowOf(route)
    shadow.counts = withPair(shadow.counts, pair)
    shadow.recent = [pair, ...shadow.recent].slice(0, RECENT)
    if (isUnpriced) shadow.stopped = UNPRICED
    const result = pair.other.failure === null ? 'answered' : 'failed'
    this.#deps.gateway().emit({ event: 'shadow', route: route.name, result, pair })
  }
}

const UNPRICED = 'The cost of a copy is unknown, so its budget cannot be kept. Set the price of the target in `prices`.'

/** What becomes of a copy. `discard`: the call is over. */
type CopyEnd = {
  readonly complete: (answer: ComparedAnswer, trace: Trace) => void
  readonly discard: (isComplete: boolean) => void
}

/** Follows the answer of the client and changes nothing of it. */
class FollowedCopy implements AnswerFollower {
  readonly #end: CopyEnd
  readonly #answer = new ComparedAnswer()
  #isComplete = false

  constructor(end: CopyEnd) {
    this.#end = end
  }

  events(events: readonly ChatEvent[]): void {
    this.#answer.push(events)
  }

  piece(piece: TextOrBytes): TextOrBytes {
    return piece
  }

  complete({ trace }: CompleteAnswer): void {
    this.#isComplete = true
    this.#end.complete(this.#answer, trace)
  }

  discard(): void {
    this.#end.discard(this.#isComplete)
  }
}
