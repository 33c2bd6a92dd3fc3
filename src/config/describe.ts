/** Describes the changes of a new configuration in lines for the log. Secrets are never included. */
import type { FullConfig } from '../core/config.ts'
import type { Instance } from '../core/provider.ts'
import type { Route, RouteTarget } from '../core/route.ts'
import type { Secret } from '../core/secret.ts'
import { requireText } from '../policy/accounts/data-policy.ts'
import { overrideText } from '../policy/routing/override.ts'
import { conditionText } from '../policy/routing/when.ts'
import { settingAt, styleNames } from './definition.ts'
import { modelEntries } from './retirements.ts'
import { settingRows } from './rows.ts'

const shown = (value: unknown): string =>
  value === undefined ? 'none' : Array.isArray(value) ? `[${value.join(', ')}]` : String(value)

const counted = (value: unknown): string =>
  Array.isArray(value) ? `${value.length} ${value.length === 1 ? 'key' : 'keys'}` : value === undefined ? 'none' : 'set'

const settingsChanged = (before: FullConfig, after: FullConfig): readonly string[] =>
  settingRows.flatMap(({ path, name, secret }) => {
    const old = settingAt(before.settings, path)
    const now = settingAt(after.settings, path)
    if (JSON.stringify(old) === JSON.stringify(now)) return []
    const format = secret ? counted : shown
    const same = format(old) === format(now)
    return [same ? `${name}: changed` : `${name}: ${format(old)} → ${format(now)}`]
  })

const stylesOf = ({ speaks }: Instance): string => speaks.map(({ protocol }) => styleNames[protocol]).join(', ')

const limitsText = ({ limits = new Map() }: Instance): string =>
  [...limits].map(([model, stated]) => `${model} ${JSON.stringify(stated)}`).join(', ')

const endsText = (instance: Instance): string =>
  Object.entries(modelEntries([instance]))
    .map(([name, entry]) => `${name} ${JSON.stringify(entry)}`)
    .join(', ')

const instanceChanged = (before: Instance, after: Instance): readonly string[] => {
  const lines: string[] = []
  const compare = (what: string, old: string, now: string) => {
    if (old !== now) lines.push(`providers.${after.id}.${what}: ${old || 'none'} → ${now || 'none'}`)
  }
  compare('kind', before.provider.name, after.provider.name)
  compare('baseUrl', before.baseUrl, after.baseUrl)
  compare('models', before.models.join(', '), after.models.join(', '))
  compare('limits', limitsText(before), limitsText(after))
  compare('ends', endsText(before), endsText(after))
  compare('styles', stylesOf(before), stylesOf(after))
  compare('aggregate', before.aggregate ? 'true' : '', after.aggregate ? 'true' : '')
  const headersIn = ({ headers = {} }: Instance) => Object.keys(headers).toSorted().join(', ')
  compare('headers', headersIn(before), headersIn(after))
  const isChanged = ([name, value]: [string, Secret]) => !value.equals(before.headers?.[name])
  const [changed] = Object.entries(after.headers ?? {}).filter(isChanged)
  if (changed && headersIn(before) === headersIn(after))
    lines.push(`providers.${after.id}.headers: changed ${changed[0]}`)
  compare('forwardHeaders', (before.forwardHeaders ?? []).join(', '), (after.forwardHeaders ?? []).join(', '))
  compare('variables', JSON.stringify(before.variables), JSON.stringify(after.variables))
  const ids = (instance: Instance) => instance.keys.map(({ id }) => id)
  const added = ids(after).filter((id) => !ids(before).includes(id))
  const gone = ids(before).filter((id) => !ids(after).includes(id))
  if (added.length + gone.length > 0)
    lines.push(
      `providers.${after.id}.keys: ${[...added.map((id) => `added ${id}`), ...gone.map((id) => `removed ${id}`)].join(', ')}`,
    )
  compare('facts', JSON.stringify(before.facts) ?? '', JSON.stringify(after.facts) ?? '')
  const weights = (instance: Instance) =>
    instance.keys.map(({ id, weight, cacheScope }) => `${id}×${weight}${cacheScope ? ` ${cacheScope}` : ''}`).join(', ')
  if (added.length + gone.length === 0) compare('keys', weights(before), weights(after))
  return lines
}

const targetText = ({ provider, model, weight, when, override }: RouteTarget): string =>
  `${provider}${model === undefined ? '' : `/${model}`}${weight === 1 ? '' : `×${weight}`}${when === undefined ? '' : ` (when ${conditionText(when)})`}${override === undefined ? '' : ` (${overrideText(override)})`}`

const shadowText = ({ target, percent, perMinute, budget }: NonNullable<Route['shadow']>): string =>
  `shadow ${targetText(target)} ${percent} % at most ${perMinute} a minute, $${budget} a day`

const routeText = ({
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
}: Route): string =>
  [
    ...(strategy === undefined ? [] : [strategy]),
    targets.map(targetText).join(', '),
    ...(fallback.length === 0 ? [] : [`then ${fallback.map(targetText).join(', ')}`]),
    ...(stickiness === undefined ? [] : [`stickiness ${stickiness}`]),
    ...(cache === undefined ? [] : [`cached ${JSON.stringify(cache)}`]),
    ...(require === undefined ? [] : [`requires ${requireText(require)}`]),
    ...(onRetired === undefined ? [] : [`on retired ${onRetired}`]),
    ...(canary === undefined ? [] : [`canary ${JSON.stringify(canary)}`]),
    ...(shadow === undefined ? [] : [shadowText(shadow)]),
    ...(drill === undefined ? [] : [`drill ${JSON.stringify(drill)}`]),
  ].join(' ')

/** The differences of records by name. Digests and other values are not shown. */
const recordsChanged = (
  section: string,
  before: readonly { readonly name: string }[],
  after: readonly { readonly name: string }[],
): readonly string[] => {
  const old = new Map(before.map((record) => [record.name, record]))
  const names = new Set(after.map(({ name }) => name))
  const removed = before.filter(({ name }) => !names.has(name)).map(({ name }) => `${section}.${name}: removed`)
  const others = after.flatMap((record): readonly string[] => {
    const was = old.get(record.name)
    if (!was) return [`${section}.${record.name}: added`]
    const members = Object.entries(record).flatMap(([member, value]) =>
      JSON.stringify(value) === JSON.stringify(Object.getOwnPropertyDescriptor(was, member)?.value) ? [] : [member],
    )
    return members.length === 0 ? [] : [`${section}.${record.name}: changed ${members.join(', ')}`]
  })
  return [...removed, ...others]
}

const pricesNamed = ({ accounts }: FullConfig) =>
  accounts.prices.map(({ id, ...rule }) => ({ name: `${rule.provider}/${rule.model} (${id})`, ...rule }))

const accountsChanged = (before: FullConfig, after: FullConfig): readonly string[] => [
  ...recordsChanged('teams', before.accounts.teams, after.accounts.teams),
  ...recordsChanged('keys', before.accounts.keys, after.accounts.keys),
  ...recordsChanged('budgets', before.accounts.budgets, after.accounts.budgets),
  ...recordsChanged('prices', pricesNamed(before), pricesNamed(after)),
  ...(JSON.stringify(before.alerts) === JSON.stringify(after.alerts) ? [] : ['alerts: changed']),
  ...signInChanged(before.sso, after.sso),
  ...claudeChanged(before, after),
  ...(JSON.stringify(textsOf(before)) === JSON.stringify(textsOf(after)) ? [] : ['claims: changed']),
  ...(JSON.stringify(before.tokenRules) === JSON.stringify(after.tokenRules) ? [] : ['auth.jwt: changed']),
]

const textsOf = ({ claims }: FullConfig): readonly string[] => claims.map(({ text }) => text)

const signInChanged = (before: FullConfig['sso'], after: FullConfig['sso']): readonly string[] => {
  const secretsOf = (sso: FullConfig['sso']) =>
    sso?.providers.map(({ clientSecret }) => clientSecret ?? undefined) ?? []
  const isSame =
    JSON.stringify(before) === JSON.stringify(after) &&
    areEqual(before?.secrets ?? [], after?.secrets ?? []) &&
    areEqual(secretsOf(before), secretsOf(after))
  return isSame ? [] : ['sso: changed']
}

const claudeChanged = (before: FullConfig, after: FullConfig): readonly string[] => {
  const secretsOf = ({ claude }: FullConfig) => claude?.receivers.flatMap(({ headers }) => Object.values(headers)) ?? []
  const textOf = ({ claude, cloudPaths }: FullConfig) => JSON.stringify({ claude, cloudPaths })
  const isSame = textOf(before) === textOf(after) && areEqual(secretsOf(before), secretsOf(after))
  return isSame ? [] : ['claude: changed']
}

/** Secrets print as `[redacted]`. */
const areEqual = (some: readonly (Secret | undefined)[], others: readonly (Secret | undefined)[]): boolean =>
  some.length === others.length && some.every((one, at) => (one ? one.equals(others[at]) : others[at] === undefined))

const requireChanged = ({ require: before }: FullConfig, { require: after }: FullConfig): readonly string[] => {
  const [old, now] = [before, after].map((one) => (one ? requireText(one) : ''))
  return old === now ? [] : [`require: ${old || 'none'} → ${now || 'none'}`]
}

/** Members of the configuration with lines of their own. */
const DESCRIBED: ReadonlySet<string> = new Set([
  'settings',
  'instances',
  'routes',
  'require',
  'accounts',
  'alerts',
  'sso',
  'claude',
  'cloudPaths',
  'tokenRules',
  'claims',
] satisfies (keyof FullConfig)[])

/** The names of what differs, so that a difference without a line of its own is not mistaken for an unchanged configuration. */
const othersChanged = (before: FullConfig, after: FullConfig): readonly string[] => {
  const membersOf = (config: FullConfig): ReadonlyMap<string, string> =>
    new Map([
      ...Object.entries(config).flatMap(([name, value]) =>
        DESCRIBED.has(name) ? [] : [[name, JSON.stringify(value)] as const],
      ),
      ...config.instances.map((one) => [`providers.${one.id}`, JSON.stringify(one)] as const),
      ...[...config.routes].map(([name, one]) => [`routes.${name}`, JSON.stringify(one)] as const),
    ])
  const [old, now] = [membersOf(before), membersOf(after)]
  return [...new Set([...old.keys(), ...now.keys()])].filter((name) => old.get(name) !== now.get(name))
}

/** One line per difference; empty if there is none. */
export const describeChange = (before: FullConfig, after: FullConfig): readonly string[] => {
  const lines: string[] = [...settingsChanged(before, after), ...requireChanged(before, after)]
  const old = new Map(before.instances.map((instance) => [instance.id, instance]))
  const now = new Map(after.instances.map((instance) => [instance.id, instance]))
  for (const id of old.keys()) if (!now.has(id)) lines.push(`providers.${id}: removed`)
  for (const [id, instance] of now) {
    const was = old.get(id)
    if (was) lines.push(...instanceChanged(was, instance))
    else lines.push(`providers.${id}: added, ${instance.keys.length} ${instance.keys.length === 1 ? 'key' : 'keys'}`)
  }
  const orderOf = (one: ReadonlyMap<string, Instance>, other: ReadonlyMap<string, Instance>) =>
    [...one.keys()].filter((id) => other.has(id)).join(', ')
  if (orderOf(old, now) !== orderOf(now, old)) lines.push(`providers: now in the order ${[...now.keys()].join(', ')}`)
  for (const name of before.routes.keys()) if (!after.routes.has(name)) lines.push(`routes.${name}: removed`)
  for (const [name, route] of after.routes) {
    const was = before.routes.get(name)
    if (!was) lines.push(`routes.${name}: added, ${routeText(route)}`)
    else if (routeText(was) !== routeText(route)) lines.push(`routes.${name}: ${routeText(was)} → ${routeText(route)}`)
  }
  lines.push(...accountsChanged(before, after))
  const isNamed = (name: string) => lines.some((line) => line.startsWith(`${name}:`) || line.startsWith(`${name}.`))
  return [...lines, ...othersChanged(before, after).flatMap((name) => (isNamed(name) ? [] : [`${name}: changed`]))]
}
