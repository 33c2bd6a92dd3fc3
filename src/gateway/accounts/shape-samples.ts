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

/** The end of such a request. `at`: ms since 1970. */
export type ShapedCall = {
  readonly shaped: ShapedRequest
  readonly style: RequestStyle
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
/** Shapes in a day, of all routes and of one. Further ones are `OTHER`. */
const MOST = { all: 5_000, route: 200 }

export class ShapeSamples {
  #hour = -1
  /** Requests of this hour, by route and style. */
  #counts = new Map<string, number>()
  #day = -1
  /** Shapes of this day, by route, and their number. */
  #known = new Map<string, Set<string>>()
  #all = 0

  /** The shape of a request that has ended; null: it is not in the sample, or must not be noted. */
  note({ shaped, style, client, demand: { route, plan }, trace, at }: ShapedCall): ShapeNoted | null {
    const summary = summaryOf(trace)
    // Answers from the cache need no provider.
    if (route === null || (summary.outcome === 'answered' && summary.attempts.length === 0)) return null
    const isNotable =
      summary.outcome === 'refused' || summary.attempts.some(({ end }) => end === 'failed' || end === 'broken')
    const weight = isNotable ? 1 : this.#weight(`${style} ${route}`, at)
    const { request, headers } = shaped
    if (weight === 0 || headers('x-headgate-no-log')?.trim() === '1') return null
    const text = shapeText(shapeOf(request, style, betasIn(headers(BETA_HEADER))))
    const require = plan?.require ? requireText(plan.require) : null
    return {
      type: 'shape',
      at,
      route,
      access: classText({ access: client.access, require }),
      provider: summary.outcome === 'answered' ? recordedTarget(summary).provider : null,
      shape: this.#isKept(route, text, at) ? text : OTHER,
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

  #isKept(route: string, text: string, at: number): boolean {
    const day = Math.floor(at / DAY)
    if (day !== this.#day) {
      this.#day = day
      this.#known = new Map()
      this.#all = 0
    }
    const known = this.#known.get(route) ?? new Set<string>()
    if (known.has(text)) return true
    if (known.size >= MOST.route || this.#all >= MOST.all) return false
    this.#known.set(route, known.add(text))
    this.#all++
    return true
  }
}
