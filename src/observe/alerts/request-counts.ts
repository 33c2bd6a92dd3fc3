/** What one process has seen of requests, for the alerts of all of them. */
import type { GatewayEvent } from '../../core/trace.ts'
import { summaryOf } from '../../core/trace-summary.ts'
import type { AlertView, SessionLoop } from '../../policy/alerts/conditions.ts'
import { FailedShare } from './failed-share.ts'

/** Parts of the last hour in which answers are counted, and their length in ms. */
const PARTS = 12
const PART = 300_000

/** Breaches that are kept: one is a bug, and the log has all. */
const MAX_BREACHES = 20
/** Sessions with a loop, of which one alert each is sent. */
const MAX_LOOPS = 100

type PolicyBreach = NonNullable<AlertView['breaches']>[number]

/** ms for which a use of `auth.admin` deserves an alert, and addresses that are kept. */
const BREAK_GLASS = { time: 600_000, addresses: 20 }

/** Parts of ten minutes in which errors of guards are counted, and their length in ms. */
const GUARD_ERRORS = { parts: 10, part: 60_000 }

/** Errors of the last ten minutes, by guard. The operator names the guards, so there are few. */
class GuardErrorCount {
  readonly #parts = new Map<string, readonly { readonly number: number; readonly count: number }[]>()

  add(now: number, guard: string): void {
    const number = Math.floor(now / GUARD_ERRORS.part)
    const before = this.#parts.get(guard) ?? []
    const last = before.at(-1)
    const part = { number, count: last?.number === number ? last.count + 1 : 1 }
    const others = last?.number === number ? before.slice(0, -1) : before.slice(1 - GUARD_ERRORS.parts)
    this.#parts.set(guard, [...others, part])
  }

  sums(now: number): NonNullable<AlertView['guardErrors']> {
    const first = Math.floor(now / GUARD_ERRORS.part) - GUARD_ERRORS.parts + 1
    return Array.from(this.#parts, ([guard, parts]) => ({
      guard,
      count: parts.reduce((sum, { number, count }) => (number < first ? sum : sum + count), 0),
    })).filter(({ count }) => count > 0)
  }
}

/** Answers of the last hour, by parts of it. */
class AnswerCount {
  #parts: { readonly number: number; all: number; estimated: number }[] = []

  add(now: number, estimated: boolean): void {
    const number = Math.floor(now / PART)
    let part = this.#parts.at(-1)
    if (part?.number !== number) {
      part = { number, all: 0, estimated: 0 }
      this.#parts = [...this.#parts.slice(1 - PARTS), part]
    }
    part.all++
    if (estimated) part.estimated++
  }

  sum(now: number): { readonly all: number; readonly estimated: number } {
    const recent = this.#parts.filter(({ number }) => number > Math.floor(now / PART) - PARTS)
    return {
      all: recent.reduce((sum, { all }) => sum + all, 0),
      estimated: recent.reduce((sum, { estimated }) => sum + estimated, 0),
    }
  }
}

/** The counts of one process. Plain JSON data, since workers exchange them. */
export type ProcessCounts = Pick<
  AlertView,
  'answers' | 'requests' | 'breaches' | 'breakGlass' | 'guardErrors' | 'loops'
>

export class RequestCounts {
  readonly #answers = new AnswerCount()
  readonly #requests = new FailedShare()
  /** The last breaches of the data policy, and their time. */
  #breaches: readonly { readonly at: number; readonly breach: PolicyBreach }[] = []

  /** The last uses of `auth.admin`, and their time. */
  #breakGlass: readonly { readonly at: number; readonly address: string }[] = []

  readonly #guardErrors = new GuardErrorCount()

  /** The last sessions that repeat themselves, by ID, and the time of the first loop. */
  readonly #loops = new Map<string, { readonly at: number; readonly loop: SessionLoop }>()

  /** Counts failed requests, errors of guards, breaches of the data policy, and answers with estimated usage. */
  observe(event: GatewayEvent): void {
    if (event.event === 'policy_breach') {
      const { provider, model, lack } = event
      this.#breaches = [
        ...this.#breaches.slice(1 - MAX_BREACHES),
        { at: Date.now(), breach: { provider, model, lack } },
      ]
    }
    if (event.event === 'break_glass')
      this.#breakGlass = [
        ...this.#breakGlass.slice(1 - BREAK_GLASS.addresses),
        { at: Date.now(), address: event.address },
      ]
    if (event.event === 'loop') this.#noteLoop(event)
    if (event.event === 'guard_error') this.#guardErrors.add(Date.now(), event.guard)
    if (event.event !== 'request') return
    this.#requests.add(Date.now(), summaryOf(event.trace))
    const used = event.trace.findLast((one) => one.type === 'usage')
    if (used) this.#answers.add(Date.now(), used.estimated === true)
  }

  #noteLoop({ session, team, found, action }: Extract<GatewayEvent, { event: 'loop' }>): void {
    const { level, detector, tool, times } = found
    const isAlert = action === 'alert' || action === 'block'
    if (!isAlert || level !== 'loop' || session === null || this.#loops.has(session)) return
    const [oldest] = this.#loops.size >= MAX_LOOPS ? this.#loops.keys() : []
    if (oldest !== undefined) this.#loops.delete(oldest)
    this.#loops.set(session, { at: Date.now(), loop: { session, team, detector, tool, times } })
  }

  /** Answers of the last hour, and requests of the last `window` ms. */
  sums(window: number): ProcessCounts {
    const now = Date.now()
    const breaches = this.#breaches.filter(({ at }) => at > now - PARTS * PART).map(({ breach }) => breach)
    const breakGlass = this.#breakGlass
      .filter(({ at }) => at > now - BREAK_GLASS.time)
      .map(({ address }) => ({ address }))
    return {
      answers: this.#answers.sum(now),
      requests: this.#requests.sum(now, window),
      breaches,
      breakGlass,
      guardErrors: this.#guardErrors.sums(now),
      loops: [...this.#loops.values()].flatMap(({ at, loop }) => (at > now - PARTS * PART ? [loop] : [])),
    }
  }
}
