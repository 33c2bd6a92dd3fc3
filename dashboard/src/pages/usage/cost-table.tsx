/** The cost of each value of the group: the dearest ones, and the others on request. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { placePath, toPage, valuesOf, withParam } from '../../address.ts'
import { useResource } from '../../api.ts'
import { addDollars, compact, count, money, percent, shareOf } from '../../format.ts'
import { type OwnBudget, ownBudgets } from '../../key-records.ts'
import { readBudgets } from '../../own-budgets.ts'
import { Middle } from '../../parts/middle.tsx'
import { Sparkline } from '../../parts/sparkline.tsx'
import { SpentBar } from '../../parts/spent-bar.tsx'
import { Amount, Unknown } from '../../parts/states.tsx'
import { current, currentRange, now } from '../../store.ts'
import {
  failedShare,
  narrowed,
  perThousand,
  type UsageGroup,
  type UsageLine,
  type UsageRow,
  type UsageTotals,
  withOther,
} from '../../usage-figures.ts'
import { keysWords } from '../../words/keys.ts'
import { usageWords } from '../../words/usage.ts'

const { head } = usageWords

/** Rows before the one of all others, and how many more are shown at once. */
const ROWS = 10
const MORE = 100

/** ms by which the end of a range may be in the past, for the present figures of budgets and forecasts. */
const LAG = 60_000

/** Whether the range ends now. */
export const endsNow = (): boolean => current.value.to === null || currentRange().to >= now.value - LAG

/** What is spent of the budgets of one key or team, by its ID. Empty for a range that does not end now. */
const useBudgets = (group: UsageGroup): ReadonlyMap<string, OwnBudget> => {
  const isPresent = endsNow()
  const owner = group === 'key' || group === 'team' ? group : null
  const found = useResource(isPresent && owner ? `usage budgets ${owner}` : null, () => readBudgets(owner ?? 'key'))
  return found.value && isPresent ? ownBudgets(found.value, group) : new Map()
}

/** The share of requests that failed, and the share that was refused. */
export const Failures = ({ totals }: { readonly totals: UsageTotals }) => {
  const failed = failedShare(totals)
  if (failed === null) return totals.requests === 0 ? <>–</> : <Unknown why={usageWords.failedUnknown} />
  const refused = totals.refused ?? 0
  return (
    <>
      <span class="usage-failures">{usageWords.failed(percent(failed))}</span>
      {refused > 0 && (
        <>
          , <span class="usage-failures">{usageWords.refused(percent(refused / totals.requests))}</span>
        </>
      )}
    </>
  )
}

type CostTableProps = {
  readonly group: UsageGroup
  readonly groupName: string
  readonly lines: readonly UsageLine[]
  readonly nameOf: (id: string) => string
  readonly total: UsageTotals
  readonly before: readonly UsageRow[]
}

export const CostTable = ({ group, groupName, lines, total, before, nameOf }: CostTableProps) => {
  const most = useSignal(ROWS)
  const budgets = useBudgets(group)
  const { shown, other, hidden } = withOther(lines, most.value + 1)
  const earlier = new Map(before.map((row) => [row[group] ?? '', row.cost]))
  const columns = {
    total,
    earlier: valuesOf(current.value, 'compare')[0] === 'previous' ? earlier : null,
    budgets: budgets.size > 0 ? budgets : null,
    // The course of one bucket is a block.
    hasTrend: (lines[0]?.costs.length ?? 0) > 1,
  }
  const rest = lines.slice(shown.length).map(({ id }) => earlier.get(id) ?? '0')
  const ofOther = {
    ...columns,
    earlier: columns.earlier && new Map([['', addDollars(rest)]]),
    budgets: columns.budgets && new Map(),
  }
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls is reached with the keyboard
    <section class="panel usage-frame" tabIndex={0} aria-label={usageWords.table(groupName)}>
      <table class="usage-table">
        <caption class="sr-only">{usageWords.table(groupName)}</caption>
        <thead>
          <Heads groupName={groupName} columns={columns} />
        </thead>
        <tbody>
          {shown.map((line) => (
            <Row key={line.id} line={line} columns={columns} group={group} name={nameOf(line.id)}>
              <Name group={group} id={line.id} name={nameOf(line.id)} />
            </Row>
          ))}
          {other && (
            <Row line={other} columns={ofOther} group={group} name={usageWords.other(hidden)}>
              {usageWords.other(hidden)}{' '}
              <button
                type="button"
                class="button quiet small"
                onClick={() => {
                  most.value += MORE
                }}
              >
                {usageWords.showOther(Math.min(MORE, hidden))}
              </button>
            </Row>
          )}
        </tbody>
      </table>
    </section>
  )
}

/** What the table has beside the sums. Null: no such column. */
type CostColumns = {
  readonly total: UsageTotals
  readonly earlier: ReadonlyMap<string, string> | null
  readonly budgets: ReadonlyMap<string, OwnBudget> | null
  readonly hasTrend: boolean
}

const Heads = ({ groupName, columns }: { readonly groupName: string; readonly columns: CostColumns }) => {
  return (
    <tr>
      <th scope="col">{groupName}</th>
      <th scope="col">{head.cost}</th>
      <th scope="col">{head.share}</th>
      {columns.earlier && <th scope="col">{head.before}</th>}
      <th scope="col">{usageWords.requests}</th>
      <th scope="col">{head.failed}</th>
      <th scope="col">{head.tokens}</th>
      <th scope="col" class="usage-rate">
        {head.perThousand}
      </th>
      {columns.budgets && <th scope="col">{head.budget}</th>}
      {columns.hasTrend && (
        <th scope="col" class="usage-trend">
          {head.trend}
        </th>
      )}
    </tr>
  )
}

type GroupNameProps = { readonly group: UsageGroup; readonly id: string; readonly name: string }

/** Narrows the page to the value. */
const Name = ({ group, id, name }: GroupNameProps) =>
  id === '' ? (
    name
  ) : (
    <a href={placePath(narrowed(current.value, group, id))} title={usageWords.narrow(name)}>
      <Middle text={name} />
    </a>
  )

/** Their number, which is a link to them. Requests filter by tags in another form. */
const Requests = ({ group, id, name, n }: GroupNameProps & { readonly n: number }) =>
  id === '' || group === 'tag' ? (
    count(n)
  ) : (
    <a
      href={placePath(withParam(toPage(current.value, 'requests'), group, [id]))}
      aria-label={usageWords.requestsOf(count(n), name)}
    >
      {count(n)}
    </a>
  )

type CostRowProps = {
  readonly line: UsageLine
  readonly columns: CostColumns
  readonly group: UsageGroup
  readonly name: string
  readonly children: ComponentChildren
}

const Row = ({ line: { id, totals, costs }, columns, group, name, children }: CostRowProps) => {
  const budget = columns.budgets?.get(id)
  const isUnknown = totals.unpriced > 0 && totals.cost === '0.000000000'
  const rate = isUnknown ? null : perThousand(totals)
  return (
    <tr>
      <th scope="row">{children}</th>
      <td data-label={head.cost}>
        {isUnknown ? (
          <Unknown why={usageWords.unknownWhy} text={usageWords.unknown} />
        ) : (
          <>
            {totals.unpriced > 0 && <span class="dim small">{usageWords.atLeast}</span>} <Amount text={totals.cost} />
          </>
        )}
      </td>
      <td data-label={head.share}>{isUnknown ? '–' : percent(shareOf(totals.cost, columns.total.cost))}</td>
      {columns.earlier && (
        <td data-label={head.before}>
          <Amount text={columns.earlier.get(id) ?? '0'} />
        </td>
      )}
      <td data-label={usageWords.requests}>
        <Requests group={group} id={id} name={name} n={totals.requests} />
      </td>
      <td data-label={head.failed}>
        <Failures totals={totals} />
      </td>
      <td data-label={head.tokens}>{[totals.input, totals.cache_read, totals.output].map(compact).join(' / ')}</td>
      <td class="usage-rate" data-label={head.perThousand}>
        {rate === null ? '–' : <Amount text={rate} />}
      </td>
      {columns.budgets && <td data-label={head.budget}>{budget ? <OfBudget budget={budget} /> : '–'}</td>}
      {columns.hasTrend && (
        <td class="usage-trend">
          <Sparkline
            kind="bars"
            values={costs.map(Number)}
            text={usageWords.trend(name, money(costs[0] ?? '0'), money(costs.at(-1) ?? '0'))}
          />
        </td>
      )}
    </tr>
  )
}

/** With the period of the budget, which is not that of the costs beside it. */
const OfBudget = ({ budget: { budget, spent } }: { readonly budget: OwnBudget }) => {
  const share = shareOf(spent, budget.amount)
  return (
    <span class="keys-budget" title={usageWords.spent(budget.name, percent(share))}>
      <SpentBar share={share} label={usageWords.spent(budget.name, percent(share))} />
      <span>{usageWords.ofBudget(percent(share), money(budget.amount), keysWords.periods[budget.period])}</span>
    </span>
  )
}
