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
import { Attempt, type Flow } from './attempt.ts'
import type { Admission, Board, Ticket } from './board.ts'
import { headersFor, identityOf, type Prepared, prepare, type Question, sparing } from './prepare.ts'
import type { Stop } from './stop.ts'
import type { Turn } from './turn.ts'

export type Tools = {
  readonly world: World
  readonly board: Board
  readonly catalogue: Catalogue
  readonly tell: (news: News) => void
}

export type Errand = {
  readonly id: string
  readonly question: Question
  readonly plan: Plan
  readonly config: Config
  /** ms of the monotonic clock at which everything has to be over. */
  readonly deadline: number
  readonly stop: Stop
  readonly keysOf: (candidate: Candidate) => readonly ProviderKey[]
  readonly note: (fact: Fact) => void
  /** The turn of a conversation it is: some targets are asked in other words. */
  readonly turn?: Pick<Turn, 'questionFor' | 'forgotten'>
}

export type Won = {
  readonly ok: true
  readonly target: Target
  readonly prepared: Prepared
  readonly flow: Flow
  readonly ticket: Ticket
}
/** `soonest`: ms until some target may be tried again; null: none as things stand. */
export type Lost = { readonly ok: false; readonly failure: Failure; readonly soonest: number | null }

/** A target that may be tried now, with everything needed to. */
type Choice = { readonly target: Target; readonly prepared: Prepared; readonly ticket: Ticket }

type Chosen = {
  readonly choice: Choice | null
  readonly leftOut: readonly LeftOut[]
  /** Some were left out only for what the request may be asked without. */
  readonly spared: boolean
}

export const firstToOpen = async (tools: Tools, errand: Errand): Promise<Won | Lost> => {
  const { world, board, tell } = tools
  const { config, question, plan, stop, note } = errand
  const { settings } = config
  const factsIn = ({ instance, model }: Candidate) => factsOf(tools.catalogue, instance, model)
  const windowOf = (candidate: Candidate) => factsIn(candidate)?.contextWindow
  const bodies = new Map<Question, Map<Candidate, Prepared | null>>()
  /** Providers this request has been tried at: a further attempt there is a repetition. */
  const triedAt = new Set<string>()
  const failures: Failure[] = []
  let history = nothingMet
  let attempts = 0
  let counted = 0
  let last: { readonly target: Target; readonly prepared: Prepared; readonly failure: Failure } | null = null
  let repeated = false
  let empty: Won | null = null

  const askedOf = (target: Target): Question => errand.turn?.questionFor(target) ?? question

  const preparedFor = (target: Target): Prepared | null => {
    const { candidate } = target
    const asked = askedOf(target)
    const made = bodies.get(asked) ?? new Map<Candidate, Prepared | null>()
    bodies.set(asked, made)
    const known = made.get(candidate)
    if (known !== undefined) return known
    const body = prepare(asked, candidate, factsIn(candidate)?.maxOutputTokens)
    made.set(candidate, body)
    return body
  }

  /**
   * The best target that may be tried now; otherwise why each of the others may not. `sparingly`: also one that can be
   * asked only without something.
   */
  const choose = (how: Admission, sparingly: boolean): Chosen => {
    const leftOut: LeftOut[] = []
    let spared = false
    for (const target of remaining(plan, history, errand.keysOf, windowOf)) {
      const { instance } = target.candidate
      const whole = preparedFor(target)
      const prepared = whole && sparingly ? sparing(whole) : whole
      if (!prepared || prepared.unfit.length > 0 || prepared.onlyWithout.length > 0) {
        spared ||= prepared?.unfit.length === 0
        leftOut.push({ why: 'unfit', paths: prepared ? [...prepared.unfit, ...prepared.onlyWithout] : ['model'] })
        continue
      }
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
      return { choice: { target, prepared, ticket }, leftOut, spared }
    }
    return { choice: null, leftOut, spared }
  }

  /**
   * When nothing else is left: one that lacks a tool the model need not use, which beats no answer; then past every
   * open circuit, if the settings allow it.
   */
  const chooseOrProbe = (): Chosen => {
    const whole = choose('normal', false)
    const normal = whole.choice || !whole.spared ? whole : choose('normal', true)
    const { whenAllOpen } = settings.circuit
    const closedByCircuit = normal.leftOut.some(({ why }) => why === 'circuit')
    if (normal.choice || !closedByCircuit || whenAllOpen === 'fail') return normal
    return choose(whenAllOpen === 'try' ? 'ignore' : 'early', whole.spared)
  }

  /** The same target once more, when it is the only one and its failure may be over in a moment. */
  const again = async (leftOut: readonly LeftOut[]): Promise<Choice | null> => {
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

    const asked = askedOf(target)
    const number = attempts++
    note({ type: 'attempt', at: world.now(), provider: instance.id, model, key: target.key.id })
    const attempt = new Attempt(world, {
      url: prepared.url,
      headers: headersFor(instance, target.key, question, prepared),
      identity: identityOf(instance, target.key, prepared.auth),
      body: prepared.body,
      protocol: prepared.protocol,
      quirks: instance.provider.quirks,
      key: target.key,
      translated: prepared.protocol.name === question.protocol.name ? null : question.request,
      stream: question.request.stream,
      forgiving: prepared.protocol.looseEvents === true && isPlainText(question),
      settings,
      heard: (headers) => board.heard(target, headers),
    })
    stop.means((reason) => attempt.giveUp(reason))
    const opened = await attempt.opened
    if (opened.ok) {
      ticket.commit(attempt.age)
      note({ type: 'committed', at: world.now(), attempt: number, status: opened.flow.status })
      return { ok: true, target, prepared, flow: opened.flow, ticket }
    }
    const { failure } = opened
    if (errand.turn?.forgotten(asked, failure)) {
      // Asked again at once with the whole conversation: nothing is wrong with anybody.
      ticket.release()
      note({ type: 'failed', at: world.now(), attempt: number, failure })
      continue
    }
    ticket.failed(failure)
    note({ type: 'failed', at: world.now(), attempt: number, failure })
    if (stop.reason) continue
    if (opened.flow) {
      const answer: Won = { ok: true, target, prepared, flow: opened.flow, ticket }
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
    if (!mayGoElsewhere(question, failure)) history = { ...history, over: true }
  }
}

/** Neither a call nor a document that a missing piece would make another one. */
const isPlainText = ({ request }: Question): boolean =>
  request.tools.length === 0 && request.settings.format === undefined

/** What has effects of its own is sent again only if the upstream cannot have begun it: it refused, or was never reached. */
const mayGoElsewhere = ({ request }: Question, failure: Failure): boolean => {
  const effects = request.extras.some(
    ({ name, value }) => (name === 'background' && value === true) || (name === 'conversation' && value !== null),
  )
  return !effects || failure.unsent === true || (failure.status !== undefined && failure.status >= 400)
}

const nameOf = ({ candidate, key }: Target): string => `${candidate.instance.id}#${key.id}/${candidate.model}`

/** ms until one of the plan's targets may be tried. */
const soonest = ({ board, world }: Tools, { plan, config, keysOf }: Errand): number | null => {
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
