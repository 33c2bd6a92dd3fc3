/** What holds for a team: its budgets, limits, policy and routes; and its last requests that were not answered. */
import { type ApiList, read, useResource } from '../../api.ts'
import { clock, day } from '../../format.ts'
import type { BudgetRecord } from '../../key-records.ts'
import { useEnds } from '../../own-budgets.ts'
import { limitsText } from '../../parts/key-cells.tsx'
import { RequestLink } from '../../parts/request-link.tsx'
import { Failed, Time } from '../../parts/states.tsx'
import { type ListedRequest, resultOf } from '../../request-row.ts'
import { pageHref } from '../../store.ts'
import type { ListedTeam } from '../../team-rows.ts'
import { budgetWords } from '../../words/budgets.ts'
import { keysWords } from '../../words/keys.ts'
import { requests as requestWords } from '../../words/requests.ts'
import { teamsWords as words } from '../../words/teams.ts'
import { BudgetBar, Ends, ofTeam } from './cells.tsx'
import { rangeName, rangeQuery, useBudgets } from './data.ts'

/** Routes and requests that are listed. */
const MOST = 10

/** Whether a budget is for this team: it names the team, or has a counter for each. */
const isFor = ({ appliesTo: { teams }, per }: BudgetRecord, id: string): boolean =>
  teams === null ? per === 'team' : teams.includes(id)

export const TeamBudgets = ({ id }: { readonly id: string }) => {
  const { value, problem, reload } = useBudgets()
  const end = useEnds('team')?.get(id)
  const found = (value?.data ?? [])
    .filter((budget) => isFor(budget, id))
    .map((budget) => {
      const counter = value?.counters[budget.id]?.find(({ of }) => of === id)
      return { budget, spent: budget.per === 'team' ? (counter?.spent ?? '0') : budget.now.spent }
    })
  return (
    <section class="panel" aria-label={words.budgets}>
      <h2>{words.budgets}</h2>
      {problem && <Failed problem={problem} retry={reload} />}
      {value && found.length === 0 && <p class="dim">{words.noBudgets}</p>}
      <ul class="stack">
        {found.map((own) => (
          <li key={own.budget.id}>
            {own.budget.name} <span class="dim">{budgetWords.per[own.budget.per]}</span>
            <BudgetBar own={own} />
            {end?.budget === own.budget.id && <Ends end={end} />}
          </li>
        ))}
      </ul>
    </section>
  )
}

export const Rules = ({ team }: { readonly team: Omit<ListedTeam, 'keys'> }) => {
  const { region, retention, training } = team.require
  const hasPolicy = region !== null || retention !== null || training !== null
  return (
    <section class="panel" aria-label={words.rules}>
      <h2>{words.rules}</h2>
      <dl class="keys-facts">
        <dt>{words.head.limits}</dt>
        <dd>{limitsText(team) ?? words.noLimits}</dd>
        <dt>{words.models}</dt>
        <dd class="wrap">{team.access.models?.join(', ') ?? words.allModels}</dd>
        <dt>{words.policy}</dt>
        <dd class="wrap">
          {hasPolicy
            ? [
                ...(region === null ? [] : [`${keysWords.form.regions}: ${region.join(', ')}`]),
                ...(retention === null ? [] : [`${keysWords.form.retention}: ${retention}`]),
                ...(training === null ? [] : [keysWords.form.noTraining]),
              ].join(' · ')
            : words.noPolicy}{' '}
          · <a href={pageHref('config', 'policy')}>{words.policyLink}</a>
        </dd>
      </dl>
    </section>
  )
}

type TeamRoute = {
  readonly id: string
  readonly name: string
  readonly spec: {
    readonly targets: readonly (string | { readonly provider: string; readonly model: string })[]
  }
}

const targetText = (target: TeamRoute['spec']['targets'][number]): string =>
  typeof target === 'string' ? target : `${target.provider}/${target.model}`

/** Without a route of its own there is no section. */
export const Routes = ({ id }: { readonly id: string }) => {
  const { value } = useResource(`team routes ${id}`, () =>
    read<ApiList<TeamRoute>>('/routes', { team: [id], sort: 'name', limit: MOST }),
  )
  if (!value || value.data.length === 0) return null
  return (
    <section class="panel" aria-label={words.routes}>
      <h2>{words.routes}</h2>
      <ul class="lines">
        {value.data.map((route) => (
          <li key={route.id} class="row">
            <a href={pageHref('routes')}>{route.name}</a>
            <span class="dim">{route.spec.targets.map(targetText).join(', ')}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}

const UNANSWERED = ['failed', 'broke_off', 'refused']

export const Recent = ({ id }: { readonly id: string }) => {
  const { value, problem, reload } = useResource(`team recent ${id} ${rangeName()}`, () =>
    read<ApiList<ListedRequest>>('/requests', { ...rangeQuery(), team: [id], result: UNANSWERED, limit: MOST }),
  )
  return (
    <section class="panel teams-wide" aria-label={words.recent}>
      <div class="card-title">
        <h2>{words.recent}</h2>
        <a href={ofTeam('requests', id, { result: UNANSWERED })}>{words.allRecent}</a>
      </div>
      {problem && <Failed problem={problem} retry={reload} />}
      {value?.data.length === 0 && <p class="dim">{words.noRecent}</p>}
      <ul class="lines">
        {value?.data.map((request) => {
          const at = Date.parse(request.received_at)
          const result = resultOf(request)
          return (
            <li key={request.id} class="row">
              <RequestLink id={request.id}>
                <Time at={at}>
                  {day(at)}, {clock(at)}
                </Time>
              </RequestLink>
              <span class={result === 'refused' ? 'teams-refused' : 'teams-failing'}>
                {requestWords.withStatus(requestWords.results[result], request.status)}
              </span>
              <span>{request.key?.name}</span>
              <span class="mono">{request.asked}</span>
              <span class="dim teams-message">{request.message ?? request.code}</span>
            </li>
          )
        })}
      </ul>
    </section>
  )
}
