/**
 * The members by which clients of OpenRouter and LiteLLM state their targets, and Anthropic's `fallbacks`
 * (openrouter.ai/docs/guides/routing/provider-selection and …/model-fallbacks, docs.litellm.ai/docs/proxy/reliability;
 * 2026-11-28). They order and narrow what a client may use, and never widen it.
 */
import type { ChatRequest } from '../../core/chat.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { isList, type Json, type JsonObject, object, text } from '../../core/json.ts'
import type { Instance } from '../../core/provider.ts'
import type { Strategy } from '../../core/settings.ts'

/** The members of a request that state its targets. */
export type StatedPreferences = {
  readonly body: JsonObject
  /** Outermost names: `provider`, `models`. */
  readonly members: readonly string[]
}

/** The members that are followed. */
const FOLLOWED = ['provider', 'models', 'fallbacks']
/** Those that list further models. */
export const MODEL_LISTS = ['models', 'fallbacks']

/** The members that nothing follows, since retries and tests are the operator's, and so is what a prompt loses. */
const isIgnored = (name: string): boolean =>
  name === 'transforms' || name === 'route' || name === 'num_retries' || name.startsWith('mock_')

/** Ignored members that are named and kept back. More of them pass as other unknown members do. */
const MAX_IGNORED = 16

/** The members of a request that state its targets; null: it has none. */
export const statedPreferences = (
  body: JsonObject,
  extras: ChatRequest['extras'] | undefined,
): StatedPreferences | null => {
  const { provider, models, fallbacks } = body
  const hasNone = provider === undefined && models === undefined && fallbacks === undefined
  if (hasNone && (extras === undefined || extras.length === 0)) return null
  const followed = FOLLOWED.filter((name) => Object.hasOwn(body, name))
  const members = [...followed, ...Object.keys(body).filter(isIgnored).slice(0, MAX_IGNORED)]
  return members.length === 0 ? null : { body, members }
}

/** What `provider` of a request states. */
export type ProviderWish = {
  /** Names of providers, in lower case; null: none is stated. */
  readonly order: readonly string[] | null
  readonly only: readonly string[] | null
  readonly ignore: readonly string[]
  /** Only the first targets, or only those of `order`. */
  readonly isFirstOnly: boolean
  readonly sort: Strategy | null
  /** In nano-dollars per token, by the names of prices; null: no limit. `other`: a price that is never known. */
  readonly maxPrice: { readonly input: number; readonly output: number; readonly other: boolean } | null
  readonly isStrict: boolean
  /** Paths of its members that are not followed. */
  readonly ignored: readonly string[]
}

export const NO_WISH: ProviderWish = {
  order: null,
  only: null,
  ignore: [],
  isFirstOnly: false,
  sort: null,
  maxPrice: null,
  isStrict: false,
  ignored: [],
}

/** Limits of a list of names. */
const MAX_NAMES = 50

/** The data policy (`zdr`, `data_collection`) is read with that of the operator. */
const APPLIED_ELSEWHERE = ['zdr', 'data_collection']

/** Reads `provider`. Fails with `invalid_value` for a member of the wrong type. */
export const providerWish = (value: Json | undefined): Outcome<ProviderWish> => {
  if (value === undefined || value === null) return good(NO_WISH)
  const provider = object(value)
  if (!provider) return invalid('provider', 'an object')
  const {
    order,
    only,
    ignore,
    allow_fallbacks: allowed,
    sort,
    max_price: price,
    require_parameters: strict,
    ...rest
  } = provider
  const names = { order: namesIn(order), only: namesIn(only), ignore: namesIn(ignore) }
  for (const [name, found] of Object.entries(names))
    if (found === undefined) return invalid(`provider.${name}`, `a list of at most ${MAX_NAMES} names of providers`)
  const sorting = sort === undefined || sort === null ? null : SORTS.get(text(object(sort)?.by ?? sort) ?? '')
  if (sorting === undefined) return invalid('provider.sort', '"price", "latency" or "throughput"')
  for (const [name, flag] of [
    ['allow_fallbacks', allowed],
    ['require_parameters', strict],
  ] as const)
    if (flag !== undefined && flag !== null && typeof flag !== 'boolean')
      return invalid(`provider.${name}`, 'true or false')
  const maxPrice = price === undefined || price === null ? null : maxPriceIn(object(price))
  if (maxPrice === undefined) return invalid('provider.max_price', 'an object with amounts of US dollars')
  return good({
    order: names.order ?? null,
    only: names.only ?? null,
    ignore: names.ignore ?? [],
    isFirstOnly: allowed === false,
    sort: sorting,
    maxPrice,
    isStrict: strict === true,
    ignored: Object.keys(rest)
      .filter((name) => rest[name] !== null && !APPLIED_ELSEWHERE.includes(name))
      .slice(0, MAX_IGNORED)
      .map((name) => `provider.${name}`),
  })
}

const SORTS = new Map<string, Strategy>([
  ['price', 'cost'],
  ['latency', 'latency'],
  ['throughput', 'latency'],
])

/** Null: absent or empty. Undefined: invalid. */
const namesIn = (value: Json | undefined): readonly string[] | null | undefined => {
  if (value === undefined || value === null) return null
  if (!isList(value) || value.length > MAX_NAMES) return undefined
  const names = value.flatMap((one) => (typeof one === 'string' ? slugOf(one) : []))
  if (names.length < value.length) return undefined
  return names.length === 0 ? null : names
}

/** OpenRouter accepts slugs (`amazon-bedrock`), titles (`Amazon Bedrock`) and variants (`google-vertex/europe`). */
const slugOf = (name: string): string => {
  const lower = name.trim().toLowerCase().replaceAll(' ', '-')
  const slash = lower.indexOf('/')
  return slash > 0 ? lower.slice(0, slash) : lower
}

/** Amounts are US dollars for a million tokens, as numbers or texts. Undefined: invalid. */
const maxPriceIn = (limits: JsonObject | undefined): ProviderWish['maxPrice'] | undefined => {
  if (!limits) return undefined
  const amounts = new Map<string, number>()
  for (const [name, value] of Object.entries(limits)) {
    if (value === null) continue
    const amount = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
    if (typeof amount !== 'number' || !(amount >= 0)) return undefined
    amounts.set(name, amount * NANO_PER_TOKEN)
  }
  if (amounts.size === 0) return null
  const { POSITIVE_INFINITY: any } = Number
  return {
    input: amounts.get('prompt') ?? any,
    output: amounts.get('completion') ?? any,
    other: [...amounts.keys()].some((name) => name !== 'prompt' && name !== 'completion'),
  }
}
/** A dollar for a million tokens, in nano-dollars per token. */
const NANO_PER_TOKEN = 1_000

/** Further models of one request. */
const MAX_MODELS = 8

/** The further models of a request, in their order. Fails with `invalid_value`. */
export const furtherModels = ({ body, members }: StatedPreferences): Outcome<readonly string[]> => {
  const models = new Set<string>()
  for (const member of MODEL_LISTS) {
    const value = members.includes(member) ? body[member] : undefined
    if (value === undefined || value === null) continue
    if (!isList(value)) return invalid(member, 'a list of names of models')
    for (const [at, entry] of value.entries()) {
      const model = modelIn(entry)
      if (model === undefined)
        return invalid(
          `${member}[${at}]`,
          'the name of a model, alone or as `model` of an object without other members',
        )
      models.add(model)
    }
  }
  models.delete(text(body.model) ?? '')
  if (models.size > MAX_MODELS) return invalid('models', `a list of at most ${MAX_MODELS} models`)
  return good([...models])
}

const modelIn = (entry: Json): string | undefined => {
  const own = object(entry)
  const model = text(own ? own.model : entry)
  const isOnly = own === undefined || Object.keys(own).length === 1
  return model !== undefined && model.trim() !== '' && isOnly ? model : undefined
}

const invalid = (path: string, allowed: string) =>
  bad(fail('invalid_value', `\`${path}\` is not valid; it must be ${allowed}.`, { param: path }))

/** The outermost members that are not followed. */
export const ignoredMembers = ({ members }: StatedPreferences): readonly string[] => members.filter(isIgnored)

/** Whether an instance reads a member of a request itself. */
export const readsPreference = ({ provider: { readsPreferences } }: Instance, member: string): boolean =>
  readsPreferences?.includes(member) === true

/** Whether a name of `provider.order`, `only` or `ignore` stands for an instance: its ID, or its provider by name, alias or slug. */
export const isNamed = ({ id, provider }: Instance, name: string): boolean => {
  if (id.toLowerCase() === name) return true
  const { name: kind, slug, aliases, generic } = provider
  return !generic && (kind === name || slug === name || aliases?.includes(name) === true)
}
