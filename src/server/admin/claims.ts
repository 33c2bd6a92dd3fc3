/** Proofs of claims for the accounts in effect, and for a change of them. */
import { type ClientKey, DEFAULT_TEAM, type Directory, NO_ACCOUNTS, type Team } from '../../core/accounts.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { isObject, type Json } from '../../core/json.ts'
import { mergePatch } from '../../core/merge-patch.ts'
import type { TeamRoute } from '../../core/route.ts'
import { inTurns } from '../../core/steps.ts'
import { changeDirectory, teamNamed } from '../../policy/accounts/directory.ts'
import { type ClaimState, claimStates } from '../../policy/prove/claim-states.ts'
import { principalSources } from '../../policy/prove/principals.ts'
import type { ProofInput } from '../../policy/prove/prove.ts'
import { KEY_BODY, keyMembersOf } from '../../records/entities/key.ts'
import { TEAM_BODY, teamMembersOf } from '../../records/entities/team.ts'
import type { AdminDeps } from './deps.ts'
import type { AdminCall } from './row.ts'

type ProofDeps = Pick<AdminDeps, 'configuration' | 'gateway' | 'directory'>

/** All that may send requests now, and where these may go. */
export const proofInputOf = ({ configuration, gateway, directory }: ProofDeps): ProofInput => {
  const config = configuration.running()
  return {
    sources: { config, lists: gateway.lists(), catalogue: gateway.catalogue },
    ...principalSources(config, { directory: directory(), now: gateway.world.date() }),
  }
}

/** The states of claims, proved between requests. */
export const claimStatesOf = (
  { gateway }: Pick<AdminDeps, 'gateway'>,
  input: ProofInput,
  claims: readonly string[],
): Promise<readonly ClaimState[]> => inTurns(claimStates(input, claims), gateway.world.turn)

/** A team or a key that is created (`id` null, `body` whole) or changed (`body` is a merge patch), or a route as it would be. */
export type AccountChange =
  | { readonly kind: 'team' | 'key'; readonly id: string | null; readonly body: unknown }
  | { readonly kind: 'route'; readonly route: TeamRoute }

/**
 * Checks the claims that hold for the clients of a team or key now. Returns a warning if the change breaks one, null if not; with
 * `prove.onFailure: refuse` it fails with `claim_fails`.
 */
export const checkChange = async (
  deps: ProofDeps,
  { teams }: Pick<AdminCall, 'teams'>,
  change: AccountChange,
): Promise<Outcome<string | null>> => {
  const { claims, settings } = deps.configuration.running()
  if (claims.length === 0) return good(null)
  const now = proofInputOf(deps)
  const record = changedRecord(now.directory, change)
  // The write itself refuses what is not valid, or not permitted.
  if (!record || (teams !== null && !teams.includes(teamOf(record)))) return good(null)
  const broken = await brokenClaims(deps, now, record)
  if (broken === null) return good(null)
  const text = `breaks the claim "${broken.claim}": ${broken.problem}`
  if (settings.prove.onFailure === 'warn') return good(`this ${text}`)
  return bad(
    fail(
      'record_conflict',
      `The change ${text.replace(/\.$/, '')}. Restrict it so that the claim holds, or correct the claim in headgate.yaml.`,
      { code: 'claim_fails' },
    ),
  )
}

type ChangedRecord =
  | { readonly kind: 'team'; readonly team: Team }
  | { readonly kind: 'key'; readonly key: ClientKey }
  | { readonly kind: 'route'; readonly route: TeamRoute }

/** The ID of the team to which a record belongs, or which it is. */
const teamOf = (record: ChangedRecord): string =>
  record.kind === 'team' ? record.team.id : record.kind === 'key' ? record.key.team : record.route.team

/** The first claim that holds before the change, or is about a new record, and does not hold after it. */
const brokenClaims = async (deps: ProofDeps, now: ProofInput, record: ChangedRecord): Promise<ClaimState | null> => {
  const texts = deps.configuration.running().claims.map(({ text }) => text)
  const changed = {
    teams: record.kind === 'team' ? [record.team] : [],
    keys: record.kind === 'key' ? [record.key] : [],
    routes: record.kind === 'route' ? [record.route] : [],
  }
  const directory = changeDirectory(now.directory, { ...NO_ACCOUNTS, ...changed }, [])
  const after = await claimStatesOf(deps, concerned({ ...now, directory }, record), texts)
  const suspects = after.filter(({ state }) => state !== 'holds')
  const before = await claimStatesOf(
    deps,
    concerned(now, record),
    suspects.map(({ claim }) => claim),
  )
  const isBroken = ({ state }: ClaimState, was: ClaimState['state'] | undefined) =>
    state === 'fails' ? was !== 'fails' : was === 'holds'
  return suspects.find((one, at) => isBroken(one, before[at]?.state)) ?? null
}

/** Only the clients whose requests the record decides. Claims about others are then invalid, before and after. */
const concerned = (input: ProofInput, record: ChangedRecord): ProofInput => {
  const { directory, keyless } = input
  if (record.kind === 'key') {
    const key = directory.keys.get(record.key.id)
    const keys = new Map(key ? [[key.id, key]] : [])
    return { ...input, directory: { ...directory, keys }, keyless: null, tokenRules: [], people: null }
  }
  const id = teamOf(record)
  const team = directory.teams.get(id)
  const keys = new Map([...directory.keys].filter(([, key]) => key.team === id))
  return {
    ...input,
    directory: { ...directory, teams: new Map(team ? [[id, team]] : []), keys },
    keyless: id === DEFAULT_TEAM.id ? keyless : null,
  }
}

/** The record as it would be; null: it is not valid, or does not exist. */
const changedRecord = (directory: Directory, change: AccountChange): ChangedRecord | null => {
  if (change.kind === 'route') return change
  const { kind, id, body } = change
  if (kind === 'team') {
    const before = id === null ? undefined : directory.teams.get(id)
    const read = TEAM_BODY.safeParse(merged(before && { name: before.name, ...teamMembersOf(before) }, body))
    if ((id !== null && !before) || !read.success) return null
    const { id: known = 'team_new', status = 'active' } = before ?? {}
    return {
      kind,
      team: { id: known, status, managed: 'api', name: read.data.name, ...teamMembersOf(read.data) },
    }
  }
  const before = id === null ? undefined : directory.keys.get(id)
  const own = before && { name: before.name, team: before.team, expires_at: isoOf(before), ...keyMembersOf(before) }
  const read = KEY_BODY.safeParse(merged(own, body))
  if ((id !== null && !before) || !read.success) return null
  const { name, expires_at: expires, team: named } = read.data
  const team = teamNamed(directory, named)
  if (!team) return null
  const { id: known = 'key_new', status = 'active', secrets = [], createdAt = 0 } = before ?? {}
  const made = { id: known, status, secrets, createdAt, managed: 'api' as const, name, team: team.id }
  const expiresAt = expires === null ? null : Date.parse(expires)
  return { kind, key: { ...made, expiresAt, ...keyMembersOf(read.data) } }
}

const isoOf = ({ expiresAt }: ClientKey): string | null =>
  expiresAt === null ? null : new Date(expiresAt).toISOString()

/** Only the members that a body has; secrets are no part of it. */
const merged = (before: object | undefined, body: unknown): Json => {
  // Records are plain JSON data.
  const current: Json = JSON.parse(JSON.stringify(before ?? {}))
  const patch: Json = JSON.parse(JSON.stringify(body ?? {}))
  if (!isObject(current) || !isObject(patch)) return null
  const { secret: _secret, digest: _digest, last4: _last4, ...rest } = patch
  return mergePatch(current, rest)
}
