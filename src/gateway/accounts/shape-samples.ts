/** The shapes of a sample of requests, for the fallback drill. */
import type { Client } from '../../core/accounts.ts'
import type { ChatRequest } from '../../core/chat.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { ShapeNoted } from '../../core/journal.ts'
import type { RequestStyle } from '../../core/request-styles.ts'
import type { Trace } from '../../core/trace.ts'
import { recordedTarget, summaryOf } from '../../core/trace-summary.ts'
import { requireText } from '../../policy/accounts/data-policy.ts'
import { classText } from '../../policy/drill/access-class.ts'
import { OTHER, shapeOf, shapeText } from '../../policy/drill/shape.ts'
import { BETA_HEADER, betasIn } from '../../policy/routing/betas.ts'
import type { CallDemand } from './demand.ts'

/** A request whose shape may be noted. */
export type ShapedRequest = { readonly request: ChatRequest; readonly headers: HeaderLookup }

/** The beginning of a call with a route. `at`: ms since 1970. */
export type ShapedCall = {
  readonly shaped: ShapedRequest
  readonly style: RequestStyle
  readonly route: string
  readonly at: number
}

/** A call in the sample: the text of its shape. Any other: its request, until it is known that the shape is not needed. */
export type ShapeSample = {
  readonly what: string | Pick<ShapedCall, 'shaped' | 'style'>
  /** The number of requests for which it stands; 0: it is not in the sample. */
  readonly weight: number
  /** The answer has begun, and the weight no longer depends on how the call ends. */
  readonly isSettled: boolean
}

/** The end of a call. `at`: ms since 1970. */
export type ShapedEnd = {
  readonly client: Pick<Client, 'access'>
  readonly demand: Pick<CallDemand, 'route' | 'plan'>
  readonly trace: Trace
  readonly at: number
}

const HOUR = 3_600_000
const DAY = 24 * HOUR
/** Requests of a route and style in an hour that are all noted; of those after them one in `EVERY`. */
const FIRST = 100
const EVERY = 50
/** Shapes with their classes of clients in a day, of all routes and of one. Further ones are `OTHER`. */
const MOST = { all: 5_000, route: 200 }

export class ShapeSamples {
  #hour = -1
  /** Requests of this hour, by route and style. */
  #counts = new Map<string, number>()
  #day = -1
  /** Shapes of this day with their classes, by route, and their number. */
  #known = new Map<string, Set<string>>()
  #all = 0

  /** Decides whether a call is in the sample, so that others need not keep their requests. Null: it must not be noted. */
  begin({ shaped, style, route, at }: ShapedCall): ShapeSample | null {
    if (shaped.headers('x-headgate-no-log')?.trim() === '1') return null
    const weight = this.#weight(`${style} ${route}`, at)
    return { what: weight === 0 ? { shaped, style } : textOf({ shaped, style }), weight, isSettled: false }
  }

  /** The same without the request, once the answer of a call begins. Null: nothing is to be noted. */
  settle(sample: ShapeSample, trace: Trace): ShapeSample | null {
    if (trace.some(({ type }) => type === 'failed')) return { what: knownText(sample), weight: 1, isSettled: true }
    return sample.weight === 0 ? null : { ...sample, isSettled: true }
  }

  /** The shape of a call that has ended; null: it is not in the sample, or must not be noted. */
  note(sample: ShapeSample, { client, demand: { route, plan }, trace, at }: ShapedEnd): ShapeNoted | null {
    const summary = summaryOf(trace)
    // Answers from the cache need no provider.
    if (route === null || (summary.outcome === 'answered' && summary.attempts.length === 0)) return null
    const isNotable =
      !sample.isSettled &&
      (summary.outcome === 'refused' || summary.attempts.some(({ end }) => end === 'failed' || end === 'broken'))
    const weight = isNotable ? 1 : sample.weight
    if (weight === 0) return null
    const text = knownText(sample)
    const access = classText({ access: client.access, require: plan?.require ? requireText(plan.require) : null })
    return {
      type: 'shape',
      at,
      route,
      access,
      provider: summary.outcome === 'answered' ? recordedTarget(summary).provider : null,
      shape: this.#isKept(route, `${text} ${access}`, at) ? text : OTHER,
      weight,
    }
  }

  /** The number of requests for which this one stands; 0: it is not in the sample. */
  #weight(name: string, at: number): number {
    const hour = Math.floor(at / HOUR)
    if (hour !== this.#hour) {
      this.#hour = hour
      this.#counts = new Map()
    }
    const count = (this.#counts.get(name) ?? 0) + 1
    this.#counts.set(name, count)
    if (count <= FIRST) return 1
    return (count - FIRST) % EVERY === 0 ? EVERY : 0
  }

  /** `name`: of a shape in a class. */
  #isKept(route: string, name: string, at: number): boolean {
    const day = Math.floor(at / DAY)
    if (day !== this.#day) {
      this.#day = day
      this.#known = new Map()
      this.#all = 0
    }
    const known = this.#known.get(route) ?? new Set<string>()
    if (known.has(name)) return true
    if (known.size >= MOST.route || this.#all >= MOST.all) return false
    this.#known.set(route, known.add(name))
    this.#all++
    return true
  }
}

const textOf = ({ shaped: { request, headers }, style }: Pick<ShapedCall, 'shaped' | 'style'>): string =>
  shapeText(shapeOf(request, style, betasIn(headers(BETA_HEADER))))

const knownText = ({ what }: ShapeSample): string => (typeof what === 'string' ? what : textOf(what))
