/** Single sign-on of the file: checked, and converted to settings. */
import { Secret } from '../core/secret.ts'
import type { IdentityProvider, SignInSettings } from '../core/sign-in.ts'
import { withoutSlashes } from '../core/trailing-slashes.ts'
import { isLoopbackOrigin } from '../policy/access.ts'
import type { AccountReport, Path } from './account-report.ts'
import { oneOf } from './named-accounts.ts'
import { quote } from './problem.ts'
import type { SsoEntry } from './sso-schema.ts'

/** Names of providers: they are part of addresses and of the audit log. */
const NAME = /^[a-z0-9][a-z0-9-]{0,31}$/
/** The gateway sets these parameters itself. */
const RESERVED = [
  'client_id',
  'client_secret',
  'code_challenge',
  'code_challenge_method',
  'nonce',
  'redirect_uri',
  'request',
  'request_uri',
  'response_mode',
  'response_type',
  'scope',
  'state',
]
/** Claims that people may be able to choose, or that pass to others: they name no groups. */
const NO_GROUPS = ['email', 'preferred_username', 'upn', 'unique_name', 'name', 'nickname', 'given_name', 'family_name']

/** Converts the section. With problems in the report, the result is not used. */
export const signInFrom = (entry: SsoEntry, report: AccountReport): SignInSettings => {
  const missing = (member: 'publicUrl' | 'secret', variable: string) =>
    report.refuse(['sso'], `a section without ${member}`, `${member} in it, or the variable ${variable}`, 'name')
  if (entry.publicUrl === undefined) missing('publicUrl', 'SSO_PUBLIC_URL')
  if (entry.secret === undefined) missing('secret', 'SSO_SECRET')
  const address = entry.publicUrl === undefined ? '' : checkedAddress(report, ['sso', 'publicUrl'], entry.publicUrl)
  const providers = Object.entries(entry.providers)
  if (providers.length === 0)
    report.refuse(['sso', 'providers'], 'no identity provider', 'an issuer, its clientId and its clientSecret', 'name')
  const names = providers.map(([name]) => name)
  const rule = (
    section: 'roles' | 'teams',
    index: number,
    { group, provider }: SsoEntry['roles'][number] | SsoEntry['teams'][number],
  ) => {
    if (provider !== undefined && !names.includes(provider))
      report.refuse(
        ['sso', section, index, 'provider'],
        `the identity provider ${quote(provider)}, which does not exist`,
        oneOf(provider, names, 'the name of an identity provider'),
      )
    return { group: group ?? null, provider: provider ?? null }
  }
  return {
    publicUrl: withoutSlashes(address),
    secrets: [entry.secret ?? []].flat().map((one) => new Secret(one)),
    providers: providers.map(([name, one]) => providerFrom(name, one, report)),
    roles: entry.roles.map((one, index) => ({ ...rule('roles', index, one), role: one.role, team: one.team ?? null })),
    teams: entry.teams.map((one, index) => ({ ...rule('teams', index, one), team: one.team })),
    session: entry.session,
  }
}

const providerFrom = (name: string, entry: SsoEntry['providers'][string], report: AccountReport): IdentityProvider => {
  const path = ['sso', 'providers', name]
  if (!NAME.test(name))
    report.refuse(path, quote(name), 'a name of lower-case letters, digits and -, at most 32 characters', 'name')
  if (!entry.scopes.includes('openid'))
    report.refuse([...path, 'scopes'], 'a list without openid', 'openid among others')
  if (NO_GROUPS.includes(entry.groups))
    report.refuse(
      [...path, 'groups'],
      `the claim ${quote(entry.groups)}, which is no group: another person may have its value later`,
      'a claim that the issuer sets, such as groups, roles or hd',
    )
  for (const parameter of Object.keys(entry.parameters))
    if (RESERVED.includes(parameter.toLowerCase()))
      report.refuse(
        [...path, 'parameters', parameter],
        quote(parameter),
        'a parameter that the gateway does not set',
        'name',
      )
  return {
    name,
    issuer: checkedAddress(report, [...path, 'issuer'], entry.issuer),
    clientId: entry.clientId,
    clientSecret: entry.clientSecret === undefined ? null : new Secret(entry.clientSecret),
    scopes: entry.scopes,
    groups: entry.groups,
    domains: entry.domains,
    parameters: entry.parameters,
  }
}

/** Tokens and cookies need https, except on this machine. */
const checkedAddress = (report: AccountReport, path: Path, written: string): string => {
  const url = URL.canParse(written) ? new URL(written) : null
  const isPlain = url !== null && url.username === '' && url.password === '' && url.search === '' && url.hash === ''
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopbackOrigin(url.origin))
  if (!isPlain || !isSafe)
    report.refuse(path, quote(written), 'an https:// address without a query; http:// only on this machine')
  return written
}
