/** Names of teams and keys where an answer has only their IDs. */
import { nearest } from '../../src/core/nearest.ts'
import { type ApiQuery, problemIn, read, readAll, useResource } from './api.ts'
import type { KeyRecord, Listed, TeamRecord } from './key-records.ts'

export type OwnerNames = { readonly [id: string]: string }

/** Those that a menu shows for a text. */
const FOUND = 20

/** The names of chosen keys and teams. An ID that no longer exists has none. */
export const useOwnerNames = ({
  keys,
  teams,
}: {
  readonly keys: readonly string[]
  readonly teams: readonly string[]
}): OwnerNames => {
  const paths = [...keys.map((id) => `/keys/${id}`), ...teams.map((id) => `/teams/${id}`)]
  const { value } = useResource(paths.length === 0 ? null : `names ${paths.join()}`, () =>
    Promise.all(paths.map((path) => recordAt(path))),
  )
  return Object.fromEntries((value ?? []).flatMap((found) => (found ? [[found.id, found.name]] : [])))
}

const recordAt = (path: string): Promise<KeyRecord | TeamRecord | null> =>
  read<KeyRecord | TeamRecord>(path).catch((error) => {
    if (problemIn(error).status === 404) return null
    throw error
  })

/** The keys whose name contains a text, for the menu of a filter. */
export const findKeys = (q: string) => findNames<KeyRecord>('/keys', q, { status: KEY_STATES })
const KEY_STATES = ['active', 'blocked', 'expired', 'revoked']

/** The teams whose name contains a text. */
export const findTeams = (q: string) => findNames<TeamRecord>('/teams', q)

const findNames = async <Found extends { readonly id: string; readonly name: string }>(
  path: string,
  q: string,
  query: ApiQuery = {},
) => {
  const { data } = await read<Listed<Found>>(path, { ...query, q: q === '' ? null : q, limit: FOUND })
  return data.map(({ id, name }) => ({ value: id, label: name }))
}

/** Teams among which a name is looked for. */
const TEAMS = 5_000

/**
 * Names of teams that an address has instead of IDs: the name of the team; null: there is none, then with the nearest name.
 * Nothing is read where all of them are known.
 */
export const useTeamNames = (values: readonly string[]) => {
  const { value: teams } = useResource(values.length === 0 ? null : 'team names', async () => {
    const { data } = await readAll<TeamRecord>('/teams', { status: ['active', 'blocked', 'deleted'] }, TEAMS)
    return data
  })
  return (text: string): { readonly name: string | null; readonly near: TeamRecord | null } | null => {
    if (!teams || !values.includes(text)) return null
    const found = teams.find(({ id, name }) => id === text || name === text)
    const [near] = found
      ? []
      : nearest(
          text,
          teams.map(({ name }) => name),
        )
    return { name: found?.name ?? null, near: teams.find(({ name }) => name === near) ?? null }
  }
}
