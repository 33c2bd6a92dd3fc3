/** Reads the targets of a Portkey configuration, which may contain further targets. */
import { nearest } from '../../src/core/nearest.ts'
import { type Deployment, isAddress, kindAt } from './deployments.ts'
import { configText, type LiteralSecrets, type RowCollector } from './imported.ts'
import { LEFT_OUT, PORTKEY_PROVIDERS, RETRY_LEFT_OUT, SLUG_WORDS, STRATEGY_LEFT_OUT } from './portkey-names.ts'
import { listOf, membersOf, type SourcePath } from './source.ts'
import { SettingCollector, type TargetSettings } from './target-settings.ts'

type TreeMember = { readonly value: unknown; readonly path: SourcePath }

/** An object with its members by their name in snake case; Portkey also reads camel case. */
export type TreeNode = { readonly path: SourcePath; readonly members: ReadonlyMap<string, TreeMember> }

export type TreeTools = { readonly rows: RowCollector; readonly secrets: LiteralSecrets }

/** A deployment whose route is chosen later. `modelPath`: the member with its model. */
export type Leaf = {
  readonly deployment: Deployment
  readonly modelPath: SourcePath | null
  readonly weightPath: SourcePath | null
  readonly settings: TargetSettings
}

export const treeNode = (value: unknown, path: SourcePath): TreeNode => ({
  path,
  members: new Map(
    membersOf(value).map(([name, inner]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      { value: inner, path: [...path, name] },
    ]),
  ),
})

/** The member as an object; without members if it is none. */
export const innerNode = (node: TreeNode, name: string): TreeNode => {
  const member = node.members.get(name)
  return treeNode(member?.value, member?.path ?? [...node.path, name])
}

const MODES = ['single', 'fallback', 'loadbalance', 'conditional']

export const modeOf = (node: TreeNode): unknown => innerNode(node, 'strategy').members.get('mode')?.value

export const targetsOf = (node: TreeNode): readonly TreeNode[] => {
  const targets = node.members.get('targets')
  return listOf(targets?.value).map((value, index) => treeNode(value, [...(targets?.path ?? []), index]))
}

/** Members that make a target. */
export const IDENTITY = ['provider', 'virtual_key', 'override_params']

/** What targets inherit: Portkey's parents pass on the address and the model. */
type Inherited = { readonly host?: TreeMember; readonly model?: TreeMember }

/** The provider of a target and what its name says about the key. A text: why there is none. */
type Named = { readonly kind: string; readonly slug: string | null; readonly path: SourcePath | null } | string

const kindOfSlug = (slug: string): string | undefined =>
  PORTKEY_PROVIDERS[slug] ?? SLUG_WORDS.find(([word]) => slug.includes(word))?.[1]

/** A provider that is stored at Portkey: its kind is assumed from its name. */
const storedProvider = (slug: string, path: SourcePath): Named => {
  const kind = kindOfSlug(slug.toLowerCase())
  return kind === undefined ? 'its provider is stored at Portkey: write provider and api_key' : { kind, slug, path }
}

const providerOf = ({ members }: TreeNode, model: TreeMember | undefined): Named => {
  const [provider, key] = [members.get('provider'), members.get('virtual_key')]
  if (typeof provider?.value === 'string' && !provider.value.startsWith('@')) {
    const kind = PORTKEY_PROVIDERS[provider.value]
    if (kind === undefined) {
      const [meant] = nearest(provider.value, Object.keys(PORTKEY_PROVIDERS))
      return `there is no such provider${meant === undefined ? '' : `; did you mean ${meant}?`}`
    }
    return typeof key?.value === 'string' ? { kind, slug: key.value, path: key.path } : { kind, slug: null, path: null }
  }
  const stored = provider ?? key
  if (typeof stored?.value === 'string') return storedProvider(stored.value.replace('@', ''), stored.path)
  const prefix = typeof model?.value === 'string' ? /^@([^/]+)\//.exec(model.value)?.[1] : undefined
  if (prefix !== undefined && model) return storedProvider(prefix, model.path)
  return members.has('prompt_id')
    ? 'a prompt that is stored at Portkey, with its model: clients send the messages'
    : 'a target without provider'
}

/** The text of a member, with its row. */
const textOf = (node: TreeNode, names: readonly string[], to: string, { rows }: TreeTools): string | undefined => {
  for (const name of names) {
    const member = node.members.get(name)
    const text = configText(member?.value)
    if (!member) continue
    if (text === undefined) rows.leaveOut(member.path, 'not a text')
    else {
      rows.taken(member.path, to)
      return text
    }
  }
  return undefined
}

const VARIABLES: Readonly<Record<string, readonly (readonly [string, readonly string[]])[]>> = {
  'azure-openai': [['apiVersion', ['api_version', 'azure_api_version']]],
  bedrock: [['region', ['aws_region']]],
  vertex: [
    ['project', ['vertex_project_id']],
    ['location', ['vertex_region']],
  ],
  'workers-ai': [['accountId', ['workers_ai_account_id']]],
}

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: references to variables in headgate.yaml
const DEFAULTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  bedrock: { region: '${AWS_REGION}' },
  vertex: { project: '${VERTEX_PROJECT}', location: '${VERTEX_LOCATION}' },
  'workers-ai': { accountId: '${WORKERS_AI_ACCOUNT_ID}' },
}
/** Addresses of providers that have none of their own. */
const ADDRESSES: Readonly<Record<string, string>> = {
  'azure-openai': '${AZURE_OPENAI_BASE_URL}',
  ollama: 'http://localhost:11434',
}
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: end of the tables

const variablesOf = (kind: string, node: TreeNode, tools: TreeTools): Record<string, string> => {
  const found: Record<string, string> = { ...DEFAULTS[kind] }
  for (const [name, members] of VARIABLES[kind] ?? []) {
    const text = textOf(node, members, `variables.${name} of the provider`, tools)
    if (text !== undefined) found[name] = text
  }
  return found
}

const addressOf = (kind: string, node: TreeNode, { host }: Inherited, tools: TreeTools): string | undefined => {
  const own = textOf(node, ['custom_host', 'azure_foundry_url'], 'baseUrl of the provider', tools)
  const given = own ?? configText(host?.value)
  if (given !== undefined) return given
  if (kind !== 'azure-openai') return ADDRESSES[kind]
  const resource = textOf(node, ['resource_name', 'azure_resource_name'], 'baseUrl of the provider', tools)
  return resource === undefined ? ADDRESSES[kind] : `https://${resource}.openai.azure.com`
}

/** Servers that may need no key, and clouds with credentials of the machine. */
const KEYLESS = ['openai-compatible', 'ollama', 'bedrock', 'vertex']

const keyOf = (named: Exclude<Named, string>, kind: string, node: TreeNode, { rows, secrets }: TreeTools) => {
  const written = node.members.get('api_key')
  const key = written && secrets.reference(written.value, `${kind}_KEY`)
  if (written && !key) rows.leaveOut(written.path, 'not a text')
  if (written && key) return { ...key, path: written.path }
  if (KEYLESS.includes(kind) && (named.slug === null || kind !== 'openai-compatible')) return undefined
  const name = (named.slug === null ? `${kind}_api_key` : `portkey_${named.slug}`)
    .toUpperCase()
    .replace(/[^A-Z0-9]+/g, '_')
  return { text: `\${${name.endsWith('KEY') ? name : `${name}_KEY`}}`, literal: false, path: null }
}

/** The model of a target, without Portkey's name of the provider. */
const modelIn = (value: unknown): string | undefined => configText(value)?.replace(/^@[^/]+\//, '')

/** Settings of a target. Those of the file itself are settings of the gateway, except for its parameters. */
const settingsOf = (node: TreeNode, { rows }: TreeTools): TargetSettings => {
  const settings = new SettingCollector(rows)
  for (const [name, { path, value }] of innerNode(node, 'override_params').members)
    if (name !== 'model') settings.parameter(path, 'set', [name, value])
  if (node.path.length === 0) return settings
  const timeout = node.members.get('request_timeout')
  if (timeout) settings.time(timeout.path, timeout.value, { name: 'request', unitMs: 1, why: null })
  for (const [name, { path, value }] of innerNode(node, 'retry').members)
    if (name === 'attempts') settings.retries(path, value)
    else rows.leaveOut(path, RETRY_LEFT_OUT[name] ?? '`Retry-After` is always obeyed')
  return settings
}

const readLeaf = (node: TreeNode, inherited: Inherited, tools: TreeTools): readonly Leaf[] => {
  const { rows } = tools
  const refuse = (why: string): readonly Leaf[] => {
    const member = [...IDENTITY, 'weight', 'targets'].map((name) => node.members.get(name)).find(Boolean)
    // The whole file cannot be left out: other members are settings.
    if (node.path.length > 0 || !member) rows.leaveOutWhole(node.path, why)
    else rows.leaveOutWhole(member.path, why)
    return []
  }
  const params = innerNode(node, 'override_params')
  const written = params.members.get('model')
  const model = written ?? inherited.model
  const named = providerOf(node, model)
  if (typeof named === 'string') return refuse(named)
  const weight = node.members.get('weight')
  if (weight && Number(weight.value) === 0) return refuse('a target without a share of the load')
  const share = Number(weight?.value ?? 1)
  if (!(share > 0 && share <= 1_000_000)) return refuse('its weight is not a number above 0, up to 1000000')
  const baseUrl = addressOf(named.kind, node, inherited, tools)
  if (baseUrl !== undefined && !isAddress(baseUrl)) return refuse('the address is not a plain http or https URL')
  const kind = kindAt(named.kind, baseUrl)
  const key = keyOf(named, kind, node, tools)
  const provider = node.members.get('provider')
  if (named.path && !key?.literal) {
    const assumed = provider && provider.path !== named.path ? '' : `; assumed to be ${kind}`
    const why = key ? `set ${key.text.slice(2, -1)} to its key` : "the machine's own credentials are used"
    const to = named.path === model?.path ? 'model of the target' : 'keys of the provider'
    rows.changed(named.path, to, `stored at Portkey: ${why}${assumed}`)
  }
  if (provider) rows.taken(provider.path, `kind: ${kind}`)
  const deployed = textOf(node, ['deployment_id', 'azure_deployment_id'], 'model of the target', tools)
  const settings = settingsOf(node, tools)
  const deployment: Deployment = {
    route: null,
    kind,
    baseUrl,
    variables: variablesOf(kind, node, tools),
    key,
    model: deployed ?? modelIn(model?.value) ?? null,
    weight: share,
    order: 0,
    settings: settings.members,
  }
  return [{ deployment, modelPath: written?.path ?? null, weightPath: weight?.path ?? null, settings }]
}

const withPlace = (leaf: Leaf, place: { readonly weight?: number; readonly order?: number }): Leaf => ({
  ...leaf,
  deployment: { ...leaf.deployment, ...place },
})

/** Fallbacks of fallbacks follow each other: each target begins where the one before it ends. */
export const oneAfterAnother = (groups: readonly (readonly Leaf[])[]): readonly Leaf[] => {
  let next = 0
  return groups.flatMap((group) => {
    const base = next
    next = 1 + Math.max(base - 1, ...group.map(({ deployment }) => base + deployment.order))
    return group.map((leaf) => withPlace(leaf, { order: base + leaf.deployment.order }))
  })
}

/** The share of a group is divided over its first targets. */
const divided = (group: readonly Leaf[], share: number): readonly Leaf[] => {
  const first = group.filter(({ deployment }) => deployment.order === 0)
  const total = first.reduce((sum, { deployment }) => sum + deployment.weight, 0)
  return group.map((leaf) =>
    leaf.deployment.order === 0 ? withPlace(leaf, { weight: (share * leaf.deployment.weight) / total }) : leaf,
  )
}

/** Rows of all members without a counterpart, and of those that have one only at the root. */
export const noteNode = (node: TreeNode, { rows }: TreeTools): void => {
  const isGroup = node.members.has('targets')
  for (const [name, { path, value }] of node.members) {
    if (LEFT_OUT[name] !== undefined) rows.leaveOut(path, LEFT_OUT[name])
    else if (name === 'name') rows.taken(path, 'names of targets are not needed')
    else if (isGroup && node.path.length > 0 && (name === 'request_timeout' || name === 'retry'))
      rows.leaveOut(path, 'not imported: write it at each of the targets')
    else if (node.path.length > 0 && name === 'cache') rows.leaveOut(path, 'the cache is set for a whole route')
    else if (name === 'targets' && !Array.isArray(value)) rows.leaveOut(path, 'not a list of targets')
  }
  for (const [name, { path }] of innerNode(node, 'strategy').members)
    if (STRATEGY_LEFT_OUT[name] !== undefined) rows.leaveOut(path, STRATEGY_LEFT_OUT[name])
  if (!isGroup) return
  for (const [name, { path }] of innerNode(node, 'override_params').members)
    if (name !== 'model') rows.leaveOut(path, 'not imported: write `set` at each of the targets')
}

const inheritedBy = (node: TreeNode, inherited: Inherited, { rows }: TreeTools): Inherited => {
  const host = node.members.get('custom_host')
  const model = innerNode(node, 'override_params').members.get('model')
  if (host) rows.taken(host.path, 'baseUrl of the providers')
  if (model) rows.taken(model.path, 'model of the targets without one')
  return { ...inherited, ...(host && { host }), ...(model && { model }) }
}

/** All deployments of a node, with their weights and orders. Deployments of order 0 share the load. */
export const leavesIn = (node: TreeNode, inherited: Inherited, tools: TreeTools): readonly Leaf[] => {
  const { rows } = tools
  noteNode(node, tools)
  if (!node.members.has('targets')) return readLeaf(node, inherited, tools)
  const mode = innerNode(node, 'strategy').members.get('mode')
  if (!mode || !MODES.includes(String(mode.value)) || (mode.value === 'conditional' && node.path.length > 0)) {
    rows.leaveOut(
      node.members.get('targets')?.path ?? node.path,
      'strategy.mode is none of single, fallback, loadbalance',
    )
    return []
  }
  const below = inheritedBy(node, inherited, tools)
  const targets = targetsOf(node)
  const read = (target: TreeNode): readonly Leaf[] => leavesIn(target, below, tools)
  if (mode.value === 'single') {
    rows.taken(mode.path, 'one target')
    for (const { path } of targets.slice(1)) rows.leaveOut(path, 'the strategy `single` uses the first target')
    return targets.slice(0, 1).flatMap(read)
  }
  if (mode.value === 'fallback') {
    rows.taken(mode.path, 'targets, then fallback')
    return oneAfterAnother(targets.map(read))
  }
  rows.changed(mode.path, 'strategy: weighted', 'after a failure the other targets are tried too')
  return targets.flatMap((target) => {
    const weight = target.members.get('weight')
    if (weight && target.members.has('targets')) rows.taken(weight.path, 'weight of its targets')
    return divided(read(target), Number(weight?.value ?? 1))
  })
}
