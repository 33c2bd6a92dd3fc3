/** Names of teams and keys where an answer has only their IDs. */
import { problemIn, read, useResource } from './api.ts'
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
export const findKeys = async (q: string) => {
  const { data } = await read<Listed<KeyRecord>>('/keys', { q, limit: FOUND, status: KEY_STATES })
  return data.map(({ id, name }) => ({ value: id, label: name }))
}
const KEY_STATES = ['active', 'blocked', 'expired', 'revoked']
