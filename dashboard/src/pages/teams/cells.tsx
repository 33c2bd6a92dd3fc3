/** Cells of teams, which the list and the page of a team share, and what may be done with a team. */
import { boundsOf, type Place, placePath, toPage, withParam } from '../../address.ts'
import { hasRole } from '../../api.ts'
import { money, percent, shareOf } from '../../format.ts'
import type { OwnBudget } from '../../key-records.ts'
import type { PageName } from '../../page-table.ts'
import { Change } from '../../parts/figure.tsx'
import { Forecast } from '../../parts/forecast.tsx'
import { SpentBar } from '../../parts/spent-bar.tsx'
import { Amount, Unknown } from '../../parts/states.tsx'
import { current } from '../../store.ts'
import { costChange, failingShare, type ListedTeam, refusedShare, type TeamRow } from '../../team-rows.ts'
import type { UsageTotals } from '../../usage-figures.ts'
import { keysWords } from '../../words/keys.ts'
import { teamsWords as words } from '../../words/teams.ts'
import { usageWords } from '../../words/usage.ts'

export type TeamAction = 'limits' | 'block' | 'unblock'

/** What the session may do with a team. Those of the file are changed there. */
export const actionsOf = ({ managed, status }: Pick<ListedTeam, 'managed' | 'status'>): readonly TeamAction[] => [
  ...(hasRole('admin', 'all') && managed === 'api' ? (['limits'] as const) : []),
  ...(hasRole('operator', 'all') && managed === 'api'
    ? [status === 'blocked' ? ('unblock' as const) : ('block' as const)]
    : []),
]

/** Another page with the range of this one, which that page may not have without one in the address. */
export const withRange = (page: PageName): Place => {
  const { from, to } = boundsOf(current.value)
  return { ...toPage(current.value, page), from, to: to === 'now' ? null : to }
}

/** A page with the requests, the usage or the keys of a team. */
export const ofTeam = (page: PageName, id: string, more: { readonly [name: string]: readonly string[] } = {}): string =>
  placePath(
    Object.entries(more).reduce(
      (place, [name, values]) => withParam(place, name, values),
      withParam(withRange(page), 'team', [id]),
    ),
  )

const LOOKS = { active: ['●', 'ok'], blocked: ['◌', 'warn'], deleted: ['✗', 'dim'] } as const

export const TeamState = ({ status }: { readonly status: string }) => {
  const word = status === 'active' || status === 'blocked' ? status : 'deleted'
  const [shape, tone] = LOOKS[word]
  return (
    <span class={tone}>
      <span aria-hidden="true">{shape}</span> {words.states[word]}
    </span>
  )
}

type CostProps = { readonly totals: UsageTotals | null; readonly before: string | null }

/** A cost with its change. Without a price it is unknown, never 0. */
export const Cost = ({ totals, before }: CostProps) => {
  if (totals !== null && totals.unpriced > 0 && totals.cost === '0.000000000')
    return <Unknown why={usageWords.unknownWhy} text={usageWords.unknown} />
  const cost = totals?.cost ?? '0'
  const ratio = costChange(cost, before)
  return (
    <>
      {totals !== null && totals.unpriced > 0 && <span class="dim small">{usageWords.atLeast} </span>}
      <Amount text={cost} />
      <span class="teams-change" title={before === null ? undefined : words.before(money(before))}>
        {ratio !== null && <Change ratio={ratio} good="down" />}
      </span>
    </>
  )
}

/** A share of requests; `–` with the reason where it is not known. */
const Share = ({ totals, of }: { readonly totals: UsageTotals | null; readonly of: typeof failingShare }) => {
  const share = of(totals)
  if (share !== null) return <>{percent(share)}</>
  return <Unknown why={totals === null || totals.requests === 0 ? words.noRequests : words.notCounted} />
}

/** Requests that the gateway failed. */
export const Failing = ({ totals }: Pick<CostProps, 'totals'>) => (
  <span class={(failingShare(totals) ?? 0) > 0 ? 'teams-failing' : undefined} title={words.failingAbout}>
    <Share totals={totals} of={failingShare} />
  </span>
)

/** Requests that were refused. */
export const Refused = ({ totals }: Pick<CostProps, 'totals'>) => (
  <span title={words.refusedAbout}>
    <Share totals={totals} of={refusedShare} />
  </span>
)

/** How full a budget is now, with its period. */
export const BudgetBar = ({ own: { budget, spent } }: { readonly own: OwnBudget }) => {
  const share = percent(shareOf(spent, budget.amount))
  const label = keysWords.spentShare(budget.name, share)
  return (
    <span class="keys-budget" title={label}>
      <SpentBar share={shareOf(spent, budget.amount)} label={label} alerts={budget.alerts} />
      <span class="num">
        {share} · {keysWords.of(money(spent), money(budget.amount), keysWords.periods[budget.period])}
      </span>
    </span>
  )
}

/** When the own budget of a team will be used up; `–` without one. */
export const Ends = ({ end }: Pick<TeamRow, 'end'>) =>
  end ? (
    <span class="budget-forecast" title={end.name}>
      <Forecast end={end} />
    </span>
  ) : (
    <span class="dim">–</span>
  )
