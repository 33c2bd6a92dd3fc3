/** What an operator should look at, the worst first. Pure. */
import type { SeenClient } from '../../src/observe/clients-seen.ts'
import { age, clock, moment, percent } from './format.ts'
import { type BudgetEnd, type EndsById, placesOf } from './key-records.ts'
import type { ProviderRow } from './provider-row.ts'
import { overviewWords as w } from './words/overview.ts'
import { kindText, providerWords } from './words/providers.ts'

/** A budget of `/budgets`. */
export type ListedBudget = {
  readonly id: string
  readonly name: string
  readonly amount: string
  readonly period: string
  readonly status: string
  /** `hard`: requests are refused when it is spent. */
  readonly mode: string
  /** Null: of all. */
  readonly appliesTo: { readonly [member: string]: object | null }
  readonly now: { readonly spent: string; readonly remaining: string | null; readonly period_end: string | null }
  /** Of a budget with a counter for each owner. */
  readonly owners?: {
    readonly count: number
    readonly spent: number
    readonly near: number
    readonly fullest: { readonly of: string; readonly spent: string } | null
  } | null
}

/** `since` null: of another gateway, which states neither reason nor time. */
export type SystemProblem = { readonly component: string; readonly reason: string; readonly since: string | null }

/** The worst first. */
export const ATTENTION_GROUPS = ['outages', 'spent', 'warnings', 'clients'] as const
type AttentionGroup = (typeof ATTENTION_GROUPS)[number]

/** One line. `page` and `id`: where more is shown. */
export type Attention = {
  readonly id: string
  readonly group: AttentionGroup
  readonly tone: 'bad' | 'warn'
  readonly text: string
  readonly detail: string
  readonly page: 'providers' | 'keys' | 'connect' | 'config'
  readonly object: string | null
  /** The tab of the page. */
  readonly show?: 'budgets'
}

/** The share of a budget from which it is listed, and ms before its end. */
const NEAR = 0.8
const SOON = 86_400_000

/** The spent share of a budget; of one with a counter for each owner, of its fullest. Null: it has no counter, or no amount. */
export const budgetShare = ({ amount, now, owners }: ListedBudget): number | null => {
  const whole = Number(amount)
  const spent = owners ? owners.fullest?.spent : now.remaining === null ? undefined : now.spent
  return whole > 0 && spent !== undefined ? Number(spent) / whole : null
}

/** Whether a budget counts every request. */
export const isForAll = ({ appliesTo }: Pick<ListedBudget, 'appliesTo'>): boolean =>
  Object.values(appliesTo).every((one) => one === null || Object.keys(one).length === 0)

const ofProvider = (row: ProviderRow, now: number): readonly Attention[] => {
  const { id, state, until, waiting, lastError } = row
  const isBad = state === 'open' || state === 'keyless'
  const time = until !== null && until > now ? ` ${age(until - now)}` : ''
  const own: readonly Attention[] =
    state === 'closed'
      ? []
      : [
          {
            id: `provider-${id}`,
            group: isBad ? 'outages' : 'warnings',
            tone: isBad ? 'bad' : 'warn',
            text: w.provider(id, `${providerWords.states[state]}${time}`),
            detail: state === 'resting' ? (row.restReason ?? '') : (lastError?.message ?? ''),
            page: 'providers',
            object: id,
          },
        ]
  const keys = waiting.flatMap(({ key, model, status, until: end }): readonly Attention[] =>
    key === null
      ? []
      : [
          {
            id: `key-${id}-${key}-${model}`,
            group: 'warnings',
            tone: 'warn',
            text: w.key(id, key, kindText(status, null)),
            detail: [...(model === null ? [] : [model]), ...(end !== null && end > now ? [age(end - now)] : [])].join(
              ', ',
            ),
            page: 'providers',
            object: id,
          },
        ],
  )
  return [...own, ...keys]
}

/** When the amount that ends first is used up, in ms since 1970; infinite: it lasts, or that is not known. */
const endOf = (end: BudgetEnd | undefined): number =>
  end?.forecast.exhausted_at ? Date.parse(end.forecast.exhausted_at) : Number.POSITIVE_INFINITY

/** When it will be spent, of which owner if it has several, and how many others have spent 80 % or more. */
const budgetDetail = ({ owners }: ListedBudget, isSpent: boolean, end: BudgetEnd | undefined): string => {
  const at = endOf(end)
  const several = owners && owners.count > 1
  const ends = isSpent || at === Number.POSITIVE_INFINITY ? '' : w.budgetEnds(moment(at), several ? end?.of : undefined)
  const others = several ? owners.spent + owners.near - 1 : 0
  return [ends, ...(others > 0 ? [w.budgetOthers(others)] : [])].filter((part) => part !== '').join(', ')
}

const ofBudget = (budget: ListedBudget, { ends, names, now }: AttentionFacts): readonly Attention[] => {
  const share = budgetShare(budget)
  const end = ends?.get(budget.id)
  if (share === null || budget.status === 'disabled' || (share < NEAR && endOf(end) > now + SOON)) return []
  const owner = budget.owners?.fullest?.of
  const isBad = share >= 1 && budget.mode === 'hard'
  return [
    {
      id: `budget-${budget.id}`,
      group: isBad ? 'spent' : 'warnings',
      tone: isBad ? 'bad' : 'warn',
      text: w.budget(budget.name, percent(share), owner && (names[owner] ?? owner)),
      detail: budgetDetail(budget, share >= 1, end),
      page: 'keys',
      object: budget.id,
      show: 'budgets',
    },
  ]
}

/** ms for which a refused client is listed. */
const RECENT = 3_600_000

const ofClient = ({ family, wrong }: SeenClient, now: number): readonly Attention[] => {
  const at = wrong ? new Date(wrong.at).getTime() : 0
  if (!wrong || now - at > RECENT) return []
  return [
    {
      id: `client-${family}`,
      group: 'clients',
      tone: 'warn',
      text: w.client(family, wrong.status === null ? '' : w.clientStatus(wrong.status)),
      detail: [wrong.problem?.code.replaceAll('_', ' ') ?? wrong.path, w.clientAt(clock(at))].join(', '),
      page: 'connect',
      object: null,
    },
  ]
}

export type AttentionFacts = {
  readonly rows: readonly ProviderRow[]
  readonly budgets: readonly ListedBudget[]
  readonly ends: EndsById
  /** Of teams and keys, by ID. */
  readonly names: { readonly [id: string]: string }
  readonly clients: readonly SeenClient[]
  readonly problems: readonly SystemProblem[]
  /** ms since 1970. */
  readonly now: number
}

export const attentionOf = (facts: AttentionFacts): readonly Attention[] => {
  const { rows, budgets, clients, problems, now } = facts
  const places = placesOf(facts.ends)
  const placeOf = ({ id }: ListedBudget) => places.get(id) ?? places.size
  const all: readonly Attention[] = [
    ...problems.map(
      ({ component, reason, since }): Attention => ({
        id: `problem-${component}`,
        group: 'outages',
        tone: 'bad',
        text: w.system(component),
        detail: since === null ? reason : `${reason}, ${clock(Date.parse(since))}`,
        page: 'config',
        object: null,
      }),
    ),
    ...rows.flatMap((row) => ofProvider(row, now)),
    ...budgets
      .toSorted((a, b) => placeOf(a) - placeOf(b) || (budgetShare(b) ?? 0) - (budgetShare(a) ?? 0))
      .flatMap((budget) => ofBudget(budget, facts)),
    ...clients.flatMap((client) => ofClient(client, now)),
  ]
  return ATTENTION_GROUPS.flatMap((group) => all.filter((one) => one.group === group))
}
