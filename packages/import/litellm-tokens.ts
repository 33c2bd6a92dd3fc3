/**
 * Maps `litellm_jwtauth` to rules of `auth.jwt` (docs.litellm.ai/docs/proxy/jwt_auth_reference). LiteLLM has its teams in its
 * database, so the rules name none: tokens with a claim for the team are refused until the operator maps it.
 */
import { missingRequirement } from '../../src/core/public-issuers.ts'
import { configText, type RowCollector } from './imported.ts'
import { isMembers, listOf, membersOf, type SourceMembers, type SourcePath } from './source.ts'

const SECTION = ['general_settings', 'litellm_jwtauth']

/** Members of an issuer, of which the section itself may have those with claims. */
const CLAIMS = ['user_id_jwt_field', 'user_email_jwt_field', 'team_id_jwt_field', 'team_ids_jwt_field']
export const TOKEN_MEMBERS: readonly string[] = [...CLAIMS, 'issuers', 'issuer', 'audience', 'jwks_url']

const NO_ROLES = 'tokens call models and are no administrators; people get roles by `sso`: docs/sign-in.md'
const BY_TEAM = 'what a token may use is set at its team: `access`'

const LEFT_OUT: readonly (readonly [RegExp, string])[] = [
  [/admin|role|scope|^sync_/, NO_ROLES],
  [
    /upsert|_allowed_email_domain$|^user_allowed/,
    'clients need no record; `require` of a rule restricts them by claims',
  ],
  [/^team_id_default$/, 'name a team that exists here: `team.default` of the rule'],
  [/allowed_routes|team_based|^public_/, BY_TEAM],
  [/ttl|cache/, 'keys are fetched again by their `max-age`, and kept for 24 h'],
]

/** A claim: LiteLLM writes the way into members with dots, a pointer has slashes. */
const claimIn = (value: unknown): string | undefined => {
  if (typeof value !== 'string' || !/^\S+$/.test(value)) return undefined
  return value.includes('.') && !value.includes('/') ? `/${value.replaceAll('~', '~0').replaceAll('.', '/')}` : value
}

/** A name for a rule: the host of the issuer, or a number. */
const nameOf = (issuer: string, index: number): string => {
  const host = URL.canParse(issuer) ? (new URL(issuer).hostname.split('.')[0] ?? '') : ''
  const name = host.toLowerCase().replace(/[^a-z0-9]+/g, '-')
  return `${/^[a-z0-9]/.test(name) ? name.slice(0, 20) : 'imported'}-${index + 1}`
}

/** The claims of a rule. `to`: the rule, as rows name it. */
const claimsOf = (members: SourceMembers, path: SourcePath, to: string, rows: RowCollector): SourceMembers => {
  const found: { [name: string]: unknown } = {}
  const read = (member: string, setting: string, why: string) => {
    if (!Object.hasOwn(members, member)) return undefined
    const claim = claimIn(members[member])
    if (claim === undefined) rows.leaveOut([...path, member], 'not the name of a claim')
    else if (why === '' && claim === members[member]) rows.taken([...path, member], `${to}.${setting}: ${claim}`)
    else rows.changed([...path, member], `${to}.${setting}: ${claim}`, why || 'a pointer to the member')
    return claim
  }
  const subject = read('user_id_jwt_field', 'subject', '')
  if (subject !== undefined) found.subject = subject
  const user = read('user_email_jwt_field', 'user', 'for budgets `per: user`; a token without it is refused')
  if (user !== undefined) found.user = user
  for (const member of ['team_id_jwt_field', 'team_ids_jwt_field']) {
    if (found.team !== undefined && Object.hasOwn(members, member))
      rows.leaveOut([...path, member], 'one claim selects the team')
    else {
      const claim = read(
        member,
        'team.claim',
        'add your teams to `team.map`: until then its tokens get 403 team_unknown',
      )
      if (claim !== undefined) found.team = { claim, map: {} }
    }
  }
  return found
}

/** Leaves out what has no row in the members, with a reason of LiteLLM's families. */
const leaveOutOthers = (members: SourceMembers, path: SourcePath, rows: RowCollector): void => {
  for (const [name] of membersOf(members)) {
    const [, why] = LEFT_OUT.find(([pattern]) => pattern.test(name)) ?? []
    if (why !== undefined && !TOKEN_MEMBERS.includes(name)) rows.leaveOut([...path, name], why)
  }
}

/** A rule for one entry of `issuers`. Undefined: it is left out. */
const ruleOf = (entry: unknown, index: number, rows: RowCollector): SourceMembers | undefined => {
  const path = [...SECTION, 'issuers', index]
  const refuse = (why: string) => void rows.leaveOut(path, why)
  if (!isMembers(entry)) return refuse('not an entry')
  const issuer = configText(entry.issuer)
  const audience = (Array.isArray(entry.audience) ? entry.audience : [entry.audience]).flatMap(
    (one) => configText(one) ?? [],
  )
  if (issuer === undefined) return refuse('an entry without issuer')
  if (audience.length === 0) return refuse('the audience is always checked: state one')
  const missing = missingRequirement({ keys: { issuer }, require: [] })
  if (missing !== null)
    return refuse(
      `this issuer signs for everybody: write the rule with \`require\`, such as ${missing}; see docs/jwt.md`,
    )
  const to = `auth.jwt[${index}]`
  rows.taken([...path, 'issuer'], `${to}.issuer`)
  rows.taken([...path, 'audience'], `${to}.audience`)
  const jwks = configText(entry.jwks_url)
  if (jwks !== undefined) rows.taken([...path, 'jwks_url'], `${to}.jwks`)
  const claims = claimsOf(entry, path, to, rows)
  leaveOutOthers(entry, path, rows)
  return { name: nameOf(issuer, index), issuer, audience, ...(jwks !== undefined && { jwks }), ...claims }
}

/** The rules of `auth.jwt`; empty: there are none. */
export const readTokens = (general: SourceMembers, rows: RowCollector): readonly SourceMembers[] => {
  const { enable_jwt_auth: enabled, litellm_jwtauth: section } = general
  if (enabled !== true) {
    if (section !== undefined) rows.leaveOut(SECTION, '`enable_jwt_auth` is off')
    if (enabled === false) rows.taken(['general_settings', 'enable_jwt_auth'], 'off')
    return []
  }
  const members = isMembers(section) ? section : {}
  const issuers = listOf(members.issuers)
  leaveOutOthers(members, SECTION, rows)
  if (issuers.length > 0) {
    const rules = issuers.map((entry, index) => ruleOf(entry, index, rows)).filter((rule) => rule !== undefined)
    for (const name of CLAIMS)
      if (Object.hasOwn(members, name)) rows.leaveOut([...SECTION, name], 'write it in the rules of its issuers')
    if (rules.length > 0) rows.taken(['general_settings', 'enable_jwt_auth'], 'auth.jwt')
    else rows.leaveOut(['general_settings', 'enable_jwt_auth'], 'no issuer could be used')
    return rules
  }
  rows.changed(
    ['general_settings', 'enable_jwt_auth'],
    'auth.jwt[0]',
    'set JWT_ISSUER and JWT_AUDIENCE beside JWT_PUBLIC_KEY_URL: both are always checked here',
  )
  const claims = claimsOf(members, SECTION, 'auth.jwt[0]', rows)
  // biome-ignore-start lint/suspicious/noTemplateCurlyInString: references to variables in headgate.yaml
  const [issuer, audience, jwks] = ['${JWT_ISSUER}', ['${JWT_AUDIENCE}'], '${JWT_PUBLIC_KEY_URL}'] as const
  // biome-ignore-end lint/suspicious/noTemplateCurlyInString: end of the references
  return [{ name: 'imported', issuer, audience, jwks, ...claims }]
}
