/** Shadows of routes: which requests may be copied, what is compared, and the sums of comparisons. */
import type { ChatEvent, ChatRequest, Part } from '../../core/chat.ts'
import type { Config } from '../../core/config.ts'
import { memoizeBy } from '../../core/memoize-by.ts'
import type { Route } from '../../core/route.ts'
import type { LeftOut, ShadowCounts, ShadowPair, ShadowSide, SideSums } from '../../core/shadow.ts'
import { oneAttempt } from '../retry/one-attempt.ts'
import { mayHedge } from '../retry/retry-safety.ts'
import { hash } from './order.ts'

/** The name of the team that copies are charged to, and of the tag that names the route. */
export const SHADOW_TEAM = 'shadow'
export const SHADOW_TAG = 'shadow'

const PLAIN_NAME = /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,49}$/

/** The name of a route as a tag and in the name of its budget. */
export const shadowName = (route: string): string =>
  PLAIN_NAME.test(route)
    ? route
    : `${route
        .replace(/[^A-Za-z0-9._@+-]/g, '-')
        .replace(/^[^A-Za-z0-9]+/, '')
        .slice(0, 40)}-${hash(route, 0x811c9dc5).toString(36)}`.replace(/^-/, '')

/** Characters of the largest body that is copied. */
const MAX_BODY = 1_048_576

/** Why a request is not copied, as far as the request itself decides; null: it may be. `isContinued`: it has stored turns. */
export const uncopied = (request: ChatRequest, length: number, isContinued: boolean): LeftOut | null => {
  if (isContinued) return 'stored'
  if (length > MAX_BODY) return 'large'
  if (!mayHedge(request)) return 'effects'
  return request.messages.some(({ content }) => content.some(isKept)) ? 'files' : null
}

/** An image or a file by the ID that a provider has given it. */
const isKept = (part: Part): boolean => (part.type === 'image' || part.type === 'file') && part.source.kind === 'id'

/**
 * The configuration by which copies of a route are planned and sent: the target is that of its shadow, so that access, data policy and
 * conditions apply as for any other target, and one attempt is made.
 */
export const copyConfig = (config: Config, { name }: Pick<Route, 'name'>): Config => {
  const known = copies(config)
  const before = known.get(name)
  if (before) return before
  const route = config.routes.get(name)
  const made: Config = {
    ...config,
    routes: new Map(config.routes).set(name, {
      name,
      targets: route?.shadow ? [route.shadow.target] : [],
      fallback: [],
      strategy: 'priority',
      stickiness: 'off',
      ...(route?.shadow && { shadow: route.shadow }),
      ...(route?.require && { require: route.require }),
    }),
    settings: oneAttempt(config.settings),
  }
  known.set(name, made)
  return made
}

const copies = memoizeBy((_: Config) => new Map<string, Config>())

/** The configuration in which routes have the targets of their shadows too, for what asks where requests may go. */
export const withShadowTargets = memoizeBy((config: Config): Config => {
  if (!config.routes.values().some(({ shadow }) => shadow)) return config
  const routes = [...config.routes].map(([name, route]) => {
    const { shadow, fallback } = route
    return [name, shadow ? { ...route, fallback: [...fallback, shadow.target] } : route] as const
  })
  return { ...config, routes: new Map(routes) }
})

/** What is compared of an answer, from its events. */
export class ComparedAnswer {
  readonly #tools: string[] = []
  #characters = 0
  #finish: string | null = null
  #isText = false

  push(events: readonly ChatEvent[]): void {
    for (const event of events) {
      if (event.type === 'open') {
        const { block } = event
        this.#isText = block.type === 'text' || block.type === 'refusal'
        if (block.type === 'tool-call' && this.#tools.length < MAX_TOOLS) this.#tools.push(block.name.slice(0, 128))
      } else if (event.type === 'delta' && this.#isText) this.#characters += event.text.length
      else if (event.type === 'finish') this.#finish = event.finish.kind
    }
  }

  get facts(): Pick<ShadowSide, 'tools' | 'characters' | 'finish'> {
    return { tools: this.#tools, characters: this.#characters, finish: this.#finish }
  }
}

const MAX_TOOLS = 50

const NO_SUMS: SideSums = {
  timed: 0,
  firstContentMs: 0,
  totalMs: 0,
  inputTokens: 0,
  outputTokens: 0,
  characters: 0,
  cost: 0,
}

export const NO_COPIES: ShadowCounts = {
  sent: 0,
  answered: 0,
  failed: 0,
  leftOut: {},
  sameFinish: 0,
  sameTools: 0,
  priced: 0,
  counted: 0,
  own: NO_SUMS,
  other: NO_SUMS,
}

export const withLeftOut = (counts: ShadowCounts, reason: LeftOut): ShadowCounts => ({
  ...counts,
  leftOut: { ...counts.leftOut, [reason]: (counts.leftOut[reason] ?? 0) + 1 },
})

/** Failed copies are counted only: an answer is not compared with an error. */
export const withPair = (counts: ShadowCounts, { own, other }: Pick<ShadowPair, 'own' | 'other'>): ShadowCounts => {
  const sent = counts.sent + 1
  if (other.failure !== null) return { ...counts, sent, failed: counts.failed + 1 }
  const isPriced = own.cost !== null && other.cost !== null
  const isCounted = [own, other].every(({ inputTokens, outputTokens }) => inputTokens !== null && outputTokens !== null)
  const added = (sums: SideSums, side: ShadowSide): SideSums => ({
    timed: sums.timed + (side.firstContentMs === null ? 0 : 1),
    firstContentMs: sums.firstContentMs + (side.firstContentMs ?? 0),
    totalMs: sums.totalMs + side.totalMs,
    inputTokens: sums.inputTokens + (isCounted ? (side.inputTokens ?? 0) : 0),
    outputTokens: sums.outputTokens + (isCounted ? (side.outputTokens ?? 0) : 0),
    characters: sums.characters + side.characters,
    cost: sums.cost + (isPriced ? (side.cost ?? 0) : 0),
  })
  return {
    ...counts,
    sent,
    answered: counts.answered + 1,
    sameFinish: counts.sameFinish + (own.finish === other.finish ? 1 : 0),
    sameTools: counts.sameTools + (JSON.stringify(own.tools) === JSON.stringify(other.tools) ? 1 : 0),
    priced: counts.priced + (isPriced ? 1 : 0),
    counted: counts.counted + (isCounted ? 1 : 0),
    own: added(counts.own, own),
    other: added(counts.other, other),
  }
}

/** The counts of several processes. */
export const joinedCounts = (all: readonly ShadowCounts[]): ShadowCounts => all.reduce(plus, NO_COPIES)

const plus = (a: ShadowCounts, b: ShadowCounts): ShadowCounts => ({
  ...summed(a, b, ['sent', 'answered', 'failed', 'sameFinish', 'sameTools', 'priced', 'counted']),
  leftOut: summed(a.leftOut, b.leftOut, [...new Set([...reasonsIn(a), ...reasonsIn(b)])]),
  own: summed(a.own, b.own, SIDE),
  other: summed(a.other, b.other, SIDE),
})

// The names of an object that only this file makes.
const SIDE = Object.keys(NO_SUMS) as readonly (keyof SideSums)[]
const reasonsIn = ({ leftOut }: ShadowCounts) => Object.keys(leftOut) as readonly LeftOut[]

const summed = <Name extends string>(
  a: { readonly [name in Name]?: number },
  b: { readonly [name in Name]?: number },
  names: readonly Name[],
): { readonly [name in Name]: number } =>
  // Every name has a value.
  Object.fromEntries(names.map((name) => [name, (a[name] ?? 0) + (b[name] ?? 0)])) as {
    readonly [name in Name]: number
  }
