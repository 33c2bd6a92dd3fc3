/** The teams, models and keys that cost most in the range, with the change against the range before. */
import { placePath, toPage, withParam } from '../../address.ts'
import { type Resource, useResource } from '../../api.ts'
import { money } from '../../format.ts'
import { everyUnlessHeld } from '../../live.ts'
import { Change } from '../../parts/figure.tsx'
import { Loading } from '../../parts/states.tsx'
import { rangeKey } from '../../provider-data.ts'
import { current, currentRange, pageHref } from '../../store.ts'
import type { UsageRow } from '../../usage-figures.ts'
import { readReport } from '../../usage-report.ts'
import { overviewWords as w } from '../../words/overview.ts'
import { usageWords } from '../../words/usage.ts'

/** ms between two reads, and lines of each list. */
const [EVERY, MOST] = [60_000, 5]
const GROUPS = ['team', 'model', 'key'] as const
type Group = (typeof GROUPS)[number]

type TopLine = { readonly id: string; readonly name: string; readonly cost: string; readonly ratio: number | null }

const linesOf = (
  group: Group,
  found: { readonly data: readonly UsageRow[]; readonly names: { readonly [id: string]: string } },
  before: readonly UsageRow[],
): readonly TopLine[] =>
  found.data.flatMap((row) => {
    const id = row[group] ?? ''
    const earlier = Number(before.find((one) => (one[group] ?? '') === id)?.cost ?? 0)
    // A ratio need not be exact.
    const ratio = earlier > 0 ? Number(row.cost) / earlier - 1 : null
    const name = found.names[id] ?? (id === '' ? usageWords.without[group] : id)
    return Number(row.cost) > 0 ? [{ id, name, cost: row.cost, ratio }] : []
  })

const useTop = (group: Group): Pick<Resource<readonly TopLine[]>, 'value' | 'problem'> =>
  useResource(
    `top ${group} ${rangeKey()}`,
    async () => {
      const { from, to } = currentRange()
      const top = (start: number, end: number, ids: readonly string[]) =>
        readReport({
          from: new Date(start).toISOString(),
          to: new Date(end).toISOString(),
          by: group,
          bucket: 'none',
          sort: '-cost',
          limit: MOST,
          [group]: ids,
        })
      const found = await top(from, to, [])
      const ids = found.data.map((row) => row[group] ?? '')
      const before = ids.length === 0 ? [] : (await top(from - (to - from), from, ids)).data
      return linesOf(group, found, before)
    },
    { every: everyUnlessHeld(EVERY) },
  )

/** More about a line: its own page, or its usage. */
const hrefOf = (group: Group, id: string): string =>
  group !== 'model' && id !== ''
    ? pageHref(group === 'key' ? 'keys' : 'teams', id)
    : placePath(withParam(toPage(current.value, 'usage'), group, [id]))

const TopList = ({ group }: { readonly group: Group }) => {
  const { value: lines, problem } = useTop(group)
  return (
    <section aria-label={w.top.of[group]}>
      <h3>
        <a href={placePath(withParam(toPage(current.value, 'usage'), 'by', [group]))}>{w.top.of[group]}</a>
      </h3>
      {!lines ? (
        problem ? (
          <p class={problem.status === 403 ? 'dim' : 'bad'}>{problem.message}</p>
        ) : (
          <Loading rows={2} />
        )
      ) : lines.length === 0 ? (
        <p class="dim">{usageWords.none}</p>
      ) : (
        <ol class="overview-top">
          {lines.map(({ id, name, cost, ratio }) => (
            <li key={id}>
              <a href={hrefOf(group, id)} title={name}>
                {name}
              </a>
              <span class="num">{money(cost)}</span>
              {ratio === null ? <span class="dim small">{w.top.isNew}</span> : <Change ratio={ratio} good="neither" />}
            </li>
          ))}
        </ol>
      )}
    </section>
  )
}

export const TopSpend = () => (
  <section class="panel" aria-label={w.top.title}>
    <h2>{w.top.title}</h2>
    <div class="overview-tops">
      {GROUPS.map((group) => (
        <TopList key={group} group={group} />
      ))}
    </div>
  </section>
)
