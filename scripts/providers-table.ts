/**
 * Writes docs/providers.md, and the table of providers in the README, from the files in src/providers.
 *
 *   node scripts/providers-table.ts
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { isObject, list, object, parseJson } from '../src/core/json.ts'
import type { Provider, Wire } from '../src/core/provider.ts'
import { CATALOGUE_FILE } from '../src/edge/catalogue/catalogue.ts'
import { styleNames } from '../src/edge/config/definition.ts'
import { loadProviders, type Providers } from '../src/edge/load-providers.ts'

export const PAGE_FILE = new URL('../docs/providers.md', import.meta.url)
export const README_FILE = new URL('../README.md', import.meta.url)

const BEGIN = '<!-- providers: made by scripts/providers-table.ts -->'
const END = '<!-- /providers -->'

// ── Cells ────────────────────────────────────────────────────────────────────────────────────────────────────────

const prefix = (name: string): string => name.toUpperCase().replaceAll('-', '_')
const code = (words: string): string => `\`${words}\``
const row = (cells: readonly string[]): string => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n')

const styles = (wires: readonly Wire[] = []): string => wires.map(({ protocol }) => styleNames[protocol]).join(', ')

/** What switches it on: with a key or an address, and by what without one. */
const variables = ({ name, keyless, keylessBy = [] }: Provider, names: readonly string[]): string => {
  const given = names.map((each) => code(prefix(each) + (keyless ? '_BASE_URL' : '_API_KEY'))).join(', ')
  return [given, ...keylessBy.map((suffix) => code(`${prefix(name)}_${suffix}`))].join(' or ')
}

const embeddings = ({ embeds }: Provider): string => {
  const [usual] = embeds?.models ?? []
  return embeds ? (usual === undefined ? 'yes' : code(usual)) : ''
}

type Known = ReadonlyMap<string, readonly (readonly string[])[]>

/** What the catalogue says each model of a provider can, by the provider's name there. */
const readKnown = (): Known => {
  const { providers } = object(parseJson(readFileSync(CATALOGUE_FILE, 'utf8'))) ?? {}
  return new Map(
    Object.entries(object(providers) ?? {}).map(([name, models]) => [
      name,
      Object.values(object(models) ?? {}).map((facts) => (isObject(facts) ? list(facts.can).map(String) : [])),
    ]),
  )
}

const CAPABILITIES: readonly (readonly [word: string, title: string])[] = [
  ['tools', 'tools'],
  ['structured_output', 'schemas'],
  ['vision', 'images'],
  ['reasoning', 'reasoning'],
]

const counted = (known: Known, { name, catalogue }: Provider): string => {
  const models = known.get(catalogue ?? name) ?? []
  if (models.length === 0) return ''
  const counts = CAPABILITIES.map(
    ([word, title]) => [title, models.filter((can) => can.includes(word)).length] as const,
  )
  // Where nothing is said of any model, nothing is known.
  const said = counts.some(([, count]) => count > 0) ? counts.map(([title, count]) => `${title} ${count}`) : []
  return [String(models.length), said.join(', ')].filter((part) => part !== '').join(': ')
}

// ── The page ─────────────────────────────────────────────────────────────────────────────────────────────────────

const known = (providers: Providers): readonly Provider[] =>
  [...providers.values()].filter(({ builtin, generic }) => !builtin && !generic)

const HEAD = [
  'name',
  'provider',
  'variable',
  'styles',
  'on request',
  'default model',
  'embeddings',
  'models in the catalogue',
  'address',
  '',
]

const pageRow = (catalogue: Known, provider: Provider): readonly string[] => {
  const { name, aliases = [], title, baseUrl, address, speaks, alsoSpeaks, defaultModel, note } = provider
  return [
    code(name),
    title,
    variables(provider, [name, ...aliases]),
    styles(speaks),
    styles(alsoSpeaks),
    defaultModel === undefined ? '' : code(defaultModel),
    embeddings(provider),
    counted(catalogue, provider),
    baseUrl ?? (address ? 'yours' : 'your server'),
    note ?? '',
  ]
}

/** The whole of docs/providers.md. */
export const providersPage = (providers: Providers): string => {
  const catalogue = readKnown()
  const rows = (wanted: boolean) =>
    table(
      HEAD,
      known(providers)
        .filter(({ keyless = false }) => keyless === wanted)
        .map((provider) => pageRow(catalogue, provider)),
    )
  return `<!-- Made by scripts/providers-table.ts from src/providers; change those. -->
# Providers

One variable switches a provider on. They are tried in the order of this table unless \`PROVIDERS\` says another.

A key variable takes several keys, separated by commas, or numbered (\`OPENAI_API_KEY_2\`). \`<NAME>_BASE_URL\` sends to another
address, \`<NAME>_MODELS\` names the models (the first is the default), \`<NAME>_STYLES\` the styles it is spoken to in.
Where two variables are given with an *or*, the second switches it on without a key: calls are then signed in by the
machine's own identity, as the note says.
A second account of the same provider has a label in its variables: \`OPENAI_EAST_API_KEY\` makes \`openai-east\`.

**Styles.** A client's request passes as it is where its own style is spoken, and is translated into the first one
otherwise, or into another that carries what would be lost. What stands under *on request* the provider has as well, but it
carries less there, or nothing shows that it carries as much: \`GROQ_STYLES=chat,responses\` turns it on.

**Models in the catalogue.** How many are known, and how many of them can be given tools, be held to a schema, read images,
reason. Others work as well; of these it is known beforehand. A number alone: what they can is not known.

${rows(false)}

## Servers of your own

They need no key, only their address; with a key (\`OLLAMA_API_KEY\`) it is sent.

${rows(true)}

Any other OpenAI-compatible server has a name of your choice, a key and an address: \`MY_LLM_API_KEY\` and \`MY_LLM_BASE_URL\`
make the provider \`my-llm\`. In \`headgate.yaml\` it is written with \`kind: openai-compatible\`, and there it needs no key.

## Adding one

A provider is one file in \`src/providers\`, and nothing else changes: the folder is read at start. Run
\`npm run providers\` afterwards, for this page and the README. What is known of its models (window, limit, price) comes from
\`data/catalogue.json\`, which \`npm run catalogue\` makes anew.
`
}

// ── The README ───────────────────────────────────────────────────────────────────────────────────────────────────

const readmeRow = (provider: Provider): readonly string[] => {
  const { name, title, speaks, alsoSpeaks, embeds, models } = provider
  return [
    title,
    variables(provider, [name]),
    styles(speaks),
    styles(alsoSpeaks),
    ['chat', ...(embeds ? ['embeddings'] : []), ...(models ? ['model list'] : [])].join(', '),
  ]
}

/** What stands between the README's two markers, both included. */
const readmeTable = (providers: Providers): string => {
  const all = known(providers)
  return `${BEGIN}
<details><summary>All ${all.length} providers: the variable that switches each on, the styles it is spoken to in</summary>

${table(['provider', 'variable', 'styles', 'on request', 'can'], all.map(readmeRow))}

After an *or*: the variable that switches it on without a key, signed in as the machine it runs on. *On request*: with
\`<NAME>_STYLES\`.

</details>
${END}`
}

/** The README with its table made anew. */
export const readmeWith = (readme: string, providers: Providers): string => {
  const from = readme.indexOf(BEGIN)
  const to = readme.indexOf(END)
  if (from === -1 || to < from) throw new Error(`the README has no table of providers between ${BEGIN} and ${END}`)
  return readme.slice(0, from) + readmeTable(providers) + readme.slice(to + END.length)
}

if (import.meta.main) {
  const providers = await loadProviders()
  writeFileSync(PAGE_FILE, providersPage(providers))
  writeFileSync(README_FILE, readmeWith(readFileSync(README_FILE, 'utf8'), providers))
}
