/** What changes of targets within a session cost: for the answer that makes one, and for a plan before it is sent. */
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { JsonObject } from '../../core/json.ts'
import { formatDollars } from '../../core/money.ts'
import type { ProviderKey } from '../../core/provider.ts'
import { SWITCH_HEADER, type Switch } from '../../core/switch.ts'
import type { Candidate, Plan, Target } from '../../core/target.ts'
import type { Trace } from '../../core/trace.ts'
import { costAt, delayAt, promptPrices, type WarmTarget } from '../../policy/switching/cost.ts'
import type { CachedSession } from '../../policy/switching/scopes.ts'
import { LEAST_INPUT } from '../../policy/switching/warmth.ts'
import type { Warmth } from '../health/prompt-caches.ts'
import type { Planner } from './planner.ts'

/** The value by which a request refuses to wait or to stay, which is what the gateway does anyway. */
const NOW = 'now'

/** Fails if the request states another value. */
export const statedSwitch = (headers: HeaderLookup): Outcome<null> => {
  const stated = headers(SWITCH_HEADER)
  if (stated === undefined || stated === NOW) return good(null)
  return bad(fail('invalid_value', `\`${SWITCH_HEADER}\` must be \`${NOW}\`.`, { param: SWITCH_HEADER }))
}

/** A request of a session. `size`: its characters. */
export type SessionRequest = {
  readonly conversation: string
  readonly plan: Pick<Plan, 'candidates'>
  readonly size: number
  readonly trace: Trace
}

/** What the answer of this target changes for its session; null: nothing, or no failure did it. */
export const switchTo = (gateway: Planner, request: SessionRequest, target: Target): Switch | null => {
  const { caches } = gateway.health.sticky
  const used = caches.lastOf(request.conversation)
  const to = used === null ? used : caches.scopeOf(target)
  if (used === to || to === null) return null
  const known = caches.of(request.conversation)
  const last = known?.scopes[0]
  if (!known || !last) return null
  const [from = '', model = ''] = last.target.split(' ')
  const isBack = known.movedFrom === to
  // A target that has nothing loses nothing.
  if (!isBack && (last.tokens === 0 || !hasFailed(request.trace, from))) return null
  const input = caches.inputOf(known, request.size)
  if (input < LEAST_INPUT) return null
  const here = target.candidate.instance.id === from && target.candidate.model === model
  const before = request.plan.candidates.find(({ instance, model: of }) => instance.id === from && of === model)
  const warm = caches.warmth(known, to, target, input)
  const left = before && caches.warmth(known, last.target, { candidate: before }, input)
  const costs = [
    costOf(gateway, { candidate: target.candidate, warmth: warm, input }),
    before && left ? costOf(gateway, { candidate: before, warmth: left, input }) : null,
  ]
  const [now = null, then = null] = costs
  return {
    act: isBack ? 'returned' : here ? 'key' : 'moved',
    from,
    cold: Math.max(0, expected(left) - expected(warm)),
    warm: expected(warm),
    nano: now === null || then === null ? null : Math.round(now - then),
  }
}

/** A target of this provider failed, or was not tried. */
const hasFailed = (trace: Trace, provider: string): boolean => {
  const attempts = trace.filter((event) => event.type === 'attempt')
  return trace.some(
    (event) =>
      (event.type === 'failed' && attempts[event.attempt]?.provider === provider) ||
      (event.type === 'skipped' && event.targets.some((skipped) => skipped.provider === provider)),
  )
}

const expected = (warmth: Warmth | undefined): number => (warmth ? Math.round(warmth.tokens * warmth.chance) : 0)

type Priced = { readonly candidate: Candidate; readonly warmth: Warmth; readonly input: number }

const warmTarget = ({ prices, world }: Planner, { candidate, warmth, input }: Priced): WarmTarget => {
  const { instance, model } = candidate
  return {
    prices: promptPrices(prices().pricesOf({ instance, model, at: world.date() }), input, warmth.isHour),
    warm: expected(warmth),
    prefill: warmth.prefill,
  }
}

/** Of the prompt, in nano-dollars; null: a price is unknown. */
const costOf = (gateway: Planner, priced: Priced): number | null =>
  costAt(warmTarget(gateway, priced), { input: priced.input, output: 0 })

/** A planned request of a session, for its explanation. `isOperator`: the owners of caches are shown. */
type Explained = {
  readonly known: CachedSession
  readonly size: number
  readonly candidates: readonly Candidate[]
  readonly keysOf: (candidate: Candidate) => Iterable<ProviderKey>
  readonly isOperator: boolean
}

/** What a candidate has of the session in its cache, and what becomes of the request if the candidate fails. */
export const explainSwitch = (gateway: Planner, explained: Explained, candidate: Candidate): JsonObject => {
  const { caches } = gateway.health.sticky
  const { known, size, candidates, keysOf, isOperator } = explained
  const [key, other] = keysOf(candidate)
  if (!key) return {}
  const input = caches.inputOf(known, size)
  const at = (target: Target): Priced => {
    const warmth = caches.warmth(known, caches.scopeOf(target), target, input)
    return { candidate: target.candidate, warmth, input }
  }
  const own = at({ candidate, key })
  const { tokens, chance, expiresIn } = own.warmth
  const seconds = expiresIn === null ? null : Math.round(expiresIn / 1_000)
  const scope = isOperator && { scope: caches.ownerOf({ candidate, key }) }
  const cache = { tokens, chance: Number(chance.toFixed(2)), expires_in: seconds, ...scope }
  const next = candidates[candidates.indexOf(candidate) + 1]
  const [nextKey] = next ? keysOf(next) : []
  const after = other ? at({ candidate, key: other }) : next && nextKey ? at({ candidate: next, key: nextKey }) : null
  if (!after) return { cache, if_failed: null }
  const [now, then] = [costOf(gateway, own), costOf(gateway, after)]
  const [sooner, later] = [own, after].map((one) => delayAt(warmTarget(gateway, one), { input, output: 0 }))
  return {
    cache,
    if_failed: {
      act: other ? 'key' : 'move',
      cost: now === null || then === null ? null : formatDollars(Math.round(then - now)),
      seconds: sooner == null || later == null ? null : Number(((later - sooner) / 1_000).toFixed(1)),
    },
  }
}
