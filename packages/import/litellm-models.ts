/** Maps `model_list` of LiteLLM: each entry is one deployment. */
import { nearest } from '../../src/core/nearest.ts'
import { type Deployment, isAddress, kindAt } from './deployments.ts'
import { configText, type LiteralSecrets, type RowCollector } from './imported.ts'
import {
  BARE_MODELS,
  LEFT_OUT,
  LITELLM_PROVIDERS,
  type LitellmProvider,
  SERVED,
  SERVED_MODES,
} from './litellm-names.ts'
import { type GroupTags, readTags, readTargetSettings, TARGET_MEMBERS, tagsByName } from './litellm-targets.ts'
import { isMembers, listOf, membersOf, type SourceMembers, type SourcePath } from './source.ts'
import { noteSettings } from './target-settings.ts'

/** What an entry of the list can have, for "did you mean …?". */
export const ENTRY_MEMBERS = ['model_name', 'litellm_params', 'model_info']

export const PARAM_MEMBERS = [
  ...['model', 'api_base', 'base_url', 'api_key', 'api_version', 'custom_llm_provider', 'weight', 'order'],
  ...['aws_region_name', 'vertex_project', 'vertex_location', 'vertex_ai_project', 'vertex_ai_location', 'region_name'],
  ...['litellm_credential_name', 'input_cost_per_token', 'output_cost_per_token', 'cache_read_input_token_cost'],
  ...['cache_creation_input_token_cost', 'silent_model'],
  ...TARGET_MEMBERS,
  ...Object.keys(LEFT_OUT.litellm_params ?? {}),
]

export const INFO_MEMBERS = [
  ...['mode', 'input_cost_per_token', 'output_cost_per_token', 'cache_read_input_token_cost'],
  'cache_creation_input_token_cost',
  ...Object.keys(LEFT_OUT.model_info ?? {}),
]

/** An entry that became a deployment. */
export type LitellmEntry = {
  readonly path: SourcePath
  readonly deployment: Deployment
  readonly prices: SourceMembers
  /** `silent_model`: the name whose deployments receive copies of its requests. */
  readonly silent?: { readonly to: unknown; readonly path: SourcePath }
}

/** An entry of `credential_list`. */
type Credential = { readonly values: SourceMembers; readonly path: SourcePath }

type EntryTools = {
  readonly rows: RowCollector
  readonly secrets: LiteralSecrets
  readonly credentials: ReadonlyMap<unknown, Credential>
  readonly usesRates: boolean
  readonly tags: GroupTags
}

/** The provider and the model of `litellm_params.model`; a text: why there is none. */
const providerOf = (
  written: string,
  custom: unknown,
): { readonly provider: LitellmProvider; readonly model: string } | string => {
  const slash = written.indexOf('/')
  const head = slash > 0 ? written.slice(0, slash) : ''
  const bare = BARE_MODELS.find(([pattern]) => pattern.test(written))?.[1] ?? ''
  const prefix = typeof custom === 'string' ? custom : head || bare
  const model = prefix === head && head !== '' ? written.slice(slash + 1) : written
  if (prefix === '') return 'the provider is not stated: write provider/model'
  if (Object.hasOwn(LITELLM_PROVIDERS, prefix)) {
    const provider = LITELLM_PROVIDERS[prefix]
    if (provider) return { provider, model: model.replace(/^(?:converse|invoke|converse_like|responses)\//, '') }
  }
  const [meant] = nearest(prefix, Object.keys(LITELLM_PROVIDERS))
  return meant === undefined
    ? 'there is no such provider; if it has the API of OpenAI: openai/MODEL with its api_base'
    : `there is no such provider; did you mean ${meant}?`
}

const positive = (value: unknown): number | undefined =>
  typeof value === 'number' && value > 0 && value <= 1_000_000 ? value : undefined

/** The weight of an entry. `usesRates`: without weights, LiteLLM's simple-shuffle uses `rpm` or `tpm` as weights. */
const weightOf = (params: SourceMembers, path: SourcePath, { rows, usesRates }: EntryTools): number => {
  const weight = positive(params.weight)
  if (weight !== undefined) {
    rows.taken([...path, 'weight'], 'weight of the target')
    return weight
  }
  if ('weight' in params) rows.leaveOut([...path, 'weight'], 'not a number above 0, up to 1000000')
  const [name] = ['rpm', 'tpm'].filter((one) => positive(params[one]) !== undefined)
  if (!usesRates || name === undefined) return 1
  rows.changed([...path, name], 'weight of the target', 'a share of the load, not a limit')
  return positive(params[name]) ?? 1
}

const VARIABLES: readonly (readonly [string, string, readonly string[]])[] = [
  ['bedrock', 'region', ['aws_region_name']],
  ['vertex', 'project', ['vertex_project', 'vertex_ai_project']],
  ['vertex', 'location', ['vertex_location', 'vertex_ai_location']],
  ['azure-openai', 'apiVersion', ['api_version']],
]

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: references to variables in headgate.yaml
const DEFAULTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  bedrock: { region: '${AWS_REGION_NAME}' },
  vertex: { project: '${VERTEXAI_PROJECT}', location: '${VERTEXAI_LOCATION}' },
}
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: end of the table

const variablesOf = (
  kind: string,
  params: SourceMembers,
  at: (member: string) => SourcePath,
  rows: RowCollector,
): Record<string, string> => {
  const found: Record<string, string> = { ...DEFAULTS[kind] }
  for (const [of, name, members] of VARIABLES)
    for (const member of members) {
      const text = configText(params[member])
      if (!(member in params)) continue
      if (of !== kind) rows.leaveOut(at(member), 'this provider has no such variable')
      else if (text === undefined) rows.leaveOut(at(member), 'not a text')
      else {
        found[name] = text
        rows.taken(at(member), `variables.${name} of the provider`)
      }
    }
  return found
}

/** The regions of LiteLLM's region-based routing (docs.litellm.ai/docs/proxy/customer_routing). */
const REGIONS: readonly unknown[] = ['eu', 'us']

/** The region that an entry declares. */
const regionOf = (value: unknown, path: SourcePath, rows: RowCollector): string | undefined => {
  if (value === undefined) return undefined
  if (typeof value !== 'string' || !REGIONS.includes(value))
    return void rows.leaveOut(path, 'not a region of LiteLLM (eu, us); declare `facts.region` of the provider')
  rows.changed(path, `facts.region: ${value}`, 'teams and keys choose it by `require`; see docs/data-policy.md')
  return value
}

const PRICES = {
  input_cost_per_token: 'input',
  output_cost_per_token: 'output',
  cache_read_input_token_cost: 'cacheRead',
  cache_creation_input_token_cost: 'cacheWrite',
} as const

/** A number with at most nine decimals, without zeros at its end and without an exponent. */
const decimalText = (value: number): string => {
  const text = value.toFixed(9)
  let end = text.length
  while (text[end - 1] === '0') end--
  return text.slice(0, text[end - 1] === '.' ? end - 1 : end)
}

/** The prices that headgate.yaml accepts, in dollars per million tokens. */
const [MIN_PRICE, MAX_PRICE] = [0.001, 100_000]

/** Prices in dollars per million tokens, with at most 12 digits, because of the error of binary fractions. */
const pricesOf = (members: SourceMembers, path: SourcePath, rows: RowCollector): Record<string, string> => {
  const found: Record<string, string> = {}
  for (const [member, name] of Object.entries(PRICES)) {
    const value = members[member]
    if (value === undefined) continue
    const million = Number((Number(value) * 1_000_000).toPrecision(12))
    if (value === null || typeof value === 'boolean' || !(million >= 0)) rows.leaveOut([...path, member], 'not a price')
    else if (million > 0 && (million < MIN_PRICE || million > MAX_PRICE))
      rows.leaveOut([...path, member], `prices are from ${MIN_PRICE} to ${MAX_PRICE} dollars per million tokens`)
    else {
      found[name] = decimalText(million)
      rows.taken([...path, member], `prices, perMillion.${name}`)
    }
  }
  return found
}

const leaveOutKnown = (section: string, value: unknown, path: SourcePath, rows: RowCollector): void => {
  for (const [name, why] of Object.entries(LEFT_OUT[section] ?? {}))
    if (isMembers(value) && Object.hasOwn(value, name)) rows.leaveOut([...path, name], why)
}

const NO_ROUTE = 'settings belong to targets of routes, and names with * have none'

const nullIfWildcard = (model: string): string | null => (model.includes('*') ? null : model)

/** Records where the name and the model of an entry go. */
const noteNames = (
  name: string,
  kind: string,
  model: string,
  { rows, path }: { rows: RowCollector; path: SourcePath },
) => {
  const isAny = model.includes('*')
  const namePath = [...path, 'model_name']
  if (!isAny) rows.taken(namePath, `routes.${name}`)
  else if (name === '*')
    rows.changed(namePath, 'unknownModel: route', 'a name that no provider lists gets a default model')
  else if (name === `${kind}/*`) rows.taken(namePath, `requests for ${kind}/MODEL`)
  else rows.changed(namePath, 'provider/MODEL', 'clients send the name of the provider, a slash and the model')
}

/** Maps one entry. Undefined: it is left out as a whole. */
const readEntry = (entry: SourceMembers, path: SourcePath, tools: EntryTools): LitellmEntry | undefined => {
  const { rows, secrets } = tools
  const refuse = (why: string): undefined => {
    rows.leaveOut(path, why)
  }
  const { model_name: name, litellm_params: own, model_info: info } = entry
  if (typeof name !== 'string' || name === '') return refuse('an entry without model_name')
  if (!isMembers(own) || typeof own.model !== 'string') return refuse('an entry without litellm_params.model')
  const { litellm_credential_name: named } = own
  const credential = tools.credentials.get(named)
  if (named !== undefined && !credential) return refuse('credential_list has no such entry')
  const inner = [...path, 'litellm_params']
  // What the entry has itself comes first.
  const params = { ...credential?.values, ...own }
  const at = (member: string) => (credential && !(member in own) ? [...credential.path, member] : [...inner, member])
  const mode = isMembers(info) ? info.mode : undefined
  if (mode !== undefined && !(typeof mode === 'string' && SERVED_MODES.includes(mode))) return refuse(SERVED)
  const found = providerOf(own.model, params.custom_llm_provider)
  if (typeof found === 'string') return refuse(found)

  const { provider, model } = found
  if (model === '') return refuse('an entry without a model')
  const baseMember = 'api_base' in params ? 'api_base' : 'base_url'
  const given = configText(params[baseMember])
  if (given !== undefined && !isAddress(given)) return refuse('the address is not a plain http or https URL')
  const kind = kindAt(provider.kind, given)
  const baseUrl = given ?? provider.base
  if (kind === 'openai-compatible' && baseUrl === undefined) return refuse('a server without api_base')

  const written = secrets.reference(params.api_key, `${kind}_KEY`)
  if (!written && 'api_key' in params) rows.leaveOut(at('api_key'), 'not a text')
  if (given !== undefined && !written && kind !== provider.kind)
    rows.changed(at(baseMember), 'baseUrl of the provider', 'no key is sent: OPENAI_API_KEY is for OpenAI alone')
  else if (given !== undefined) rows.taken(at(baseMember), 'baseUrl of the provider')
  const standard = provider.key !== undefined && kind === provider.kind ? `\${${provider.key}}` : undefined
  const key = written
    ? { ...written, path: at('api_key') }
    : standard === undefined
      ? undefined
      : { text: standard, literal: false, path: null }
  noteNames(name, kind, model, { rows, path })
  rows.taken([...inner, 'model'], model.includes('*') ? 'models of the provider' : 'model of the target')
  if ('custom_llm_provider' in params) rows.taken(at('custom_llm_provider'), `kind: ${kind}`)
  if (mode !== undefined) rows.taken([...path, 'model_info', 'mode'], 'follows from the endpoint')
  const order = typeof params.order === 'number' ? params.order : 0
  if (typeof params.order === 'number') rows.taken([...inner, 'order'], 'targets first, then fallback')
  const variables = variablesOf(kind, params, at, rows)
  const weight = weightOf(params, inner, tools)
  const region = regionOf(params.region_name, at('region_name'), rows)
  const prices = {
    ...pricesOf(params, inner, rows),
    ...pricesOf(isMembers(info) ? info : {}, [...path, 'model_info'], rows),
  }
  const target = nullIfWildcard(model)
  const targetPlace = { at, kind, tags: tools.tags, rows }
  const settings = readTargetSettings(params, targetPlace)
  const conditions = readTags(params, targetPlace, target !== null)
  noteSettings(settings, target === null ? NO_ROUTE : null, rows)
  leaveOutKnown('litellm_params', own, inner, rows)
  if (credential) {
    rows.taken([...inner, 'litellm_credential_name'], 'keys and address of the provider')
    leaveOutKnown('litellm_params', credential.values, credential.path, rows)
  }
  leaveOutKnown('model_info', info, [...path, 'model_info'], rows)
  const route = target === null ? null : name
  const place = { kind, baseUrl, variables, ...(region !== undefined && { region }) }
  const more = { settings: settings.members, ...(conditions && { conditions }) }
  const silent = 'silent_model' in params && { silent: { to: params.silent_model, path: at('silent_model') } }
  return { path, prices, ...silent, deployment: { ...place, route, key, model: target, weight, order, ...more } }
}

/** The entries of `credential_list` by name. */
export const readCredentials = (list: unknown, rows: RowCollector): ReadonlyMap<unknown, Credential> => {
  const found = new Map<unknown, Credential>()
  for (const [index, entry] of listOf(list).entries()) {
    if (!isMembers(entry) || typeof entry.credential_name !== 'string' || !isMembers(entry.credential_values)) continue
    const path = ['credential_list', index]
    rows.taken([...path, 'credential_name'], 'keys and address of providers')
    if ('credential_info' in entry) rows.leaveOut([...path, 'credential_info'], 'a description, without effect')
    found.set(entry.credential_name, { values: entry.credential_values, path: [...path, 'credential_values'] })
  }
  return found
}

/** Leaves out what no entry of `model_list` uses. */
export const leaveOutCredentials = (list: unknown, rows: RowCollector): void => {
  for (const index of listOf(list).keys())
    rows.leaveOutRest(['credential_list', index, 'credential_values'], 'no model uses it')
}

/** Maps the entries of `model_list`. */
export const readModelList = (
  list: unknown,
  tools: Omit<EntryTools, 'usesRates' | 'tags'>,
  router: SourceMembers,
): readonly LitellmEntry[] => {
  const { routing_strategy: strategy } = router
  const entries = listOf(list)
  const groupTags = tagsByName(entries, router)
  const shuffles = strategy === undefined || strategy === 'simple-shuffle'
  const weighted = new Set<unknown>()
  for (const entry of entries)
    for (const [name, params] of membersOf(entry))
      if (name === 'litellm_params' && isMembers(params) && params.weight !== undefined && isMembers(entry))
        weighted.add(entry.model_name)
  return entries.flatMap((entry, index): readonly LitellmEntry[] => {
    const path = ['model_list', index]
    if (!isMembers(entry)) {
      tools.rows.leaveOut(path, 'not an entry')
      return []
    }
    const usesRates = shuffles && !weighted.has(entry.model_name)
    const tags = groupTags.get(entry.model_name)
    return [readEntry(entry, path, { ...tools, usesRates, tags }) ?? []].flat()
  })
}
