/** Queries of usage: their range, and the teams to which the actor's role limits them. */
import type { Config } from '../../core/config.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import { DEMO } from '../../core/provider.ts'
import { rangeOf } from '../../usage/reading/parameters.ts'
import type { TimeRange } from '../../usage/reading/queries.ts'
import type { AdminDeps } from './deps.ts'
import { invalid } from './validation.ts'

export const EMPTY_RANGE: Failure = invalid([{ path: 'from', message: 'It must be before `to`.' }], 'query')
const OTHER_TEAM = fail('forbidden', 'These credentials have no role in this team.')

type SumFilter = { readonly demo?: boolean; readonly provider?: readonly string[] }

/**
 * The query of sums. Requests of the built-in demo count only while no provider is configured, unless the query asks for
 * them.
 */
export const summed = <Query extends { readonly filter: SumFilter }>(
  query: Query,
  { instances }: Pick<Config, 'instances'>,
): Query => {
  const { filter } = query
  const isAsked = filter.demo !== undefined || filter.provider?.includes(DEMO)
  return isAsked || instances.every(({ provider }) => provider.builtin)
    ? query
    : { ...query, filter: { ...filter, demo: false } }
}

type Filter = { readonly team?: readonly string[]; readonly key?: readonly string[] }

/** The query with a whole range, with IDs for the names of teams and keys, and limited to the teams of the actor. */
export const scoped = <Query extends Partial<TimeRange> & { readonly filter: Filter }>(
  { gateway, control }: Pick<AdminDeps, 'gateway' | 'control'>,
  query: Query,
  kind: Parameters<typeof rangeOf>[1],
  teams: readonly string[] | null,
): Outcome<Query & TimeRange> => {
  const range = rangeOf(query, kind, gateway.world.date())
  if (!range) return bad(EMPTY_RANGE)
  const directory = control.directory()
  const { team: named, key } = query.filter
  const team = named && idsOf(named, directory.teams)
  const filter = { ...query.filter, ...(team && { team }), ...(key && { key: idsOf(key, directory.keys) }) }
  if (teams === null) return good({ ...query, ...range, filter })
  const allowed = team === undefined ? teams : team.filter((one) => teams.includes(one))
  return allowed.length === 0 ? bad(OTHER_TEAM) : good({ ...query, ...range, filter: { ...filter, team: allowed } })
}

/** IDs stay, also those of deleted records; of the rest, a name becomes the ID of its record. */
const idsOf = (
  values: readonly string[],
  records: ReadonlyMap<string, { readonly id: string; readonly name: string }>,
): readonly string[] => {
  if (values.every((value) => value === '' || records.has(value))) return values
  const byName = new Map([...records.values()].map(({ id, name }) => [name, id]))
  return values.map((value) => (records.has(value) ? value : (byName.get(value) ?? value)))
}

/** The answer with what was found as its body. */
export const shown = <Body>(found: Outcome<Body>): Outcome<{ readonly body: Body }> =>
  found.ok ? good({ body: found.value }) : found
