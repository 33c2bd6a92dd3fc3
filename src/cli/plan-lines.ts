/** Plans as text: where a request would be sent. */
import { LEFT_OUT } from '../core/shadow.ts'
import type { Shown } from '../records/entities/shown.ts'
import { EXPLANATION } from '../server/answers/explain.ts'
import type { Cli } from './cli.ts'
import { moneyText, table } from './table.ts'

/** Without `as` and `refused` it is the answer of `/v1/route`. */
export const PLAN = EXPLANATION.partial({ as: true, refused: true })
export type ExplainedPlan = Shown<typeof PLAN>
type ShownTarget = ExplainedPlan['targets'][number]

const stateOf = ({ fit, keys = [] }: ShownTarget): string => {
  if (fit === false) return 'does not fit'
  const blocked = keys.find((key) => !key.may_be_tried)
  if (blocked && keys.every((key) => !key.may_be_tried))
    return `not now: ${blocked.because ?? ''} until ${blocked.until ?? 'unknown'}`
  return 'ready'
}

/** The limit, budget or state of the key that refuses every request now. */
const refusedLines = ({ refused }: ExplainedPlan, paint: Cli['paint']): readonly string[] =>
  refused ? [paint.bad(`refused now: ${refused.code}: ${refused.message}`)] : []

/** How requests choose among the first targets, which the order below cannot show. */
const ORDERS: { readonly [strategy: string]: string } = {
  weighted: ', by weight: each request draws its order',
  latency: ', the faster of two targets first',
  cost: ', the cheapest first',
}

/** Why a target is in the plan, with the condition that the request meets and the changes of the request. */
const reasonOf = ({ because, when, override }: ShownTarget): string =>
  [because, ...(when === undefined ? [] : [`when ${when}`]), ...(override === undefined ? [] : [override])].join('; ')

/** What the targets have of the session in their caches, and what it costs if they fail. */
const cacheLines = ({ targets }: ExplainedPlan): readonly string[] =>
  targets.flatMap(({ provider, model, cache, if_failed: failed }) => {
    if (!cache || cache.tokens === 0) return []
    const chance = cache.chance === 1 ? '' : ` with a chance of ${Math.round(cache.chance * 100)} %`
    const until = cache.expires_in === null ? '' : `, for ${cache.expires_in} s`
    const scope = cache.scope === undefined ? '' : ` (${cache.scope})`
    const then = failed ? `; if it fails: ${failed.act}, ${costText(failed.cost)}` : ''
    return [
      `cached at ${provider}/${model}${scope}: ${cache.tokens.toLocaleString('en')} tokens${chance}${until}${then}`,
    ]
  })

const costText = (cost: string | null): string => (cost === null ? 'at an unknown cost' : `${moneyText(cost)} more`)

const shareText = ({ share }: ShownTarget): string =>
  share === undefined ? 'failover' : `${Math.round(share * 100)} %`

/** Where copies of the request go, or why it has none. */
const shadowLines = ({ shadow }: ExplainedPlan): readonly string[] => {
  if (!shadow) return []
  const { provider, model, percent, left_out: leftOut } = shadow
  const target = model === null ? provider : `${provider}/${model}`
  const none = leftOut === null ? '' : `; no copy of this request: ${LEFT_OUT[leftOut]}`
  return [`shadow ${target}, ${percent} % of the sessions${none}`]
}

/** The targets of a plan in their order, with their states. */
export const planLines = (plan: ExplainedPlan, cli: Cli): readonly string[] => {
  const { drawn: hasShares = false } = plan
  return [
    `${cli.paint.bold(plan.model)}: chosen by ${plan.by}${ORDERS[plan.strategy ?? ''] ?? ''}`,
    ...refusedLines(plan, cli.paint),
    ...table(
      ['#', 'TARGET', ...(hasShares ? ['FIRST FOR'] : []), 'BECAUSE', 'STATE'],
      plan.targets.map((target, at) => [
        // No order among those that are drawn.
        hasShares && target.share !== undefined ? '–' : String(at + 1),
        `${target.provider}/${target.model}`,
        ...(hasShares ? [shareText(target)] : []),
        reasonOf(target),
        stateOf(target),
      ]),
      cli,
    ),
    ...cacheLines(plan),
    ...shadowLines(plan),
    ...plan.skipped.map((skipped) => `skipped ${Object.values(skipped).map(String).join(': ')}`),
  ]
}
