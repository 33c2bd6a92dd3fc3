/**
 * Tries targets in order until one has produced its first content. From then on the choice is made. What to try next is
 * decided by `policy/next.ts`, whether it may be tried now by the board; here it is done. One attempt is under way at a
 * time, or two where the first is late and may be hedged: then the first to open is taken, and the other is let go.
 */
import type { Catalogue, Config } from '../core/config.ts'
import type { Fact, News } from '../core/exchange.ts'
import { type Failure, rowOf } from '../core/failure.ts'
import type { Instance, ProviderKey } from '../core/provider.ts'
import type { Candidate, Plan, Target } from '../core/target.ts'
import type { World } from '../core/world.ts'
import { factsOf } from '../policy/models.ts'
import { isSoon, met, nothingMet, onceMore, remaining } from '../policy/next.ts'
import { type LeftOut, verdict } from '../policy/verdict.ts'
import type { Asking } from './asking.ts'
import type { Attempt, Flow, Opened } from './attempt.ts'
import type { Admission, Board, Refusal, Ticket } from './board.ts'
import { type Fitness, type Prepared, sparing } from './prepare.ts'
import type { Stop } from './stop.ts'

export type Tools = {
  readonly world: World
  readonly board: Board
  readonly catalogue: Catalogue
  readonly tell: (news: News) => void
}

/** What trying needs of them: a board may also only be watched. */
export type Trying = Pick<Tools, 'world' | 'catalogue' | 'tell'> & {
  readonly board: Pick<Board, 'admit' | 'refuses' | 'peek' | 'firstTry' | 'mayRepeat'>
}

export type Errand = {
  readonly id: string
  /** Who asks; empty where clients are not told apart. */
  readonly client: string
  readonly plan: Plan
  readonly config: Config
  /** ms of the monotonic clock at which everything has to be over. */
  readonly deadline: number
  readonly stop: Stop
  /** Providers it has been tried at before: what is asked there is a repetition from the first. */
  readonly triedAt?: Iterable<string>
  /** The first at once, the others when they are asked for. */
  readonly keysOf: (candidate: Candidate) => Iterable<ProviderKey>
  readonly note: (fact: Fact) => void
}

/** `prepared`: what the target was sent. */
export type Won<Ready extends Fitness = Prepared> = {
  readonly ok: true
  readonly target: Target
  readonly prepared: Ready
  readonly flow: Flow
  readonly ticket: Ticket
}
/** `soonest`: ms until some target may be tried again; null: none as things stand. */
export type Lost = { readonly ok: false; readonly failure: Failure; readonly soonest: number | null }

/** A target that may be tried now, with everything needed to. */
type Choice<Ready> = { readonly target: Target; readonly prepared: Ready; readonly ticket: Ticket }

/** An attempt that has begun, at `began` (ms of the monotonic clock), as the request's `number`-th from 0. */
type Running<Ready> = Choice<Ready> & {
  readonly attempt: Attempt
  readonly number: number
  readonly began: number
  /** The request had not been tried at this provider. */
  readonly first: boolean
}

/** What is worth waiting for (ms). */
type Wish<Ready> = { readonly target: Target; readonly prepared: Ready; readonly wait: number }

type Settled<Ready> = { readonly running: Running<Ready>; readonly opened: Opened }

type Chosen<Ready> = {
  readonly choice: Choice<Ready> | null
  readonly leftOut: readonly LeftOut[]
  /** The least grade at which more would have been allowed; null: none would. */
  readonly next: Grade | null
}

/**
 * How much is put up with: nothing; a model that by the catalogue cannot do what is asked, which says so itself if it is
 * true; leaving out by name a tool that the model need not use.
 */
type Grade = 0 | 1 | 2
const gradeOf = ({ doubts, onlyWithout }: Fitness): Grade => (onlyWithout.length > 0 ? 2 : doubts.length > 0 ? 1 : 0)

/** Whether more would have to be put up with. */
const exceeds = (whole: Fitness, grade: Grade): boolean => whole.unfit.length > 0 || gradeOf(whole) > grade

/** The lesser of both grades; of what cannot be carried at all there is none. */
const lesser = (grade: Grade | null, whole: Fitness | null): Grade | null => {
  if (!whole || whole.unfit.length > 0) return grade
  const its = gradeOf(whole)
  return grade === null || its < grade ? its : grade
}

const unfitBy = (whole: Fitness | null): LeftOut => ({ why: 'unfit', paths: whole ? pathsAgainst(whole) : ['model'] })

const leftOutBy = ({ why, until }: Refusal, now: number): LeftOut => ({
  why,
  wait: until === null ? null : until - now,
})

export const firstToOpen = async <Ready extends Fitness>(
  tools: Trying,
  errand: Errand,
  asking: Asking<Ready>,
): Promise<Won<Ready> | Lost> => {
  const { world, board, tell } = tools
  const { client, config, plan, stop, note } = errand
  const { settings } = config
  const factsIn = ({ instance, model }: Candidate) => factsOf(tools.catalogue, instance, model)
  const windowOf = (candidate: Candidate) => factsIn(candidate)?.contextWindow
  /** Providers this request has been tried at: a further attempt there is a repetition. */
  const triedAt = new Set<string>(errand.triedAt)
  const failures: Failure[] = []
  let history = nothingMet
  let attempts = 0
  let counted = 0
  let last: { readonly target: Target; readonly prepared: Ready; readonly failure: Failure } | null = null
  let repeated = false
  let empty: Won<Ready> | null = null
  /** The last provider that was left out for the budget of repeats alone. */
  let starved: string | null = null
  /** Attempts that have neither opened nor failed, with how they will: one, or two while a hedge is among them. */
  const underWay = new Map<Running<Ready>, Promise<Settled<Ready>>>()
  /** It has had its chance of a hedge. */
  let hedged = false

  const mayRepeat = (instance: Instance): boolean => {
    const allowed = board.mayRepeat(instance, settings, client)
    if (!allowed) starved = instance.id
    return allowed
  }

  /** The best target that may be tried now, at this grade or a lesser one; otherwise why each of the others may not. */
  const choose = (how: Admission, grade: Grade, among?: (instance: Instance) => boolean): Chosen<Ready> => {
    const leftOut: LeftOut[] = []
    /** Those that may not be tried now, by their places there: what they would be sent is only written if nobody is found. */
    const shut: (readonly [at: number, target: Target])[] = []
    let next: Grade | null = null
    for (const target of remaining(plan, history, errand.keysOf, windowOf)) {
      const { instance } = target.candidate
      if (among?.(instance) === false) continue
      const refused = board.refuses(target, settings, how)
      if (refused) {
        shut.push([leftOut.length, target])
        leftOut.push(leftOutBy(refused, world.now()))
        continue
      }
      const whole = asking.prepare(target)
      if (!whole || exceeds(whole, grade)) {
        next = lesser(next, whole)
        leftOut.push(unfitBy(whole))
        continue
      }
      const prepared = sparing(whole)
      const ticket = board.admit(target, settings, how)
      if ('why' in ticket) {
        leftOut.push(leftOutBy(ticket, world.now()))
        continue
      }
      if (triedAt.has(instance.id) && !mayRepeat(instance)) {
        ticket.release()
        leftOut.push({ why: 'budget', wait: 1_000 })
        continue
      }
      return { choice: { target, prepared, ticket }, leftOut, next }
    }
    for (const [at, target] of shut) {
      const whole = asking.prepare(target)
      if (whole && !exceeds(whole, grade)) continue
      next = lesser(next, whole)
      leftOut[at] = unfitBy(whole)
    }
    return { choice: null, leftOut, next }
  }

  /** One that has just recovered is given more than it can bear yet only where nobody else may be asked. */
  const chooseAt = (grade: Grade): Chosen<Ready> => {
    const chosen = choose('normal', grade)
    return chosen.choice || !chosen.leftOut.some(({ why }) => why === 'warming') ? chosen : choose('warm', grade)
  }

  /** When nothing else is left, more is put up with, which beats no answer; then past every open circuit, if the settings allow it. */
  const chooseOrProbe = (): Chosen<Ready> => {
    let grade: Grade = 0
    let normal = chooseAt(grade)
    while (!normal.choice && normal.next !== null) {
      grade = normal.next
      normal = chooseAt(grade)
    }
    const { whenAllOpen } = settings.circuit
    const closedByCircuit = normal.leftOut.some(({ why }) => why === 'circuit')
    if (normal.choice || !closedByCircuit || whenAllOpen === 'fail') return normal
    return choose(whenAllOpen === 'try' ? 'ignore' : 'early', grade)
  }

  /** Where everybody who could answer is at a limit: whoever is first to be below it again, if that is soon and was said. */
  const soonestLimited = (): Wish<Ready> | null => {
    if (failures.some(({ kind }) => kind !== 'rate_limited')) return null
    let first: Wish<Ready> | null = null
    for (const candidate of plan.candidates)
      for (const key of errand.keysOf(candidate)) {
        const target = { candidate, key }
        const refusal = board.peek(target, settings)
        if (refusal?.why !== 'rate_limited' || !refusal.told || refusal.until === null) continue
        const wait = refusal.until - world.now()
        if ((first && first.wait <= wait) || !isSoon(wait, errand.deadline - world.now())) continue
        const whole = asking.prepare(target)
        if (whole && whole.unfit.length === 0) first = { target, prepared: sparing(whole), wait }
      }
    return first
  }

  /** The same target, when it is the only one and its failure may be over in a moment. */
  const same = (leftOut: readonly LeftOut[]): Wish<Ready> | null => {
    if (!last || leftOut.length > 0 || attempts !== 1) return null
    const { target, prepared, failure } = last
    const once = onceMore(failure, errand.deadline - world.now(), world.random)
    // What the circuit or the key will not allow then is not worth waiting for.
    return once && !board.peek(target, settings) ? { target, prepared, wait: once.wait } : null
  }

  /** When nobody is left to be asked at once, somebody after a wait; once. */
  const again = async (leftOut: readonly LeftOut[]): Promise<Choice<Ready> | null> => {
    if (repeated || history.over) return null
    const wish = soonestLimited() ?? same(leftOut)
    if (!wish) return null
    const { target, prepared, wait } = wish
    const { instance } = target.candidate
    if (triedAt.has(instance.id) && !mayRepeat(instance)) return null
    repeated = true
    await stop.sleep(world, wait)
    if (stop.reason) return null
    const ticket = board.admit(target, settings, 'normal')
    return 'why' in ticket ? null : { target, prepared, ticket }
  }

  /** What failed last is gone on from. */
  const tellFallback = (to: Target): void => {
    if (last) tell(fallback(errand.id, last.target, to, last.failure))
  }

  /** From now on it is one of those under way. */
  const start = ({ target, prepared, ticket }: Choice<Ready>, hedge: boolean): void => {
    const { instance, model } = target.candidate
    const first = !triedAt.has(instance.id)
    if (first) board.firstTry(instance)
    triedAt.add(instance.id)
    const number = attempts++
    const began = world.now()
    note({ type: 'attempt', at: began, provider: instance.id, model, key: target.key.id, ...(hedge && { hedge }) })
    const attempt = asking.begin(target, prepared)
    const running: Running<Ready> = { target, prepared, ticket, attempt, number, began, first }
    underWay.set(
      running,
      attempt.opened.then((opened) => ({ running, opened })),
    )
    stop.means((reason) => {
      for (const { attempt } of underWay.keys()) attempt.giveUp(reason)
    })
  }

  /** Another was quicker, or what a later one was begun for is over. That is no verdict on it. */
  const letGo = ({ attempt, ticket, number }: Running<Ready>): void => {
    attempt.abort()
    ticket.release()
    note({ type: 'abandoned', at: world.now(), attempt: number })
  }

  /** What happens next to those under way: one has opened or failed; or, null, the only one of them is late. */
  const next = (): Promise<Settled<Ready> | null> => {
    const [only] = underWay
    if (hedged || !asking.hedging || !only) return Promise.race(underWay.values())
    const [{ target }, settled] = only
    const after = asking.hedging.after(target.candidate)
    return new Promise((resolve) => {
      const cancel = world.later(after, () => resolve(null))
      void settled.then((one) => {
        cancel()
        resolve(one)
      })
    })
  }

  /** Asks another provider as well, if one may be asked at once and it can be paid for. A request has one chance of that. */
  const hedge = (): void => {
    hedged = true
    const [late] = underWay.keys()
    if (!late || stop.reason || counted + underWay.size >= settings.retry.maxAttempts) return
    const { choice } = choose('normal', 0, (instance) => !triedAt.has(instance.id))
    if (!choice) return
    if (asking.hedging?.allowed(late.target.candidate.instance, client)) start(choice, true)
    else choice.ticket.release()
  }

  asking.hedging?.begun()
  try {
    for (;;) {
      if (underWay.size === 0) {
        if (stop.reason) return { ok: false, failure: stop.reason, soonest: 0 }
        const allowed = counted < settings.retry.maxAttempts
        const { choice: found, leftOut } = allowed ? chooseOrProbe() : { choice: null, leftOut: [] }
        const choice = found ?? (allowed ? await again(leftOut) : null)
        if (stop.reason) continue
        if (!choice) {
          if (empty) return empty
          if (allowed && last && asking.less?.(last.failure)) {
            history = nothingMet
            continue
          }
          if (starved) note({ type: 'budget_spent', at: world.now(), provider: starved })
          return { ok: false, failure: verdict(failures, leftOut), soonest: soonest(tools, errand) }
        }
        tellFallback(choice.target)
        start(choice, false)
      }

      const happened = await next()
      if (!happened) {
        hedge()
        continue
      }
      const { running, opened } = happened
      const { target, prepared, ticket, number } = running
      underWay.delete(running)
      if (opened.ok) {
        ticket.commit(running.attempt.age)
        asking.hedging?.opened(target.candidate, world.now() - running.began)
        note({ type: 'committed', at: world.now(), attempt: number, status: opened.flow.status })
        return { ok: true, target, prepared, flow: opened.flow, ticket }
      }
      const { failure } = opened
      if (asking.otherwise?.(target, failure)) {
        // Nothing is wrong with anybody.
        ticket.release()
        note({ type: 'failed', at: world.now(), attempt: number, failure })
        continue
      }
      ticket.failed(failure)
      note({ type: 'failed', at: world.now(), attempt: number, failure })
      if (stop.reason) continue
      if (opened.flow) {
        const answer: Won<Ready> = { ok: true, target, prepared, flow: opened.flow, ticket }
        // Nothing, twice: then nothing is the answer.
        if (empty) return answer
        empty = answer
      }
      // A key found dead says nothing of the request: it is not one of its attempts, and the next key is no repetition.
      // What another key met before it there is still to be paid for.
      if (rowOf(failure).condemns !== 'key') counted++
      else if (running.first) triedAt.delete(target.candidate.instance.id)
      failures.push(failure)
      history = met(history, target, failure, windowOf(target.candidate))
      last = { target, prepared, failure }
      // The hedge that is already there takes over.
      const [other] = underWay.keys()
      if (other && other.number > number) tellFallback(other.target)
      if (asking.mayGoElsewhere?.(failure) === false) history = { ...history, over: true }
      // What nobody else may be asked any more, nobody else was asked: what a model refuses is not had from another.
      if (history.over)
        for (const later of underWay.keys())
          if (later.number > number) {
            underWay.delete(later)
            letGo(later)
          }
    }
  } finally {
    for (const running of underWay.keys()) letGo(running)
  }
}

const pathsAgainst = ({ unfit, onlyWithout, doubts }: Fitness): readonly string[] => [
  ...unfit,
  ...onlyWithout,
  ...doubts.map(({ at }) => at),
]

const nameOf = ({ candidate, key }: Target): string => `${candidate.instance.id}#${key.id}/${candidate.model}`

/** That another goes on where one has failed. */
export const fallback = (id: string, from: Target, to: Target, { kind, message }: Failure): News => ({
  event: 'fallback',
  id,
  from: nameOf(from),
  to: nameOf(to),
  kind,
  detail: message,
})

/** ms until one of the plan's targets may be tried. */
const soonest = ({ board, world }: Trying, { plan, config, keysOf }: Errand): number | null => {
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
