/** What is published about the configuration: the file's JSON Schema, the page of the documentation, the sample `.env`. All from the definition. */
import type { Provider } from '../../core/provider.ts'
import { allowedBy, jsonSchemaOf, type Row, styleNames } from './definition.ts'
import { fileSchema } from './file.ts'
import { envPrefix } from './ids.ts'
import { launchRows, settingRows } from './rows.ts'

type Providers = ReadonlyMap<string, Provider>

/** The JSON Schema of `headgate.yaml`, for editors. */
export const publishedSchema = (): string => {
  const { $schema, ...schema }: { readonly $schema?: string; readonly [name: string]: unknown } = {
    ...jsonSchemaOf(fileSchema),
  }
  const whole = { $schema, title: 'headgate.yaml', description: 'Configuration of the Headgate gateway.', ...schema }
  return `${JSON.stringify(whole, (name, value) => (isOurs(name, value) ? undefined : value), 2)}\n`
}

/** A keyword that no other reader of JSON Schema knows. */
const isOurs = (name: string, value: unknown): boolean => name === 'allowed' && typeof value === 'string'

const cell = (text: string): string => text.replaceAll('|', '\\|')

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.map(cell).join(' | ')} |`).join('\n')

const defaultOf = ({ schema }: Row): string => {
  const { default: value } = schema
  if (value === undefined || (Array.isArray(value) && value.length === 0)) return ''
  return `\`${String(value)}\``
}

const configurable = (providers: Providers): readonly Provider[] =>
  [...new Set(providers.values())]
    .filter(({ builtin, generic }) => !builtin && !generic)
    .sort((a, b) => a.order - b.order)

const neededBy = (provider: Provider): string => {
  const prefix = envPrefix(provider.name)
  const address = provider.baseUrl === undefined && provider.address === undefined ? [`\`${prefix}_BASE_URL\``] : []
  const key = provider.keyless || provider.auth === 'none' ? [] : [`\`${prefix}_API_KEY\``]
  if (provider.keyless) return `\`${prefix}_BASE_URL\``
  const variables =
    provider.baseUrl === undefined && provider.address !== undefined
      ? Object.entries(provider.variables ?? {})
          .filter(([, value]) => value === null)
          .slice(0, 1)
          .map(([suffix]) => `\`${prefix}_${suffix}\``)
      : []
  return [...key, ...address, ...variables].join(', ')
}

const SOURCE = 'Made by `npm run schema` from the definition the program itself uses; edit that, not this.'

const settingTable = (rows: readonly Row[], withName: boolean): string =>
  table(
    [...(withName ? ['setting'] : []), 'variable', 'default', 'allowed', 'meaning'],
    rows.map((row) => [
      ...(withName ? [`\`${row.name}\``] : []),
      `\`${row.env}\``,
      defaultOf(row),
      allowedBy(row.schema),
      row.schema.description ?? '',
    ]),
  )

/** `docs/configuration.md`. */
export const configurationPage = (): string => `# Configuration

<!-- ${SOURCE} -->

Nothing needs a file: variables do, from the environment or from \`.env\` in the working folder. What is easier to write
down, routes above all, goes into \`headgate.yaml\` there, or wherever \`HEADGATE_CONFIG\` points. Both know the same
settings (\`retry.maxAttempts\` and \`RETRY_MAX_ATTEMPTS\`); where both speak, the variable is obeyed, and a variable of the
process before one of \`.env\`. Times are in milliseconds, numbers whole, and an empty variable is as good as none. A mistake
keeps the gateway from starting; each is told in a line with its place, what stands there, and what could.

A changed file is taken up within a second (SIGHUP asks for it at once) and whole or not at all: what is under way is not
touched, and after a mistake everything stays as it was. An editor that knows JSON Schema helps when the file begins so:

\`\`\`yaml
# yaml-language-server: $schema=./node_modules/headgate/headgate.schema.json
\`\`\`

## Providers from the environment

| variable | meaning |
| --- | --- |
| \`<PROVIDER>_API_KEY\` | switches it on. Several keys, with commas or in \`<PROVIDER>_API_KEY_2\`, \`_3\` …, share the load |
| \`<PROVIDER>_BASE_URL\` | another address, with its version (\`…/v1\`); also \`<PROVIDER>_API_BASE\` |
| \`<PROVIDER>_MODELS\` | its models, with commas; the first is its default |
| \`<PROVIDER>_STYLES\` | wire formats it may be spoken to in, of ${Object.values(styleNames)
  .map((style) => `\`${style}\``)
  .join(', ')} |
| \`<PROVIDER>_AGGREGATE\` | \`true\`: it is asked for a stream where a client wants a whole answer too, and the answer is put together here. Then whatever breaks it off is tried elsewhere, and \`circuit.timeout\` is the wait for its first bytes, however long the answer takes |
| \`<PROVIDER>_<LABEL>_API_KEY\` | a second instance: \`OPENAI_EAST_API_KEY\` makes \`openai-east\`, with its own \`_BASE_URL\`, \`_MODELS\` and \`_STYLES\` |
| \`<NAME>_API_KEY\` and \`<NAME>_BASE_URL\` | any other name with both is an OpenAI-compatible server: \`MY_LLM_API_KEY\` makes \`my-llm\`. A key alone belongs to another program and is left alone |
| \`PROVIDERS\` | only these, in this order |

A server that asks for no key needs its base URL only. Without any provider, and outside production, the built-in \`demo\`
answers.

The names that are known, with what each needs, are in [providers.md](providers.md).

## Settings

${settingTable(settingRows, true)}

## The process

From the environment only, and read once.

${settingTable(launchRows, false)}

\`NO_COLOR\` and \`FORCE_COLOR\` are obeyed.

## The file

Any setting by its section, and what only a file can say well. \`\${NAME}\` inside a value is replaced by the variable of that
name, which then has to be set (\`$\${\` stands for the characters themselves).

\`\`\`yaml
providers:
  anthropic:
    keys: [ "\${ANTHROPIC_API_KEY}" ]
  house:                           # a name of its own says what kind it is
    kind: openai-compatible
    baseUrl: http://10.0.0.5:8000/v1
    models: [ qwen3-32b, gemma-3-27b ]
    keys:
      - "\${HOUSE_KEY}"
      - { value: "\${HOUSE_KEY_2}", weight: 2 }    # takes two of three requests
routes:
  draft:                           # what a client sends as \`model\`
    strategy: weighted
    targets:
      - { provider: house, model: qwen3-32b, weight: 4 }
      - { provider: house, model: gemma-3-27b, weight: 1 }
    fallback: [ anthropic/claude-haiku-4-5 ]
timeout: { firstContent: 20000 }
\`\`\`

Providers are tried in the order of \`PROVIDERS\`; without it first those of the file in its order, then those of the
environment in the order of [providers.md](providers.md). What the environment says of a provider of the file goes over it: address,
models and styles replace the file's, keys join them. Of a provider, \`variables\` holds what else it needs to know:
\`variables: { apiVersion: "2026-05-01" }\`.
`

const sample = (row: Row): string => {
  const value = row.schema.default
  return `#${row.env}=${value === undefined || Array.isArray(value) ? '' : String(value)}`
}

const comment = ({ schema }: Row): string =>
  `# ${schema.description}${schema.enum ? `: ${schema.enum.join(', ')}` : ''}`

/** `.env.example`: everything there is, nothing of it set. */
export const sampleEnv = (providers: Providers): string =>
  [
    '# Copy to .env and set what you need. An empty variable counts as not set.',
    `# ${SOURCE.replaceAll('`', '')}`,
    '',
    '# Providers: one key is enough to begin. Several keys: commas between them.',
    ...configurable(providers).map(
      (provider) => `#${neededBy(provider).replaceAll('`', '').replaceAll(', ', '=\n#')}=`,
    ),
    '',
    '# Any other OpenAI-compatible server, here called my-llm:',
    '#MY_LLM_API_KEY=',
    '#MY_LLM_BASE_URL=http://127.0.0.1:9000/v1',
    '',
    ...[...launchRows, ...settingRows].flatMap((row) => [comment(row), sample(row)]),
    '',
  ].join('\n')
