/** What would remain if providers were down: of the routes, and of models that clients name directly. */
import { z } from 'zod'
import { ANONYMOUS, type Client } from '../../../core/accounts.ts'
import { bad, good } from '../../../core/failure.ts'
import { formatDollars } from '../../../core/money.ts'
import { REQUEST_STYLES, type RequestStyle } from '../../../core/request-styles.ts'
import { ownTurn } from '../../../core/steps.ts'
import type { Gateway } from '../../../gateway/gateway.ts'
import { parseOnce } from '../../../gateway/handlers/explain.ts'
import { personClient } from '../../../policy/accounts/person-client.ts'
import type { Assumption } from '../../../policy/routing/assumption.ts'
import type { NamesUsage, NameUsage } from '../../../usage/reading/queries.ts'
import { WHAT_IF } from '../../answers/routes.ts'
import type { AdminDeps } from '../deps.ts'
import { row } from '../row.ts'
import { scoped } from '../usage-query.ts'
import { invalid } from '../validation.ts'
import { assumption, explainedRequest, planOf, problemsOf, QUESTION, routeNames } from './explain.ts'
import { ownNames } from './route-activity.ts'

const HOUR = 3_600_000
/** Names of an answer: routes, and those of models with the most requests. */
const MOST = { routes: 1_000, direct: 200 }

type ShownWhatIf = z.input<typeof WHAT_IF>['data'][number]
type SubstitutePlace = NonNullable<ShownWhatIf['answers']>

/** A name that clients send, with its usage. */
type UsedName = Pick<NameUsage, 'team'> & {
  readonly name: string
  readonly direct: boolean
  readonly style: RequestStyle
  readonly rows: readonly NameUsage[]
}

const isRequestStyle = (style: string): style is RequestStyle => REQUEST_STYLES.some((known) => known === style)

const requestsOf = (rows: readonly NameUsage[]): number => rows.reduce((sum, { requests }) => sum + requests, 0)

/** All routes of the file and `auto`, then what requests have named. Models that only relays have are left out. */
const namesIn = (routes: Iterable<string>, usage: readonly NameUsage[]): readonly UsedName[] => {
  const rows = usage.filter(({ style }) => isRequestStyle(style))
  const idOf = ({ route, team, asked, style }: Pick<NameUsage, 'route' | 'team' | 'asked' | 'style'>) =>
    JSON.stringify(route === null ? [asked, style] : [route, team])
  const groups = Map.groupBy(rows, idOf)
  const ofFile = [...routes].map((name): UsedName => {
    const id = JSON.stringify([name, null])
    const found = groups.get(id) ?? []
    groups.delete(id)
    return { name, team: null, direct: false, style: 'chat', rows: found }
  })
  const named = [...groups.values()].flatMap((own): readonly UsedName[] => {
    const [first] = own
    if (!first || !isRequestStyle(first.style)) return []
    const { route, asked, team, style } = first
    return [{ name: route ?? asked ?? '', team, direct: route === null, style, rows: own }]
  })
  const [teams, direct] = [named.filter((one) => !one.direct), named.filter((one) => one.direct)]
  const sorted = direct.toSorted((one, other) => requestsOf(other.rows) - requestsOf(one.rows))
  return [...ofFile, ...teams.slice(0, MOST.routes), ...sorted.slice(0, MOST.direct)]
}

/** What the tokens of these requests would cost at another place, in nano-dollars; null: a price is unknown. */
const costAt = (gateway: Gateway, { provider, model }: SubstitutePlace, rows: readonly NameUsage[]): number | null => {
  const instance = gateway.config().instances.find(({ id }) => id === provider)
  if (!instance) return null
  const at = gateway.world.date()
  let total = 0
  for (const one of rows) {
    const of = (share: (tokens: number) => number) =>
      gateway.prices().costOfAttempt({
        ...{ instance, model, at },
        usage: {
          input: share(one.input),
          output: share(one.output),
          cacheRead: share(one.cache_read),
          cacheWrite: share(one.cache_write),
          reasoning: share(one.reasoning),
        },
      }).nano
    // Prices may depend on the size of a request: that of an average one counts, and then what its whole tokens leave.
    const average = of((tokens) => Math.floor(tokens / one.requests))
    const rest = of((tokens) => tokens % one.requests)
    if (average === null || rest === null) return null
    total += one.requests * average + rest
  }
  return total
}

type SubstituteCosts = Pick<ShownWhatIf, 'affected' | 'cost_per_hour' | 'substitute_per_hour' | 'extra_per_hour'>

/** Of the requests that providers answered which are assumed to be gone. */
const costsOf = (
  gateway: Gateway,
  affected: readonly NameUsage[],
  answers: SubstitutePlace | null,
  hours: number,
): SubstituteCosts => {
  const perHour = (nano: number | null) => (nano === null ? null : formatDollars(Math.round(nano / hours)))
  const isPriced = affected.every(({ unpriced }) => unpriced === 0)
  const cost = isPriced ? affected.reduce((sum, one) => sum + one.cost, 0) : null
  const other = answers && affected.length > 0 ? costAt(gateway, answers, affected) : null
  return {
    affected: requestsOf(affected),
    cost_per_hour: perHour(cost),
    substitute_per_hour: perHour(other),
    extra_per_hour: perHour(cost === null || other === null ? null : other - cost),
  }
}

type AskedWhatIf = {
  readonly deps: AdminDeps
  readonly id: string
  readonly assume: Assumption
  readonly hours: number
}

const shownName = (
  { deps, id, assume, hours }: AskedWhatIf,
  { name, team, direct, style, rows }: UsedName,
): ShownWhatIf => {
  const { gateway, control } = deps
  const owner = team === null ? undefined : control.directory().teams.get(team)
  const client: Client = owner ? personClient({ id: '', name: '', email: null }, owner) : ANONYMOUS
  const body = style === 'embeddings' ? { model: name, input: 'Hello' } : { ...QUESTION, model: name }
  const received = explainedRequest({ id, client, style: style === 'embeddings' ? style : 'chat' }, body)
  const { answers, before, loses, targets } = planOf(
    gateway,
    parseOnce(gateway, { received, audience: 'operator' }),
    name,
    assume,
  )
  const gone = new Set([...assume.down, ...assume.without])
  const affected = rows.filter(({ provider }) => provider !== null && gone.has(provider))
  return {
    object: 'what_if_name',
    name,
    direct,
    team: owner ? { id: owner.id, name: owner.name } : null,
    style,
    requests: requestsOf(rows),
    before,
    answers,
    // A name that has no target at all loses none.
    loses_target: answers === null && (before !== null || (Array.isArray(targets) && targets.length > 0)),
    loses: [...loses],
    ...costsOf(gateway, affected, answers, hours),
  }
}

const hoursOf = ({ since, searched_until, from, to }: NamesUsage): number =>
  Math.max(1, (Date.parse(to) - Date.parse(searched_until ?? since ?? from)) / HOUR)

const SHOWN = {
  object: 'what_if_name',
  name: 'claude-sonnet-4-5',
  direct: true,
  team: null,
  style: 'chat',
  requests: 4_200,
  before: { provider: 'anthropic', model: 'claude-sonnet-4-5' },
  answers: null,
  loses_target: true,
  loses: [],
  affected: 4_200,
  cost_per_hour: '1.250000000',
  substitute_per_hour: null,
  extra_per_hour: null,
} as const

export const whatIfRows = [
  row({
    method: 'POST',
    path: '/what-if',
    summary: 'Show what would remain if providers were down',
    about:
      'For each route, and for the models that requests of the last hours named directly (the 200 with the most requests): the target before and after, the requests, and what those of the missing providers cost each hour there and at the first substitute, by the tokens of these requests. An amount is null if a price is unknown or there is no substitute. Nothing is sent upstream, and nothing changes.',
    role: 'viewer',
    scope: 'team',
    body: z.strictObject({
      assume: assumption,
      hours: z.int().min(1).max(168).default(24).describe('Whose requests are counted'),
    }),
    answer: WHAT_IF,
    example: {
      body: { assume: { down: ['anthropic'] } },
      answer: {
        ...{ object: 'list', from: '2026-11-27T10:00:00.000Z', to: '2026-11-28T10:00:00.000Z', searched_until: null },
        ...{ hours: 24, data: [SHOWN], has_more: false, next: null },
      },
    },
    async handle(deps, { body, request, teams }) {
      const { gateway } = deps
      const problems = problemsOf(gateway.config(), body.assume)
      if (problems.length > 0) return bad(invalid(problems))
      const to = gateway.world.date()
      const range = { from: to - body.hours * HOUR, to, filter: {}, shared: true }
      const query = scoped(deps, range, 'usage', teams)
      if (!query.ok) return bad(query.failure)
      const found = await deps.usage.namesUsage({ ...query.value, own: ownNames(deps, null) })
      if (!found.ok) return found
      const { from, to: end, searched_until, data: usage, has_more } = found.value
      const asked = { deps, id: request.id, assume: body.assume, hours: hoursOf(found.value) }
      const data: ShownWhatIf[] = []
      for (const name of namesIn(routeNames(gateway.config()), usage)) {
        await ownTurn(gateway.world.turn)
        data.push(shownName(asked, name))
      }
      const { hours } = asked
      return good({
        body: { object: 'list' as const, from, to: end, searched_until, hours, data, has_more, next: null },
      })
    },
  }),
]
