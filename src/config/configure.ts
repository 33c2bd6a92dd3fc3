/** Builds a configuration from texts, completely or not at all. No I/O. */

import { type AccountRecords, NO_ACCOUNTS } from '../core/accounts.ts'
import type { Config, FullConfig } from '../core/config.ts'
import type { GuardService } from '../core/guard.ts'
import { nearest } from '../core/nearest.ts'
import type { Instance, Providers } from '../core/provider.ts'
import type { Route, RouteTarget } from '../core/route.ts'
import { type Settings, settingsSchema } from '../core/settings.ts'
import { hasLiveChecks } from '../policy/drill/live-rules.ts'
import { keyless } from '../records/entities/ids.ts'
import { type RouteEntry, routeFrom } from '../records/entities/route.ts'
import { adminTokenProblem } from './admin-token.ts'
import { envName } from './definition.ts'
import { parseDotenv } from './dotenv.ts'
import { resolveEgress } from './egress.ts'
import type { Env } from './env.ts'
import { type Launch, launchFrom, misspelledSettings, settingsFrom, variable } from './environment.ts'
import { emptyFile, type FileContent } from './file-content.ts'
import type { FileReader } from './file-reader.ts'
import { maskerFor, type Problem, problemLine, quote } from './problem.ts'
import { headerProblems } from './provider-headers.ts'
import { quoteWarnings, unquoted } from './quoted-values.ts'
import { retirementsFrom, withRetirements } from './retirements.ts'
import { launchRows, settingRows } from './rows.ts'
import { NO_FILES, type SecretFiles, withFileVariables } from './secret-files.ts'
import { otelWarnings, settingProblems } from './setting-problems.ts'
import { withSsoVariables } from './sso-variables.ts'
import { commaList } from './text-values.ts'
import type { Tree } from './tree.ts'
import { upstreamsFrom } from './upstreams.ts'

/** The files a configuration came from. */
export type Sources = { readonly dotenv: string | null; readonly file: string | null }

export type Loaded =
  | {
      readonly ok: true
      readonly config: FullConfig
      readonly launch: Launch
      readonly warnings: readonly string[]
      readonly sources: Sources
      /** Literal secrets of the file, and contents of files with secrets. A function, so that no log writes them. */
      readonly secrets: () => readonly string[]
    }
  | {
      readonly ok: false
      readonly problems: readonly Problem[]
      /** Set if the launch values are valid, since the log's format depends on them. */
      readonly launch: Launch | undefined
      readonly warnings: readonly string[]
    }

/** The file's text and its reader. */
export type TextOfFile = { readonly name: string; readonly text: string; readonly reader: FileReader }

export type Texts = {
  readonly env: Env
  /** The text of the `.env` file, if there is one. */
  readonly dotenv?: string | undefined
  readonly file?: TextOfFile | undefined
  /** The contents of files with secrets. */
  readonly files?: SecretFiles | undefined
  /** The contents of files with certificates. */
  readonly certificates?: SecretFiles | undefined
  readonly providers: Providers
  /**
   * Reads the teams, keys and budgets of the database, which those of the file may refer to. Absent: there is none. Null:
   * the database cannot be read.
   */
  readonly stored?: ((settings: Settings) => AccountRecords | null) | undefined
}

/** The variable of a setting. */
const variableOf = (path: readonly string[]): string =>
  settingRows.find((row) => row.name === path.join('.'))?.env ?? envName(path)

/** The environment, without quotation marks, merged with `.env`. Real variables take precedence, even empty ones. */
export const environmentOf = (env: Env, dotenv: string | undefined): Env => {
  const own = unquoted(env)
  if (dotenv === undefined) return own
  const added = parseDotenv(dotenv)
  const joined: Record<string, string | undefined> = Object.create(null)
  for (const [name, value] of [...Object.entries(added), ...Object.entries(own)])
    if (value !== undefined) joined[name] = value
  return joined
}

type PlaceOf = Extract<Tree, { ok: true }>['placeOf']

/** Whether a provider in a target is this instance, by its ID or an alias of its provider. */
const isNamed = ({ id, provider }: Instance, name: string): boolean =>
  id === name || (id === provider.name && (provider.aliases?.includes(name) ?? false))

const routesFrom = (
  entries: FileContent['routes'],
  instances: readonly Instance[],
  leftOut: readonly string[],
  placeOf: PlaceOf,
): { readonly routes: ReadonlyMap<string, Route>; readonly problems: readonly Problem[] } => {
  const problems: Problem[] = []
  const routes = new Map<string, Route>()
  const names = instances.map(({ id }) => id)
  for (const [name, entry] of entries) {
    const route = routeFrom(name, entry)
    const checkedTarget = (
      target: RouteTarget,
      written: RouteEntry['targets'][number] | undefined,
      path: readonly (string | number)[],
    ): RouteTarget => {
      const owner = instances.find((one) => isNamed(one, target.provider))
      if (!owner) {
        const [meant] = nearest(target.provider, names)
        problems.push({
          where: placeOf(typeof written === 'string' ? path : [...path, 'provider']).value,
          what: path.join('.'),
          found: leftOut.includes(target.provider)
            ? `the provider ${quote(target.provider)}, which is not in PROVIDERS`
            : `the provider ${quote(target.provider)}, which is not configured`,
          allowed:
            names.length === 0
              ? 'a configured provider; there is none'
              : `${meant ? `did you mean ${meant}? ` : ''}${names.join(', ')}`,
        })
        return target
      }
      if (typeof written === 'object')
        problems.push(...headerProblems(written.headers ?? {}, { path, provider: owner.provider, placeOf }))
      return { ...target, provider: owner.id }
    }
    const checked = (section: 'targets' | 'fallback') =>
      route[section].map((target, index) =>
        checkedTarget(target, entry[section][index], ['routes', name, section, index]),
      )
    const { shadow } = route
    routes.set(name, {
      ...route,
      targets: checked('targets'),
      fallback: checked('fallback'),
      ...(shadow && {
        shadow: {
          ...shadow,
          target: checkedTarget(shadow.target, entry.shadow?.to, ['routes', name, 'shadow', 'to']),
        },
      }),
    })
  }
  return { routes, problems }
}

/** Rules whose route does not exist. */
const ruleProblems = (
  rules: FileContent['rules'],
  routes: ReadonlyMap<string, Route>,
  placeOf: PlaceOf,
): readonly Problem[] =>
  [...rules].flatMap(([index, { route }]) => {
    if (routes.has(route)) return []
    const path = ['rules', index, 'route']
    const [meant] = nearest(route, [...routes.keys()])
    const names = routes.size === 0 ? 'the name of a route; there is none' : [...routes.keys()].join(', ')
    return [
      {
        where: placeOf(path).value,
        what: path.join('.'),
        found: `the route ${quote(route)}, which does not exist`,
        allowed: `${meant ? `did you mean ${meant}? ` : ''}${names}`,
      },
    ]
  })

/** The demo provider and a route that shows a fallback. Used only without other providers, and never in production. */
const demonstration = (providers: Texts['providers']): Pick<Config, 'instances' | 'routes'> => {
  const provider = [...providers.values()].find(({ builtin }) => builtin)
  if (!provider) return { instances: [], routes: new Map() }
  const { name, speaks } = provider
  const instance: Instance = {
    id: name,
    provider,
    baseUrl: provider.baseUrl ?? `${name}:`,
    keys: keyless(name),
    models: [],
    speaks,
    forwardHeaders: ['x-headgate-fault'],
    variables: {},
  }
  const chain: Route = {
    name: `${name}/chain`,
    strategy: 'priority',
    targets: ['down', 'flaky', 'echo'].map((model) => ({ provider: name, model, weight: 1 })),
    fallback: [],
  }
  return { instances: [instance], routes: new Map([[chain.name, chain]]) }
}

type Section = Readonly<Record<string, unknown>>
const isSection = (value: unknown): value is Section =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Merges `above` over `below`, section by section. */
const over = (above: Section, below: Section): Section => {
  const out: Record<string, unknown> = { ...below }
  for (const [name, value] of Object.entries(above)) {
    const under = out[name]
    out[name] = isSection(value) && isSection(under) ? over(value, under) : value
  }
  return out
}

/** Freezes plain data. Functions, maps and providers (shared between configurations) are left as they are. */
const frozen = <T>(value: T): T => {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  const plain = Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype
  if (!plain) return value
  for (const [name, inner] of Object.entries(value)) if (name !== 'provider' || typeof inner === 'string') frozen(inner)
  return Object.freeze(value)
}

/** The location of a setting, or of an entry of its list. */
const placeIn =
  ({ placeOf }: { readonly placeOf: PlaceOf }) =>
  (path: readonly string[], entry?: number) => {
    const whole = entry === undefined ? path : [...path, entry]
    return { where: placeOf(whole).value, what: whole.join('.') }
  }

const HARMLESS = new Set([...settingRows, ...launchRows].filter(({ secret }) => !secret).map(({ env }) => env))

const DRAIN_DELAY_IN_PRODUCTION = 5000

const byPlace = (a: Problem, b: Problem): number => {
  const key = ({ where }: Problem) => where.split(':')
  const [fileA, lineA = '', colA = ''] = key(a)
  const [fileB, lineB = '', colB = ''] = key(b)
  if (fileA !== fileB) return (fileA ?? '') < (fileB ?? '') ? -1 : 1
  return Number(lineA) - Number(lineB) || Number(colA) - Number(colB)
}

/** Keeps the first problem per location, which is the cause of the others. */
const tidy = (problems: readonly Problem[], mask: (text: string) => string): readonly Problem[] => {
  const seen = new Set<string>()
  return problems
    .filter(({ where, found }) => {
      const key = /:\d+:\d+$/.test(where) ? where : `${where} ${found}`
      return !seen.has(key) && seen.add(key)
    })
    .map(({ where, what, found, allowed }) => ({
      where,
      ...(what !== undefined && { what: mask(what) }),
      found: mask(found),
      allowed: mask(allowed),
    }))
    .sort(byPlace)
}

const contentsOf = (files: SecretFiles): readonly string[] =>
  [...files.values()].flatMap((file) => ('text' in file ? [file.text] : []))

/** Literal secrets in the file. */
const secretsIn = ({
  providers,
  settings,
  keys: clientKeys,
  alerts,
  sso,
  claude,
  guards,
}: FileContent): readonly string[] => {
  const { auth, database, redis, network } = settings
  const own = [
    ...(isSection(auth) ? [auth.keys, auth.admin, auth.pepper].flat() : []),
    ...[database, redis].map((section) => (isSection(section) ? section.url : undefined)),
    isSection(network) ? network.proxy : undefined,
  ]
  const keys = [...providers.values()].flatMap((entry) => entry.keys ?? [])
  return [
    ...own,
    ...[...providers.values()].flatMap(({ headers = {}, proxy }) => [...Object.values(headers), proxy]),
    ...keys.map((key) => (typeof key === 'string' ? key : key.value)),
    ...[...clientKeys.values()].map(({ secret }) => secret),
    ...[alerts?.url, alerts?.secret, sso?.secret].flat(),
    ...Object.values(sso?.providers ?? {}).map(({ clientSecret }) => clientSecret),
    ...guards.flatMap(({ service }) => (service ? secretsOfService(service) : [])),
    ...(claude?.telemetry.forward ?? []).flatMap(({ headers }) => Object.values(headers)),
  ].filter((value) => typeof value === 'string')
}

/** An address is a secret if it has a query. */
const secretsOfService = ({ url, headers, ...service }: GuardService): readonly (string | undefined)[] => [
  ...[url.reveal()].filter((address) => address.includes('?')),
  ...Object.values(headers).map((value) => value.reveal()),
  service.kind === 'headgate' ? service.secret?.reveal() : undefined,
]

/** The database is read only for these sections. */
const hasAccounts = ({ teams, keys, budgets, routes }: FileContent, settings: Settings): boolean =>
  teams.size + keys.size + budgets.size > 0 ||
  routes.values().some(({ shadow }) => shadow !== undefined) ||
  hasLiveChecks({ settings, routes })

const noAccounts = (): AccountRecords => NO_ACCOUNTS

/** A refused team or key would be reported again by every reference to it. */
const areNamesIncomplete = (problems: readonly Problem[]): boolean =>
  problems.some(({ what = '' }) => /^(?:teams|keys)\b/.test(what))

const UNREACHED_SIGN_IN =
  '`sso.publicUrl` does not end with `basePath`: people who sign in would return to a path that the gateway does not serve. Add it.'
const NO_BREAK_GLASS =
  'sso is set without auth.admin (AUTH_ADMIN): if the identity provider is down, no one can sign in. Set AUTH_ADMIN, and keep the token in a safe'

const LIVE_WITHOUT_LEDGER = {
  what: 'drill.live',
  found: 'live checks without usage.ledger, in which they are counted',
  allowed: 'usage.ledger: true, or no route with live checks',
}
const LIVE_WITHOUT_SHAPES = {
  what: 'drill.live',
  found: 'live checks without drill.shapes, which counts the requests that they check',
  allowed: 'drill.shapes: true, or no route with live checks',
}
/** Of settings with live checks. */
const liveProblems = ({ usage, drill }: Pick<Settings, 'usage' | 'drill'>, where: string): readonly Problem[] => [
  ...(usage.ledger ? [] : [{ where, ...LIVE_WITHOUT_LEDGER }]),
  ...(drill.shapes ? [] : [{ where, ...LIVE_WITHOUT_SHAPES }]),
]
const NO_SHARED_CACHE =
  'cache.shared (CACHE_SHARED) is true without redis.url: each process keeps its own answers. Set redis.url (REDIS_URL), or remove cache.shared'

export const configure = ({
  env: real,
  dotenv,
  file,
  files = NO_FILES,
  certificates = NO_FILES,
  providers,
  stored,
}: Texts): Loaded => {
  const filled = withFileVariables(environmentOf(real, dotenv), file?.text ?? '', files, providers)
  const { env } = filled
  const { launch, problems: launchProblems } = launchFrom(env)
  const above = settingsFrom(env)
  const problems: Problem[] = [
    ...filled.problems,
    ...launchProblems,
    ...above.problems,
    ...settingProblems(above.values, (path) => ({ where: variableOf(path) })),
  ]

  const tree = file?.reader.readTree(file.text, file.name, { env, files })
  let content = emptyFile
  if (tree && !tree.ok) problems.push(...tree.problems)
  if (file && tree?.ok) {
    const read = file.reader.readFile(tree)
    content = read.content
    problems.push(...read.problems, ...settingProblems(content.settings, placeIn(tree)))
  }
  const withVariables = withSsoVariables(content.sso, env)
  content = { ...content, sso: withVariables.sso }
  problems.push(...withVariables.problems)
  const placeOf: PlaceOf = tree?.ok ? tree.placeOf : () => ({ name: '', value: '', written: '', filled: false })
  const secrets = [...secretsIn(content), ...contentsOf(files)]
  const mask = maskerFor(env, secrets, HARMLESS)

  const order = variable(env, 'PROVIDERS')
  const upstreams = upstreamsFrom({
    env,
    file: { entries: content.providers, placeOf },
    providers,
    order: order === undefined ? undefined : commaList(order),
    ownPort: launch?.port ?? 0,
  })
  const routes = routesFrom(content.routes, upstreams.instances, upstreams.leftOut, placeOf)
  problems.push(...ruleProblems(content.rules, routes.routes, placeOf))
  const retirements = retirementsFrom(content.models, upstreams.instances, placeOf)
  const warnings = [
    ...quoteWarnings(real, file?.text ?? '', providers),
    ...withVariables.warnings,
    ...misspelledSettings(env),
    ...upstreams.warnings,
  ].map(mask)
  problems.push(...upstreams.problems)
  // If a provider was refused, routes to it would be reported as well: only the provider's problem is reported.
  const refused = upstreams.problems.length > 0 || problems.some(({ what }) => what?.startsWith('providers'))
  if (!refused) problems.push(...routes.problems, ...retirements.problems)
  const merged = settingsSchema.safeParse(over(above.values, content.settings))
  const inFile = content.settings.auth !== undefined && variable(env, 'AUTH_ADMIN') === undefined
  const short = adminTokenProblem(merged.data?.auth.admin, inFile ? placeOf(['auth', 'admin']).value : 'AUTH_ADMIN')
  if (short && launch?.production) problems.push(short)
  else if (short) warnings.push(problemLine(short))
  const egress =
    merged.data &&
    resolveEgress({
      settings: merged.data.network,
      env,
      place: (member) => placeOf(['network', member]).value,
      instances: upstreams.instances,
      networks: upstreams.networks,
      certificates,
    })
  problems.push(...(egress?.problems ?? []))
  warnings.push(...(egress?.warnings ?? []).map(mask))
  const accounts = file?.reader.accountsFrom({
    content,
    placeOf,
    auth: merged.data?.auth ?? { keys: [] },
    drill: merged.data?.drill,
    providers: upstreams.instances.map(({ id }) => id),
    stored:
      merged.data && !areNamesIncomplete(problems) && hasAccounts(content, merged.data)
        ? (stored ?? noAccounts)(merged.data)
        : null,
  })
  problems.push(...(accounts?.problems ?? []))
  warnings.push(...(accounts?.warnings ?? []).map(mask))
  if (merged.data && hasLiveChecks({ settings: merged.data, routes: content.routes }))
    problems.push(...liveProblems(merged.data, placeOf(['drill', 'live']).value || 'drill.live'))
  if (problems.length > 0 || launch === undefined || !merged.success || !egress)
    return { ok: false, problems: tidy(problems, mask), launch, warnings }

  const parsed = merged.data
  if (parsed.cache.shared && parsed.redis.url === undefined) warnings.push(NO_SHARED_CACHE)
  warnings.push(...otelWarnings(parsed, env))
  if (accounts?.sso && parsed.auth.admin === undefined) warnings.push(NO_BREAK_GLASS)
  if (accounts?.sso && !accounts.sso.publicUrl.endsWith(parsed.basePath)) warnings.push(UNREACHED_SIGN_IN)
  const delay = parsed.drain.delay ?? (launch.production ? DRAIN_DELAY_IN_PRODUCTION : 0)
  const settings: Settings = { ...parsed, drain: { ...parsed.drain, delay } }
  const alone = upstreams.instances.length === 0 && !launch.production
  const demo = alone ? demonstration(providers) : undefined
  const config: FullConfig = {
    settings,
    instances: demo?.instances ?? withRetirements(egress.instances, retirements.of),
    routes: demo ? new Map([...demo.routes, ...routes.routes]) : routes.routes,
    ...(content.rules.size > 0 && { rules: [...content.rules.values()] }),
    ...(content.require && { require: content.require }),
    ...(content.guards.length > 0 && { guards: content.guards }),
    accounts: accounts?.accounts ?? NO_ACCOUNTS,
    alerts: accounts?.alerts ?? null,
    sso: accounts?.sso ?? null,
    claude: accounts?.claude ?? null,
    ...(content.claude?.cloudPaths === false && { cloudPaths: false }),
    claims: [...content.claims].map(([at, text]) => ({ text, place: placeOf(['claims', at]).value })),
    tokenRules: accounts?.tokenRules ?? [],
    network: egress.network,
  }
  return {
    ok: true,
    config: frozen(config),
    launch,
    warnings,
    sources: { dotenv: dotenv === undefined ? null : '.env', file: file?.name ?? null },
    secrets: () => secrets,
  }
}
