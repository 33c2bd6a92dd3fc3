/** One directory from the records of headgate.yaml and of the database. */

import {
  type AccountRecords,
  type Budget,
  type ClientKey,
  DEFAULT_TEAM,
  type Directory,
  type FileAccounts,
  FULL_ACCESS,
  type ManagedBy,
  NO_LIMITS,
  type Team,
} from '../../core/accounts.ts'
import { NO_REQUIRE } from '../../core/data-policy.ts'

/** The default team if neither the file nor the database has one. */
const PLAIN_DEFAULT_TEAM: Team = {
  ...DEFAULT_TEAM,
  status: 'active',
  access: FULL_ACCESS,
  limits: NO_LIMITS,
  require: NO_REQUIRE,
  cache: null,
  tags: {},
  managed: 'api',
}

/** Builds the directory. Names in references of the file become IDs; unknown ones, which loading refuses, stay. */
export const buildDirectory = (file: FileAccounts, stored: AccountRecords): Directory => {
  const teams = byId<Team>([PLAIN_DEFAULT_TEAM, ...stored.teams, ...file.teams])
  const idOfTeam = idIn(teams)
  const fileKeys = file.keys.map((key): ClientKey => ({ ...key, team: idOfTeam(key.team) }))
  const keys = byId<ClientKey>([...stored.keys, ...fileKeys])
  for (const { team } of keys.values()) if (!teams.has(team)) teams.set(team, missingTeam(team))

  // There may be many keys.
  const idOfKey = file.budgets.length > 0 ? idIn(keys) : String
  const fileBudgets = file.budgets.map((budget): Budget => {
    const { appliesTo } = budget
    const selected = { teams: appliesTo.teams?.map(idOfTeam) ?? null, keys: appliesTo.keys?.map(idOfKey) ?? null }
    return { ...budget, appliesTo: { ...appliesTo, ...selected } }
  })
  const budgets = byId<Budget>([...stored.budgets, ...fileBudgets])
  return { teams, keys, budgets, prices: [...stored.prices, ...file.prices], routes: byId(stored.routes) }
}

/** The ID of a record that is named by its ID or its name. A deleted record has no name for others to use. */
const idIn = (
  records: ReadonlyMap<string, { readonly id: string; readonly name: string; readonly status: string }>,
) => {
  const present = [...records.values()].filter(({ status }) => status !== 'deleted' && status !== 'revoked')
  const byName = new Map(present.map(({ id, name }) => [name, id]))
  return (reference: string): string => (records.has(reference) ? reference : (byName.get(reference) ?? reference))
}

/** The team with this ID or name; undefined: none has it, or it is deleted. */
export const teamNamed = ({ teams }: Pick<Directory, 'teams'>, name: string): Team | undefined => {
  const isPresent = ({ status }: Team) => status !== 'deleted'
  const byId = teams.get(name)
  return byId && isPresent(byId) ? byId : teams.values().find((one) => one.name === name && isPresent(one))
}

/** A directory in which records of the database have changed. `removed`: IDs of any kind. */
export const changeDirectory = (
  { teams, keys, budgets, prices, routes }: Directory,
  changed: AccountRecords,
  removed: readonly string[],
): Directory => {
  const gone = new Set(removed)
  const isGone = ({ id }: { readonly id: string }) => gone.has(id)
  const isOther = (list: readonly { readonly id: string }[]) => {
    const changedIds = new Set(list.map(({ id }) => id))
    return ({ id }: { readonly id: string }) => !changedIds.has(id) && !gone.has(id)
  }
  const next = {
    teams: replaced(teams, changed.teams, gone),
    keys: replaced(keys, changed.keys, gone),
    // Unchanged ones stay the same objects, because others are computed from them.
    budgets:
      changed.budgets.length > 0 || [...budgets.values()].some(isGone)
        ? replaced(budgets, changed.budgets, gone)
        : budgets,
    prices:
      changed.prices.length > 0 || prices.some(isGone)
        ? [...prices.filter(isOther(changed.prices)), ...changed.prices]
        : prices,
    routes:
      changed.routes.length > 0 || removed.some((id) => routes.has(id))
        ? replaced(routes, changed.routes, gone)
        : routes,
  }
  if (!next.teams.has(DEFAULT_TEAM.id)) next.teams.set(DEFAULT_TEAM.id, PLAIN_DEFAULT_TEAM)
  for (const { team } of [...changed.keys, ...(gone.size > 0 ? keys.values() : [])])
    if (!next.teams.has(team)) next.teams.set(team, missingTeam(team))
  return next
}

const byId = <T extends { readonly id: string }>(list: readonly T[]): Map<string, T> =>
  new Map(list.map((entry) => [entry.id, entry]))

/** Records of the file replace those of the database, so their changes have no effect. */
const replaced = <T extends { readonly id: string; readonly managed: ManagedBy }>(
  before: ReadonlyMap<string, T>,
  changed: readonly T[],
  gone: ReadonlySet<string>,
): Map<string, T> => {
  const next = new Map(before)
  const isOfFile = (id: string) => before.get(id)?.managed === 'file'
  for (const id of gone) if (!isOfFile(id)) next.delete(id)
  for (const entry of changed) if (!isOfFile(entry.id)) next.set(entry.id, entry)
  return next
}

/** The team of keys whose team was removed from the file: its keys are refused. */
export const missingTeam = (id: string): Team => ({
  ...PLAIN_DEFAULT_TEAM,
  id,
  name: id,
  status: 'blocked',
  managed: 'file',
})
