/** Keys, teams and budgets of the admin API, and what the pages derive from them. Pure. */
import type { BUDGET_COUNTER, FORECAST } from '../../src/records/entities/budget.ts'
import type { LISTED_KEY } from '../../src/records/entities/key.ts'
import type { Shown } from '../../src/records/entities/shown.ts'
import type { TEAM } from '../../src/records/entities/team.ts'
import type { BUDGET_ENDS, LISTED_BUDGET } from '../../src/server/answers/budgets.ts'
import { dollarsOf, nanoOf, shareOf } from './format.ts'

export type KeyRecord = Shown<typeof LISTED_KEY>
export type TeamRecord = Shown<typeof TEAM>
export type BudgetRecord = Shown<typeof LISTED_BUDGET>
export type BudgetForecast = Shown<typeof FORECAST>
export type BudgetEnds = Shown<typeof BUDGET_ENDS>
/** The counter of a budget, or of a team, that will be spent first. */
export type BudgetEnd = BudgetEnds['data'][number]
/** Ends by budget or team, in the order in which they come; undefined: not read. */
export type EndsById = ReadonlyMap<string, BudgetEnd> | undefined
/** A counter of a budget; `of` is the owner, empty for a budget with one counter. */
export type ListedCounter = Pick<Shown<typeof BUDGET_COUNTER>, 'of' | 'spent' | 'remaining'>

export type Listed<Entry> = {
  readonly data: readonly Entry[]
  readonly has_more: boolean
  readonly next: string | null
}

const DAY = 86_400_000
/** ms without use after which a key is marked as unused. */
const UNUSED_AFTER = 30 * DAY

export type ShownKeyState = {
  readonly word: 'active' | 'blocked' | 'expired' | 'revoked' | 'unused'
  /** ms since the key was used or made; for `unused`. */
  readonly unused: number
  /** ms until the older secret ends; null: there is none. */
  readonly overlap: number | null
}

/** The older secrets of a key that are still valid. */
const olderSecrets = ({ secrets }: KeyRecord, now: number): KeyRecord['secrets'] =>
  secrets.filter(({ until }) => until !== null && Date.parse(until) > now)

/** The state of a key at a time. */
export const keyState = (key: KeyRecord, now: number): ShownKeyState => {
  const ends = olderSecrets(key, now).map(({ until }) => Date.parse(until ?? ''))
  const overlap = ends.length === 0 ? null : Math.max(...ends) - now
  const isExpired = key.expires_at !== null && Date.parse(key.expires_at) <= now
  const since = key.last_used_at ?? key.created_at
  const unused = since === null ? 0 : now - Date.parse(since)
  if (key.status === 'revoked' || key.status === 'blocked') return { word: key.status, unused, overlap }
  if (isExpired || key.status === 'expired') return { word: 'expired', unused, overlap }
  return { word: unused >= UNUSED_AFTER ? 'unused' : 'active', unused, overlap }
}

/** `hgk_…9f21`. */
export const keyHint = ({ prefix, last4 }: Pick<KeyRecord, 'prefix' | 'last4'>): string =>
  `${prefix ?? ''}…${last4 ?? ''}`

/** What a budget has left for a key. `share`: 0.92 is 92 % spent. `owner`: whose amount it is. */
export type KeyBudget = {
  readonly budget: BudgetRecord
  readonly owner: 'key' | 'team' | 'all'
  readonly spent: string
  readonly share: number
}

/** Whether a budget counts the requests of a key, as far as the key alone decides. */
const counts = ({ appliesTo: { teams, keys, tags } }: BudgetRecord, key: KeyRecord): boolean =>
  (teams === null || teams.includes(key.team)) &&
  (keys === null || keys.includes(key.id)) &&
  (tags === null || Object.entries(tags).every(([name, value]) => key.tags[name] === value))

/** The counters of budgets that have several, by the ID of the budget. */
export type CountersById = { readonly [budget: string]: readonly ListedCounter[] | undefined }

/**
 * The budgets that count the requests of a key: its own, those of its team, then the rest, of each the fullest first. Those
 * of some models or providers are last: they count a part of its requests, if any.
 */
export const budgetsOf = (key: KeyRecord, budgets: readonly BudgetRecord[]): readonly KeyBudget[] => {
  const counters = new Map(key.counters?.map(({ budget, spent }) => [budget, spent]))
  return budgets
    .filter((budget) => !NAMED_BY_REQUESTS.includes(budget.per) && counts(budget, key))
    .map((budget) => {
      const spent = budget.per === 'all' ? budget.now.spent : (counters.get(budget.id) ?? '0')
      return { budget, owner: ownerOf(budget), spent, share: shareOf(spent, budget.amount) }
    })
    .toSorted((a, b) => distance(a) - distance(b) || b.share - a.share)
}

/** Budgets whose counters are not those of keys. */
const NAMED_BY_REQUESTS: readonly BudgetRecord['per'][] = ['user', 'end_user', 'session']

const ownerOf = ({ appliesTo, per }: BudgetRecord): KeyBudget['owner'] => {
  if (appliesTo.keys?.length === 1 || per === 'key') return 'key'
  return appliesTo.teams !== null || per === 'team' ? 'team' : 'all'
}

/** How near a budget is to a key that it counts. */
const distance = ({ budget, owner }: KeyBudget): number =>
  ['key', 'team', 'all'].indexOf(owner) + (isScoped(budget) ? 3 : 0)

/** Whether a budget counts requests for some models or providers only. */
export const isScoped = ({ appliesTo: { models, providers } }: BudgetRecord): boolean =>
  models !== null || providers !== null

/** A budget of one key or team, and what it has spent of it in the present period. */
export type OwnBudget = { readonly budget: BudgetRecord; readonly spent: string }

/**
 * The budget of each key or team, by its ID: one for it alone, or one with a counter for each. Of several the fullest.
 * Budgets of some models, providers or tags only count a part of its cost, so they are left out.
 */
export const ownBudgets = (
  { data, counters }: { readonly data: readonly BudgetRecord[]; readonly counters: CountersById },
  group: string,
): ReadonlyMap<string, OwnBudget> => {
  const found = new Map<string, OwnBudget>()
  const add = (id: string, own: OwnBudget) => {
    const before = found.get(id)
    if (!before || shareOf(before.spent, before.budget.amount) < shareOf(own.spent, own.budget.amount))
      found.set(id, own)
  }
  for (const budget of data) {
    const { teams, keys, models, providers, tags } = budget.appliesTo
    if (models !== null || providers !== null || tags !== null) continue
    const owners = group === 'key' ? keys : keys === null ? teams : null
    if (budget.per === 'all' && owners?.length === 1 && owners[0] !== undefined)
      add(owners[0], { budget, spent: budget.now.spent })
    if (budget.per === group) for (const { of, spent } of counters[budget.id] ?? []) add(of, { budget, spent })
  }
  return found
}

/** What a changed amount does at once. */
export type AmountEffect = { readonly kind: 'blocks' | 'unblocks' | 'leaves' | 'invalid'; readonly left: string }

/** The effect of another amount on a budget with this spending. */
export const amountEffect = (
  { amount, mode, now: { spent } }: Pick<BudgetRecord, 'amount' | 'mode' | 'now'>,
  next: string,
): AmountEffect => {
  if (!/^[0-9]{1,9}(?:\.[0-9]{1,9})?$/.test(next)) return { kind: 'invalid', left: '0' }
  const left = nanoOf(next) - nanoOf(spent)
  const wasSpent = nanoOf(spent) >= nanoOf(amount)
  const kind = mode === 'hard' && left <= 0n ? 'blocks' : mode === 'hard' && wasSpent ? 'unblocks' : 'leaves'
  return { kind, left: dollarsOf(left) }
}

/** The amount with the other sign. */
export const negated = (amount: string): string => dollarsOf(-nanoOf(amount))

/** The entries of a field with commas or lines; null: none. */
export const entriesOf = (text: string): readonly string[] | null => {
  const entries = text
    .split(/[,\n]/)
    .map((one) => one.trim())
    .filter((one) => one !== '')
  return entries.length === 0 ? null : entries
}

/** A field that two writers changed. */
export type FieldConflict = { readonly name: string; readonly mine: string; readonly theirs: string }

const textOf = (value: unknown): string =>
  value === null || value === undefined ? '–' : typeof value === 'object' ? JSON.stringify(value) : String(value)

/** The members of a patch that differ from the record as it is now. */
export const conflictsIn = (
  patch: { readonly [name: string]: unknown },
  now: { readonly [name: string]: unknown },
): readonly FieldConflict[] =>
  Object.entries(patch).flatMap(([name, mine]) => {
    const theirs = now[name]
    if (isObject(mine) && isObject(theirs))
      return conflictsIn(mine, theirs).map((one) => ({ ...one, name: `${name}.${one.name}` }))
    return JSON.stringify(mine) === JSON.stringify(theirs) ? [] : [{ name, mine: textOf(mine), theirs: textOf(theirs) }]
  })

const isObject = (value: unknown): value is { readonly [name: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** How full a budget is, 1 is spent; of one with a counter for each owner, its fullest. */
export const budgetShare = ({ amount, now, owners }: BudgetRecord): number =>
  nanoOf(amount) === 0n ? 1 : shareOf(owners ? (owners.fullest?.spent ?? '0') : now.spent, amount)

/** How many budgets are spent, and how many of the others have spent at least this share. */
export const fullCounts = (
  budgets: readonly BudgetRecord[],
  near: number,
): { readonly spent: number; readonly near: number } => {
  const shares = budgets.map(budgetShare)
  const spent = shares.filter((share) => share >= 1).length
  return { spent, near: shares.filter((share) => share >= near).length - spent }
}

/** The place of each of the ends, the first is 0. */
export const placesOf = (ends: EndsById): ReadonlyMap<string, number> =>
  new Map([...(ends?.keys() ?? [])].map((id, at) => [id, at]))

/**
 * The budgets by `ends`, `share` or `name`; descending with `-`. Those without an end are last, equally full ones in the order of
 * their names.
 */
export const sortedBudgets = (
  budgets: readonly BudgetRecord[],
  by: string,
  ends?: EndsById,
): readonly BudgetRecord[] => {
  const sign = by.startsWith('-') ? -1 : 1
  const byName = (a: BudgetRecord, b: BudgetRecord) => a.name.localeCompare(b.name)
  if (by.endsWith('name')) return budgets.toSorted((a, b) => sign * byName(a, b))
  const byShare = (a: BudgetRecord, b: BudgetRecord) => budgetShare(a) - budgetShare(b)
  if (by.endsWith('share')) return budgets.toSorted((a, b) => sign * byShare(a, b) || byName(a, b))
  const places = placesOf(ends)
  const last = sign * places.size
  const placeOf = ({ id }: BudgetRecord) => places.get(id) ?? last
  return budgets.toSorted((a, b) => sign * (placeOf(a) - placeOf(b)) || byShare(b, a) || byName(a, b))
}
