/** Maps a configuration of Portkey's gateway. Pure: no environment, no files. */
import {
  type Deployment,
  draftProviders,
  draftRoutes,
  noteKeys,
  type ProviderDraft,
  providerEntries,
  routeEntries,
} from './deployments.ts'
import { type Imported, LiteralSecrets, RowCollector } from './imported.ts'
import { type Condition, readQuery } from './portkey-conditions.ts'
import { NODE_MEMBERS, RETRY_LEFT_OUT, STRATEGY_LEFT_OUT } from './portkey-names.ts'
import {
  IDENTITY,
  innerNode,
  type Leaf,
  leavesIn,
  modeOf,
  noteNode,
  oneAfterAnother,
  type TreeNode,
  type TreeTools,
  targetsOf,
  treeNode,
} from './portkey-tree.ts'
import { type ImportSource, isMembers, listOf, type SourceMembers, type SourcePath } from './source.ts'
import { noteSettings } from './target-settings.ts'

/** The route of a configuration, which has no name of its own. */
export const ROUTE = 'default'

const STRATEGY_MEMBERS = ['mode', 'conditions', 'default', 'cb_config', ...Object.keys(STRATEGY_LEFT_OUT)]
const RETRY_MEMBERS = ['attempts', 'use_retry_after_header', 'use_retry_after_headers', ...Object.keys(RETRY_LEFT_OUT)]

/** The names that are possible in a member, for "did you mean …?". */
const knownIn = (parent: SourcePath): readonly string[] => {
  const name = parent.at(-1)
  if (name === undefined || typeof name === 'number') return NODE_MEMBERS
  if (name === 'strategy') return STRATEGY_MEMBERS
  if (name === 'retry') return RETRY_MEMBERS
  return name === 'cache' ? ['mode', 'max_age'] : name === 'override_params' ? ['model'] : []
}

const WHEN_DIFFERENCE =
  'metadata are tags of client keys and teams, not of requests; after a failure the targets that follow are tried'

/** Leaves with the name that clients send. A target without a model of its own receives that name. */
const onRoute = (leaves: readonly Leaf[], route: string): readonly Leaf[] =>
  leaves.map((leaf) => ({
    ...leaf,
    deployment: { ...leaf.deployment, route, model: leaf.deployment.model ?? route },
  }))

type Selection = { readonly alternatives: readonly Condition[]; readonly leaves: readonly Leaf[] }

/** Leaves that a request reaches only if one of the conditions holds; null: always. */
const onCondition = (leaves: readonly Leaf[], conditions: readonly (SourceMembers | null)[]): readonly Leaf[] => {
  const all = conditions.filter((one) => one !== null)
  if (all.length < conditions.length) return leaves
  return leaves.map((leaf) => ({ ...leaf, deployment: { ...leaf.deployment, conditions: all } }))
}

/** The leaves of a route: those of the first conditions that may hold, and the default, each after the one before. */
const selected = (
  selections: readonly Selection[],
  other: readonly Leaf[],
  isFor: (names: Condition['names']) => boolean,
): readonly Leaf[] => {
  const groups: (readonly Leaf[])[] = []
  for (const { alternatives, leaves } of selections) {
    const conditions = alternatives.filter(({ names }) => isFor(names)).map(({ when }) => when)
    if (conditions.length > 0) groups.push(onCondition(leaves, conditions))
    if (conditions.includes(null)) return oneAfterAnother(groups)
  }
  return oneAfterAnother([...groups, other])
}

const NEEDS_ROUTE = 'a condition needs a route: name the models of all targets'

/** Routes of a strategy with conditions, and the leaves of the route for all other names. */
const readConditions = (
  root: TreeNode,
  tools: TreeTools,
): { readonly named: readonly Leaf[]; readonly main: readonly Leaf[] } => {
  const { rows } = tools
  const strategy = innerNode(root, 'strategy')
  const list = strategy.members.get('conditions')
  const other = strategy.members.get('default')
  const conditions = listOf(list?.value).map((one, index) => {
    const { query, then } = isMembers(one) ? one : {}
    return { path: [...(list?.path ?? []), index], alternatives: readQuery(query), then }
  })
  const used = new Set([
    other?.value,
    ...conditions.map(({ alternatives, then }) => (typeof alternatives === 'string' ? undefined : then)),
  ])
  const read = new Map<unknown, readonly Leaf[]>()
  for (const target of targetsOf(root)) {
    const name = target.members.get('name')?.value
    if (used.has(name)) read.set(name, leavesIn(target, {}, tools))
    else rows.leaveOut(target.path, 'no condition that is taken selects it')
  }
  const main = read.get(other?.value) ?? []
  const lacksModel = (leaves: readonly Leaf[]) => leaves.some(({ deployment }) => deployment.model === null)
  const selections = conditions.flatMap(({ path, alternatives, then }): readonly Selection[] => {
    const leaves = read.get(then) ?? []
    const refuse = (why: string) => {
      rows.leaveOut(path, why)
      return []
    }
    if (typeof alternatives === 'string') return refuse(alternatives)
    if (leaves.length === 0) return refuse('there is no such target')
    if (alternatives.some(({ names }) => !names) && (lacksModel(leaves) || lacksModel(main))) return refuse(NEEDS_ROUTE)
    const names = [...new Set(alternatives.flatMap((one) => one.names ?? [ROUTE]))]
    const to = names.map((name) => `routes.${name}`).join(', ')
    if (alternatives.every(({ when }) => when === null)) rows.taken(path, to)
    else rows.changed(path, `${to}: when`, WHEN_DIFFERENCE)
    return [{ alternatives, leaves }]
  })
  const mode = strategy.members.get('mode')
  if (mode) rows.taken(mode.path, 'routes by name, and conditions of targets')
  if (other && main.length > 0) rows.taken(other.path, `routes.${ROUTE}`)
  const names = new Set(selections.flatMap(({ alternatives }) => alternatives.flatMap((one) => one.names ?? [])))
  return {
    named: [...names].flatMap((name) =>
      onRoute(
        selected(selections, main, (only) => only === null || only.includes(name)),
        name,
      ),
    ),
    main: selected(selections, main, (only) => only === null),
  }
}

const whole = (value: unknown, most: number): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= most ? value : undefined

/** `retry` and `request_timeout` of the whole configuration. `reach`: the number of its targets. */
const readLimits = (root: TreeNode, reach: number, { rows }: TreeTools): SourceMembers => {
  const { members: retry } = innerNode(root, 'retry')
  const [attempts, timeout] = [retry.get('attempts'), root.members.get('request_timeout')]
  const count = whole(attempts?.value, 99)
  const ms = whole(timeout?.value, 2_147_483_647)
  const maxAttempts = Math.min(100, ((count ?? 0) + 1) * Math.max(1, reach))
  if (attempts && count !== undefined)
    rows.changed(attempts.path, `retry.maxAttempts: ${maxAttempts}`, 'attempts over all targets, with the first')
  if (timeout && ms) rows.changed(timeout.path, `timeout.request: ${ms}`, 'for a whole request with its retries')
  for (const [name, { path, value }] of retry) {
    if (RETRY_LEFT_OUT[name] !== undefined) rows.leaveOut(path, RETRY_LEFT_OUT[name])
    if (name.startsWith('use_retry_after_header') && value === true) rows.taken(path, 'always')
    else if (name.startsWith('use_retry_after_header')) rows.changed(path, 'always', '`Retry-After` is always obeyed')
  }
  return { ...(count !== undefined && { retry: { maxAttempts } }), ...(ms && { timeout: { request: ms } }) }
}

const CIRCUIT: Readonly<Record<string, readonly [string, string, number]>> = {
  failure_threshold: ['consecutiveFailures', 'failures in a row', 1_000_000],
  failure_threshold_percentage: ['errorThreshold', '', 100],
  cooldown_interval: ['resetTimeout', 'the longest time until one request probes the target', 2_147_483_647],
  minimum_requests: ['minRequests', '', 1_000_000],
}

const readStrategy = (root: TreeNode, { rows }: TreeTools): SourceMembers => {
  const strategy = innerNode(root, 'strategy')
  const circuit: Record<string, number> = {}
  for (const [name, { path, value }] of innerNode(strategy, 'cb_config').members) {
    const [to, why, most] = CIRCUIT[name] ?? []
    const count = whole(value, most ?? 0)
    if (to === undefined || !count) {
      rows.leaveOut(path, to === undefined ? 'circuits have no such setting' : 'a value that cannot be used')
      continue
    }
    circuit[to] = count
    if (why) rows.changed(path, `circuit.${to}: ${count}`, why)
    else rows.taken(path, `circuit.${to}: ${count}`)
  }
  return Object.keys(circuit).length > 0 ? { circuit } : {}
}

/** The `cache` of the routes. */
const readCache = (root: TreeNode, hasRoutes: boolean, { rows }: TreeTools): SourceMembers | undefined => {
  const cache = root.members.get('cache')
  if (!cache) return undefined
  if (!hasRoutes) return void rows.leaveOut(cache.path, 'there is no route: set `cache` of a team or key')
  const { members } = innerNode(root, 'cache')
  const mode = members.get('mode') ?? cache
  const age = members.get('max_age')
  const to = 'cache of the routes'
  if (mode.value === 'simple')
    rows.changed(mode.path, to, 'in memory; answers are shared by requests of one client key')
  else if (mode.value === 'semantic') rows.changed(mode.path, to, 'equal requests only, not similar ones')
  else return void rows.leaveOut(cache.path, 'its mode is none of simple, semantic')
  const ttl = whole(age?.value, 86_400)
  if (age && ttl !== undefined) rows.taken(age.path, `${to}, ttl: ${ttl}`)
  else if (age) rows.leaveOut(age.path, 'not a whole number of seconds up to a day')
  for (const [, { path }] of members) rows.leaveOut(path, 'the cache has no such setting')
  return { ...(ttl !== undefined && { ttl }), anyTemperature: true }
}

/** Rows of models and weights, which depend on whether there is a route. */
const noteLeaves = (
  { leaves, isOpen }: { leaves: readonly Leaf[]; isOpen: boolean },
  drafts: ReadonlyMap<Deployment, ProviderDraft>,
  { rows }: TreeTools,
): void => {
  for (const { deployment, modelPath, weightPath, settings } of leaves) {
    noteSettings(settings, isOpen ? 'settings of a target need a route: name the models of all targets' : null, rows)
    const draft = drafts.get(deployment)
    const to = `providers.${draft?.name}`
    if (modelPath && isOpen && draft?.hasWildcard)
      rows.leaveOut(modelPath, 'without a route, a provider has one model of a request: name all models')
    else if (modelPath) rows.taken(modelPath, isOpen ? `the first of ${to}.models` : 'model of the target')
    if (!weightPath) continue
    if (!isOpen) rows.taken(weightPath, 'weight of the target')
    else if (draft && draft.keys.size > 1) rows.taken(weightPath, `weight in ${to}.keys`)
    else if (deployment.order > 0) rows.leaveOut(weightPath, 'fallbacks have no weights')
    else rows.leaveOut(weightPath, 'shares need a route: name the models of all targets')
  }
}

/** Whether any strategy in the configuration divides the load. */
const divides = (node: TreeNode): boolean => modeOf(node) === 'loadbalance' || targetsOf(node).some(divides)

/** Maps the whole file. `reserved`: names of known providers. Undefined: it is no configuration. */
export const importPortkey = (source: ImportSource, reserved: ReadonlySet<string>): Imported | undefined => {
  const root = treeNode(source.value, [])
  const hasTarget = [...IDENTITY, 'targets'].some((name) => root.members.has(name))
  if (!hasTarget && !['retry', 'cache', 'request_timeout'].some((name) => root.members.has(name))) return undefined
  const rows = new RowCollector(source)
  const secrets = new LiteralSecrets()
  const tools = { rows, secrets }
  noteNode(root, tools)
  const isConditional = modeOf(root) === 'conditional'
  const { named, main: leaves } = isConditional
    ? readConditions(root, tools)
    : { named: [], main: hasTarget ? leavesIn(root, {}, tools) : [] }
  // Without a model of its own, a target receives the name that the client sends; a route has one model for each target.
  const isOpen = leaves.some(({ deployment }) => deployment.model === null)
  const main = isOpen ? leaves : onRoute(leaves, ROUTE)
  const all = [...named, ...main]
  const drafts = draftProviders(
    all.map(({ deployment }) => deployment),
    reserved,
  )
  noteLeaves({ leaves: main, isOpen }, drafts, tools)
  noteLeaves({ leaves: named, isOpen: false }, drafts, tools)
  noteKeys(drafts, rows)
  const routes = draftRoutes(drafts)
  const providers = providerEntries(drafts)
  const settings = { ...readLimits(root, Math.max(named.length, main.length), tools), ...readStrategy(root, tools) }
  const entries = routeEntries(routes, readCache(root, routes.size > 0, tools))
  const config = {
    providers,
    ...(routes.size > 0 && { routes: entries }),
    fallback: isOpen && Object.keys(providers).length > 1 ? 'any' : 'same-model',
    unknownModel: 'reject',
    strategy: divides(root) ? 'weighted' : 'priority',
    ...settings,
  }
  return { config, rows: rows.finish(knownIn), comments: [], literals: secrets.values }
}
