// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references of the file are written
/**
 * Writes a running configuration as the text of a file. Loading the text, with the same environment, gives an equal
 * configuration. Secrets are references to variables.
 */
import { stringify } from 'yaml'
import { SIGNALS } from '../core/claude.ts'
import type { FullConfig } from '../core/config.ts'
import type { Instance, ProviderKey } from '../core/provider.ts'
import type { Route, RouteTarget } from '../core/route.ts'
import type { Secret } from '../core/secret.ts'
import { type AccountNames, accountsYaml } from '../records/entities/account-yaml.ts'
import { envPrefix } from '../records/entities/ids.ts'
import { camelCase, settingAt, styleNames } from './definition.ts'
import type { Env } from './env.ts'
import { modelEntries } from './retirements.ts'
import { settingRows } from './rows.ts'
import { tokenRuleEntry } from './token-rules.ts'

/** What is known beside the configuration. */
export type YamlSources = {
  /** What the environment alone configures; null: nothing valid. The file has only what differs. */
  readonly bare: FullConfig | null
  /** The environment, with `.env`. */
  readonly env: Env
  /** The text of the present file, for the names of variables. */
  readonly present: string
  readonly names: AccountNames
}

export type ConfigYaml = {
  readonly text: string
  /** The secrets that no variable of the environment contains, by the variables that the text refers to. */
  readonly missing: ReadonlyMap<string, string>
}

/** A reference to a variable. */
class Reference {
  readonly name: string
  constructor(name: string) {
    this.name = name
  }
}

/** Writes secrets as references, to the variables that contain them. */
class References {
  readonly missing = new Map<string, string>()
  readonly #known: ReadonlyMap<string, string>
  readonly #taken: Set<string>

  constructor({ env, present }: YamlSources) {
    const entries = Object.entries(env).flatMap(([name, value]) => (value ? [[name, value] as const] : []))
    const isNamed = (name: string): boolean => present.includes(`\${${name}}`)
    // The last entry of a value counts: a variable that the file names already.
    const ordered = entries.toSorted(([a], [b]) => Number(isNamed(a)) - Number(isNamed(b)))
    this.#known = new Map(ordered.map(([name, value]) => [value, name]))
    this.#taken = new Set(Object.keys(env))
  }

  /** `wanted`: the name of a variable that is made for it. */
  to(value: string, wanted: string): Reference {
    const known = this.#known.get(value) ?? [...this.missing].find(([, one]) => one === value)?.[0]
    if (known !== undefined) return new Reference(known)
    const base = wanted.replaceAll(/[^A-Za-z0-9_]/g, '_').toUpperCase()
    let name = base
    for (let n = 2; this.#taken.has(name); n++) name = `${base}_${n}`
    this.#taken.add(name)
    this.missing.set(name, value)
    return new Reference(name)
  }

  toSecret(secret: Secret, wanted: string): Reference {
    return this.to(secret.reveal(), wanted)
  }
}

type YamlSection = { [name: string]: unknown }

/** The text of a file that configures the same. Throws if two client keys have one name. */
export const configYaml = (config: FullConfig, sources: YamlSources): ConfigYaml => {
  const references = new References(sources)
  const { bare } = sources
  const instances = config.instances.filter(({ provider }) => !provider.builtin)
  const routes = [...config.routes].filter(([name, route]) => !isEqual(bare?.routes.get(name), route))
  const sections: YamlSection = {
    ...withTokenRules(settingsSection(config, bare, references), config),
    ...(instances.length > 0 && {
      providers: Object.fromEntries(
        instances.map((one) => [
          one.id,
          providerEntry(
            one,
            bare?.instances.find(({ id }) => id === one.id),
            references,
          ),
        ]),
      ),
    }),
    ...(config.require && { require: config.require }),
    ...(config.claims.length > 0 && { claims: config.claims.map(({ text }) => text) }),
    ...(config.rules && { rules: config.rules }),
    ...(instances.some(({ retirements }) => retirements) && { models: modelEntries(instances) }),
    ...(routes.length > 0 && { routes: Object.fromEntries(routes.map(([name, route]) => [name, routeEntry(route)])) }),
    ...(config.alerts && { alerts: alertsEntry(config.alerts, references) }),
    ...(config.sso && { sso: ssoEntry(config.sso, references) }),
    ...((config.claude || config.cloudPaths === false) && {
      claude: {
        ...(config.claude && claudeEntry(config.claude, references)),
        ...(config.cloudPaths === false && { cloudPaths: false }),
      },
    }),
  }
  const accounts = accountsYaml(config.accounts, sources.names)
  const parts = [
    ...(Object.keys(sections).length > 0 ? [stringify(referenced(sections), { lineWidth: 0 })] : []),
    ...(accounts.trim() === '{}' ? [] : [accounts]),
  ]
  return { text: parts.join('\n'), missing: references.missing }
}

const withTokenRules = (settings: YamlSection, { tokenRules }: FullConfig): YamlSection =>
  tokenRules.length === 0
    ? settings
    : { ...settings, auth: { ...(settings.auth as YamlSection | undefined), jwt: tokenRules.map(tokenRuleEntry) } }

const isEqual = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)

/** References as `${NAME}`. In other texts `${` is escaped, since it would be read as a reference. */
const referenced = (value: unknown): unknown => {
  if (value instanceof Reference) return `\${${value.name}}`
  if (typeof value === 'string') return value.replaceAll('${', () => '$${')
  if (Array.isArray(value)) return value.map(referenced)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inner]) => (inner === undefined ? [] : [[name, referenced(inner)]])),
  )
}

/** The settings that the environment and the defaults do not have. */
const settingsSection = (config: FullConfig, bare: FullConfig | null, references: References): YamlSection => {
  const root: YamlSection = {}
  for (const { path, secret, env } of settingRows) {
    const value = settingAt(config.settings, path)
    if (value === undefined || (bare && isEqual(value, settingAt(bare.settings, path)))) continue
    let section = root
    for (const step of path.slice(0, -1)) section = section[step] = { ...(section[step] as YamlSection | undefined) }
    section[path.at(-1) ?? ''] = secret ? secretSetting(value, env, references) : value
  }
  return root
}

const secretSetting = (value: unknown, variable: string, references: References): unknown =>
  Array.isArray(value)
    ? value.map((one, at) => references.to(String(one), `FILE_${variable}_${at + 1}`))
    : references.to(String(value), `FILE_${variable}`)

/** `bare`: the instance as the environment alone configures it. */
const providerEntry = (instance: Instance, bare: Instance | undefined, references: References): YamlSection => {
  const { id, provider, baseUrl, models, limits, speaks, aggregate, facts } = instance
  const prefix = envPrefix(id)
  const keys = keysEntry(instance, bare).map(({ secret, weight, cacheScope }, at) => {
    const value = secret && references.toSecret(secret, `FILE_${prefix}_${at + 1}`)
    return weight === 1 && cacheScope === undefined ? value : { value, weight, cacheScope }
  })
  const styles = stylesOf(speaks)
  const isUsualAddress = baseUrl === (bare?.baseUrl ?? provider.baseUrl)
  const isUsualList = isEqual(models, bare?.models ?? [])
  // A variable replaces the models of the file, but not their limits.
  const listed = isUsualList ? [...(limits?.keys() ?? [])] : models
  return {
    kind: provider.name === id ? undefined : provider.name,
    baseUrl: isUsualAddress ? undefined : baseUrl,
    keys: keys.length > 0 ? keys : undefined,
    models:
      listed.length === 0
        ? undefined
        : listed.map((model) => (limits?.has(model) ? { id: model, ...limits.get(model) } : model)),
    styles: isEqual(styles, stylesOf(bare?.speaks ?? provider.speaks)) ? undefined : styles,
    aggregate: aggregate && !bare?.aggregate ? true : undefined,
    ...headerEntries(instance, references),
    ...networkEntry(instance, bare, references),
    variables: variablesEntry(instance, bare, references),
    facts,
  }
}

/** How it is reached. The environment may state the proxy and the certificates. */
const networkEntry = (
  { id, network: { proxy, ...stated } = {} }: Instance,
  bare: Instance | undefined,
  references: References,
): YamlSection => ({
  ...stated,
  ca: isEqual(stated.ca, bare?.network?.ca) ? undefined : stated.ca,
  proxy:
    proxy && !proxy.equals(bare?.network?.proxy)
      ? references.toSecret(proxy, `FILE_${envPrefix(id)}_PROXY`)
      : undefined,
})

const stylesOf = (speaks: Instance['speaks']): readonly string[] => speaks.map(({ protocol }) => styleNames[protocol])

/** The keys that the file has. Those of the environment are added after them. */
const keysEntry = (instance: Instance, bare: Instance | undefined): readonly ProviderKey[] => {
  const keys = instance.keys.filter(({ secret }) => secret !== null)
  const added = bare?.keys.filter(({ secret }) => secret !== null) ?? []
  const isSame = (one: ProviderKey, other: ProviderKey | undefined): boolean =>
    one.secret?.equals(other?.secret ?? undefined) === true &&
    one.weight === other?.weight &&
    one.cacheScope === other.cacheScope
  for (let count = 0; count <= keys.length; count++) {
    const own = keys.slice(0, count)
    const further = added.filter(({ secret }) => !own.some((one) => secret?.equals(one.secret ?? undefined)))
    const rest = keys.slice(count)
    if (rest.length === further.length && rest.every((key, at) => isSame(key, further[at]))) return own
  }
  return keys
}

/** The headers of its entry, without those that its variables set. */
const headerEntries = (
  { provider, id, variables, headers = {}, forwardHeaders = [] }: Instance,
  references: References,
) => {
  const ofVariables = new Map(
    Object.entries(provider.variableHeaders ?? {}).map(([suffix, name]) => [name, variables[suffix]]),
  )
  const own = Object.entries(headers).filter(([name, value]) => ofVariables.get(name) !== value.reveal())
  const usual = (provider.forwardHeaders ?? []).filter((name) => !Object.hasOwn(headers, name))
  return {
    headers:
      own.length === 0
        ? undefined
        : Object.fromEntries(
            own.map(([name, value]) => [name, references.toSecret(value, `FILE_${envPrefix(id)}_${name}`)]),
          ),
    forwardHeaders: isEqual(forwardHeaders, usual) ? undefined : forwardHeaders,
  }
}

const MAY_BE_SECRET = /KEY|SECRET|TOKEN|PASSWORD/

const variablesEntry = ({ id, provider, variables }: Instance, bare: Instance | undefined, references: References) => {
  const own = Object.entries(variables).filter(
    ([suffix, value]) => value !== (bare?.variables[suffix] ?? provider.variables?.[suffix]),
  )
  return own.length === 0
    ? undefined
    : Object.fromEntries(
        own.map(([suffix, value]) => [
          camelCase(suffix),
          MAY_BE_SECRET.test(suffix) ? references.to(value ?? '', `FILE_${envPrefix(id)}_${suffix}`) : value,
        ]),
      )
}

/** The text of a file with these routes alone. */
export const routesYaml = (routes: readonly Route[]): string =>
  stringify(referenced({ routes: Object.fromEntries(routes.map((route) => [route.name, routeEntry(route)])) }), {
    lineWidth: 0,
  })

const routeEntry = ({
  strategy,
  stickiness,
  targets,
  fallback,
  cache,
  require,
  onRetired,
  canary,
  shadow,
  drill,
}: Route): YamlSection => ({
  strategy,
  stickiness,
  targets: targets.map(targetEntry),
  fallback: fallback.length === 0 ? undefined : fallback.map(targetEntry),
  cache,
  require,
  onRetired,
  canary,
  shadow: shadow && {
    to: targetEntry(shadow.target),
    percent: shadow.percent,
    budget: shadow.budget,
    perMinute: shadow.perMinute,
  },
  drill,
})

const targetEntry = ({ provider, model, weight, when, override }: RouteTarget): unknown => {
  const isPlain = weight === 1 && !when && !override
  if (isPlain) return model === undefined ? provider : `${provider}/${model}`
  return { provider, model, ...(weight !== 1 && { weight }), when, ...override }
}

const alertsEntry = (
  { url, secret, format, rules }: NonNullable<FullConfig['alerts']>,
  references: References,
): YamlSection => ({
  url: references.toSecret(url, 'FILE_ALERTS_URL'),
  secret: secret === null ? undefined : references.toSecret(secret, 'FILE_ALERTS_SECRET'),
  format,
  rules,
})

const ssoEntry = (
  { publicUrl, secrets, providers, roles, teams, session }: NonNullable<FullConfig['sso']>,
  references: References,
): YamlSection => ({
  publicUrl,
  secret: secrets.map((one, at) => references.toSecret(one, `FILE_SSO_SECRET_${at + 1}`)),
  providers: Object.fromEntries(
    providers.map(({ name, clientSecret, ...one }) => [
      name,
      {
        ...one,
        clientSecret: clientSecret ? references.toSecret(clientSecret, `FILE_SSO_${name}_CLIENT_SECRET`) : undefined,
      },
    ]),
  ),
  roles: roles.map(withoutNulls),
  teams: teams.map(withoutNulls),
  session,
})

const claudeEntry = (
  { policies, receivers, ...texts }: NonNullable<FullConfig['claude']>,
  references: References,
): YamlSection => ({
  enabled: true,
  ...withoutNulls(texts),
  policies: policies.map(({ match, settings }) => ({ match: withoutNulls(match), settings })),
  telemetry: {
    forward: receivers.map(({ url, headers, signals }, at) => ({
      url,
      headers: Object.fromEntries(
        Object.entries(headers).map(([name, one], index) => [
          name,
          references.toSecret(one, `FILE_CLAUDE_FORWARD_${at + 1}_${index + 1}`),
        ]),
      ),
      ...Object.fromEntries(SIGNALS.map((signal) => [signal, signals.includes(signal)])),
    })),
  },
})

const withoutNulls = (members: object): YamlSection =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null))
