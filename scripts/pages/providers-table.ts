/**
 * Writes docs/providers.md, and the table of providers in the README, from the files in src/providers.
 *
 *   node scripts/pages/providers-table.ts
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { CATALOGUE_FILE } from '../../src/config/catalogue/catalogue.ts'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import { styleNames } from '../../src/config/definition.ts'
import { isObject, list, object, parseJson } from '../../src/core/json.ts'
import type { ProtocolSupport, Provider, Providers } from '../../src/core/provider.ts'
import { markdownTable } from './markdown-table.ts'

export const PAGE_FILE = new URL('../../docs/providers.md', import.meta.url)
export const README_FILE = new URL('../../README.md', import.meta.url)

const BEGIN = '<!-- providers: made by scripts/pages/providers-table.ts -->'
const END = '<!-- /providers -->'

// ── Cells ────────────────────────────────────────────────────────────────────────────────────────────────────────

const prefix = (name: string): string => name.toUpperCase().replaceAll('-', '_')
const code = (words: string): string => `\`${words}\``

const styles = (wires: readonly ProtocolSupport[] = []): string =>
  wires.map(({ protocol }) => styleNames[protocol]).join(', ')

/** The variables that switch it on: key or address, then those for use without a key. */
const variables = ({ name, keyless, keylessVariables = [] }: Provider, names: readonly string[]): string => {
  const given = names.map((each) => code(prefix(each) + (keyless ? '_BASE_URL' : '_API_KEY'))).join(', ')
  return [given, ...keylessVariables.map((suffix) => code(`${prefix(name)}_${suffix}`))].join(' or ')
}

const embeddings = ({ embeds }: Provider): string => {
  const [usual] = embeds?.models ?? []
  return embeds ? (usual === undefined ? 'yes' : code(usual)) : ''
}

/** The endpoints that are relayed to it. */
const relayed = ({ relays = {} }: Provider): readonly string[] => Object.keys(relays)

type Known = ReadonlyMap<string, readonly (readonly string[])[]>

/** Capabilities of each model in the catalogue, by the provider's name there. */
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
  // If no model has a capability, capabilities are unknown.
  const capabilities = counts.some(([, count]) => count > 0) ? counts.map(([title, count]) => `${title} ${count}`) : []
  return [String(models.length), capabilities.join(', ')].filter((part) => part !== '').join(': ')
}

// ── The page ─────────────────────────────────────────────────────────────────────────────────────────────────────

const known = (providers: Providers): readonly Provider[] =>
  [...providers.values()].filter(({ builtin, generic }) => !builtin && !generic)

const HEAD = ['name', 'provider', 'variable', 'styles', 'on request', 'default model', 'embeddings', 'relayed']
const MORE = ['provider', 'models in the catalogue', 'address', 'note']

const pageRow = (provider: Provider): readonly string[] => {
  const { name, aliases = [], title, speaks, alsoSpeaks, defaultModel } = provider
  return [
    code(name),
    title,
    variables(provider, [name, ...aliases]),
    styles(speaks),
    styles(alsoSpeaks),
    defaultModel === undefined ? '' : code(defaultModel),
    embeddings(provider),
    relayed(provider).join(', '),
  ]
}

const moreRow = (catalogue: Known, provider: Provider): readonly string[] => {
  const { title, baseUrl, address, note } = provider
  return [title, counted(catalogue, provider), baseUrl ?? (address ? 'yours' : 'your server'), note ?? '']
}

const headerRow = ({ name, forwardHeaders = [], variableHeaders = {} }: Provider): readonly string[] => [
  code(name),
  forwardHeaders.map(code).join(', '),
  Object.keys(variableHeaders)
    .map((suffix) => code(`${name.toUpperCase().replaceAll('-', '_')}_${suffix}`))
    .join(', '),
]

/** The whole of docs/providers.md. */
export const providersPage = (providers: Providers): string => {
  const catalogue = readKnown()
  const rows = (wanted: boolean) => {
    const listed = known(providers).filter(({ keyless = false }) => keyless === wanted)
    return `${markdownTable(HEAD, listed.map(pageRow))}

Models, addresses and what else there is to know:

${markdownTable(
  MORE,
  listed.map((provider) => moreRow(catalogue, provider)),
)}`
  }
  return `<!-- Generated by scripts/pages/providers-table.ts from src/providers. Do not edit. -->
# Providers

Set a provider's variable to use it. Several providers are fallbacks for each other, in the order of this table or of
\`PROVIDERS\`.

\`\`\`sh
OPENAI_API_KEY=sk-… ANTHROPIC_API_KEY=sk-ant-… npm start
curl http://localhost:3000/v1/models
\`\`\`

\`\`\`json
{"object":"list","data":[{"id":"openai/gpt-5.4-mini","object":"model","owned_by":"openai","context_window":272000,"max_output_tokens":128000,…},…]}
\`\`\`

| variable | purpose |
| --- | --- |
| \`<NAME>_API_KEY\` | API key. Several keys, separated by commas or numbered (\`OPENAI_API_KEY_2\`), share the load |
| \`<NAME>_BASE_URL\` | another address: with the version (\`/v1\`), without the endpoint. The start warns of both mistakes |
| \`<NAME>_MODELS\` | its models; the first is the default |
| \`<NAME>_STYLES\` | the API styles to use with it: \`GROQ_STYLES=chat,responses\` |
| \`OPENAI_EAST_API_KEY\` | a second account of the same provider, named \`openai-east\` |

In the tables:

- **variable**: set it to use the provider. Where it says *or*, set one of the two: the first is an API key. The second is a region or a
  project; then no key is needed, and calls are signed with the cloud identity of the machine, as the note explains.
- **styles**: a request in one of these API styles passes through unchanged. A request in another style is
  translated to the first of them, or to another one if the first cannot express a part of the request.
- **on request**: further styles of the provider, which support fewer features, or are not known to support all. Enable them with \`<NAME>_STYLES\`.
- **relayed**: [endpoints](endpoints.md) that are routed and not translated. A provider without styles generates no text.
- **models in the catalogue**: known models, and how many of them support tools, structured output (schemas), images and
  reasoning. A number alone: capabilities unknown. Other models work too.

${rows(false)}

## What is adapted

A vendor may refuse a value that the client's API style allows. Headgate changes or leaves out what a vendor is known to
refuse, and names it in \`x-headgate-dropped\` by the client's path:

\`\`\`sh
curl -si http://localhost:3000/v1/chat/completions -H 'content-type: application/json' \\
  -d '{"model":"openai/gpt-4.1","reasoning_effort":"low","messages":[{"role":"user","content":"hello"}]}' | grep -i dropped
\`\`\`

\`\`\`
x-headgate-dropped: reasoning_effort
\`\`\`

| member | at | what is sent |
| --- | --- | --- |
| user IDs, \`safety_identifier\`, \`prompt_cache_key\` above the vendor's length, or with other characters than it accepts | OpenAI, Azure (64 characters), OpenRouter (128), Z.ai (6 to 128), DeepSeek (letters, digits, \`_\`, \`-\`); 64 characters in every translated request to another provider | a digest: the same for the same value |
| IDs of calls (chat 40, responses 64) and of items (64) | OpenAI, Azure | a digest, equal for a call and its result. Translated requests have IDs of their own, so it is not named there |
| more than four stop sequences | OpenAI, Azure | the first four |
| parameters of a function without \`properties\` or \`type\` | chat and responses providers | an object schema with \`properties\`; the meaning is the same, so it is not named |
| \`metadata\` without \`store\` | chat completions of OpenAI and Azure | nothing |
| an effort or a verbosity for a model that does not reason | OpenAI, Azure, GitHub Models | nothing |
| penalties | Gemini, Vertex AI | nothing |
| \`store\`, \`metadata\`, \`prompt_cache_key\` | Gemini's compatible endpoint | nothing |
| \`logit_bias\`, and \`parallel_tool_calls\` for the o-series | reasoning models of OpenAI and Azure | nothing |
| \`temperature\`, \`top_p\`, \`top_k\` | Claude Opus 4.7 and later at Anthropic, Vertex AI and Bedrock | nothing |
| \`temperature\`, \`top_p\`, penalties | Kimi K2.5 and later at Moonshot AI | nothing |
| thinking, while a tool call is forced | DeepSeek V4, Qwen at Alibaba, Kimi K2.5 and K2.6 | thinking is disabled; named is the member that controls it, or \`tool_choice\` if there is none |
| thinking in whole answers | the open Qwen3 at Alibaba | thinking is disabled |
| a JSON schema | DeepSeek | a request to its responses API |
| \`dimensions\` of embeddings | Mistral, Voyage | \`output_dimension\`; the meaning is the same, so it is not named |
| \`encoding_format\` of embeddings | Jina; Voyage if it is \`float\` | nothing, and the answer has the encoding that was requested |
| other members of embeddings that the vendor lacks | Mistral, Voyage, Jina | nothing |
| \`input_type\` of embeddings, other than \`query\` and \`document\` | Voyage | nothing |
| tokens as input of embeddings | Mistral, Voyage, Jina | another target |
| JSON output together with tools | Groq | another target |

A refusal that is not known beforehand is not final either: see [errors](errors.md).

## Headers

A provider entry of \`headgate.yaml\` has headers for every request to it: calls in all styles, embeddings, token counts and the
model list.

\`\`\`yaml
providers:
  openai:
    headers: { OpenAI-Project: proj_team }
  house:
    kind: openai-compatible
    baseUrl: https://gate.example/v1
    headers: { X-Gate-Token: "\${GATE_TOKEN}" }       # masked in messages and logs
    forwardHeaders: [ X-Tenant ]                      # of the client, if it sends one
\`\`\`

\`forwardHeaders\` lists client headers that are passed on. Without it these are:

${markdownTable(
  ['provider', 'forwarded if the client sends it', 'set for every request by'],
  known(providers)
    .filter(({ forwardHeaders, variableHeaders }) => forwardHeaders || variableHeaders)
    .map(headerRow),
)}

A header that the operator has set, in the file or by a variable, replaces the client's, and \`x-headgate-dropped\` names it
(\`headers.openai-project\`). So a client cannot choose the
organisation or project that pays if \`OPENAI_ORG_ID\` and \`OPENAI_PROJECT_ID\` are set; \`forwardHeaders: []\` forwards none.
Headers for another vendor are not sent. Not possible are headers that the gateway sets itself (\`Authorization\`, \`Content-Type\` …),
and forwarding those that may contain keys of clients.

## Your own servers

These need only their address. If you set a key (\`OLLAMA_API_KEY\`), it is sent.

${rows(true)}

Any other OpenAI-compatible server is configured with a name of your choice: \`MY_LLM_API_KEY\` and \`MY_LLM_BASE_URL\` create the
provider \`my-llm\`. In \`headgate.yaml\`, state \`kind: openai-compatible\`; there it needs no key.

The context window of a model is known from the first of these: the file (\`models: [{ id: qwen3-32b, contextWindow: 32768 }]\`),
a refusal that states it (for ten minutes), the provider's model list (\`max_model_len\` of vLLM, \`context_length\` …), and the
catalogue. State it in the file if the server does not.

## Add a provider to Headgate

A provider is one file in \`src/providers\`; [CONTRIBUTING.md](../CONTRIBUTING.md#example-add-a-provider) has an example.
\`npm run providers\` then updates this page and the README, and \`npm run schema\` the sample \`.env\`. Context windows, limits and prices
of its models come from \`data/catalogue.json\`, which \`npm run catalogue\` generates.
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
    ['chat', ...(embeds ? ['embeddings'] : []), ...relayed(provider), ...(models ? ['model list'] : [])].join(', '),
  ]
}

/** The text between the README's two markers, markers included. */
const readmeTable = (providers: Providers): string => {
  const all = known(providers)
  return `${BEGIN}
<details><summary>All ${all.length} providers with their variables and API styles</summary>

${markdownTable(['provider', 'variable', 'styles', 'on request', 'can'], all.map(readmeRow))}

Where it says *or*, set one of the two: an API key, or a region or project, for which the cloud identity of the machine signs. *On
request*: styles to enable with \`<NAME>_STYLES\`.

</details>
${END}`
}

/** The README with an updated table. */
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
