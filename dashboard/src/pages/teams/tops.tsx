/** The keys, models and end users of a team with the most cost. */
import type { ComponentChild } from 'preact'
import type { EndUserReport } from '../../../../src/usage/reading/queries.ts'
import { read, useResource } from '../../api.ts'
import { nanoOf, percent, shareOf } from '../../format.ts'
import { Middle } from '../../parts/middle.tsx'
import { SpentBar } from '../../parts/spent-bar.tsx'
import { Amount, Failed, Loading } from '../../parts/states.tsx'
import { readReport } from '../../usage-report.ts'
import { teamsWords as words } from '../../words/teams.ts'
import { ofTeam } from './cells.tsx'
import { rangeName, rangeQuery } from './data.ts'

/** Lines of each list. */
const MOST = 8
const ROWS = 10_000

/** One owner of cost. Empty: the requests without one. */
type TeamTopLine = { readonly id: string; readonly name: string; readonly cost: string }
type FoundTops = { readonly lines: readonly TeamTopLine[]; readonly total: string }

const readLines = async (id: string, by: 'key' | 'model'): Promise<FoundTops> => {
  const { data, total, names } = await readReport({
    ...rangeQuery(),
    team: [id],
    by: [by],
    bucket: 'none',
    limit: ROWS,
  })
  const lines = data.map((row) => ({
    id: row[by] ?? '',
    name: names[row[by] ?? ''] ?? row[by] ?? words.top.without[by],
    cost: row.cost,
  }))
  return { lines: lines.toSorted((a, b) => Number(nanoOf(b.cost) - nanoOf(a.cost))).slice(0, MOST), total: total.cost }
}

const readEndUsers = async (id: string): Promise<FoundTops> => {
  const query = { ...rangeQuery(), team: [id], limit: MOST }
  const [{ data }, { total }] = await Promise.all([
    read<EndUserReport>('/usage/end-users', query),
    readReport({ ...rangeQuery(), team: [id], by: [], bucket: 'none' }),
  ])
  return { lines: data.map(({ end_user, cost }) => ({ id: end_user, name: end_user, cost })), total: total.cost }
}

const LISTS = {
  key: { title: words.top.keys, load: (id: string) => readLines(id, 'key') },
  model: { title: words.top.models, load: (id: string) => readLines(id, 'model') },
  end_user: { title: words.top.endUsers, load: readEndUsers },
} as const

export const Tops = ({ id }: { readonly id: string }) => (
  <div class="teams-panels">
    <Top id={id} by="key" more={<a href={ofTeam('usage', id)}>{words.top.all}</a>} />
    <Top id={id} by="model" more={<a href={ofTeam('usage', id, { group: ['model'] })}>{words.top.all}</a>} />
    <Top id={id} by="end_user" more={<a href={ofTeam('teams', id, { show: ['end-users'] })}>{words.top.all}</a>} />
  </div>
)

type TopProps = { readonly id: string; readonly by: keyof typeof LISTS; readonly more: ComponentChild }

const Top = ({ id, by, more }: TopProps) => {
  const { title, load } = LISTS[by]
  const { value, problem, isLoading, reload } = useResource(`team ${by} ${id} ${rangeName()}`, () => load(id))
  return (
    <section class="panel" aria-label={title}>
      <div class="card-title">
        <h2>{title}</h2>
        {more}
      </div>
      {problem && <Failed problem={problem} retry={reload} />}
      {!value && isLoading && <Loading rows={3} />}
      {value?.lines.length === 0 && <p class="dim">{words.top.none}</p>}
      <ul class="teams-top">
        {value?.lines.map((line) => (
          <li key={line.id}>
            <a href={ofTeam('requests', id, { [by]: [line.id] })}>
              <Middle text={line.name} />
            </a>
            <Amount text={line.cost} />
            <SpentBar share={shareOf(line.cost, value.total)} label={percent(shareOf(line.cost, value.total))} isPart />
          </li>
        ))}
      </ul>
    </section>
  )
}
