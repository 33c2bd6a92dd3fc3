/** The list of client keys, with what each has spent. */
import { z } from 'zod'
import { good, type Outcome } from '../../../core/failure.ts'
import { formatDollars, type Nano, parseDollars } from '../../../core/money.ts'
import { LISTED_KEY } from '../../../records/entities/key.ts'
import { time } from '../../../records/entities/shown.ts'
import type { TimeRange, UsageQuery } from '../../../usage/reading/queries.ts'
import { listOf } from '../../answers/fields.ts'
import { defined, runFor } from '../control.ts'
import type { AdminDeps } from '../deps.ts'
import { keyFilter, recordList } from '../records.ts'
import { row } from '../row.ts'
import { scoped, summed } from '../usage-query.ts'
import { KEY_SHOWN } from './account-examples.ts'

type Range = { readonly from?: string | undefined; readonly to?: string | undefined }

const KEY_LIST = listOf(LISTED_KEY)

/** Keys whose sums are read, and answers until all is added up. */
const MOST = { keys: 10_000, answers: 3 }

/** What keys have spent in a range, by their ID; null: it could not be added up in time. */
const spentByKey = async (
  deps: AdminDeps,
  { from, to }: Range,
  teams: readonly string[] | null,
): Promise<Outcome<ReadonlyMap<string, Nano> | null>> => {
  const asked: Omit<UsageQuery, 'from' | 'to'> & Partial<TimeRange> = {
    ...(from !== undefined && { from: Date.parse(from) }),
    ...(to !== undefined && { to: Date.parse(to) }),
    by: ['key'],
    bucket: 'none',
    tz: null,
    filter: {},
    limit: MOST.keys,
    after: null,
  }
  const query = scoped(deps, summed(asked, deps.gateway.config()), 'usage', teams)
  if (!query.ok) return query
  for (let answers = 0; answers < MOST.answers; answers++) {
    const found = await deps.usage.usage(answers === 0 ? query.value : { ...query.value, after: [] })
    if (!found.ok) return found
    if (found.value.searched_until !== null) continue
    return good(
      new Map(
        found.value.data.map(({ key, cost }) => {
          const amount = parseDollars(cost, 'any')
          return [key ?? '', amount.ok ? amount.value : 0]
        }),
      ),
    )
  }
  return good(null)
}

/** What keys and teams have spent of budgets with a counter for each, by their ID. */
const countersByOwner = async ({ gateway }: AdminDeps) => {
  const { states } = await gateway.accounts.budgetFigures()
  return Map.groupBy(
    states.filter(({ budget: { per } }) => per === 'key' || per === 'team'),
    ({ owner }) => owner,
  )
}

const EXAMPLE = {
  ...KEY_SHOWN,
  spend: '1.840000000',
  counters: [{ budget: 'bud_kdvbwqhzmrtc', spent: '0.400000000' }],
}

export const keyList = row({
  method: 'GET',
  path: '/keys',
  summary: 'List the client keys',
  role: 'viewer',
  scope: 'team',
  query: z.strictObject({
    ...recordList,
    sort: z
      .enum([...recordList.sort.unwrap().options, 'spend', '-spend'])
      .optional()
      .describe('Default: -created_at; - is descending. `spend`: by the cost in the range'),
    ...keyFilter,
    spend: z.boolean().default(false).describe('With what each key has spent in the range'),
    counters: z.boolean().default(false).describe('With what each key has spent of budgets `per` key or team'),
    from: time.optional().describe('Of the range of `spend`, as in /usage; default: 30 days ago'),
    to: time.optional(),
  }),
  answer: KEY_LIST,
  example: {
    query: { limit: '20', spend: 'true', counters: 'true' },
    answer: { object: 'list', data: [EXAMPLE], has_more: false, next: null },
  },
  async handle(deps, call) {
    const { spend: isAsked, counters: areAsked, from, to, ...query } = call.query
    const isNeeded = isAsked || query.sort?.endsWith('spend') === true
    const spent = isNeeded ? await spentByKey(deps, { from, to }, call.teams) : null
    if (spent?.ok === false) return spent
    const amounts = spent?.value ?? null
    const list = await runFor<z.input<typeof KEY_LIST>>(deps.control, call, {
      do: 'list',
      kind: 'key',
      query: { ...defined(query), ...(amounts && { amounts: [...amounts].map(([id, amount]) => ({ id, amount })) }) },
    })
    if (!list.ok || 'stream' in list.value) return list
    const counters = areAsked ? await countersByOwner(deps) : null
    const { body } = list.value
    const data = body.data.map((key) => ({
      ...key,
      ...(isAsked && { spend: amounts && formatDollars(amounts.get(key.id) ?? 0) }),
      ...(counters && {
        counters: [key.id, key.team ?? ''].flatMap((owner) =>
          (counters.get(owner) ?? []).map(({ budget, spent: amount }) => ({
            budget: budget.id,
            spent: formatDollars(amount),
          })),
        ),
      }),
    }))
    return good({ body: { ...body, data } })
  },
})
