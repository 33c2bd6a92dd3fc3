// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references of the file are written
/** Writes teams, keys, budgets and prices as the configuration file contains them. Reading the text gives equal records. */
import { stringify } from 'yaml'
import {
  type AccountRecords,
  type Budget,
  type ClientKey,
  DEFAULT_TEAM,
  type Directory,
  type PriceRule,
  type Team,
  type TokenPrices,
} from '../../core/accounts.ts'
import { formatDollars } from '../../core/money.ts'
import { BUDGET_MEMBERS } from './budget.ts'
import { KEY_MEMBERS } from './key.ts'
import { fileId } from './key-digest.ts'
import { memberEntries } from './member.ts'
import { TEAM_MEMBERS } from './team.ts'

/** Names of teams and keys that the records refer to. */
export type AccountNames = Pick<Directory, 'teams' | 'keys'>

/**
 * The YAML of records. Revoked keys are left out: a key that is not in the file is refused. Throws if two keys have one
 * name, which is possible in different teams of the database but not in the file.
 */
export const accountsYaml = (records: Partial<AccountRecords>, names: AccountNames): string => {
  const keys = (records.keys ?? []).filter(({ status }) => status !== 'revoked')
  const twice = keys.find(({ name }, index) => keys.findIndex((one) => one.name === name) !== index)
  if (twice) throw new Error(`Two keys are called "${twice.name}". Rename one of them; the file has each name once.`)
  const references = { teams: referenceTo(names.teams), keys: referenceTo(names.keys) }
  const sections = {
    teams: byName(records.teams ?? [], teamEntry),
    keys: byName(keys, (key) => keyEntry(key, references)),
    budgets: byName(records.budgets ?? [], (budget) => budgetEntry(budget, references)),
    prices: records.prices && records.prices.length > 0 ? records.prices.map(priceEntry) : undefined,
  }
  return stringify(escaped(compact(sections)), { lineWidth: 0 })
}

/** How the file refers to a record with this ID. */
type RecordReference = (id: string) => string
type RecordReferences = { readonly teams: RecordReference; readonly keys: RecordReference }

/** By its name, or by its ID if another record has that name too: keys of two teams, or a revoked one. */
const referenceTo = (records: ReadonlyMap<string, { readonly name: string }>): RecordReference => {
  const counts = new Map<string, number>()
  for (const { name } of records.values()) counts.set(name, (counts.get(name) ?? 0) + 1)
  return (id) => {
    const name = records.get(id)?.name
    return name !== undefined && counts.get(name) === 1 ? name : id
  }
}

type YamlEntry = { readonly [member: string]: unknown }

const byName = <T extends { readonly name: string }>(list: readonly T[], entry: (record: T) => YamlEntry) =>
  list.length === 0 ? undefined : Object.fromEntries(list.map((record) => [record.name, entry(record)]))

const teamMembers = memberEntries(TEAM_MEMBERS)

const teamEntry = (team: Team): YamlEntry => ({
  id: team.name === DEFAULT_TEAM.name ? undefined : unlessDerived(team.id, fileId('team', team.name)),
  status: unless(team.status, 'active'),
  ...teamMembers(team),
})

const keyMembers = memberEntries(KEY_MEMBERS)

const keyEntry = (key: ClientKey, { teams }: RecordReferences): YamlEntry => {
  const { id, name, team, status, secrets, createdAt, expiresAt } = key
  const [only, another] = secrets
  const isPlain = only && !another && only.last4 === '' && only.until === null && only.createdAt === createdAt
  return {
    id: unlessDerived(id, fileId('key', name)),
    team: unless(teams(team), DEFAULT_TEAM.name),
    status: unless(status, 'active'),
    digest: isPlain ? only.digest : undefined,
    secrets: isPlain
      ? undefined
      : secrets.map((secret) => ({
          digest: secret.digest,
          last4: unless(secret.last4, ''),
          createdAt: secret.createdAt === createdAt ? undefined : timeEntry(secret.createdAt),
          until: timeEntry(secret.until),
        })),
    createdAt: unless(timeEntry(createdAt), timeEntry(0)),
    expiresAt: timeEntry(expiresAt),
    ...keyMembers(key),
  }
}

const budgetEntries = memberEntries(BUDGET_MEMBERS)

const budgetEntry = (budget: Budget, references: RecordReferences): YamlEntry => {
  const { id, name, amount, appliesTo, createdAt } = budget
  return {
    id: unlessDerived(id, fileId('bud', name)),
    amount: dollars(amount),
    ...budgetEntries(budget),
    appliesTo: {
      ...appliesTo,
      teams: appliesTo.teams?.map((team) => references.teams(team)),
      keys: appliesTo.keys?.map((key) => references.keys(key)),
    },
    createdAt: unless(timeEntry(createdAt), timeEntry(0)),
  }
}

const priceEntry = ({ id, provider, model, effectiveFrom, prices }: PriceRule): YamlEntry => {
  const { factor, service, tiers, tools, perUnit, ...tokens } = prices
  return {
    id: unlessDerived(id, fileId('prc', `${provider}\0${model}\0${effectiveFrom}`)),
    provider,
    model,
    effectiveFrom: unless(timeEntry(effectiveFrom), timeEntry(0)),
    factor,
    service,
    perMillion: perMillion(tokens),
    tiers: tiers?.map(({ above, ...rest }) => ({ above, perMillion: perMillion(rest) })),
    perCall: tools && inDollars(tools),
    perUnit: perUnit && inDollars(perUnit),
  }
}

const inDollars = (prices: Readonly<Record<string, number>>): YamlEntry =>
  Object.fromEntries(Object.entries(prices).map(([name, price]) => [name, dollars(price)]))

const TOKENS = 1_000_000

const perMillion = (prices: TokenPrices): YamlEntry =>
  Object.fromEntries(
    Object.entries(prices).map(([part, nano]) => [
      part,
      nano === undefined ? undefined : dollars(Math.round(nano * TOKENS)),
    ]),
  )

/** `2500.00`: without needless zeros. */
const dollars = (nano: number): string => formatDollars(nano).replace(/(\.\d\d\d*?)0+$/, '$1')

const timeEntry = (at: number | null): string | undefined => (at === null ? undefined : new Date(at).toISOString())

const unless = <T>(value: T, usual: T): T | undefined => (value === usual ? undefined : value)
const unlessDerived = (id: string, derived: string): string | undefined => unless(id, derived)

const isEntry = (value: unknown): value is YamlEntry =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Leaves out what is not set, and sections that are empty for that reason. Lists stay: `[]` allows nothing. */
const compact = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(compact)
  if (!isEntry(value)) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inner]) => {
      const short = compact(inner)
      const isEmpty = short === undefined || short === null || (isEntry(short) && Object.keys(short).length === 0)
      // An entry without members is still an entry: `search: {}`.
      return isEmpty && !(isEntry(inner) && name !== 'limits' && name !== 'access' && name !== 'appliesTo')
        ? []
        : [[name, short]]
    }),
  )
}

/** `${` in a value would be read as a reference. */
const escaped = (value: unknown): unknown => {
  if (typeof value === 'string') return value.replaceAll('${', () => '$${')
  if (Array.isArray(value)) return value.map(escaped)
  return isEntry(value)
    ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, escaped(inner)]))
    : value
}
