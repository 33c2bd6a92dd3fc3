/**
 * Tries targets in order until one has produced its first content. From then on the choice is made. What to try next is
 * decided by `policy/next.ts`, whether it may be tried now by the board; here it is done.
 */
import type { Catalogue, Config } from '../core/config.ts'
import type { Fact, News } from '../core/exchange.ts'
import { type Failure, rowOf } from '../core/failure.ts'
import type { ProviderKey } from '../core/provider.ts'
import type { Candidate, Plan, Target } from '../core/target.ts'
import type { World } from '../core/world.ts'
import { factsOf } from '../policy/models.ts'
import { met, nothingMet, onceMore, remaining } from '../policy/next.ts'
import { type LeftOut, verdict } from '../policy/verdict.ts'
import type { Asking } from './asking.ts'
import type { Flow } from './attempt.ts'
import type { Admission, Board, Ticket } from './board.ts'
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
  readonly board: Pick<Board, 'admit' | 'peek' | 'firstTry' | 'mayRepeat'>
}

export type Errand = {
  readonly id: string
  readonly plan: Plan
  readonly config: Config
  /** ms of the monotonic clock at which everything has to be over. */
  readonly deadline: number
  readonly stop: Stop
  /** Providers it has been tried at before: what is asked there is a repetition from the first. */
  readonly triedAt?: Iterable<string>
  readonly keysOf: (candidate: Candidate) => readonly ProviderKey[]
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

export const firstToOpen = async <Ready extends Fitness>(
  tools: Trying,
  errand: Errand,
  asking: Asking<Ready>,
): Promise<Won<Ready> | Lost> => {
  const { world, board, tell } = tools
  const { config, plan, stop, note } = errand
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

  /** The best target that may be tried now, at this grade or a lesser one; otherwise why each of the others may not. */
  const choose = (how: Admission, grade: Grade): Chosen<Ready> => {
    const leftOut: LeftOut[] = []
    let next: Grade | null = null
    for (const target of remaining(plan, history, errand.keysOf, windowOf)) {
      const { instance } = target.candidate
      const whole = asking.prepare(target)
      const its = whole ? gradeOf(whole) : 0
      if (!whole || whole.unfit.length > 0 || its > grade) {
        if (whole?.unfit.length === 0 && (next === null || its < next)) next = its
        leftOut.push({ why: 'unfit', paths: whole ? pathsAgainst(whole) : ['model'] })
        continue
      }
      const prepared = sparing(whole)
      const ticket = board.admit(target, settings, how)
      if ('why' in ticket) {
        leftOut.push({ why: ticket.why, wait: ticket.until === null ? null : ticket.until - world.now() })
        continue
      }
      if (triedAt.has(instance.id) && !board.mayRepeat(instance, settings)) {
        ticket.release()
        leftOut.push({ why: 'budget', wait: 1_000 })
        continue
      }
      return { choice: { target, prepared, ticket }, leftOut, next }
    }
    return { choice: null, leftOut, next }
  }

  /** When nothing else is left, more is put up with, which beats no answer; then past every open circuit, if the settings allow it. */
  const chooseOrProbe = (): Chosen<Ready> => {
    let grade: Grade = 0
    let normal = choose('normal', grade)
    while (!normal.choice && normal.next !== null) {
      grade = normal.next
      normal = choose('normal', grade)
    }
    const { whenAllOpen } = settings.circuit
    const closedByCircuit = normal.leftOut.some(({ why }) => why === 'circuit')
    if (normal.choice || !closedByCircuit || whenAllOpen === 'fail') return normal
    return choose(whenAllOpen === 'try' ? 'ignore' : 'early', grade)
  }

  /** The same target once more, when it is the only one and its failure may be over in a moment. */
  const again = async (leftOut: readonly LeftOut[]): Promise<Choice<Ready> | null> => {
    if (!last || repeated || leftOut.length > 0 || attempts !== 1) return null
    const { target, prepared, failure } = last
    const wait = onceMore(failure, errand.deadline - world.now(), world.random)
    const refusal = board.peek(target, settings)
    // What the circuit or the key will not allow then is not worth waiting for.
    const allowed = !refusal || (refusal.why === 'rate_limited' && failure.kind === 'rate_limited')
    if (!wait || !allowed || !board.mayRepeat(target.candidate.instance, settings)) return null
    repeated = true
    await stop.sleep(world, wait.wait)
    if (stop.reason) return null
    const ticket = board.admit(target, settings, 'normal')
    return 'why' in ticket ? null : { target, prepared, ticket }
  }

  for (;;) {
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
      return { ok: false, failure: verdict(failures, leftOut), soonest: soonest(tools, errand) }
    }
    const { target, prepared, ticket } = choice
    const { instance, model } = target.candidate
    if (last)
      tell({
        event: 'fallback',
        id: errand.id,
        from: nameOf(last.target),
        to: nameOf(target),
        kind: last.failure.kind,
        detail: last.failure.message,
      })
    if (!triedAt.has(instance.id)) board.firstTry(instance)
    triedAt.add(instance.id)

    const number = attempts++
    note({ type: 'attempt', at: world.now(), provider: instance.id, model, key: target.key.id })
    const attempt = asking.begin(target, prepared)
    stop.means((reason) => attempt.giveUp(reason))
    const opened = await attempt.opened
    if (opened.ok) {
      ticket.commit(attempt.age)
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
    if (rowOf(failure).condemns === 'key') triedAt.delete(instance.id)
    else counted++
    failures.push(failure)
    history = met(history, target, failure, windowOf(target.candidate))
    last = { target, prepared, failure }
    if (asking.mayGoElsewhere?.(failure) === false) history = { ...history, over: true }
  }
}

const pathsAgainst = ({ unfit, onlyWithout, doubts }: Fitness): readonly string[] => [
  ...unfit,
  ...onlyWithout,
  ...doubts.map(({ at }) => at),
]

export const nameOf = ({ candidate, key }: Target): string => `${candidate.instance.id}#${key.id}/${candidate.model}`

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
