/** Maps a configuration of LiteLLM's proxy. Pure: no environment, no files. */
import {
  draftProviders,
  draftRoutes,
  noteKeys,
  providerEntries,
  type RouteDraft,
  routeEntries,
  SHADOW_RULES,
  withFallbacks,
} from './deployments.ts'
import { type Imported, LiteralSecrets, RowCollector, variableIn } from './imported.ts'
import { readGuards } from './litellm-guards.ts'
import {
  ENTRY_MEMBERS,
  INFO_MEMBERS,
  type LitellmEntry,
  leaveOutCredentials,
  PARAM_MEMBERS,
  readCredentials,
  readModelList,
} from './litellm-models.ts'
import { FAMILIES, LEFT_OUT } from './litellm-names.ts'
import { readSettings, SETTING_MEMBERS, type SettingSections } from './litellm-settings.ts'
import { readTokens, TOKEN_MEMBERS } from './litellm-tokens.ts'
import { type ImportSource, isMembers, listOf, membersOf, type SourceMembers, type SourcePath } from './source.ts'

const sectionOf = (root: SourceMembers, name: string): SourceMembers => {
  const value = root[name]
  return isMembers(value) ? value : {}
}

/** The names that are possible in a section, for "did you mean …?". */
const knownIn = (parent: SourcePath): readonly string[] => {
  const [section, index, inner] = parent
  if (section === undefined) return ['model_list', ...Object.keys(SETTING_MEMBERS), ...Object.keys(LEFT_OUT[''] ?? {})]
  if (section === 'model_list')
    return inner === 'litellm_params' ? PARAM_MEMBERS : inner === 'model_info' ? INFO_MEMBERS : ENTRY_MEMBERS
  if (section === 'general_settings' && index === 'litellm_jwtauth') return TOKEN_MEMBERS
  return index === undefined
    ? [...(SETTING_MEMBERS[String(section)] ?? []), ...Object.keys(LEFT_OUT[String(section)] ?? {})]
    : []
}

/** Adds `silent_model` of deployments: shadows of routes. */
const readShadows = (entries: readonly LitellmEntry[], routes: Map<string, RouteDraft>, rows: RowCollector): void => {
  for (const { silent, deployment } of entries) {
    if (!silent) continue
    const { route: name } = deployment
    const route = name === null ? undefined : routes.get(name)
    const [target] = (typeof silent.to === 'string' && routes.get(silent.to)?.targets) || []
    if (name === null || !route) rows.leaveOut(silent.path, 'shadows belong to routes, and names with * have none')
    else if (!target) rows.leaveOut(silent.path, 'there is no such model')
    else if (route.shadow && route.shadow !== target)
      rows.leaveOut(silent.path, 'another deployment of the name has one')
    else {
      routes.set(name, { ...route, shadow: target })
      const { percent, budget } = SHADOW_RULES
      const why = `${percent} % of the requests of the route, up to $${budget} a day and 60 a minute; see docs/shadow.md`
      rows.changed(silent.path, `routes.${name}.shadow`, why)
    }
  }
}

/** Adds `model_group_alias`: further names of routes. */
const readAliases = (aliases: unknown, routes: Map<string, RouteDraft>, rows: RowCollector): void => {
  for (const [name, value] of membersOf(aliases)) {
    const path = ['router_settings', 'model_group_alias', name]
    const to = isMembers(value) ? value.model : value
    const route = typeof to === 'string' ? routes.get(to) : undefined
    if (!route || routes.has(name)) rows.leaveOut(path, route ? 'a model has that name' : 'there is no such model')
    else {
      routes.set(name, route)
      if (isMembers(value) && value.hidden === true) rows.changed(path, `routes.${name}`, 'the list of models shows it')
      else rows.taken(path, `routes.${name}`)
    }
  }
}

type FallbackList = { readonly path: SourcePath; readonly value: unknown; readonly longer: boolean }

const namesIn = (value: unknown): readonly string[] => listOf(value).filter((one) => typeof one === 'string')

/** Adds the fallbacks of all sections to the routes. Returns the largest number of models that one request can reach. */
const readFallbacks = (lists: readonly FallbackList[], routes: Map<string, RouteDraft>, rows: RowCollector): number => {
  const wanted = new Map<string, Set<string>>()
  const add = (name: string, others: readonly string[]) =>
    wanted.set(name, new Set([...(wanted.get(name) ?? []), ...others.filter((other) => other !== name)]))
  const readOne = (path: SourcePath, name: string, value: unknown, longer: boolean): void => {
    const names = namesIn(value)
    const missing = [name, ...names].filter((one) => one !== '*' && !routes.has(one))
    if (names.length === 0 || names.length < listOf(value).length) rows.leaveOut(path, 'not a list of model names')
    else if (missing.length > 0) rows.leaveOut(path, `no route for ${missing.join(', ')}`)
    else {
      for (const one of name === '*' ? routes.keys() : [name]) add(one, names)
      const to = name === '*' ? 'fallback of all routes' : `routes.${name}.fallback`
      if (longer) rows.changed(path, to, 'used after every failure, and at once for a request that is too long')
      else rows.changed(path, to, 'their targets are tried in order, without weights')
    }
  }
  for (const { path, value, longer } of lists) {
    if (value === undefined) continue
    if (path.at(-1) === 'default_fallbacks') readOne(path, '*', value, longer)
    else if (!Array.isArray(value)) rows.leaveOut(path, 'not a list')
    // A name alone is a fallback of all models.
    else
      for (const [index, item] of value.entries())
        if (typeof item === 'string') readOne([...path, index], '*', [item], longer)
        else for (const [name, names] of membersOf(item)) readOne([...path, index, name], name, names, longer)
  }
  const before = new Map(routes)
  for (const [name, names] of wanted) {
    const route = before.get(name)
    if (route)
      routes.set(
        name,
        withFallbacks(
          route,
          [...names].flatMap((one) => before.get(one) ?? []),
        ),
      )
  }
  return 1 + Math.max(0, ...[...wanted.values()].map(({ size }) => size))
}

/** `environment_variables`: a value that the imported settings use is kept beside the literal keys. */
const readVariables = (section: unknown, used: string, secrets: LiteralSecrets, rows: RowCollector): void => {
  for (const [name, value] of membersOf(section)) {
    const path = ['environment_variables', name]
    const other = variableIn(value)
    if (!used.includes(`\${${name}}`)) rows.leaveOut(path, 'no imported setting uses it; set it in the environment')
    else if (other === name) rows.taken(path, `the variable ${name}`)
    else if (typeof value !== 'string' || other !== undefined || value === '')
      rows.leaveOut(path, `set the variable ${name} in the environment`)
    else {
      secrets.values.set(name, value)
      rows.changed(path, `the variable ${name}`, 'a literal value: it is now in the environment')
    }
  }
}

const hasWildcardName = (entries: readonly unknown[]): boolean =>
  entries.some((entry) => isMembers(entry) && entry.model_name === '*')

/** Maps the whole file. `reserved`: names of known providers. Undefined: it has no `model_list`. */
export const importLitellm = (source: ImportSource, reserved: ReadonlySet<string>): Imported | undefined => {
  const root = isMembers(source.value) ? source.value : {}
  if (!Array.isArray(root.model_list)) return undefined
  const rows = new RowCollector(source)
  const secrets = new LiteralSecrets()
  const router = sectionOf(root, 'router_settings')
  const sections: SettingSections = {
    router_settings: router,
    litellm_settings: sectionOf(root, 'litellm_settings'),
    general_settings: sectionOf(root, 'general_settings'),
  }
  const credentials = readCredentials(root.credential_list, rows)
  const entries = readModelList(root.model_list, { rows, secrets, credentials }, router)
  const drafts = draftProviders(
    entries.map(({ deployment }) => deployment),
    reserved,
  )
  noteKeys(drafts, rows)
  leaveOutCredentials(root.credential_list, rows)
  const routes = new Map(draftRoutes(drafts))
  readShadows(entries, routes, rows)
  readAliases(router.model_group_alias, routes, rows)
  const lists = (['router_settings', 'litellm_settings'] as const).flatMap((section) =>
    ['fallbacks', 'default_fallbacks', 'context_window_fallbacks'].map((name) => ({
      path: [section, name],
      value: sections[section][name],
      longer: name.startsWith('context'),
    })),
  )
  const reach = readFallbacks(lists, routes, rows)
  const { settings, cache } = readSettings(sections, { rows, secrets, reach })
  const jwt = readTokens(sections.general_settings, rows)
  const guards = readGuards(root.guardrails, { rows, secrets })
  for (const [section, reasons] of Object.entries(LEFT_OUT))
    for (const [name, why] of Object.entries(reasons)) {
      const of = section === '' ? root : sectionOf(root, section)
      if (Object.hasOwn(of, name)) rows.leaveOut(section === '' ? [name] : [section, name], why)
    }
  const prices = entries.flatMap(({ deployment, prices: perMillion }) => {
    const provider = drafts.get(deployment)?.name
    return Object.keys(perMillion).length > 0 ? [{ provider, model: deployment.model ?? '*', perMillion }] : []
  })
  const config: Record<string, unknown> = {
    providers: providerEntries(drafts),
    ...(routes.size > 0 && { routes: routeEntries(routes, cache) }),
    ...(prices.length > 0 && { prices }),
    ...(Object.keys(guards).length > 0 && { guards }),
    // As in LiteLLM: a request stays with the models of its name and their fallbacks.
    fallback: 'same-model',
    unknownModel: hasWildcardName(root.model_list) ? 'route' : 'reject',
    ...settings,
    ...(jwt.length > 0 && { auth: { ...(isMembers(settings.auth) ? settings.auth : {}), jwt } }),
  }
  readVariables(root.environment_variables, JSON.stringify(config), secrets, rows)
  return { config, rows: rows.finish(knownIn, FAMILIES), comments: [], literals: secrets.values }
}
