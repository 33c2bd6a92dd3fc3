/** Who may send requests: keys, rules for signed tokens, people who sign in, and clients without a key of their own. */
import { ANONYMOUS, type Client, type ClientKey, DEFAULT_TEAM, type Directory, type Team } from '../../core/accounts.ts'
import type { FullConfig } from '../../core/config.ts'
import type { TeamRule } from '../../core/sign-in.ts'
import type { TokenRule } from '../../core/token-rule.ts'
import { clientOf } from '../accounts/client.ts'
import { combined } from '../accounts/data-policy.ts'
import { teamNamed } from '../accounts/directory.ts'
import { namesCredential } from '../accounts/named-credentials.ts'
import { personClient } from '../accounts/person-client.ts'
import { tokenClient } from '../identity/token-client.ts'
import { payingRule } from '../sign-in/membership.ts'

/** Who a client is; all null: it needs no credentials. */
export type PrincipalName = {
  /** The name of its key. */
  readonly key: string | null
  /** The name of the rule of `auth.jwt` that admits its tokens. */
  readonly rule: string | null
  /** The place of the rule in `sso.teams` by which a team pays for a person. */
  readonly person: number | null
}

export type Principal = PrincipalName & { readonly client: Client }

const UNNAMED: PrincipalName = { key: null, rule: null, person: null }

/** The rules by which teams pay for people, and the identity providers. */
type PeopleSource = { readonly providers: readonly { readonly name: string }[]; readonly teams: readonly TeamRule[] }

/** Where principals are defined. `now`: ms since 1970. */
export type PrincipalSources = {
  readonly directory: Directory
  readonly tokenRules: readonly TokenRule[]
  /** Null: there is no single sign-on. */
  readonly people: PeopleSource | null
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
  return { directory, tokenRules, people: sso, keyless: isOpen ? keylessClient(directory) : null, now }
}

const keylessClient = ({ teams }: Directory): Client => {
  const team = teams.get(DEFAULT_TEAM.id)
  const require = combined(team?.require)
  return { ...ANONYMOUS, access: team ? [team.access] : [], ...(require && { require }) }
}

/** All principals. Keys that can never be used again are left out. */
export function* principalsIn({ directory, tokenRules, people, keyless, now }: PrincipalSources): Generator<Principal> {
  if (keyless) yield { ...UNNAMED, client: keyless }
  for (const key of directory.keys.values()) {
    const team = directory.teams.get(key.team)
    if (team && team.status !== 'deleted' && mayBeUsed(key, now))
      yield { ...UNNAMED, client: clientOf(key, team), key: key.name }
  }
  for (const rule of tokenRules)
    for (const team of teamsOf(rule, directory)) yield { ...UNNAMED, client: tokenOf(rule, team), rule: rule.name }
  for (const [person, rule] of people?.teams.entries() ?? []) {
    const team = teamNamed(directory, rule.team)
    if (team && people && isReached(people, rule))
      yield {
        ...UNNAMED,
        client: personClient({ id: `sso.teams[${person}]`, name: team.name, email: null }, team),
        person,
      }
  }
}

/** Whether a person who has no group but that of the rule gets to it, because no earlier rule matches. */
const isReached = ({ providers, teams }: PeopleSource, rule: TeamRule): boolean =>
  providers.some(({ name }) => {
    const groups = rule.group === null ? [] : [rule.group]
    return payingRule(teams, { provider: name, groups }) === rule
  })

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
