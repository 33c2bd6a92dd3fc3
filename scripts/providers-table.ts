/**
 * Writes docs/providers.md from the files in src/providers.
 *
 *   node scripts/providers-table.ts
 */
import { writeFileSync } from 'node:fs'
import type { UpstreamProtocolName } from '../src/core/chat.ts'
import type { Provider } from '../src/core/provider.ts'
import { loadProviders } from '../src/edge/load-providers.ts'

export const TABLE_FILE = new URL('../docs/providers.md', import.meta.url)

const STYLES: { readonly [protocol in UpstreamProtocolName]: string } = {
  'openai-chat': 'chat',
  'openai-responses': 'responses',
  'anthropic-messages': 'messages',
  gemini: 'gemini',
  'bedrock-converse': 'bedrock',
  cohere: 'cohere',
  mistral: 'mistral',
  ollama: 'ollama',
}

const prefix = (name: string): string => name.toUpperCase().replaceAll('-', '_')
const code = (words: string): string => `\`${words}\``

const row = ({
  name,
  aliases = [],
  title,
  baseUrl,
  address,
  speaks,
  keyless,
  keylessBy = [],
  defaultModel,
  note,
}: Provider): string => {
  const variable = keyless ? '_BASE_URL' : '_API_KEY'
  const keys = [name, ...aliases].map((each) => code(prefix(each) + variable)).join(', ')
  const identity = keylessBy.map((suffix) => code(`${prefix(name)}_${suffix}`))
  const model = defaultModel === undefined ? '' : code(defaultModel)
  const where = baseUrl ?? (address ? 'yours' : 'your server')
  const cells = [
    code(name),
    title,
    [keys, ...identity].join(' or '),
    speaks.map(({ protocol }) => STYLES[protocol]).join(', '),
    model,
    where,
    note ?? '',
  ]
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

/** The whole page. */
export const providersTable = async (): Promise<string> => {
  const all = [...(await loadProviders()).values()]
  const known = all.filter(({ builtin, generic }) => !builtin && !generic)
  const head = [
    '| name | provider | variable | styles | default model | address | |',
    '| --- | --- | --- | --- | --- | --- | --- |',
  ]
  return `<!-- Made by scripts/providers-table.ts from src/providers; change those. -->
# Providers

One variable switches a provider on. They are tried in the order of this table unless \`PROVIDERS\` says another.

A key variable takes several keys, separated by commas, or numbered (\`OPENAI_API_KEY_2\`). \`<NAME>_BASE_URL\` sends to another
address, \`<NAME>_MODELS\` names the models (the first is the default), \`<NAME>_STYLES\` the styles it is spoken to in.
Where two variables are given with an *or*, the second switches it on without a key: calls are then signed in by the
machine's own identity, as the note says.
A second account of the same provider has a label in its variables: \`OPENAI_EAST_API_KEY\` makes \`openai-east\`.

${[...head, ...known.filter(({ keyless }) => !keyless).map(row)].join('\n')}

## Servers of your own

They need no key, only their address; with a key (\`OLLAMA_API_KEY\`) it is sent.

${[...head, ...known.filter(({ keyless }) => keyless).map(row)].join('\n')}

Any other OpenAI-compatible server has a name of your choice, a key and an address: \`MY_LLM_API_KEY\` and \`MY_LLM_BASE_URL\`
make the provider \`my-llm\`. In \`headgate.yaml\` it is written with \`kind: openai-compatible\`, and there it needs no key.

## Adding one

A provider is one file in \`src/providers\`, and nothing else changes: the folder is read at start. Run
\`node scripts/providers-table.ts\` afterwards. What is known of its models (window, limit, price) comes from
\`data/catalogue.json\`, which \`npm run catalogue\` makes anew.
`
}

if (import.meta.main) writeFileSync(TABLE_FILE, await providersTable())
