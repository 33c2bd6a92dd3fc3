/**
 * Merges the providers of the environment and the file. Address, models and styles of the environment take precedence; the
 * keys of both are used.
 */

import type { DeclaredFacts } from '../core/data-policy.ts'
import { parseDollars } from '../core/money.ts'
import { nearest } from '../core/nearest.ts'
import type { PassThrough } from '../core/pass-through.ts'
import type { Instance, ModelLimits, ProtocolSupport, Provider, Providers, Variables } from '../core/provider.ts'
import { Secret } from '../core/secret.ts'
import { withoutSlashes } from '../core/trailing-slashes.ts'
import { RESERVED_SEGMENTS } from '../policy/pass/reserved.ts'
import { upstreamProtocols } from '../protocols/index.ts'
import {
  envPrefix,
  instanceName,
  type KeyDraft,
  keyless,
  keysFrom,
  NAME,
  NAME_ALLOWED,
} from '../records/entities/ids.ts'
import { baseUrlProblem } from './base-url.ts'
import { camelCase, protocolOf, styleNames } from './definition.ts'
import { type NetworkDraft, networkMembers, networkVariables } from './egress.ts'
import type { Env } from './env.ts'
import { variable } from './environment.ts'
import type { ProviderEntry } from './file-schema.ts'
import { type Problem, quote, type Sourced } from './problem.ts'
import { forwardedFrom, headersFrom } from './provider-headers.ts'
import { commaList, listFrom } from './text-values.ts'

/** An instance that is not yet complete. */
type InstanceDraft = {
  readonly id: string
  readonly provider: Provider
  /** The prefix of its variables, such as `OPENAI_EAST`. */
  readonly prefix: string
  readonly keys: readonly Sourced<KeyDraft>[]
  readonly baseUrl?: Sourced<string>
  readonly models: readonly string[]
  readonly limits?: ReadonlyMap<string, ModelLimits>
  readonly styles?: Sourced<readonly string[]>
  readonly aggregate?: Sourced<string>
  readonly variables: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, Secret>>
  readonly facts?: DeclaredFacts
  readonly passThrough?: PassThrough
  readonly network: NetworkDraft
  /** Client headers; absent: those that the provider is known to read. */
  readonly forwardHeaders?: readonly string[]
  /** The variable requests the machine's cloud identity instead of a key. */
  readonly identity: boolean
  /** Its location in the file. An incomplete instance of the file is an error at start. */
  readonly inFile?: string
}

export type FileProviders = {
  readonly entries: ReadonlyMap<string, ProviderEntry>
  readonly placeOf: (path: readonly PropertyKey[]) => { readonly name: string; readonly value: string }
}

export type Upstreams = {
  readonly instances: readonly Instance[]
  readonly problems: readonly Problem[]
  readonly warnings: readonly string[]
  /** Configured instances that are not in `PROVIDERS`. */
  readonly leftOut: readonly string[]
  /** What instances state of their connections, by ID. */
  readonly networks: ReadonlyMap<string, NetworkDraft>
}

const KEY = /^(.+)_API_KEY(?:_([1-9][0-9]{0,3}))?$/
const BASE_URL = /^(.+)_(?:BASE_URL|API_BASE)$/
// Variables for keys and addresses that other programs use; they are not read here.
const NEAR_KEY = /^(.+?)_(?:APIKEY|API_KEYS|KEY|KEYS|TOKEN|API_TOKEN|SECRET_KEY|AUTH_TOKEN|ACCESS_TOKEN)$/
const NEAR_URL = /^(.+?)_(?:URL|BASEURL|API_URL|API_BASE_URL|API_ENDPOINT)$/
const HEAD = /^[A-Z0-9][A-Z0-9_]*$/

const uniqueProviders = (providers: Providers): readonly Provider[] => [...new Set(providers.values())]

/** Providers that can be configured by variables with their name. */
const nameable = (providers: Providers): readonly Provider[] =>
  uniqueProviders(providers).filter(({ builtin, generic }) => !builtin && !generic)

const prefixesOf = ({ name, aliases = [] }: Provider): readonly string[] => [name, ...aliases].map(envPrefix)

/** The generic provider, for servers known only by the API style they support. */
const genericOf = (providers: Providers): Provider | undefined =>
  uniqueProviders(providers).find(({ generic }) => generic)

const byName = (providers: Providers, written: string): Provider | undefined => {
  const name = instanceName(written)
  return uniqueProviders(providers).find((one) => one.name === name || one.aliases?.includes(name))
}

/** Prefixes found in the environment: of `_API_KEY`, of `_BASE_URL`, and of variables that request a cloud identity. */
type Heads = {
  readonly keys: ReadonlySet<string>
  readonly urls: ReadonlySet<string>
  readonly identities: ReadonlySet<string>
}

const headsIn = (env: Env, providers: Providers): Heads => {
  const keys = new Set<string>()
  const urls = new Set<string>()
  const identities = new Set<string>()
  for (const provider of nameable(providers))
    for (const prefix of prefixesOf(provider)) if (hasIdentityVariable(env, provider, prefix)) identities.add(prefix)
  for (const name of Object.keys(env)) {
    if (variable(env, name) === undefined) continue
    const key = KEY.exec(name)?.[1]
    const url = BASE_URL.exec(name)?.[1]
    if (key && HEAD.test(key)) keys.add(key)
    if (url && HEAD.test(url)) urls.add(url)
  }
  return { keys, urls, identities }
}

const hasIdentityVariable = (env: Env, { keylessVariables = [] }: Provider, prefix: string): boolean =>
  keylessVariables.some((suffix) => variable(env, `${prefix}_${suffix}`) !== undefined)

/** The keys with a prefix, ordered by their numbers; each variable may hold several. */
const keysUnder = (env: Env, prefix: string): readonly Sourced<KeyDraft>[] =>
  Object.keys(env)
    .flatMap((name) => {
      const [, head, number = '1'] = KEY.exec(name) ?? []
      return head === prefix ? [{ name, order: Number(number) }] : []
    })
    .sort((a, b) => a.order - b.order || a.name.length - b.name.length)
    .flatMap(({ name }) =>
      commaList(variable(env, name) ?? '').map((value) => ({ value: { value, weight: 1 }, from: name })),
    )

const firstSet = (env: Env, ...names: readonly string[]): Sourced<string> | undefined => {
  for (const name of names) {
    const value = variable(env, name)
    if (value !== undefined) return { value, from: name }
  }
  return undefined
}

/** The first prefix in use; a provider's name comes before its aliases. */
const prefixInUse = (prefixes: readonly string[], { keys, urls, identities }: Heads): string | undefined =>
  [keys, urls, identities].map((heads) => prefixes.find((prefix) => heads.has(prefix))).find((one) => one !== undefined)

/** The instance described by variables with `prefix`. */
const fromEnvironment = (env: Env, id: string, provider: Provider, prefix: string): Omit<InstanceDraft, 'inFile'> => {
  const variables: Record<string, string> = {}
  const own = id === provider.name
  for (const [suffix, fallback] of Object.entries(provider.variables ?? {})) {
    const alternatives = own ? prefixesOf(provider).map((one) => `${one}_${suffix}`) : []
    const aliases = provider.variableAliases?.[suffix] ?? []
    const value = firstSet(env, `${prefix}_${suffix}`, ...alternatives, ...aliases)?.value ?? fallback
    if (value !== null) variables[suffix] = value
  }
  const baseUrl = firstSet(env, `${prefix}_BASE_URL`, `${prefix}_API_BASE`)
  const models = firstSet(env, `${prefix}_MODELS`)
  const styles = firstSet(env, `${prefix}_STYLES`)
  const aggregate = firstSet(env, `${prefix}_AGGREGATE`)
  return {
    id,
    provider,
    prefix,
    keys: keysUnder(env, prefix),
    ...(baseUrl && { baseUrl }),
    models: models ? commaList(models.value) : [],
    ...(styles && { styles: { value: commaList(styles.value.toLowerCase()), from: styles.from } }),
    ...(aggregate && { aggregate }),
    variables,
    network: networkVariables(env, prefix),
    identity: hasIdentityVariable(env, provider, prefix),
  }
}

/** An entry of the file, and its provider. */
type NamedEntry = { readonly name: string; readonly entry: ProviderEntry; readonly provider: Provider }

/** An instance of the file, merged with its environment variables. */
const fromFile = (
  { name, entry, provider }: NamedEntry,
  env: Env,
  heads: Heads,
  placeOf: FileProviders['placeOf'],
): { readonly draft: InstanceDraft; readonly problems: readonly Problem[] } => {
  const id = byFileName(name, provider)
  const prefixes = id === provider.name ? prefixesOf(provider) : [envPrefix(id)]
  const above = fromEnvironment(env, id, provider, prefixInUse(prefixes, heads) ?? envPrefix(id))
  const path = ['providers', name]
  const problems: Problem[] = []
  const variables: Record<string, string> = { ...above.variables }
  const known = Object.keys(provider.variables ?? {})
  for (const [written, value] of Object.entries(entry.variables ?? {})) {
    const suffix = known.find((one) => one === written || camelCase(one) === written)
    if (suffix === undefined)
      problems.push({
        where: placeOf([...path, 'variables', written]).name,
        what: [...path, 'variables'].join('.'),
        found: `the unknown name ${quote(written)}`,
        allowed: known.length === 0 ? `nothing: ${provider.name} has none` : known.map(camelCase).join(', '),
      })
    else variables[suffix] = firstSet(env, `${above.prefix}_${suffix}`)?.value ?? value
  }
  const given = { path, provider, placeOf }
  const own = headersFrom(entry.headers ?? {}, given)
  const forwarded = entry.forwardHeaders && forwardedFrom(entry.forwardHeaders, given)
  problems.push(...own.problems, ...(forwarded?.problems ?? []))
  const reserved = entry.passThrough && nameProblem(id, placeOf([...path, 'passThrough']).name)
  if (reserved) problems.push(reserved)
  // A variable referenced here may hold several keys, as in the environment.
  const keys = (entry.keys ?? []).flatMap((key, index) => {
    const { value, weight, cacheScope }: KeyDraft = typeof key === 'string' ? { value: key, weight: 1 } : key
    const from = placeOf([...path, 'keys', index]).value
    return [listFrom(value.trim())].flat().map((one) => ({ value: { value: one, weight, cacheScope }, from }))
  })
  // The file's entry of a duplicate key is used, since it may have a weight.
  const further = above.keys.filter(({ value }) => !keys.some((key) => key.value.value === value.value))
  const baseUrl =
    above.baseUrl ??
    (entry.baseUrl === undefined ? undefined : { value: entry.baseUrl, from: placeOf([...path, 'baseUrl']).value })
  const styles =
    above.styles ??
    (entry.styles === undefined ? undefined : { value: entry.styles, from: placeOf([...path, 'styles']).value })
  const aggregate =
    above.aggregate ??
    (entry.aggregate === undefined
      ? undefined
      : { value: String(entry.aggregate), from: placeOf([...path, 'aggregate']).value })
  const models = (entry.models ?? []).map((model): FileModel => (typeof model === 'string' ? { id: model } : model))
  const limits = limitsIn(models)
  return {
    draft: {
      ...above,
      keys: [...keys, ...further],
      ...(baseUrl && { baseUrl }),
      models: above.models.length > 0 ? above.models : [...new Set(models.map((model) => model.id))],
      ...(limits.size > 0 && { limits }),
      ...(styles && { styles }),
      ...(aggregate && { aggregate }),
      variables,
      headers: own.headers,
      ...(entry.facts && { facts: entry.facts }),
      ...(entry.passThrough && { passThrough: passThroughFrom(entry.passThrough) }),
      network: { ...networkMembers(entry, (member) => placeOf([...path, member]).value), ...above.network },
      ...(forwarded && { forwardHeaders: forwarded.names }),
      inFile: placeOf(path).name,
    },
    problems,
  }
}

const passThroughFrom = ({ charge, ...entry }: NonNullable<ProviderEntry['passThrough']>): PassThrough => {
  const dollars = charge === undefined ? null : parseDollars(charge)
  return { ...entry, charge: dollars?.ok ? dollars.value : null }
}

/** The problem of an instance whose paths would be those of the gateway, or null. */
const nameProblem = (id: string, where: string): Problem | null =>
  RESERVED_SEGMENTS.has(id)
    ? {
        where,
        found: `passThrough of ${quote(id)}, whose paths are the gateway's own`,
        allowed: 'an instance of another name, with `kind`',
      }
    : null

/** The limits stated for models; those without any are left out. */
const limitsIn = (models: readonly FileModel[]): ReadonlyMap<string, ModelLimits> =>
  new Map(
    models.flatMap(({ id, contextWindow, maxOutputTokens }) => {
      const limits = {
        ...(contextWindow !== undefined && { contextWindow }),
        ...(maxOutputTokens !== undefined && { maxOutputTokens }),
      }
      return Object.keys(limits).length > 0 ? [[id, limits] as const] : []
    }),
  )

type FileModel = Exclude<NonNullable<ProviderEntry['models']>[number], string>

const byFileName = (name: string, provider: Provider): string => {
  const id = instanceName(name)
  return provider.aliases?.includes(id) ? provider.name : id
}

/** Keys are sent in headers: printable ASCII without white space. */
const HEADER_VALUE = /^[\x21-\x7e]+$/
const MAX_KEY = 16_384

const checkKey = ({ value: { value }, from }: Sourced<KeyDraft>): Problem | undefined => {
  const found = !HEADER_VALUE.test(value)
    ? 'a key with white space or non-ASCII characters'
    : value.length > MAX_KEY
      ? `a key of ${value.length} characters`
      : /^["'`].*["'`]$/.test(value)
        ? 'a key in quotation marks'
        : undefined
  return found === undefined ? undefined : { where: from, found, allowed: 'the key exactly as issued by the provider' }
}

const LOOPBACK = /^(?:localhost|127(?:\.[0-9]+){3}|\[::1\]|0\.0\.0\.0|\[::\])$/

const readBaseUrl = (
  { value, from }: Sourced<string>,
  provider: Provider,
  ownPort: number,
): { readonly url: string; readonly warning: string | null } | { readonly problem: Problem } => {
  const refuse = (found: string, allowed: string) => ({ problem: { where: from, found, allowed } })
  const example = 'a URL such as https://llm.example/v1'
  if (!URL.canParse(value)) return refuse(quote(value.replace(/\/\/[^/]*@/, '//…@')), example)
  const url = new URL(value)
  if (url.username !== '' || url.password !== '')
    return refuse('a URL with a user name or password', 'the URL alone; set the key in its own variable')
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return refuse(quote(value), `${example}, http or https`)
  if (url.search !== '' || url.hash !== '')
    return refuse(quote(`…${url.search ? '?' : '#'}…`), `${example}, without a query or fragment`)
  if (
    ownPort !== 0 &&
    LOOPBACK.test(url.hostname) &&
    Number(url.port || (url.protocol === 'http:' ? 80 : 443)) === ownPort
  )
    return refuse(`${quote(value)}, the address of this gateway itself`, 'the address of another server')
  const bare = withoutSlashes(url.href)
  const problem = baseUrlProblem(url, provider)
  return {
    url: withoutSlashes(provider.normalizeBaseUrl?.(bare) ?? bare),
    warning: problem === null ? null : `${from}: ${problem}`,
  }
}

const speaksOf = (
  styles: Sourced<readonly string[]>,
  provider: Provider,
): { readonly speaks: readonly ProtocolSupport[] } | { readonly problem: Problem } => {
  const speaks: ProtocolSupport[] = []
  for (const style of styles.value) {
    const protocol = protocolOf(style)
    if (protocol === undefined) {
      const allowed = `a list of any of ${Object.values(styleNames).join(', ')}`
      return { problem: { where: styles.from, found: quote(style), allowed } }
    }
    const known = [...provider.speaks, ...(provider.alsoSpeaks ?? [])]
    // Whether an unknown server stores responses is not known, so whole conversations are sent to it.
    const { storesAnswers } = upstreamProtocols[protocol]
    const unknown: ProtocolSupport = storesAnswers ? { protocol, stateless: true } : { protocol }
    speaks.push(known.find((wire) => wire.protocol === protocol) ?? unknown)
  }
  return { speaks }
}

type Completed =
  | { readonly instance: Instance; readonly warning: string | null }
  | { readonly problems: readonly Problem[] }
  /** Incomplete, and not requested by name: the instance is skipped with a warning. */
  | { readonly missing: string }

const isKeyless = (provider: Provider): boolean => provider.keyless === true || provider.auth === 'none'

/** Whether the machine's cloud identity can be used. */
const hasIdentity = ({ auth }: Provider): boolean => auth !== 'none' && auth.identity !== undefined

/** The cloud identity is used only on request: by name, or by a variable for it. */
const signsIn = ({ provider, identity }: InstanceDraft, wanted: boolean): boolean =>
  hasIdentity(provider) && (wanted || identity)

/** Completes a draft. `wanted`: requested by name, so that it needs no key if it has an address. */
const complete = (draft: InstanceDraft, wanted: boolean, ownPort: number): Completed => {
  const { id, provider, prefix, keys } = draft
  const problems = keys.flatMap((key) => checkKey(key) ?? [])
  if (keys.length === 0 && !isKeyless(provider) && !signsIn(draft, wanted) && !(wanted && draft.baseUrl))
    return { missing: `${id} has no key: set ${[`${prefix}_API_KEY`, ...identityVariables(draft)].join(' or ')}` }

  const variables: Variables = draft.variables
  const suffixes = Object.keys(provider.variables ?? {})
  const address = draft.baseUrl ?? undefined
  const keyAddress = keys.length > 0 ? provider.keyAddress : undefined
  const made = address ? undefined : (keyAddress ?? provider.address?.(variables) ?? provider.baseUrl)
  const source =
    address ??
    (made === undefined
      ? undefined
      : { value: made, from: suffixes.map((one) => `${prefix}_${one}`).join(', ') || prefix })
  if (source === undefined) {
    const needed = suffixes.filter((suffix) => draft.variables[suffix] === undefined)
    const names = (needed.length > 0 ? needed : suffixes).map((suffix) => `${prefix}_${suffix}`)
    if (needed.length === 0 && names.length > 0)
      return { missing: `${id} has no address: ${names.join(' or ')} has a value that cannot be part of one` }
    const others = names.length > 0 ? `, or ${names.join(' and ')}` : ''
    return { missing: `${id} has no address: set ${prefix}_BASE_URL${others}` }
  }
  const read = readBaseUrl(source, provider, ownPort)
  if ('problem' in read) problems.push(read.problem)
  const spoken = draft.styles ? speaksOf(draft.styles, provider) : { speaks: provider.speaks }
  if ('problem' in spoken) problems.push(spoken.problem)
  const { aggregate } = draft
  if (aggregate && !['true', 'false'].includes(aggregate.value))
    problems.push({ where: aggregate.from, found: quote(aggregate.value), allowed: 'true or false' })
  if (problems.length > 0 || 'problem' in read || 'problem' in spoken) return { problems }
  return {
    warning: address ? read.warning : null,
    instance: {
      id,
      provider,
      baseUrl: read.url,
      keys: keys.length > 0 ? keysFrom(keys.map(({ value }) => value)) : keyless(id),
      models: draft.models,
      ...(draft.limits && { limits: draft.limits }),
      ...(draft.facts && { facts: draft.facts }),
      ...(draft.passThrough && { passThrough: draft.passThrough }),
      speaks: spoken.speaks,
      variables,
      ...(aggregate?.value === 'true' && { aggregate: true }),
      ...headersOf(draft),
    },
  }
}

/** The headers of an instance: those of its entry, then those of its variables. */
const headersOf = ({ provider, variables, headers, forwardHeaders }: InstanceDraft) => {
  const ofVariables = Object.entries(provider.variableHeaders ?? {}).flatMap(([suffix, name]) => {
    const value = variables[suffix]
    return value === undefined ? [] : [[name, new Secret(value)] as const]
  })
  const all = { ...Object.fromEntries(ofVariables), ...headers }
  const forwarded = (forwardHeaders ?? provider.forwardHeaders ?? []).filter((name) => !Object.hasOwn(all, name))
  return {
    ...(Object.keys(all).length > 0 && { headers: all }),
    ...(forwarded.length > 0 && { forwardHeaders: forwarded }),
  }
}

const identityVariables = ({ provider, prefix }: InstanceDraft): readonly string[] =>
  (provider.keylessVariables ?? []).map((suffix) => `${prefix}_${suffix}`)

/**
 * The provider of a prefix with a label: the longest matching name, so that AZURE_OPENAI_EAST does not match OPENAI.
 * Aliases cannot have labels: GOOGLE_MAPS_API_KEY belongs to another program.
 */
const labelled = (known: readonly Provider[], head: string): Provider | undefined =>
  known.filter(({ name }) => head.startsWith(`${envPrefix(name)}_`)).sort((a, b) => b.name.length - a.name.length)[0]

/**
 * An instance in `PROVIDERS` that needs no key. The name suffices, but an instance with a label also needs its variable
 * (`BEDROCK_EAST_REGION`).
 */
const identityDraft = (env: Env, providers: Providers, id: string): InstanceDraft | undefined => {
  const prefix = envPrefix(id)
  const known = nameable(providers)
  const provider = known.find(({ name }) => name === id) ?? labelled(known, prefix)
  if (!provider || !hasIdentity(provider)) return undefined
  return provider.name === id || hasIdentityVariable(env, provider, prefix)
    ? fromEnvironment(env, id, provider, prefix)
    : undefined
}

/** Instances described by the environment alone. */
const environmentDrafts = (
  env: Env,
  heads: Heads,
  providers: Providers,
  taken: ReadonlySet<string>,
): readonly InstanceDraft[] => {
  const known = nameable(providers)
  const drafts: InstanceDraft[] = []
  const used = new Set<string>([...taken].map(envPrefix))
  const add = (id: string, provider: Provider, prefix: string) => {
    used.add(prefix)
    if (!taken.has(id)) drafts.push(fromEnvironment(env, id, provider, prefix))
  }
  for (const provider of known) {
    const prefixes = prefixesOf(provider)
    const inUse = prefixInUse(prefixes, heads)
    // Names and aliases of known providers cannot name another instance, even if the provider is not configured.
    for (const prefix of prefixes) used.add(prefix)
    if (inUse !== undefined) add(provider.name, provider, inUse)
  }
  const generic = genericOf(providers)
  for (const head of [...new Set([...heads.keys, ...heads.urls])].sort()) {
    if (used.has(head)) continue
    const provider = labelled(known, head)
    const id = instanceName(head)
    if (!NAME.test(id)) continue
    if (provider && (heads.keys.has(head) || isKeyless(provider))) add(id, provider, head)
    else if (generic && heads.keys.has(head) && heads.urls.has(head)) add(id, generic, head)
  }
  return drafts
}

/** Warnings for variables that look like a provider's key or address but are not read. */
const misspelled = (env: Env, providers: Providers): readonly string[] =>
  Object.keys(env).flatMap((name) => {
    if (variable(env, name) === undefined || KEY.test(name) || BASE_URL.test(name)) return []
    const [suffix, head] = NEAR_KEY.test(name)
      ? ['API_KEY', NEAR_KEY.exec(name)?.[1]]
      : ['BASE_URL', NEAR_URL.exec(name)?.[1]]
    const provider = nameable(providers).find((one) => head !== undefined && prefixesOf(one).includes(head))
    if (!provider || head === undefined) return []
    const meant = `${head}_${suffix}`
    const own = name.slice(head.length + 1)
    const isVariable =
      Object.hasOwn(provider.variables ?? {}, own) ||
      Object.values(provider.variableAliases ?? {}).some((names) => names.includes(name))
    return isVariable || variable(env, meant) !== undefined
      ? []
      : [`${name} is set, but is not a known variable; did you mean ${meant}?`]
  })

/** The sources of the configured providers. */
export type UpstreamSources = {
  readonly env: Env
  readonly file: FileProviders
  readonly providers: Providers
  /** The names in `PROVIDERS`. */
  readonly order: readonly string[] | undefined
  /** The gateway's own port, which is refused as an upstream; 0 if unknown. */
  readonly ownPort: number
}

/** Reads the provider instances of the environment and the file. Errors are returned as problems. */
export const upstreamsFrom = ({ env, file, providers, order, ownPort }: UpstreamSources): Upstreams => {
  const problems: Problem[] = []
  const warnings: string[] = [...misspelled(env, providers)]
  const heads = headsIn(env, providers)
  const drafts = new Map<string, InstanceDraft>()
  const networks = new Map<string, NetworkDraft>()

  for (const [name, entry] of file.entries) {
    const where = file.placeOf(['providers', name])
    const kind = byName(providers, entry.kind ?? name)
    const id = kind ? byFileName(name, kind) : instanceName(name)
    const known = [
      ...nameable(providers).map((one) => one.name),
      ...(genericOf(providers) ? [genericOf(providers)?.name ?? ''] : []),
    ]
    const refuse = (found: string, allowed: string, place = where.name) =>
      problems.push({ where: place, what: `providers.${name}`, found, allowed })
    if (!NAME.test(id)) refuse(`the name ${quote(name)}`, NAME_ALLOWED)
    else if (drafts.has(id)) refuse(`the duplicate name ${quote(name)}`, 'each provider once')
    else if (kind?.builtin || byName(providers, id)?.builtin)
      refuse(`the name ${quote(name)}`, 'another name; this one is built in, and used when no provider is configured')
    else if (entry.kind === undefined && (!kind || kind.generic)) {
      const [meant] = nearest(id, known)
      refuse(
        `the name ${quote(name)}, which is not a known provider`,
        `${meant ? `did you mean ${meant}? ` : ''}a known name, or kind: with one of ${known.join(', ')}`,
      )
    } else if (!kind) {
      const [meant] = nearest(entry.kind ?? '', known)
      refuse(
        `the kind ${quote(entry.kind ?? '')}`,
        `${meant ? `did you mean ${meant}? ` : ''}one of ${known.join(', ')}`,
        file.placeOf(['providers', name, 'kind']).value,
      )
    } else {
      const { draft, problems: further } = fromFile({ name, entry, provider: kind }, env, heads, file.placeOf)
      drafts.set(id, draft)
      problems.push(...further)
    }
  }
  const builtins = uniqueProviders(providers)
    .filter(({ builtin }) => builtin)
    .map(({ name }) => name)
  for (const draft of [...environmentDrafts(env, heads, providers, new Set(drafts.keys()))].sort(
    (a, b) => a.provider.order - b.provider.order || (a.id < b.id ? -1 : 1),
  ))
    if (builtins.includes(draft.id))
      problems.push({
        where: `${draft.prefix}_API_KEY`,
        found: `a provider called ${draft.id}`,
        allowed: 'another name; this one is built in',
      })
    else drafts.set(draft.id, draft)

  const wanted = order?.map((written) => byName(providers, written)?.name ?? instanceName(written))
  const instances: Instance[] = []
  const finish = (draft: InstanceDraft, byOrder: boolean) => {
    const result = complete(draft, byOrder || draft.inFile !== undefined, ownPort)
    if ('instance' in result) {
      instances.push(result.instance)
      networks.set(draft.id, draft.network)
      if (result.warning !== null) warnings.push(result.warning)
    } else if ('problems' in result) problems.push(...result.problems)
    else if (byOrder || draft.inFile !== undefined)
      problems.push({
        where: draft.inFile ?? 'PROVIDERS',
        ...(draft.inFile !== undefined && { what: `providers.${draft.id}` }),
        found: `${draft.id} without ${draft.keys.length === 0 ? 'key or address' : 'address'}`,
        allowed: `a complete provider (${result.missing})`,
      })
    else warnings.push(`${result.missing}; the provider is not used`)
  }
  if (wanted === undefined) {
    for (const draft of drafts.values()) finish(draft, false)
    return { instances, problems, warnings, networks, leftOut: [] }
  }
  for (const id of new Set(wanted)) {
    const draft = drafts.get(id) ?? identityDraft(env, providers, id)
    if (draft) finish(draft, true)
    else {
      const named = byName(providers, id)
      const known = [...drafts.keys(), ...nameable(providers).map(({ name }) => name)]
      const [meant] = nearest(
        id,
        known.filter((one) => one !== id),
      )
      const hint =
        named && !named.builtin && !named.generic
          ? `a provider with a key or an address (set ${envPrefix(id)}_API_KEY)`
          : `${meant ? `did you mean ${meant}? ` : ''}configured providers${drafts.size > 0 ? `: ${[...drafts.keys()].join(', ')}` : ''}`
      problems.push({ where: 'PROVIDERS', found: quote(id), allowed: hint })
    }
  }
  return { instances, problems, warnings, networks, leftOut: [...drafts.keys()].filter((id) => !wanted.includes(id)) }
}
