/** The rules of `auth.jwt`: checked, and converted. */

import { missingRequirement } from '../core/public-issuers.ts'
import type { TokenRule, TokenTeam } from '../core/token-rule.ts'
import { isKeyAddress } from '../policy/identity/key-address.ts'
import type { AccountReport, Path } from './account-report.ts'
import { quote } from './problem.ts'
import type { TokenRuleEntry } from './token-schema.ts'

type ReadRule = { readonly rule: TokenRule; readonly path: Path }

/** Reads the rules. `routes`: the names of all routes. */
export const readTokenRules = (
  entries: ReadonlyMap<number, TokenRuleEntry>,
  routes: ReadonlyMap<string, unknown>,
  report: AccountReport,
): readonly TokenRule[] => {
  const read: ReadRule[] = []
  for (const [index, entry] of entries) {
    const path = ['auth', 'jwt', index]
    const rule = ruleOf(entry, teamOf(entry, path, report))
    refuseAddresses(rule, path, report)
    if (rule.defaultRoute !== null && !routes.has(rule.defaultRoute))
      report.refuse(
        [...path, 'defaultRoute'],
        `the route ${quote(rule.defaultRoute)}, which does not exist`,
        'the name of a route',
      )
    const missing = missingRequirement(rule)
    if (missing !== null)
      report.refuse(
        [...path, 'require'],
        'no requirement, although this issuer signs tokens for everybody, with an audience that the caller chooses',
        `the claims of your own organisation, such as ${missing}`,
        'name',
      )
    for (const other of read) refuseConflict({ rule, path }, other, report)
    read.push({ rule, path })
  }
  return read.map(({ rule }) => rule)
}

const ruleOf = (entry: TokenRuleEntry, team: TokenTeam): TokenRule => {
  const { name, issuer, audience, algorithms, subject, user = null, skew, maxAge } = entry
  const { access, limits, dataPolicy, defaultRoute, cache, logBodies, requireSession } = entry
  const { jwks: url = null, jwksFile: file = null, tokenFile = null, caFile = null } = entry
  return {
    name,
    keys: { issuer, url, file, tokenFile, caFile },
    audience,
    algorithms,
    require: Object.entries(entry.require).map(([claim, globs]) => [
      claim,
      typeof globs === 'string' ? [globs] : globs,
    ]),
    subject,
    team,
    user,
    tags: Object.entries(entry.tags),
    skew,
    maxAge,
    access,
    limits,
    dataPolicy,
    defaultRoute,
    cache,
    logBodies,
    requireSession,
  }
}

const teamOf = ({ team }: TokenRuleEntry, path: Path, report: AccountReport): TokenTeam => {
  const { value, claim, map, default: fallback } = team
  const isClaim = claim !== undefined && map !== undefined && value === undefined
  const isValue = value !== undefined && claim === undefined && map === undefined && fallback === undefined
  if (!isClaim && !isValue)
    report.refuse(
      [...path, 'team'],
      'another combination of members',
      '`value` alone, or `claim` and `map`, with or without `default`',
    )
  return claim === undefined
    ? { kind: 'value', team: value ?? '' }
    : { kind: 'claim', claim, map: Object.entries(map ?? {}), fallback: fallback ?? null }
}

const refuseAddresses = ({ keys }: TokenRule, path: Path, report: AccountReport): void => {
  const { issuer, url, file, tokenFile, caFile } = keys
  if (url !== null && file !== null)
    report.refuse([...path, 'jwksFile'], 'a file beside the address `jwks`', 'one of them')
  if (file !== null && (tokenFile !== null || caFile !== null))
    report.refuse(
      [...path, 'jwksFile'],
      '`tokenFile` or `caFile` for a key set that is a file',
      'a key set at an address',
    )
  if (url !== null && !isKeyAddress(url)) report.refuse([...path, 'jwks'], quote(url), ADDRESS)
  if (url === null && file === null && !isKeyAddress(issuer))
    report.refuse(
      [...path, 'issuer'],
      `${quote(issuer)} without \`jwks\` or \`jwksFile\``,
      `${ADDRESS}, or the place of its keys`,
    )
}

const ADDRESS = 'an https:// address without credentials and fragment (http:// for this machine only)'

const refuseConflict = ({ rule, path }: ReadRule, other: ReadRule, report: AccountReport): void => {
  if (rule.name === other.rule.name)
    report.refuse([...path, 'name'], `the name ${quote(rule.name)} of another rule`, 'another name')
  // The keys of one place could otherwise sign for the rules of the other.
  if (rule.keys.issuer === other.rule.keys.issuer && JSON.stringify(rule.keys) !== JSON.stringify(other.rule.keys))
    report.refuse(
      [...path, 'issuer'],
      `another place of keys than the rule ${quote(other.rule.name)} has for this issuer`,
      'the same jwks, jwksFile, tokenFile and caFile in all rules for an issuer',
    )
}

/** The entry of the file that makes a rule. */
export const tokenRuleEntry = (rule: TokenRule): Readonly<Record<string, unknown>> => {
  const { keys, team, require, tags, user, defaultRoute, cache, ...same } = rule
  return {
    ...same,
    issuer: keys.issuer,
    jwks: keys.url ?? undefined,
    jwksFile: keys.file ?? undefined,
    tokenFile: keys.tokenFile ?? undefined,
    caFile: keys.caFile ?? undefined,
    team:
      team.kind === 'value'
        ? { value: team.team }
        : { claim: team.claim, map: Object.fromEntries(team.map), default: team.fallback ?? undefined },
    require: Object.fromEntries(require),
    tags: Object.fromEntries(tags),
    user: user ?? undefined,
    defaultRoute: defaultRoute ?? undefined,
    cache: cache ?? undefined,
  }
}
