/**
 * Makes data/catalogue.json anew.
 *
 *   npm run catalogue                                 from the sources' own addresses
 *   npm run catalogue -- --from FILE|URL [--from …]   from these; earlier ones win, later ones fill gaps
 *   … [--version TEXT] …                              what to note as the version of the source before it
 *   … [--out FILE]
 *
 * A source may be LiteLLM's model_prices_and_context_window.json, models.dev's api.json or genai-prices' data.json;
 * which it is is seen from its shape.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Json } from '../src/core/json.ts'
import { CATALOGUE_FILE, decodeCatalogue } from '../src/edge/catalogue/catalogue.ts'
import { loadProviders } from '../src/edge/catalogue/load-providers.ts'
import { catalogueText, type Imported, importCatalogue, joinCatalogues } from './catalogue/import.ts'
import { served, sourceNames } from './catalogue/names.ts'

const SOURCES = [
  'https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json',
  'https://raw.githubusercontent.com/pydantic/genai-prices/main/prices/new_data/v2/data.json',
]
const MOST_BYTES = 32 * 1024 * 1024
const LONGEST_WAIT = 60_000
/** What the file may grow to: it is committed, and read at start. */
const MOST_TEXT = 400 * 1024
/** A source with fewer models than this is not the whole of it. */
const FEWEST_MODELS = 20

const stop = (message: string): never => {
  process.stderr.write(`catalogue: ${message}\n`)
  process.exit(1)
}

type Order = { readonly from: readonly { readonly place: string; readonly version?: string }[]; readonly out: string }

const orderIn = (words: readonly string[]): Order => {
  const from: { place: string; version?: string }[] = []
  let out = fileURLToPath(CATALOGUE_FILE)
  for (let at = 0; at < words.length; at += 2) {
    const value = words[at + 1]
    const last = from.at(-1)
    if (value === undefined) return stop(`${words[at]} needs a value`)
    if (words[at] === '--from') from.push({ place: value })
    else if (words[at] === '--version' && last) last.version = value
    else if (words[at] === '--out') out = value
    else return stop(`${words[at]} is not understood; see the head of scripts/catalogue.ts`)
  }
  return { from: from.length > 0 ? from : SOURCES.map((place) => ({ place })), out }
}

const download = async (url: string): Promise<string> => {
  const answer = await fetch(url, { signal: AbortSignal.timeout(LONGEST_WAIT) })
  if (!answer.ok || !answer.body) return stop(`${url} answered ${answer.status}`)
  const pieces: string[] = []
  const text = new TextDecoder('utf-8', { fatal: true })
  let size = 0
  for await (const chunk of answer.body) {
    size += chunk.length
    if (size > MOST_BYTES) return stop(`${url} is larger than ${MOST_BYTES} bytes`)
    pieces.push(text.decode(chunk, { stream: true }))
  }
  return pieces.join('') + text.decode()
}

const read = async (place: string): Promise<Json> => {
  try {
    return JSON.parse(/^https?:/.test(place) ? await download(place) : readFileSync(place, 'utf8'))
  } catch (error) {
    return stop(`${place}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

const { from, out } = orderIn(process.argv.slice(2))
const names = sourceNames(await loadProviders())
const today = new Date().toISOString().slice(0, 10)

const sources: Imported[] = []
for (const { place, version = today } of from) {
  const found = importCatalogue(await read(place), { names, served, today, version })
  if (!found) stop(`${place} is in none of the known formats`)
  else {
    const count = [...found.models.values()].reduce((sum, models) => sum + models.size, 0)
    process.stdout.write(`${found.source.name}: ${count} models of ${found.models.size} providers\n`)
    if (count < FEWEST_MODELS) stop(`${place} has only ${count} models of providers known here`)
    sources.push(found)
  }
}

const { file, disagreements } = joinCatalogues(sources, today)
const text = catalogueText(file)
const { problems } = decodeCatalogue(JSON.parse(text))
if (problems.length > 0) stop(`would not be read again: ${problems.slice(0, 3).join('; ')}`)
if (text.length > MOST_TEXT) stop(`would be ${text.length} bytes; the most is ${MOST_TEXT}`)

// Whole or not at all: a gateway may be reading it.
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
