/** Who may send requests: keys, rules for signed tokens, and clients without a key of their own. */
import { ANONYMOUS, type Client, type ClientKey, DEFAULT_TEAM, type Directory, type Team } from '../../core/accounts.ts'
import type { FullConfig } from '../../core/config.ts'
import type { TokenRule } from '../../core/token-rule.ts'
import { clientOf } from '../accounts/client.ts'
import { combined } from '../accounts/data-policy.ts'
import { teamNamed } from '../accounts/directory.ts'
import { namesCredential } from '../accounts/named-credentials.ts'
import { tokenClient } from '../identity/token-client.ts'

/** A client, and its name: of its key, or of the rule that admits its tokens. Both null: it needs neither. */
export type Principal = { readonly client: Client; readonly key: string | null; readonly rule: string | null }

/** Where principals are defined. `now`: ms since 1970. */
export type PrincipalSources = {
  readonly directory: Directory
  readonly tokenRules: readonly TokenRule[]
  /** The client of requests without a key and of keys of `auth.keys`; null: there are none. */
  readonly keyless: Client | null
  readonly now: number
}

/** The principals of a configuration with these accounts. */
export const principalSources = (
  { settings, tokenRules, sso }: Pick<FullConfig, 'settings' | 'tokenRules' | 'sso'>,
  { directory, now }: Pick<PrincipalSources, 'directory' | 'now'>,
): PrincipalSources => {
  const { auth, database } = settings
  const isStated =
    auth.keys.length > 0 ||
    auth.admin !== undefined ||
    tokenRules.length > 0 ||
    sso !== null ||
    database.url !== undefined
  const isKeyed = auth.required === true || (auth.required === 'auto' && (isStated || namesCredential(directory)))
  const isOpen = !isKeyed || auth.keys.length > 0
  return { directory, tokenRules, keyless: isOpen ? keylessClient(directory) : null, now }
}

const keylessClient = ({ teams }: Directory): Client => {
  const team = teams.get(DEFAULT_TEAM.id)
  const require = combined(team?.require)
  return { ...ANONYMOUS, access: team ? [team.access] : [], ...(require && { require }) }
}

/** All principals. Keys that can never be used again are left out. */
export function* principalsIn({ directory, tokenRules, keyless, now }: PrincipalSources): Generator<Principal> {
  if (keyless) yield { client: keyless, key: null, rule: null }
  for (const key of directory.keys.values()) {
    const team = directory.teams.get(key.team)
    if (team && team.status !== 'deleted' && mayBeUsed(key, now))
      yield { client: clientOf(key, team), key: key.name, rule: null }
  }
  for (const rule of tokenRules)
    for (const team of teamsOf(rule, directory)) yield { client: tokenOf(rule, team), key: null, rule: rule.name }
}

/** Whether the key works, or would after it is unblocked. */
const mayBeUsed = ({ status, expiresAt }: ClientKey, now: number): boolean =>
  status !== 'revoked' && (expiresAt === null || expiresAt > now)

/** The teams of tokens that a rule admits. Tokens of a team that does not exist are refused. */
const teamsOf = ({ team }: TokenRule, directory: Directory): ReadonlySet<Team> => {
  const names =
    team.kind === 'value'
      ? [team.team]
      : [...team.map.map(([, to]) => to), ...(team.fallback === null ? [] : [team.fallback])]
  return new Set(names.flatMap((name) => teamNamed(directory, name) ?? []))
}

const tokenOf = (rule: TokenRule, team: Team): Client =>
  tokenClient(
    { rule, subject: rule.name, team: team.id, user: null, tags: {}, until: Number.POSITIVE_INFINITY },
    { id: rule.name, owner: rule.name },
    team,
  )
