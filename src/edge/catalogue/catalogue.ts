/** What is known of models: windows, limits, prices, capabilities. Data in a file, made again by `npm run catalogue`. */
import { readFileSync } from 'node:fs'
import type { Catalogue, ModelFacts } from '../../core/config.ts'
import { isList, isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'

/** The file. Prices in nano-dollars per token: input, output, cache read, cache write; null is unknown. */
export type CatalogueFile = {
  readonly about: string
  /** The day it was made. */
  readonly made: string
  readonly sources: readonly Source[]
  readonly providers: { readonly [provider: string]: { readonly [model: string]: Entry } }
}
export type Source = {
  readonly name: string
  readonly version: string
  readonly licence: string
  readonly copyright: string
}
export type Entry = {
  readonly context?: number
  readonly output?: number
  readonly price?: readonly [input: number | null, output: number | null, read?: number | null, write?: number | null]
  readonly can?: readonly string[]
}

export const CATALOGUE_FILE = new URL('../../../data/catalogue.json', import.meta.url)

/**
 * The catalogue in this file, read when it is first asked, and decoded as far as it is asked. A file that cannot be read or
 * is none leaves everything unknown, which costs estimates but no request; `report` hears of it once.
 */
export const openCatalogue = (report: (problem: string) => void, file: URL | string = CATALOGUE_FILE): Catalogue => {
  let known: Catalogue | undefined
  const opened = () => {
    known ??= readCatalogue(file, report)
    return known
  }
  return Object.assign((provider: string, model: string) => opened()(provider, model), {
    lists: (provider: string, model: string) => opened().lists?.(provider, model) ?? false,
  })
}

const readCatalogue = (file: URL | string, report: (problem: string) => void): Catalogue => {
  try {
    const providers = providersIn(JSON.parse(readFileSync(file, 'utf8')))
    if (!providers) report(`the model catalogue: ${NO_PROVIDERS}`)
    const entries = new Map<string, Models>()
    return lookUp({
      // Of dozens of providers a gateway uses a few: to decode all of them is a tenth of its start.
      get(provider) {
        const known = entries.get(provider)
        if (known || !providers || !Object.hasOwn(providers, provider)) return known
        const { models, problems } = modelsIn(provider, providers[provider])
        if (problems[0] !== undefined) report(`the model catalogue: ${problems[0]}`)
        entries.set(provider, models)
        return models
      },
    })
  } catch (error) {
    report(`the model catalogue cannot be read: ${error instanceof Error ? error.message : String(error)}`)
    return () => undefined
  }
}

type Models = ReadonlyMap<string, ModelFacts>
type Entries = ReadonlyMap<string, Models>

const NO_PROVIDERS = 'it has no providers'

const providersIn = (body: Json): JsonObject | undefined => object(object(body)?.providers)

/** What the file's text says. Whatever is not as it should be is left out and named. */
export const decodeCatalogue = (body: Json): { readonly entries: Entries; readonly problems: readonly string[] } => {
  const providers = providersIn(body)
  if (!providers) return { entries: new Map(), problems: [NO_PROVIDERS] }
  const read = Object.entries(providers).map(([provider, written]) => [provider, modelsIn(provider, written)] as const)
  return {
    entries: new Map(read.map(([provider, { models }]) => [provider, models])),
    problems: read.flatMap(([, { problems }]) => problems),
  }
}

const modelsIn = (
  provider: string,
  written: Json | undefined,
): { readonly models: Models; readonly problems: readonly string[] } => {
  const problems: string[] = []
  const models = new Map<string, ModelFacts>()
  for (const [model, entry] of Object.entries(object(written) ?? {})) {
    const read = isObject(entry) ? factsIn(entry) : undefined
    if (read) models.set(model, read)
    else problems.push(`${provider} ${model} is not an entry`)
  }
  return { models, problems }
}

const factsIn = (entry: JsonObject): ModelFacts | undefined => {
  const { context, output, price, can } = entry
  for (const size of [context, output])
    if (size !== undefined && !(Number.isSafeInteger(size) && Number(size) > 0)) return undefined
  if (price !== undefined && !(isList(price) && price.length <= 4 && price.every(isPrice))) return undefined
  if (can !== undefined && !(isList(can) && can.every((word) => typeof word === 'string'))) return undefined
  const [inputPrice, outputPrice, cacheReadPrice, cacheWritePrice] = list(price).map(number)
  const [contextWindow, maxOutputTokens] = [number(context), number(output)]
  return {
    ...(contextWindow !== undefined && { contextWindow }),
    ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    ...(inputPrice !== undefined && { inputPrice }),
    ...(outputPrice !== undefined && { outputPrice }),
    ...(cacheReadPrice !== undefined && { cacheReadPrice }),
    ...(cacheWritePrice !== undefined && { cacheWritePrice }),
    ...(can !== undefined && { capabilities: list(can).flatMap((word) => text(word) ?? []) }),
  }
}

const isPrice = (price: Json): boolean => price === null || (typeof price === 'number' && price > 0)

/** `-2025-08-07`, `-20251001`, `@20251001`: a snapshot of the model before it. */
const DATE = /[-@](?:20[0-9]{2}-[01][0-9]-[0-3][0-9]|20[0-9]{2}[01][0-9][0-3][0-9])$/

/**
 * Facts by provider and model. A snapshot nobody listed is what its undated name is; a variant (`:free`, `:nitro`,
 * `:groq`) is the same model at another price, so it has none here. Nothing else is guessed, and no provider is taken
 * to have what only another one has.
 */
export const lookUp = (entries: Pick<Entries, 'get'>): Catalogue =>
  Object.assign(
    (provider: string, model: string) => {
      const models = entries.get(provider)
      if (!models) return undefined
      const name = withoutFolder(model)
      const exact = models.get(name)
      if (exact) return exact
      const undated = models.get(name.replace(DATE, ''))
      if (undated) return undated
      const colon = name.lastIndexOf(':')
      const variantOf = colon > 0 ? models.get(name.slice(0, colon)) : undefined
      return variantOf && withoutPrices(variantOf)
    },
    { lists: (provider: string, model: string) => entries.get(provider)?.has(withoutFolder(model)) ?? false },
  )

/** Gemini's clients send `models/gemini-…`. */
const withoutFolder = (model: string): string => (model.startsWith('models/') ? model.slice('models/'.length) : model)

const withoutPrices = ({ contextWindow, maxOutputTokens, capabilities }: ModelFacts): ModelFacts => ({
  ...(contextWindow !== undefined && { contextWindow }),
  ...(maxOutputTokens !== undefined && { maxOutputTokens }),
  ...(capabilities !== undefined && { capabilities }),
})
