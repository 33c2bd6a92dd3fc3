/** Catalogues others keep, read into ours: LiteLLM's price file, models.dev's `api.json`, genai-prices' `data.json`. */
import { isList, isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import type { CatalogueFile, Entry, Source } from './catalogue.ts'

/** Providers and their models, in our names. */
export type Imported = { readonly source: Source; readonly models: ReadonlyMap<string, ReadonlyMap<string, Entry>> }

/** `names`: what to call a provider, from what the source calls it; undefined: not one of ours. `today`: `2026-11-21`. */
export type ImportContext = {
  readonly served: (provider: string, model: string) => boolean
  readonly names: (theirs: string) => string | undefined
  readonly today: string
  readonly version: string
}

type Format = {
  readonly source: Omit<Source, 'version'>
  readonly is: (body: Json) => boolean
  readonly read: (
    body: Json,
    context: ImportContext,
  ) => Iterable<readonly [provider: string, model: string, entry: Entry]>
}

const first = (body: Json): Json | undefined => Object.values(object(body) ?? {}).find((value) => isObject(value))

/** A price per token, or per million of them, as nano-dollars per token. Zero is what sources write for unknown. */
const nano = (price: Json | undefined, perToken: number): number | null => {
  const value = number(price)
  if (value === undefined || value <= 0) return null
  // Six digits behind the point: rounds off what binary fractions add, keeps every price anybody asks.
  return Number((value * 1e9 * perToken).toFixed(6))
}
const PER_TOKEN = 1
const PER_MILLION = 1e-6

const size = (value: Json | undefined): number | undefined => {
  const count = number(value)
  return count !== undefined && Number.isSafeInteger(count) && count > 0 ? count : undefined
}

const entry = (
  context: number | undefined,
  output: number | undefined,
  prices: readonly (number | null)[],
  can: readonly string[],
): Entry => {
  const [input = null, answer = null, read = null, write = null] = prices
  const price: Entry['price'] =
    write !== null ? [input, answer, read, write] : read !== null ? [input, answer, read] : [input, answer]
  return {
    ...(context !== undefined && { context }),
    ...(output !== undefined && { output }),
    ...((input !== null || answer !== null) && { price }),
    ...(can.length > 0 && { can }),
  }
}

const wordsFor = (table: readonly (readonly [word: string, said: boolean])[]): string[] =>
  table.filter(([, said]) => said).map(([word]) => word)

// ── LiteLLM ──────────────────────────────────────────────────────────────────────────────────────────────────────

const litellm: Format = {
  source: { name: 'LiteLLM model_prices_and_context_window.json', licence: 'MIT', copyright: '2023 Berri AI' },
  is: (body) => text(object(first(body))?.litellm_provider) !== undefined,
  *read(body, { names, today }) {
    for (const [key, value] of Object.entries(object(body) ?? {})) {
      if (!isObject(value) || (value.mode !== 'chat' && value.mode !== 'responses')) continue
      const theirs = text(value.litellm_provider) ?? ''
      const provider = names(theirs)
      const until = text(value.deprecation_date)
      if (provider === undefined || (until !== undefined && until < today)) continue
      const model = key.startsWith(`${theirs}/`) ? key.slice(theirs.length + 1) : key
      // The second price of a long prompt has no place here; where there are only tiers, the first is the price.
      const prices = object(list(value.tiered_pricing)[0]) ?? value
      yield [
        provider,
        model,
        entry(
          size(value.max_input_tokens),
          size(value.max_output_tokens),
          [
            nano(prices.input_cost_per_token, PER_TOKEN),
            nano(prices.output_cost_per_token, PER_TOKEN),
            nano(prices.cache_read_input_token_cost, PER_TOKEN),
            nano(prices.cache_creation_input_token_cost, PER_TOKEN),
          ],
          wordsFor([
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

// ── models.dev ───────────────────────────────────────────────────────────────────────────────────────────────────

const modelsDev: Format = {
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
            // Where the input has a limit of its own, that is what a prompt has to fit in.
            size(limit?.input) ?? size(limit?.context),
            size(limit?.output),
            [price?.input, price?.output, price?.cache_read, price?.cache_write].map((each) => nano(each, PER_MILLION)),
            wordsFor([
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

/** The prices of today: an object, or a list of which the last that has begun holds. Prices of some hours are nobody's. */
const pricesOf = (prices: Json | undefined, today: string): JsonObject => {
  if (!isList(prices)) return object(prices) ?? {}
  let now: JsonObject = {}
  for (const item of prices) {
    const start = object(object(item)?.constraint)
    const begun = !start || (typeof start.start_date === 'string' && start.start_date <= today)
    if (begun) now = object(object(item)?.prices) ?? now
  }
  return now
}

/** A number, or a base with tiers above it. */
const base = (price: Json | undefined): Json | undefined => object(price)?.base ?? price

/** Every name a rule of equality names. Rules of prefixes name models that need not exist. */
const equalTo = (rule: Json | undefined): string[] => {
  const one = text(object(rule)?.equals)
  return one !== undefined ? [one] : list(object(rule)?.or).flatMap(equalTo)
}

const genaiPrices: Format = {
  source: { name: 'genai-prices', licence: 'MIT', copyright: 'Pydantic Services Inc. 2025 to present' },
  is: (body) => isList(body) && isList(object(body[0])?.models),
  *read(body, { names, today }) {
    for (const value of list(body)) {
      const provider = isObject(value) ? names(text(value.id) ?? '') : undefined
      if (provider === undefined || !isObject(value)) continue
      for (const about of list(value.models)) {
        if (!isObject(about) || about.deprecated === true) continue
        const prices = pricesOf(about.prices, today)
        const [input, output] = [
          nano(base(prices.input_mtok), PER_MILLION),
          nano(base(prices.output_mtok), PER_MILLION),
        ]
        // What has no price for output writes nothing: embeddings, rankers. It says nothing of capabilities.
        if (output === null) continue
        const known = entry(
          size(about.context_window),
          undefined,
          [
            input,
            output,
            nano(base(prices.cache_read_mtok), PER_MILLION),
            nano(base(prices.cache_write_mtok), PER_MILLION),
          ],
          [],
        )
        for (const model of new Set([text(about.id) ?? '', ...equalTo(about.match)]))
          if (model !== '') yield [provider, model, known]
      }
    }
  },
}

const FORMATS: readonly Format[] = [litellm, modelsDev, genaiPrices]

/** Reads a source in whichever of the formats it is; undefined: in none. */
export const importCatalogue = (body: Json, context: ImportContext): Imported | undefined => {
  const format = FORMATS.find(({ is }) => is(body))
  if (!format) return undefined
  const models = new Map<string, Map<string, Entry>>()
  for (const [provider, model, known] of format.read(body, context)) {
    if (Object.keys(known).length === 0 || !isModelName(model) || !context.served(provider, model)) continue
    const of = models.get(provider) ?? new Map<string, Entry>()
    // The first of two names for one thing (with and without the provider in front) stays.
    if (!of.has(model)) of.set(model, known)
    models.set(provider, of)
  }
  return { source: { ...format.source, version: context.version }, models }
}

/** Not size classes, wildcards, committed capacity, regions, fine-tuning templates. */
const isModelName = (name: string): boolean =>
  !/\*|^ft:|-commitment|^(?:us|eu|apac|jp|au|ca|sa|global|us-gov)[./]|(?:^|-)(?:up-to|above|[0-9.]+b-to)-[0-9.]+b|^(?:together|fireworks)-ai-/.test(
    name,
  )

// ── Joining ──────────────────────────────────────────────────────────────────────────────────────────────────────

export type Disagreement = {
  readonly provider: string
  readonly model: string
  readonly prices: readonly (readonly (number | null | undefined)[])[]
}

/**
 * The sources as one file. What an earlier source says of a model stays; a later one fills in what is missing there,
 * and adds models only for a provider that no earlier one has (two lists of one provider differ mostly in what is gone).
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
        ours.set(model, { ...known, ...have })
      }
      joined.set(provider, ours)
    }
  }
  const sorted = <T>(map: ReadonlyMap<string, T>) => [...map].sort(([a], [b]) => (a < b ? -1 : 1))
  const providers = Object.fromEntries(
    sorted(joined).map(([provider, models]) => [provider, Object.fromEntries(sorted(models))]),
  )
  const about =
    'Windows and limits in tokens; price in nano-dollars per token: input, output, cache read, cache write. Made by `npm run catalogue`; licences in CATALOGUE-LICENSE.'
  return { file: { about, made, sources: sources.map(({ source }) => source), providers }, disagreements }
}

/** By more than a hundredth, in what input or output costs. */
const differ = (a: readonly (number | null | undefined)[], b: readonly (number | null | undefined)[]): boolean =>
  [0, 1].some((at) => {
    const [one, other] = [a[at], b[at]]
    return one != null && other != null && Math.abs(one - other) > Math.max(one, other) / 100
  })

/** The file's text: a line a model, so that a change is read as one. */
export const catalogueText = ({ providers, ...head }: CatalogueFile): string => {
  const parts = Object.entries(providers).map(([provider, models]) => {
    const lines = Object.entries(models).map(([model, known]) => `${JSON.stringify(model)}:${JSON.stringify(known)}`)
    return `${JSON.stringify(provider)}:{\n${lines.join(',\n')}\n}`
  })
  const opening = JSON.stringify(head, null, 1).slice(0, -2)
  return `${opening},\n "providers": {\n${parts.join(',\n')}\n}\n}\n`
}
