/**
 * Generates data/catalogue.json from published price lists.
 *
 *   npm run catalogue                                 from the default URLs
 *   npm run catalogue -- --from FILE|URL [--from …]   from these; earlier sources win, later ones fill gaps
 *   … [--version TEXT] …                              the version to record for the preceding source
 *   … [--out FILE]
 *
 * A source is LiteLLM's model_prices_and_context_window.json, models.dev's api.json or genai-prices' data.json. The format
 * is detected.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { CATALOGUE_FILE, decodeCatalogue } from '../src/config/catalogue/catalogue.ts'
import { loadProviders } from '../src/config/catalogue/load-providers.ts'
import type { Json } from '../src/core/json.ts'
import { catalogueText, type Imported, importCatalogue, joinCatalogues } from './catalogue/import.ts'
import { served, sourceNames } from './catalogue/names.ts'

const SOURCES = [
  'https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json',
  'https://raw.githubusercontent.com/pydantic/genai-prices/main/prices/new_data/v2/data.json',
]
const MAX_BYTES = 32 * 1024 * 1024
/** ms */
const TIMEOUT = 60_000
/** The largest catalogue (characters); it is committed, and read at start. */
const MAX_CHARACTERS = 400 * 1024
/** A source with fewer models is incomplete. */
const MIN_MODELS = 20

const stop = (message: string): never => {
  process.stderr.write(`catalogue: ${message}\n`)
  process.exit(1)
}

type Options = {
  readonly from: readonly { readonly location: string; readonly version?: string }[]
  readonly out: string
}

const optionsIn = (words: readonly string[]): Options => {
  const from: { location: string; version?: string }[] = []
  let out = fileURLToPath(CATALOGUE_FILE)
  for (let at = 0; at < words.length; at += 2) {
    const value = words[at + 1]
    const last = from.at(-1)
    if (value === undefined) return stop(`${words[at]} needs a value`)
    if (words[at] === '--from') from.push({ location: value })
    else if (words[at] === '--version' && last) last.version = value
    else if (words[at] === '--out') out = value
    else return stop(`unknown option ${words[at]}; scripts/catalogue.ts lists the options`)
  }
  return { from: from.length > 0 ? from : SOURCES.map((location) => ({ location })), out }
}

const download = async (url: string): Promise<string> => {
  const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT) })
  if (!response.ok || !response.body) return stop(`${url} responded with status ${response.status}`)
  const pieces: string[] = []
  const text = new TextDecoder('utf-8', { fatal: true })
  let size = 0
  for await (const chunk of response.body) {
    size += chunk.length
    if (size > MAX_BYTES) return stop(`${url} is larger than the limit of ${MAX_BYTES} bytes`)
    pieces.push(text.decode(chunk, { stream: true }))
  }
  return pieces.join('') + text.decode()
}

const read = async (location: string): Promise<Json> => {
  try {
    return JSON.parse(/^https?:/.test(location) ? await download(location) : readFileSync(location, 'utf8'))
  } catch (error) {
    return stop(`${location}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

const { from, out } = optionsIn(process.argv.slice(2))
const providers = await loadProviders()
const names = sourceNames(providers)
const relaying = new Set(
  [...providers.values()].flatMap(({ name, catalogue = name, relays }) => (relays ? [catalogue] : [])),
)
const relays = (provider: string): boolean => relaying.has(provider)
const today = new Date().toISOString().slice(0, 10)

const sources: Imported[] = []
for (const { location, version = today } of from) {
  const found = importCatalogue(await read(location), { names, relays, served, today, version })
  if (!found) stop(`${location} has an unknown format`)
  else {
    const count = [...found.models.values()].reduce((sum, models) => sum + models.size, 0)
    process.stdout.write(`${found.source.name}: ${count} models of ${found.models.size} providers\n`)
    if (count < MIN_MODELS) stop(`${location} has only ${count} models of known providers (minimum ${MIN_MODELS})`)
    sources.push(found)
  }
}

const { file, disagreements } = joinCatalogues(sources, today)
const text = catalogueText(file)
const { problems } = decodeCatalogue(JSON.parse(text))
if (problems.length > 0) stop(`the generated catalogue is invalid: ${problems.slice(0, 3).join('; ')}`)
if (text.length > MAX_CHARACTERS)
  stop(`the generated catalogue has ${text.length} characters (limit ${MAX_CHARACTERS})`)

// Atomic, because a gateway may read the file at the same time.
writeFileSync(`${out}.new`, text)
renameSync(`${out}.new`, out)

for (const { provider, model, prices } of disagreements.slice(0, 20))
  process.stdout.write(
    `prices differ: ${provider} ${model} ${prices.map((each) => each.slice(0, 2).join('/')).join(' and ')}\n`,
  )
const models = Object.values(file.providers).reduce((sum, each) => sum + Object.keys(each).length, 0)
process.stdout.write(
  `${models} models of ${Object.keys(file.providers).length} providers, ${text.length} bytes; ${disagreements.length} prices differ between sources\n`,
)
