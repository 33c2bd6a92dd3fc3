/**
 * Live checks: once a day, or when an operator asks for it, each shape of the routes with live checks is tried at the targets that
 * would be next, with its smallest request. One request at a time; of several gateways that share a store, one sends them.
 */
import type { Team } from '../../core/accounts.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { formatDollars, type Nano } from '../../core/money.ts'
import type { Candidate } from '../../core/target.ts'
import { cover, type LiveVerdict } from '../../policy/drill/cover.ts'
import { dayCap, hasQuota, isDue, type LiveResult, nextResult, nextRun, PAUSE } from '../../policy/drill/live-rules.ts'
import { type Shape, shapeText } from '../../policy/drill/shape.ts'
import { undrilled } from '../../policy/drill/smallest.ts'
import { hash } from '../../policy/routing/order.ts'
import { overrideText } from '../../policy/routing/override.ts'
import { ActiveCalls } from '../call/cancellation.ts'
import type { ChatDeps } from '../chat/plan-call.ts'
import { type DrillStorage, LiveStore } from './live-store.ts'
import { type ProbeDeps, readyProbe } from './send-probe.ts'

/** A target that would be next for requests of a route. `others`: all targets of the route. */
export type DrillWork = {
  readonly route: string
  readonly candidate: Candidate
  readonly others: readonly Candidate[]
  readonly shapes: readonly Shape[]
}

export type LiveDrillOptions = {
  readonly gateway: () => ChatDeps
  /** The version of the program, since another one may encode requests in another way. */
  readonly version: string
  readonly team: () => Team | undefined
  /** `spent`: what a day has cost. `results`: what was found. */
  readonly storage: { readonly spent: DrillStorage; readonly results: DrillStorage }
  /** `routes` null: all with live checks. */
  readonly work: (routes: readonly string[] | null) => Promise<readonly DrillWork[]>
  /** What the last seven days have cost; null: unknown. */
  readonly weekSpend: () => Promise<Nano | null>
  /** Requests in each hour of the week (`hourOfWeek`). */
  readonly hours: () => Promise<readonly number[]>
  /** Of several workers one sends; the others only read what is found. */
  readonly isSender: boolean
  /** ms between two requests to one target, for tests. */
  readonly pause?: number
}

/** Why a run ended early, or left targets out; `budget`: shapes. */
export type StopReason = 'budget' | 'limits' | 'unavailable' | 'unpriced' | 'other_gateway' | 'stopped'

export type DrillRun = {
  /** ms since 1970. `ended` null: it is in progress. */
  readonly began: number
  readonly ended: number | null
  readonly sent: number
  readonly spent: Nano
  readonly ready: number
  readonly refused: number
  readonly unsettled: number
  /** Reasons, and how often they held. */
  readonly left: { readonly [reason in StopReason]?: number }
}

type RunInProgress = { -readonly [member in keyof DrillRun]: DrillRun[member] } & {
  left: { [reason in StopReason]?: number }
}

/** `run`: what the run may cost; null: as the day. `day`: what a day may. */
type CostBounds = { readonly run: Nano | null; readonly day: Nano }

const DAY = 86_400_000

export class LiveDrill {
  readonly #options: LiveDrillOptions
  readonly #store: LiveStore
  readonly #calls = new ActiveCalls()
  #run: RunInProgress | null = null
  #last: DrillRun | null = null
  /** Of the run in progress. */
  #bounds: CostBounds = { run: 0, day: 0 }
  #sentAt = new Map<string, number>()
  #cancel: () => void = () => {}
  #isClosed = false
  #scheduled = 0
  /** The end of the run in progress. */
  #ending: Promise<void> | null = null
  /** Ends the pause before a request. */
  #wake: () => void = () => {}

  constructor(options: LiveDrillOptions) {
    this.#options = options
    this.#store = new LiveStore(options.storage, () => options.gateway().world)
    this.reschedule()
  }

  /** Whether this process sends. */
  get isSender(): boolean {
    return this.#options.isSender
  }

  /** The settings may have changed. */
  reschedule(): void {
    if (this.isSender) void this.#schedule()
  }

  /** The run in progress, or the last one of this gateway; null: there was none. */
  state(): DrillRun | null {
    return this.#run ?? this.#last
  }

  /** Begins a run, which goes on after this. `maxCost` null: what is left of the day. */
  async begin(routes: readonly string[] | null, maxCost: Nano | null): Promise<Outcome<DrillRun>> {
    const { gateway } = this.#options
    if (this.#run || this.#isClosed) return bad(running())
    const run = newRun(gateway().world.date())
    this.#run = run
    try {
      const team = await this.#admit(maxCost)
      if (team.ok) this.#ending = this.#runAll(run, routes, team.value)
      else this.#run = null
      return team.ok ? good(run) : team
    } catch (error) {
      this.#run = null
      gateway().emit({ event: 'error', error })
      return bad(fail('internal', 'The store of live checks does not answer. Try again later.'))
    }
  }

  /** The team that a run is charged to, with the role to send, if the run is within the day's budget. */
  async #admit(maxCost: Nano | null): Promise<Outcome<Team>> {
    const { gateway, team, weekSpend } = this.#options
    const charged = team()
    if (!charged) return bad(fail('unsupported', 'Live checks are off. Set drill.live in headgate.yaml.'))
    if (!(await this.#store.claim())) return bad(running())
    this.#store.take(await this.#store.load())
    const { budget } = gateway().config().settings.drill
    this.#bounds = { run: maxCost, day: dayCap(budget, await weekSpend()) }
    const left = Math.max(0, this.#bounds.day - this.#store.spentToday)
    if (maxCost === null || maxCost <= left) return good(charged)
    await this.#store.release()
    return bad(tooMuch(maxCost, left))
  }

  /** What is known of a shape at a target; undefined: nothing, or not of the target as it is now. */
  resultOf(shape: Shape, candidate: Candidate): LiveResult | undefined {
    if (undrilled(shape) !== null) return undefined
    const { known, target } = this.#knownOf(shape, candidate)
    const { world, config } = this.#options.gateway()
    const isOld = known && world.date() - known.at >= config().settings.drill.days * DAY
    return known && !isOld && known.target === target ? known : undefined
  }

  /** Reads what other gateways and processes have found. Without the store, what this process knows holds. */
  async refresh(): Promise<void> {
    if (this.#run) return
    const loaded = await this.#store.load().catch(() => null)
    // A run that has begun meanwhile knows more.
    if (loaded && !this.#run) this.#store.take(loaded)
  }

  /** Another gateway has the role once the run has ended: until then a request may be in flight. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel()
    this.#wake()
    await this.#ending
  }

  // ── A run ──────────────────────────────────────────────────────────────────────────────────────────────────────

  async #runAll(run: RunInProgress, routes: readonly string[] | null, team: Team): Promise<void> {
    const { gateway, work } = this.#options
    const deps = { gateway: gateway(), activeCalls: this.#calls, team }
    try {
      for (const one of await work(routes)) {
        const stopped = await this.#check(run, deps, one)
        // What the other gateway saves holds.
        if (run.left.other_gateway) return
        await this.#store.saveResults()
        if (stopped) break
      }
      await this.#store.saveSpent()
    } catch (error) {
      // The stores close with the process.
      if (!this.#isClosed) gateway().emit({ event: 'error', error })
    } finally {
      await this.#store.release().catch(() => {})
      this.#last = { ...run, ended: gateway().world.date() }
      this.#run = null
      this.#ending = null
    }
  }

  /** Checks one target. Returns whether the run is over. */
  async #check(run: RunInProgress, deps: ProbeDeps, work: DrillWork): Promise<boolean> {
    const { candidate } = work
    const { world, config } = deps.gateway
    const { days } = config().settings.drill
    const leave = (reason: StopReason, isOver = false) => {
      run.left[reason] = (run.left[reason] ?? 0) + 1
      return isOver
    }
    const due = work.shapes.filter((shape) => {
      const { known, target } = this.#knownOf(shape, candidate)
      return undrilled(shape) === null && isDue(known, { at: world.date(), target, days })
    })
    const steps = cover(due, (shape, verdict) => {
      if (verdict.verdict === 'unsettled' && verdict.kind === UNAFFORDABLE.kind) return
      const { known, target } = this.#knownOf(shape, candidate)
      const found: LiveResult = { ...resultOf(verdict), at: world.date(), source: 'live', target }
      this.#store.results.set(nameOf(shape, candidate), nextResult(known, found, days))
      run[verdict.verdict === 'doubt' ? 'unsettled' : verdict.verdict]++
    })
    for (let step = steps.next(); !step.done; ) {
      const probe = readyProbe(deps, { ...work, shape: step.value })
      if (!probe) return leave('unavailable')
      if (probe.estimate === null) return leave('unpriced')
      if (!this.#affords(run, probe.estimate)) {
        // A smaller shape may still fit.
        leave('budget')
        step = steps.next(UNAFFORDABLE)
        continue
      }
      await this.#pause(candidate)
      if (this.#isClosed) return leave('stopped', true)
      if (!isFree(deps.gateway, work)) return leave('unavailable')
      if (!(await this.#store.claimAgain())) return leave('other_gateway', true)
      await this.#store.spend(probe.estimate)
      const { outcome, cost } = await this.#kept(probe.send())
      this.#store.correct(outcome === 'own' ? -probe.estimate : (cost ?? probe.estimate) - probe.estimate)
      if (outcome === 'own') return leave('limits', true)
      run.sent++
      run.spent += cost ?? probe.estimate
      step = steps.next(outcome)
    }
    return false
  }

  /** Whether a request is within what the run and the day may cost, also after midnight. */
  #affords({ spent }: DrillRun, estimate: Nano): boolean {
    const { run, day } = this.#bounds
    return (run === null || spent + estimate <= run) && this.#store.spentToday + estimate <= day
  }

  /** Waits until the target may be sent another request. */
  async #pause({ instance, model }: Candidate): Promise<void> {
    const { gateway, pause = PAUSE } = this.#options
    const { world } = gateway()
    const name = `${instance.id} ${model}`
    const wait = (this.#sentAt.get(name) ?? Number.NEGATIVE_INFINITY) + pause - world.now()
    if (wait > 0 && !this.#isClosed)
      await this.#kept(
        new Promise<void>((done) => {
          const cancel = world.later(wait, done)
          this.#wake = () => {
            cancel()
            done()
          }
        }),
      )
    this.#sentAt.set(name, world.now())
  }

  /** Keeps the role of the one that sends while a promise is pending. */
  async #kept<T>(pending: Promise<T>): Promise<T> {
    const { world } = this.#options.gateway()
    let cancel = () => {}
    const again = () => {
      cancel = world.later(KEEP, () => {
        void this.#store.claim().catch(() => {})
        again()
      })
    }
    again()
    try {
      return await pending
    } finally {
      cancel()
    }
  }

  /** `rest`: ms for which no run begins. */
  async #schedule(rest = 0): Promise<void> {
    const { gateway, hours } = this.#options
    const { world, config } = gateway()
    const { at } = config().settings.drill
    this.#cancel()
    const number = ++this.#scheduled
    const time = nextRun(at, world.date() + rest, at === 'quiet' ? await hours().catch(() => []) : [])
    if (time === null || this.#isClosed || number !== this.#scheduled) return
    this.#cancel = world.later(time - world.date(), () => {
      void this.begin(null, null).catch((error: unknown) => gateway().emit({ event: 'error', error }))
      void this.#schedule(DAY / 2)
    })
  }

  /**
   * The target as it is now, and what is stored of the shape at it. A provider's list of models that is not known, such as after a
   * restart, changes no target.
   */
  #knownOf(shape: Shape, candidate: Candidate): { readonly known: LiveResult | undefined; readonly target: string } {
    const known = this.#store.results.get(nameOf(shape, candidate))
    const now = this.#printOf(candidate)
    const [print, listing] = now.split(' ')
    const [knownPrint, knownListing] = known?.target.split(' ') ?? []
    const isSame = print === knownPrint && (!listing || !knownListing || listing === knownListing)
    if (!known || !isSame) return { known, target: now }
    const target = listing ? now : known.target
    return { known: { ...known, target }, target }
  }

  /** Another value: results of the target no longer hold. After a space: whether its model is listed, if that is known. */
  #printOf({ instance, model, override }: Candidate): string {
    const { id, baseUrl, provider, keys, speaks, egress } = instance
    const isListed = this.#options.gateway().lists().get(id)?.includes(model) ?? null
    const what = [id, baseUrl, provider.name, keys.map((key) => key.id), speaks, egress !== undefined, model]
    const text = JSON.stringify([...what, overrideText(override), this.#options.version])
    const print = hash(text, 0x811c9dc5).toString(36)
    return isListed === null ? print : `${print} ${isListed ? 'listed' : 'unlisted'}`
  }
}

const UNAFFORDABLE = { verdict: 'unsettled', kind: 'budget_exceeded' } as const

/** ms after which the role is claimed again. */
const KEEP = 6_000

const newRun = (began: number): RunInProgress => ({
  ...{ began, ended: null, sent: 0, spent: 0, ready: 0, refused: 0, unsettled: 0, left: {} },
})

const running = () =>
  fail('record_conflict', 'Live checks are in progress, here or in another gateway. Try again when they have ended.', {
    code: 'drill_running',
  })

const tooMuch = (maxCost: Nano, left: Nano) =>
  fail(
    'budget_exceeded',
    `The live checks of today may cost $${formatDollars(left)} more, and $${formatDollars(maxCost)} were asked for. Ask for less, or raise drill.budget.`,
  )

/** Whether the route is healthy, and the target has half of its stated quota left. */
const isFree = ({ health, config }: ChatDeps, { candidate, others }: DrillWork): boolean => {
  const { settings } = config()
  const isOpen = others.some((one) =>
    one.instance.keys.some((key) => health.refuses({ candidate: one, key }, settings, 'normal')?.why === 'circuit'),
  )
  return !isOpen && candidate.instance.keys.every((key) => hasQuota(health.load.remainingLimit({ candidate, key })))
}

const nameOf = (shape: Shape, { instance, model, override }: Candidate): string =>
  JSON.stringify([instance.id, model, overrideText(override), shapeText(shape)])

const resultOf = (verdict: LiveVerdict): Pick<LiveResult, 'verdict' | 'kind' | 'by'> => {
  if (verdict.verdict === 'ready') return verdict
  const { kind } = verdict
  return verdict.verdict === 'unsettled'
    ? { verdict: 'unsettled', kind }
    : { verdict: verdict.verdict, kind, by: verdict.by ?? 'unknown' }
}
