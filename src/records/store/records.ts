/** Rows of the table `record` as teams, keys, budgets, prices and admin tokens. Loads neither kysely nor zod. */
import type {
  AccountRecords,
  Budget,
  ClientKey,
  KeySecret,
  PriceOverride,
  PriceRule,
  Team,
} from '../../core/accounts.ts'
import { formatDollars, parseDollars } from '../../core/money.ts'
import type { BudgetBody, KeyBody, PriceBody, TeamBody, TokenBody } from '../entities/shapes.ts'
import type { AdminToken } from './messages.ts'
import type { RecordRow, SecretRow } from './schema.ts'

/** Secrets of each owner, the newest first. */
export const byOwner = (secrets: readonly SecretRow[]): ReadonlyMap<string, readonly SecretRow[]> => {
  const owners = new Map<string, SecretRow[]>()
  for (const secret of secrets.toSorted((one, other) => other.created - one.created)) {
    const list = owners.get(secret.owner)
    if (list) list.push(secret)
    else owners.set(secret.owner, [secret])
  }
  return owners
}

/** The records of the directory, and the admin tokens. */
export const recordsOf = (
  rows: readonly RecordRow[],
  secrets: readonly SecretRow[],
): { readonly records: AccountRecords; readonly tokens: readonly AdminToken[] } => {
  const owners = byOwner(secrets)
  const ofKind = (kind: string) => rows.filter((row) => row.kind === kind)
  const of = <T>(kind: string, convert: (row: RecordRow) => T): T[] => ofKind(kind).map(convert)
  const secretsOf = ({ id }: RecordRow) => owners.get(id) ?? []
  return {
    records: {
      teams: of('team', teamOf),
      keys: of('key', (row) => keyOf(row, secretsOf(row))),
      budgets: of('budget', budgetOf),
      // Of equal rules the last one applies: their order must not depend on the database.
      prices: ofKind('price').sort(byCreation).map(priceOf),
    },
    tokens: of('token', (row) => tokenOf(row, secretsOf(row))),
  }
}

const byCreation = (one: RecordRow, other: RecordRow): number =>
  one.created - other.created || (one.id < other.id ? -1 : 1)

const teamOf = ({ id, name, status, doc }: RecordRow): Team => {
  const { access, limits, cache, tags } = bodyOf<TeamBody>(doc)
  const state = status === 'blocked' || status === 'deleted' ? status : 'active'
  return { id, name, status: state, access, limits, cache, tags, managed: 'api' }
}

const keyOf = (
  { id, name, team, status, expires, created, doc }: RecordRow,
  secrets: readonly SecretRow[],
): ClientKey => {
  const { access, limits, defaultRoute, cache, logBodies, tags } = bodyOf<KeyBody>(doc)
  return {
    id,
    name,
    team,
    status: status === 'blocked' || status === 'revoked' ? status : 'active',
    secrets: secrets.map(secretOf),
    createdAt: created,
    expiresAt: expires,
    access,
    limits,
    defaultRoute,
    cache,
    logBodies,
    tags,
    managed: 'api',
  }
}

const secretOf = ({ digest, last4, created, until }: SecretRow): KeySecret => ({
  digest,
  last4,
  createdAt: created,
  until,
})

const budgetOf = ({ id, name, created, doc }: RecordRow): Budget => {
  const { amount, currency, ...body } = bodyOf<BudgetBody>(doc)
  const parsed = parseDollars(amount)
  // It was checked when it was stored. A budget that cannot be read must not permit spending.
  return { ...body, id, name, amount: parsed.ok ? parsed.value : 0, createdAt: created, managed: 'api' }
}

const priceOf = ({ id, doc }: RecordRow): PriceRule => {
  const { provider, model, effective_from, prices } = bodyOf<PriceBody>(doc)
  const { factor, ...dollars } = prices
  const effectiveFrom = effective_from === null ? 0 : Date.parse(effective_from)
  // Dollars per million tokens are 1,000 nano-dollars per token.
  const nano = Object.fromEntries(Object.entries(dollars).map(([name, price]) => [name, (price ?? 0) * 1_000]))
  const override: PriceOverride = { ...nano, ...(factor !== undefined && { factor }) }
  return { id, provider, model, effectiveFrom, prices: override, managed: 'api' }
}

const tokenOf = ({ id, name, status, expires, doc }: RecordRow, secrets: readonly SecretRow[]): AdminToken => {
  const { bindings } = bodyOf<TokenBody>(doc)
  return { id, name, status, expiresAt: expires, digests: secrets.map(({ digest }) => digest), bindings }
}

/** Only validated bodies are stored. */
const bodyOf = <Body>(doc: string): Body => JSON.parse(doc) as Body

/** Rows for the records of headgate.yaml, so that lists contain them. `started`: for records without a time of creation. */
export const fileRows = ({ teams, keys, budgets, prices }: AccountRecords): readonly RecordRow[] => [
  ...teams.map((team) => fileRow('team', team, { ...bodyPart(team), name: team.name }, team.status)),
  ...keys.map((key) => {
    const { name, team, expiresAt, defaultRoute, logBodies, createdAt } = key
    const body = { name, team, expires_at: isoOrNull(expiresAt), ...bodyPart(key), defaultRoute, logBodies }
    return { ...fileRow('key', key, body, key.status), team, expires: expiresAt, created: createdAt }
  }),
  ...budgets.map((budget) => {
    const { id, createdAt, managed, amount, ...rest } = budget
    const body = { ...rest, amount: formatDollars(amount), currency: 'USD' }
    return { ...fileRow('budget', budget, body, 'active'), created: createdAt }
  }),
  ...prices.map((rule) => {
    const { id, provider, model, effectiveFrom, prices: override } = rule
    const dollars = Object.entries(override).map(([name, price]) => [
      name,
      typeof price === 'number' && name !== 'factor' ? price / 1_000 : price,
    ])
    const effective_from = effectiveFrom === 0 ? null : new Date(effectiveFrom).toISOString()
    const body = { provider, model, effective_from, prices: Object.fromEntries(dollars) }
    return fileRow('price', { id, name: priceName(body) }, body, 'active')
  }),
]

const fileRow = (
  kind: string,
  { id, name }: { readonly id: string; readonly name: string },
  body: object,
  status: string,
): RecordRow => ({
  id,
  kind,
  team: '',
  name,
  status,
  expires: null,
  doc: JSON.stringify(body),
  rev: 0,
  created: 0,
  created_by: 'headgate.yaml',
  changed: 0,
})

const bodyPart = ({ access, limits, cache, tags }: Pick<Team, 'access' | 'limits' | 'cache' | 'tags'>) => ({
  access,
  limits,
  cache,
  tags,
})

/** The name of a price rule: unique for what it applies to. */
export const priceName = ({
  provider,
  model,
  effective_from,
}: Pick<PriceBody, 'provider' | 'model' | 'effective_from'>): string =>
  `${provider}/${model}${effective_from === null ? '' : ` from ${effective_from}`}`

/** ISO 8601, or null. */
export const isoOrNull = (time: number | null): string | null => (time === null ? null : new Date(time).toISOString())
