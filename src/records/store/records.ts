/** Rows of the table `record` as teams, keys, budgets, prices, routes and admin tokens. Loads no kysely. */
import type { AccountRecords, Budget, ClientKey, KeySecret, PriceRule, Team } from '../../core/accounts.ts'
import { parseDollars } from '../../core/money.ts'
import type { TeamRoute } from '../../core/route.ts'
import { budgetBodyOf, budgetMembersOf } from '../entities/budget.ts'
import { keyMembersOf } from '../entities/key.ts'
import { memberReader } from '../entities/member.ts'
import { PRICE_BODY, priceBodyOf, priceName, priceRuleOf } from '../entities/price.ts'
import { type RouteBody, routeFrom } from '../entities/route.ts'
import { teamMembersOf } from '../entities/team.ts'
import type { TokenBody } from '../entities/token.ts'
import type { AdminToken } from './record-operations.ts'
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
      routes: of('route', routeOf),
    },
    tokens: of('token', (row) => tokenOf(row, secretsOf(row))),
  }
}

const byCreation = (one: RecordRow, other: RecordRow): number =>
  one.created - other.created || (one.id < other.id ? -1 : 1)

const teamOf = ({ id, name, status, doc }: RecordRow): Team => {
  const state = status === 'blocked' || status === 'deleted' ? status : 'active'
  return { id, name, status: state, ...teamMembersOf(JSON.parse(doc)), managed: 'api' }
}

const keyOf = (
  { id, name, team, status, expires, created, doc }: RecordRow,
  secrets: readonly SecretRow[],
): ClientKey => ({
  id,
  name,
  team,
  status: status === 'blocked' || status === 'revoked' ? status : 'active',
  secrets: secrets.map(secretOf),
  createdAt: created,
  expiresAt: expires,
  ...keyMembersOf(JSON.parse(doc)),
  managed: 'api',
})

const secretOf = ({ digest, last4, created, until }: SecretRow): KeySecret => ({
  digest,
  last4,
  createdAt: created,
  until,
})

/** A secret as the API shows it. The file may have no time. */
export const shownSecret = ({ last4, created, until }: Pick<SecretRow, 'last4' | 'created' | 'until'>) => ({
  last4,
  created_at: created === 0 ? null : isoOrNull(created),
  until: isoOrNull(until),
})

/**
 * Records of a snapshot that an earlier version may have written, which lacks members that were added since.
 */
export const completed = ({
  teams,
  keys,
  budgets,
  prices,
  routes = [],
}: Omit<AccountRecords, 'routes'> & Partial<AccountRecords>): AccountRecords => ({
  teams: teams.map((team) => ({ ...team, ...teamMembersOf(team) })),
  keys: keys.map((key) => ({ ...key, ...keyMembersOf(key) })),
  budgets: budgets.map((budget) => ({ ...budget, ...budgetMembersOf(budget) })),
  prices,
  routes,
})

const budgetOf = ({ id, name, created, doc }: RecordRow): Budget => {
  const body = bodyOf<{ readonly amount: string }>(doc)
  const parsed = parseDollars(body.amount)
  // It was checked when it was stored. A budget that cannot be read must not permit spending.
  const amount = parsed.ok ? parsed.value : 0
  return { ...budgetMembersOf(body), id, name, amount, createdAt: created, managed: 'api' }
}

const readPrice = memberReader(PRICE_BODY.shape)

const priceOf = ({ id, doc }: RecordRow): PriceRule => ({
  id,
  ...priceRuleOf(readPrice(JSON.parse(doc))),
  managed: 'api',
})

const routeOf = ({ id, name, team, doc }: RecordRow): TeamRoute => ({
  ...routeFrom(name, bodyOf<RouteBody>(doc).spec),
  id,
  team,
  managed: 'api',
})

const tokenOf = ({ id, name, status, expires, doc }: RecordRow, secrets: readonly SecretRow[]): AdminToken => {
  const { bindings } = bodyOf<TokenBody>(doc)
  return { id, name, status, expiresAt: expires, digests: secrets.map(({ digest }) => digest), bindings }
}

/** Only validated bodies are stored. */
const bodyOf = <Body>(doc: string): Body => JSON.parse(doc) as Body

/** Rows for the records of headgate.yaml, so that lists contain them. `started`: for records without a time of creation. */
export const fileRows = ({ teams, keys, budgets, prices }: Omit<AccountRecords, 'routes'>): readonly RecordRow[] => [
  ...teams.map((team) => fileRow('team', team, { name: team.name, ...teamMembersOf(team) }, team.status)),
  ...keys.map((key) => {
    const { name, team, expiresAt, createdAt, status } = key
    const secrets = key.secrets.map((secret) => shownSecret({ ...secret, created: secret.createdAt }))
    const body = { name, team, expires_at: isoOrNull(expiresAt), ...keyMembersOf(key), secrets }
    return { ...fileRow('key', key, body, status), team, expires: expiresAt, created: createdAt }
  }),
  ...budgets.map((budget) => ({
    ...fileRow('budget', budget, budgetBodyOf(budget), 'active'),
    created: budget.createdAt,
  })),
  ...prices.map((rule) => {
    const body = priceBodyOf(rule)
    return fileRow('price', { id: rule.id, name: priceName(body) }, body, 'active')
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

/** ISO 8601, or null. */
export const isoOrNull = (time: number | null): string | null => (time === null ? null : new Date(time).toISOString())
