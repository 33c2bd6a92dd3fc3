/** Imports catalogues of other projects: LiteLLM's price file, models.dev's `api.json`, genai-prices' `data.json`. */

import type { CatalogueFile, Entry, EntryPrices, Source } from '../../src/config/catalogue/catalogue.ts'
import type { TokenPrices } from '../../src/core/accounts.ts'
import { isList, isObject, type Json, type JsonObject, list, number, object, text } from '../../src/core/json.ts'
import { retirementTime } from '../../src/core/retirement.ts'
import { withAdditions } from './additions.ts'

/** Providers and their models, with the names used here. */
export type Imported = { readonly source: Source; readonly models: ReadonlyMap<string, ReadonlyMap<string, Entry>> }

/** `names`: maps a source's provider name to the name here; undefined: unknown. `today`: such as `2026-11-21`. */
export type ImportContext = {
  readonly served: (provider: string, model: string) => boolean
  readonly names: (theirs: string) => string | undefined
  /** Whether the provider has relayed endpoints. */
  readonly relays: (provider: string) => boolean
  readonly today: string
  readonly version: string
}

type CatalogueFormat = {
  readonly source: Omit<Source, 'version'>
  readonly is: (body: Json) => boolean
  readonly read: (
    body: Json,
    context: ImportContext,
  ) => Iterable<readonly [provider: string, model: string, entry: Entry]>
}

const first = (body: Json): Json | undefined => Object.values(object(body) ?? {}).find((value) => isObject(value))

/** A price per token, or per million tokens, as nano-dollars per token. Sources write zero for unknown. */
const nano = (price: Json | undefined, perToken: number): number | null => {
  const value = number(price)
  if (value === undefined || value <= 0) return null
  // Six decimals remove binary rounding errors and preserve every real price.
  return Number((value * 1e9 * perToken).toFixed(6))
}
const PER_TOKEN = 1
const PER_THOUSAND = 1e-3
const PER_MILLION = 1e-6

const size = (value: Json | undefined): number | undefined => {
  const count = number(value)
  return count !== undefined && Number.isSafeInteger(count) && count > 0 ? count : undefined
}

/** The prices of a model or of a tier as its source has them, by the name that `TokenPrices` gives them. */
type SourcePrices = { readonly [name in keyof TokenPrices]?: Json | undefined }

/** The prices of an entry; those that are unknown are absent. */
const prices = (of: SourcePrices, perToken: number): EntryPrices => {
  const [input, answer, read, write] = [of.input, of.output, of.cacheRead, of.cacheWrite].map((each) =>
    nano(each, perToken),
  ) as [number | null, number | null, number | null, number | null]
  const price: Entry['price'] =
    write !== null ? [input, answer, read, write] : read !== null ? [input, answer, read] : [input, answer]
  const media = (name: 'audio' | 'image' | 'video') => {
    const [read, written] = [nano(of[`${name}Input`], perToken), nano(of[`${name}Output`], perToken)]
    return read === null && written === null ? {} : { [name]: written === null ? [read] : [read, written] }
  }
  const hour = nano(of.cacheWrite1h, perToken)
  const reasoning = nano(of.reasoning, perToken)
  return {
    ...((input !== null || answer !== null) && { price }),
    ...media('audio'),
    ...media('image'),
    ...media('video'),
    ...(hour !== null && { cacheWrite1h: hour }),
    ...(reasoning !== null && reasoning !== answer && { reasoning }),
  }
}

/** An entry without the members that are unknown. */
const entry = (
  context: number | undefined,
  output: number | undefined,
  priced: Omit<Entry, 'context' | 'output' | 'can'>,
  can: readonly string[],
): Entry => ({
  ...(context !== undefined && { context }),
  ...(output !== undefined && { output }),
  ...priced,
  ...(can.length > 0 && { can }),
})

const capabilitiesIn = (table: readonly (readonly [word: string, has: boolean])[]): string[] =>
  table.filter(([, has]) => has).map(([word]) => word)

// ── LiteLLM ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** Dollars per token. A slip of the source: $100 per million tokens for `embed-multilingual-light-v3.0`. */
const MAX_EMBEDDING = 1e-5

/** The unit of the modes that are relayed, and the columns of its price. A column of another mode does not count (maximhq/bifrost#4277). */
const LITELLM_UNITS: { readonly [mode: string]: readonly [unit: string, ...columns: string[]] } = {
  audio_transcription: ['seconds', 'input_cost_per_second'],
  audio_speech: ['characters', 'input_cost_per_character'],
  image_generation: ['images', 'output_cost_per_image', 'input_cost_per_image'],
  image_edit: ['images', 'output_cost_per_image', 'input_cost_per_image'],
  rerank: ['queries', 'input_cost_per_query'],
}

/** The price of the unit. A model with a price of tokens is billed by them: that of its units is an estimate. */
const unitsOfLitellm = (value: JsonObject): Pick<Entry, 'units'> => {
  const [unit, ...columns] = LITELLM_UNITS[text(value.mode) ?? ''] ?? []
  if (unit === undefined || (number(value.input_cost_per_token) ?? 0) > 0) return {}
  const price = columns.map((column) => nano(value[column], PER_TOKEN)).find((found) => found !== null)
  return price == null ? {} : { units: { [unit]: price } }
}

/** Names of images of one size: `hd/1024-x-1024/dall-e-3`. */
const OF_ONE_SIZE = /[0-9]-x-[0-9]/

/** Whether its answers are those of a chat. */
const isChat = ({ mode, supported_endpoints }: JsonObject): boolean =>
  mode === 'image_generation'
    ? list(supported_endpoints).includes('/v1/chat/completions')
    : mode === 'chat' || mode === 'responses' || mode === 'realtime'

/** Whether a relayed endpoint bills it by a unit, or by tokens. Some images have a price of a step in the column of tokens. */
const isRelayed = (key: string, value: JsonObject): boolean => {
  const [unit] = LITELLM_UNITS[text(value.mode) ?? ''] ?? []
  if (unit === undefined || isChat(value) || OF_ONE_SIZE.test(key)) return false
  const perToken = unit === 'images' ? value.output_cost_per_image_token : value.input_cost_per_token
  return unitsOfLitellm(value).units !== undefined || (number(perToken) ?? 0) > 0
}

/** Whether this is a model for text, for images in a chat, or for embeddings at a known price. */
const isUsed = (value: JsonObject): boolean => {
  const price = number(value.input_cost_per_token) ?? 0
  return isChat(value) || (value.mode === 'embedding' && price > 0 && price <= MAX_EMBEDDING)
}

const litellm: CatalogueFormat = {
  source: { name: 'LiteLLM model_prices_and_context_window.json', licence: 'MIT', copyright: '2023 Berri AI' },
  is: (body) => text(object(first(body))?.litellm_provider) !== undefined,
  *read(body, { names, relays, today }) {
    for (const [key, value] of Object.entries(object(body) ?? {})) {
      if (!isObject(value)) continue
      const theirs = text(value.litellm_provider) ?? ''
      const provider = names(theirs)
      if (!isUsed(value) && !(provider !== undefined && relays(provider) && isRelayed(key, value))) continue
      const until = text(value.deprecation_date)
      if (provider === undefined || (until !== undefined && until < today)) continue
      const model = key.startsWith(`${theirs}/`) ? key.slice(theirs.length + 1) : key
      yield [
        provider,
        model,
        entry(
          size(value.max_input_tokens),
          isChat(value) ? size(value.max_output_tokens) : undefined,
          { ...pricesOfLitellm(value, provider, model), ...retirementOf(until) },
          capabilitiesIn([
            ['tools', value.supports_function_calling === true],
            ['vision', value.supports_vision === true],
            ['structured_output', value.supports_response_schema === true],
            ['reasoning', value.supports_reasoning === true],
            ['audio_input', value.supports_audio_input === true],
            ['file_input', value.supports_pdf_input === true],
          ]),
        ),
      ]
    }
  },
}

/**
 * The date is that of the end, not of its announcement: BerriAI/litellm#36152 compared it with the pages of the vendors. Some are
 * no dates.
 */
const retirementOf = (until: string | undefined): Pick<Entry, 'retires'> =>
  until !== undefined && retirementTime(until) !== null ? { retires: until.slice(0, 'yyyy-mm-dd'.length) } : {}

/** The prices of `input_cost_per_token` and so on. `suffix`: `_above_200k_tokens`. */
const litellmTokenPrices = (of: JsonObject, suffix = ''): SourcePrices => ({
  input: of[`input_cost_per_token${suffix}`],
  output: of[`output_cost_per_token${suffix}`],
  cacheRead: of[`cache_read_input_token_cost${suffix}`],
  cacheWrite: of[`cache_creation_input_token_cost${suffix}`],
  cacheWrite1h: of[`cache_creation_input_token_cost_above_1hr${suffix}`],
  audioInput: of[`input_cost_per_audio_token${suffix}`],
  audioOutput: of[`output_cost_per_audio_token${suffix}`],
  imageInput: of[`input_cost_per_image_token${suffix}`],
  imageOutput: of[`output_cost_per_image_token${suffix}`],
  videoInput: of[`input_cost_per_video_token${suffix}`],
  videoOutput: of[`output_cost_per_video_token${suffix}`],
  reasoning: of[`output_cost_per_reasoning_token${suffix}`],
})

/** The service tiers, by the end of the names of their prices. */
const LITELLM_SERVICES = { batch: '_batches', flex: '_flex', priority: '_priority' } as const

const pricesOfLitellm = (
  value: JsonObject,
  provider: string,
  model: string,
): Omit<Entry, 'context' | 'output' | 'can'> => {
  const listed = list(value.tiered_pricing).filter(isObject)
  const basic = prices(litellmTokenPrices(listed[0] ?? withImages(value)), PER_TOKEN)
  const named = Object.keys(value).flatMap((name) => {
    const [, thousands] = /^input_cost_per_token_above_([0-9]+)k_tokens$/.exec(name) ?? []
    return thousands === undefined ? [] : [Number(thousands)]
  })
  const tiers = [
    ...named.map((thousands) => ({
      above: thousands * 1_000,
      ...prices(litellmTokenPrices(value, `_above_${thousands}k_tokens`), PER_TOKEN),
    })),
    ...listed.slice(1).flatMap((tier) => {
      const above = size(list(tier.range)[0])
      return above === undefined ? [] : [{ above, ...prices(litellmTokenPrices(tier), PER_TOKEN) }]
    }),
  ].filter(({ price }) => price)
  const service = Object.entries(LITELLM_SERVICES).flatMap(([name, suffix]) => {
    const factor = factorOf(value, suffix)
    return factor === undefined ? [] : [[name, factor] as const]
  })
  const special = object(value.provider_specific_entry)
  for (const name of LITELLM_FACTORS) {
    const factor = number(special?.[name])
    if (factor !== undefined && factor > 0) service.push([name, factor])
  }
  const tools = toolsOf(value, provider, model)
  return {
    ...basic,
    ...(tiers.length > 0 && { tiers }),
    ...(service.length > 0 && { service: Object.fromEntries(service) }),
    ...(Object.keys(tools).length > 0 && { tools }),
    ...unitsOfLitellm(value),
  }
}

/** Answers of the images API count their tokens of images as output, without details. */
const withImages = (value: JsonObject): JsonObject => {
  const image = number(value.output_cost_per_image_token)
  const isImage = value.mode === 'image_generation' || value.mode === 'image_edit'
  return isImage && !isChat(value) && image !== undefined ? { ...value, output_cost_per_token: image } : value
}

/** Names of the factors of a speed and of a region in `provider_specific_entry`. */
const LITELLM_FACTORS = ['fast', 'us'] as const

/** Whether a provider bills the searches of an answer once, however many it made. Others bill each. */
const billsPrompts = (value: JsonObject, provider: string, model: string): boolean =>
  (provider === 'gemini' && value.web_search_billing_unit !== 'per_query') ||
  (provider === 'perplexity' && model !== 'sonar-deep-research')

const toolsOf = (value: JsonObject, provider: string, model: string): Record<string, number> => {
  const search = nano(object(value.search_context_cost_per_query)?.search_context_size_medium, PER_TOKEN)
  const maps = nano(value.google_maps_grounding_cost_per_query, PER_TOKEN)
  return {
    ...(search !== null && { [billsPrompts(value, provider, model) ? 'web_search_prompt' : 'web_search']: search }),
    ...(maps !== null && { maps }),
  }
}

/** The factor of a service tier, if it is the same for input and output; other tiers cannot be expressed. */
const factorOf = (value: JsonObject, suffix: string): number | undefined => {
  const factors = ['input_cost_per_token', 'output_cost_per_token'].map((name) => {
    const [plain, special] = [number(value[name]), number(value[name + suffix])]
    return plain && special ? Number((special / plain).toFixed(6)) : undefined
  })
  return factors[0] === factors[1] ? factors[0] : undefined
}

// ── models.dev ───────────────────────────────────────────────────────────────────────────────────────────────────

const modelsDev: CatalogueFormat = {
  source: { name: 'models.dev api.json', licence: 'MIT', copyright: '2025 models.dev' },
  is: (body) => isObject(object(first(body))?.models),
  *read(body, { names }) {
    for (const [theirs, value] of Object.entries(object(body) ?? {})) {
      const provider = names(theirs)
      if (provider === undefined || !isObject(value)) continue
      for (const [model, about] of Object.entries(object(value.models) ?? {})) {
        if (!isObject(about) || about.status === 'deprecated') continue
        const reads = list(object(about.modalities)?.input)
        if (!list(object(about.modalities)?.output ?? ['text']).includes('text')) continue
        const limit = object(about.limit)
        const price = object(about.cost)
        yield [
          provider,
          model,
          entry(
            // A separate input limit is what a prompt has to fit into.
            size(limit?.input) ?? size(limit?.context),
            size(limit?.output),
            prices(
              {
                input: price?.input,
                output: price?.output,
                cacheRead: price?.cache_read,
                cacheWrite: price?.cache_write,
                audioInput: price?.input_audio,
                audioOutput: price?.output_audio,
                reasoning: price?.reasoning,
              },
              PER_MILLION,
            ),
            capabilitiesIn([
              ['tools', about.tool_call === true],
              ['vision', reads.includes('image')],
              ['structured_output', about.structured_output === true],
              ['reasoning', about.reasoning === true],
              ['audio_input', reads.includes('audio')],
              ['file_input', reads.includes('pdf')],
            ]),
          ),
        ]
      }
    }
  },
}

// ── genai-prices ─────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Today's prices and their first day, if it is known: an object, or a list with start dates, in which the latest past entry
 * applies. Prices per time of day are ignored.
 */
const pricesOn = (today: string, dated: Json | undefined): { readonly now: JsonObject; readonly from?: string } => {
  if (!isList(dated)) return { now: object(dated) ?? {} }
  let found: { readonly now: JsonObject; readonly from?: string } = { now: {} }
  for (const item of dated) {
    const start = object(object(item)?.constraint)
    const from = text(start?.start_date)
    const now = object(object(item)?.prices)
    if (now && (!start || (from !== undefined && from <= today))) found = { now, ...(from !== undefined && { from }) }
  }
  return found
}

/** A number, or a base with tiers above it. */
const base = (price: Json | undefined): Json | undefined => object(price)?.base ?? price

/** The price above this many input tokens: that of the highest tier at or below it. */
const tierOf = (price: Json | undefined, above: number): Json | undefined => {
  let found: Json | undefined = base(price)
  for (const tier of list(object(price)?.tiers).map(object))
    if (Number(tier?.start) <= above) found = tier?.price ?? found
  return found
}

const genaiTokenPrices = (of: JsonObject, at: (price: Json | undefined) => Json | undefined): SourcePrices => ({
  input: at(of.input_mtok),
  output: at(of.output_mtok),
  cacheRead: at(of.cache_read_mtok),
  cacheWrite: at(of.cache_write_mtok),
  audioInput: at(of.input_audio_mtok),
  audioOutput: at(of.output_audio_mtok),
})

const pricesOfGenai = (of: JsonObject): Omit<Entry, 'context' | 'output' | 'can'> => {
  const starts = Object.values(of).flatMap((price) =>
    list(object(price)?.tiers).flatMap((tier) => size(object(tier)?.start) ?? []),
  )
  const tiers = [...new Set(starts)]
    .sort((one, other) => one - other)
    .map((above) => ({
      above,
      ...prices(
        genaiTokenPrices(of, (price) => tierOf(price, above)),
        PER_MILLION,
      ),
    }))
  const search = nano(of.web_searches_kcount, PER_THOUSAND)
  return {
    ...prices(genaiTokenPrices(of, base), PER_MILLION),
    ...(tiers.length > 0 && { tiers }),
    ...(search !== null && { tools: { web_search: search } }),
  }
}

/** All names that an equality rule lists. Prefix rules are ignored, because they may match models that do not exist. */
const equalTo = (rule: Json | undefined): string[] => {
  const one = text(object(rule)?.equals)
  return one !== undefined ? [one] : list(object(rule)?.or).flatMap(equalTo)
}

const genaiPrices: CatalogueFormat = {
  source: { name: 'genai-prices', licence: 'MIT', copyright: 'Pydantic Services Inc. 2025 to present' },
  is: (body) => isList(body) && isList(object(body[0])?.models),
  *read(body, { names, today }) {
    for (const value of list(body)) {
      const provider = isObject(value) ? names(text(value.id) ?? '') : undefined
      if (provider === undefined || !isObject(value)) continue
      for (const about of list(value.models)) {
        if (!isObject(about) || about.deprecated === true) continue
        const { now, from } = pricesOn(today, about.prices)
        // Models without an output price (embeddings, rerankers) generate no text. Capabilities are not listed.
        if (nano(base(now.output_mtok), PER_MILLION) === null) continue
        const priced = { ...pricesOfGenai(now), ...(from !== undefined && { from }) }
        const known = entry(size(about.context_window), undefined, priced, [])
        for (const model of new Set([text(about.id) ?? '', ...equalTo(about.match)]))
          if (model !== '') yield [provider, model, known]
      }
    }
  },
}

const FORMATS: readonly CatalogueFormat[] = [litellm, modelsDev, genaiPrices]

/** Imports a source in any of the formats; undefined if it has none of them. */
export const importCatalogue = (body: Json, context: ImportContext): Imported | undefined => {
  const format = FORMATS.find(({ is }) => is(body))
  if (!format) return undefined
  const models = new Map<string, Map<string, Entry>>()
  for (const [provider, model, known] of format.read(body, context)) {
    if (Object.keys(known).length === 0 || !isModelName(model) || !context.served(provider, model)) continue
    const of = models.get(provider) ?? new Map<string, Entry>()
    // The first of two names for one model (with and without the provider prefix) is used.
    if (!of.has(model)) of.set(model, known)
    models.set(provider, of)
  }
  return { source: { ...format.source, version: context.version }, models }
}

/** Excludes size classes, wildcards, committed capacity, regions and fine-tuning templates. */
const isModelName = (name: string): boolean =>
  !/\*|^ft:|-commitment|^(?:us|eu|apac|jp|au|ca|sa|global|us-gov)[./]|(?:^|-)(?:up-to|above|[0-9.]+b-to)-[0-9.]+b|^(?:together|fireworks)-ai-/.test(
    name,
  )

// ── Merging ────────────────────────────────────────────────────────────────────────────────────────────────────────

export type Disagreement = {
  readonly provider: string
  readonly model: string
  readonly prices: readonly (readonly (number | null | undefined)[])[]
}

/**
 * Merges the sources into one file. For each model the first source takes precedence and later ones fill in missing facts.
 * Later sources add models only for providers that no earlier one has, since the extra models are mostly retired ones.
 */
export const joinCatalogues = (
  sources: readonly Imported[],
  made: string,
): { readonly file: CatalogueFile; readonly disagreements: readonly Disagreement[] } => {
  const joined = new Map<string, Map<string, Entry>>()
  const disagreements: Disagreement[] = []
  for (const { models } of sources) {
    const before = new Set(joined.keys())
    for (const [provider, theirs] of models) {
      const ours = joined.get(provider) ?? new Map<string, Entry>()
      for (const [model, known] of theirs) {
        const have = ours.get(model)
        if (!have && before.has(provider)) continue
        if (have?.price && known.price && differ(have.price, known.price))
          disagreements.push({ provider, model, prices: [have.price, known.price] })
        ours.set(model, have?.price ? { ...withoutTokenPrices(known), ...have } : { ...known, ...have })
      }
      joined.set(provider, ours)
    }
  }
  const sorted = <T>(map: ReadonlyMap<string, T>) => [...map].sort(([a], [b]) => (a < b ? -1 : 1))
  const providers = Object.fromEntries(
    sorted(joined).map(([provider, models]) => [
      provider,
      Object.fromEntries(sorted(models).map(([model, known]) => [model, withAdditions(provider, model, known)])),
    ]),
  )
  const about =
    'Windows and limits in tokens; price in nano-dollars per token: input, output, cache read, cache write. Made by `npm run catalogue`; licences in CATALOGUE-LICENSE.'
  return { file: { about, made, sources: sources.map(({ source }) => source), providers }, disagreements }
}

/** Without prices of tokens: those of one model are taken from one source, because tiers and factors belong to its basic prices. */
const withoutTokenPrices = ({ context, output, can, tools, units, retires }: Entry): Entry => ({
  ...(context !== undefined && { context }),
  ...(output !== undefined && { output }),
  ...(can && { can }),
  ...(tools && { tools }),
  ...(units && { units }),
  ...(retires && { retires }),
})

/** Whether the input or output prices differ by more than 1 %. */
const differ = (a: readonly (number | null | undefined)[], b: readonly (number | null | undefined)[]): boolean =>
  [0, 1].some((at) => {
    const [one, other] = [a[at], b[at]]
    return one != null && other != null && Math.abs(one - other) > Math.max(one, other) / 100
  })

/** The file's text with one line per model, which keeps diffs readable. */
export const catalogueText = ({ providers, ...head }: CatalogueFile): string => {
  const parts = Object.entries(providers).map(([provider, models]) => {
    const lines = Object.entries(models).map(([model, known]) => `${JSON.stringify(model)}:${JSON.stringify(known)}`)
    return `${JSON.stringify(provider)}:{\n${lines.join(',\n')}\n}`
  })
  const opening = JSON.stringify(head, null, 1).slice(0, -2)
  return `${opening},\n "providers": {\n${parts.join(',\n')}\n}\n}\n`
}
