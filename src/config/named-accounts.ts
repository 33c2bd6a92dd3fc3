/** The names of the accounts in the file: their IDs, their places, and references to them. */
import { type AccountRecords, DEFAULT_TEAM, type FileAccounts } from '../core/accounts.ts'
import { nearest } from '../core/nearest.ts'
import { accountNameProblem } from '../policy/accounts/account-name.ts'
import { fileId } from '../records/entities/key-digest.ts'
import type { AccountReport, Path } from './account-report.ts'
import { quote } from './problem.ts'

type Kind = 'team' | 'key' | 'budget'
/** The section of each kind in the file. */
export const SECTIONS = { team: 'teams', key: 'keys', budget: 'budgets' } as const
const PREFIXES = { team: 'team', key: 'key', budget: 'bud' } as const

type Named = { readonly id: string; readonly name: string }

/** A name or reference that is not valid is refused in the report. */
export class NamedAccounts {
  readonly #report: AccountReport
  /** The records of the database; null: unknown, so references are not checked. */
  readonly #stored: AccountRecords | null
  readonly #places: Record<string, string> = {}
  /** IDs by name, of the file. */
  readonly #ids: { readonly [kind in Kind]: Map<string, string> } = {
    team: new Map(),
    key: new Map(),
    budget: new Map(),
  }

  constructor(report: AccountReport, stored: AccountRecords | null) {
    this.#report = report
    this.#stored = stored
  }

  /** Where the records are written, by ID. */
  get places(): { readonly [id: string]: string } {
    return this.#places
  }

  /** Notes the names of a section, before references to them are read. */
  collect(kind: Kind, entries: ReadonlyMap<string, { readonly id?: string | undefined }>): void {
    const section = SECTIONS[kind]
    for (const [name, { id: written }] of entries) {
      const path = [section, name]
      const isDefault = kind === 'team' && name === DEFAULT_TEAM.name
      const id = written ?? (isDefault ? DEFAULT_TEAM.id : fileId(PREFIXES[kind], name))
      this.#report.sentence(path, accountNameProblem(name), 'name')
      if (isDefault !== (id === DEFAULT_TEAM.id))
        this.#report.refuse(
          [...path, 'id'],
          quote(id),
          `${DEFAULT_TEAM.id} for the team ${DEFAULT_TEAM.name}, and only for it`,
        )
      this.place(id, path)
      this.#ids[kind].set(name, id)
    }
  }

  /** Notes where a record is written. */
  place(id: string, path: Path): void {
    const { name } = this.#report.placeOf(path)
    const place = name.replace(/:[0-9]+$/, '')
    const other = this.#places[id]
    if (other !== undefined)
      this.#report.refuse([...path, 'id'], `the ID ${id}, which ${other} has too`, 'each ID once')
    this.#places[id] = place
  }

  idOf(kind: Kind, name: string): string {
    return this.#ids[kind].get(name) ?? fileId(PREFIXES[kind], name)
  }

  /** The ID of a team or key of the file; a reference to the database is returned as it is. */
  reference(kind: 'team' | 'key', reference: string, path: Path): string {
    const own = this.#ids[kind]
    const id = own.get(reference)
    if (id !== undefined) return id
    if (kind === 'team' && reference === DEFAULT_TEAM.name) return DEFAULT_TEAM.id
    if (this.#stored === null) return reference
    const stored: readonly Named[] = this.#stored[SECTIONS[kind]]
    const isKnown = ({ id, name }: Named) => id === reference || name === reference
    if (reference === DEFAULT_TEAM.id || [...own.values()].includes(reference) || stored.some(isKnown)) return reference
    const names = [...own.keys(), ...stored.map(({ name }) => name), ...(kind === 'team' ? [DEFAULT_TEAM.name] : [])]
    this.#report.refuse(
      path,
      `the ${kind} ${quote(reference)}, which does not exist`,
      oneOf(reference, names, `the name or ID of a ${kind}`),
    )
    return reference
  }

  /** Names that the database has too; a record with the same ID is replaced by the file's. Names of keys are unique in their team. */
  refuseStored(accounts: FileAccounts, stored: AccountRecords): void {
    const storedTeams = stored.teams.filter(({ status }) => status !== 'deleted')
    const teamNames = new Map(storedTeams.map(({ id, name }) => [name, id]))
    const teamId = (team: string) => teamNames.get(team) ?? team
    const check = (kind: Kind, name: string, other: { readonly id: string } | undefined) => {
      if (other && other.id !== this.idOf(kind, name))
        this.#report.refuse(
          [SECTIONS[kind], name],
          `the ${kind} ${quote(name)}, which is in the database too (${other.id})`,
          `another name; or run: headgate adopt ${kind} ${name}`,
          'name',
        )
    }
    for (const { name } of accounts.teams)
      check(
        'team',
        name,
        storedTeams.find((one) => one.name === name),
      )
    for (const { name } of accounts.budgets)
      check(
        'budget',
        name,
        stored.budgets.find((one) => one.name === name),
      )
    for (const { name, team } of accounts.keys)
      check(
        'key',
        name,
        stored.keys.find((one) => one.name === name && one.team === teamId(team) && one.status !== 'revoked'),
      )
  }
}

/** The alternatives to a name that does not exist, the nearest first. */
export const oneOf = (written: string, names: readonly string[], what: string): string => {
  const [meant] = nearest(written, names)
  const listed = names.length === 0 || names.length > 20 ? '' : `: ${names.join(', ')}`
  return `${meant === undefined ? '' : `did you mean ${meant}? `}${what}${listed}`
}
