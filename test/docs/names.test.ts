/** What the pages name exists: settings, variables, metrics, error codes, verbs and options. And all of it is in a page. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { launchRows, settingRows } from '../../src/config/rows.ts'
import { KINDS } from '../../src/core/failure.ts'
import { blocksOf, PAGES, placeOf, ROOT } from './support.ts'

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
const spans = (text: string): readonly string[] => [...text.matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => span)

/** Each page with its code spans and the words of its code blocks. */
const named = PAGES.map(({ path, prose, blocks }) => ({ path, spans: spans(prose), blocks }))

const settings = new Set(settingRows.map(({ name }) => name))
const sections = new Set([...settings].filter((name) => name.includes('.')).map((name) => name.split('.')[0]))

test('names: every setting named in a page exists', () => {
  const unknown = named.flatMap(({ path, spans }) =>
    spans.flatMap((span) => {
      const [, name = ''] = /^([a-z][A-Za-z]*(?:\.[a-z][A-Za-z]*)+)(?::.*)?$/.exec(span) ?? []
      // Files of the repository and members of requests have dots too.
      return sections.has(name.split('.')[0]) && !settings.has(name) && !FILE_MEMBERS.has(name)
        ? [`${path}: ${span}`]
        : []
    }),
  )
  assert.deepEqual(unknown, [])
})

/** Members of headgate.yaml that are no settings, and what else has the name of a section before a dot. */
const FILE_MEMBERS: ReadonlySet<string> = new Set([
  'alerts.rules.budget',
  'alerts.url',
  'auth.jwt',
  'usage.cost',
  // A member of Claude's answers.
  'usage.iterations',
  'usage.db',
  'drill.json',
  'bodies.db',
  'responses.db',
  'stream.ts',
])

/** Variables of other programs. */
const FOREIGN =
  /^(?:NODE_|ANTHROPIC_(?:AUTH_TOKEN|BASE_URL|BEDROCK_BASE_URL|VERTEX_BASE_URL|VERTEX_PROJECT_ID)$|AWS_|CLAUDE_|CLINE_|CLOUD_ML_REGION$|CODEX_|CONTINUE_|CREDENTIALS_OVERWRITE_DATA$|ENABLE_PERSISTENT_CONFIG$|GEMINI_MODEL$|GOOGLE_GEMINI_BASE_URL$|(?:GENERIC|GOOGLE)_CLIENT_ID$|JWT_(?:AUDIENCE|ISSUER|PUBLIC_KEY_URL)$|LITELLM_|MICROSOFT_TENANT$|OPENAI_(?:BASE_URL|API_BASE|API_BASE_URL|MODEL)$|(?:ALL|HTTPS?|NO)_PROXY$|SO_REUSEPORT$|XDG_)/
/** Variables of the project's own tests and tools. */
const TOOLS = /^(?:HEADGATE_RESTARTS|LEASE_MODEL|LEDGER_KILLS|SCENARIO_AWAY|SCENARIO_BEFORE|SCENARIO_RATE|SIM_SEED)$/
/** What the rest of the documentation states about names: variables of providers, of the process, and of the command line. */
const STATED = new Set(
  ['docs/configuration.md', 'docs/providers.md', 'docs/cli.md', '.env.example', 'deploy/compose/env.example'].flatMap(
    (path) => [...read(path).matchAll(/\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b/g)].map(([name]) => name),
  ),
)
const variables = new Set([...settingRows, ...launchRows].map(({ env }) => env))
/** Switches that are described where they help, and not offered as settings. */
const EMERGENCY = new Set(['HTTP_SERVER', 'HTTP_CLIENT', 'HEAP_TUNING'])
/** Constants of the source, which the page for developers names. */
const isConstant = (path: string, name: string): boolean =>
  path === 'docs/architecture.md' && SOURCE.some((text) => text.includes(`const ${name}`))
const SOURCE = globSync('src/**/*.ts', { cwd: ROOT }).map(read)

test('names: every variable named in a page exists', () => {
  const unknown = named.flatMap(({ path, spans, blocks }) =>
    [...spans, ...blocks.filter(({ info }) => info[0] === 'sh').map(({ text }) => text)]
      .flatMap((text) =>
        [...text.matchAll(/(?<![\w<$%-])([A-Z][A-Z0-9]*_[A-Z0-9_]+)(?=[=`\s,.)]|$)/g)].map(([, name = '']) => name),
      )
      .filter(
        (name) =>
          !isConstant(path, name) &&
          !variables.has(name) &&
          !STATED.has(name) &&
          !EMERGENCY.has(name) &&
          !FOREIGN.test(name) &&
          !TOOLS.test(name),
      )
      .map((name) => `${path}: ${name}`),
  )
  assert.deepEqual([...new Set(unknown)], [])
})

test('names: every metric named in a page, an alert or the dashboard of Grafana exists', () => {
  const known = new Set([...read('docs/metrics.md').matchAll(/^\| `(\w+)` \|/gm)].map(([, name = '']) => name))
  assert.ok(known.size > 50)
  const files = [...PAGES.map(({ path }) => path), ...globSync('deploy/{prometheus,grafana}/*', { cwd: ROOT })]
  const unknown = files.flatMap((path) =>
    [...read(path).matchAll(/(?<!\^)\b(?:headgate|gen_ai)_[a-z_]+[a-z]\b(?![*./-])/g)]
      .map(([name]) => name)
      .filter((name) => !known.has(name) && !known.has(name.replace(/_(?:bucket|sum|count)$/, '')))
      .filter((name) => !/^gen_ai_(?:operation_name|provider_name|request_model|token_type)$/.test(name))
      // The volume `data` of the Compose project `headgate`.
      .filter((name) => name !== 'headgate_data')
      .map((name) => `${path}: ${name}`),
  )
  assert.deepEqual(unknown, [])
})

test('names: every error code named with its status exists', () => {
  const codes = new Set([...Object.values(KINDS).map(({ code }) => code), ...OTHER_CODES])
  const found = PAGES.flatMap(({ path, prose }) =>
    [...prose.matchAll(/\b[45]\d\d `([a-z_]+)`|`([a-z_]+)` \([45]\d\d\)/g)].map(([, one, other]) => ({
      path,
      code: one ?? other ?? '',
    })),
  )
  assert.ok(found.length > 10)
  assert.deepEqual(
    found.filter(({ code }) => !codes.has(code)),
    [],
  )
})

/** Codes of the admin API that are no kinds of failure: those that its code refuses with. */
const OTHER_CODES = globSync('src/{server/admin,records/store}/**/*.ts', { cwd: ROOT })
  .filter((path) => !path.endsWith('.test.ts'))
  .flatMap((path) => [...read(path).matchAll(/^\s+'([a-z]+(?:_[a-z]+)+)',$|\b(?:409,|code:) '([a-z_]+)'/gm)])
  .map(([, one, other]) => one ?? other ?? '')

/** The help text of each verb, by its name: `headgate keys create`. */
const help = new Map(
  read('docs/cli.md')
    .split(/^## /m)
    .slice(1)
    .map((section) => [section.split('\n')[0] ?? '', section]),
)

/** What is wrong with a command line: an unknown verb or option. */
const wrongWith = (command: string): string | null => {
  const words = command.split(/\s+/)
  let verb = 'headgate'
  for (const word of words.slice(1)) {
    if (!help.has(`${verb} ${word}`)) break
    verb = `${verb} ${word}`
  }
  const [first = ''] = words.slice(1)
  if (verb === 'headgate' && /^[a-z]+$/.test(first)) return `there is no verb "${first}"`
  const text = `${help.get(verb)}${help.get('headgate')}`
  const unknown = words.filter((word) => /^--[a-z]/.test(word)).map((word) => word.split('=')[0] ?? '')
  const missing = unknown.filter((option) => !new RegExp(`${option}(?![\\w-])`).test(text))
  return missing.length > 0 ? `${verb} has no ${missing.join(', ')}` : null
}

test('names: every command named in a page exists, with its options', () => {
  const inBlocks = [...blocksOf('sh'), ...blocksOf('console')].flatMap((block) =>
    block.text.split('\n').flatMap((line) => {
      const [, command] = /^(?:\$ )?(?:npx )?(headgate [a-z-].*?)(?:\s+#.*|\s*[|>;].*)?$/.exec(line.trim()) ?? []
      return command === undefined ? [] : [{ place: placeOf(block), command }]
    }),
  )
  const inProse = named.flatMap(({ path, spans }) =>
    spans.filter((span) => /^headgate [a-z-]/.test(span)).map((command) => ({ place: path, command })),
  )
  assert.ok(inBlocks.length > 10 && inProse.length > 20, `${inBlocks.length} and ${inProse.length}`)
  const wrong = [...inBlocks, ...inProse].flatMap(({ place, command }) => {
    const problem = wrongWith(command)
    return problem === null ? [] : [`${place}: ${command}: ${problem}`]
  })
  assert.deepEqual(wrong, [])
})

/** Options of Node. */
const NODE_OPTIONS = ['--allow-child-process', '--allow-worker', '--inspect', '--permission']

test('names: every option named by itself in a page exists', () => {
  const known = new Set(read('docs/cli.md').match(/--[a-z][a-z-]*/g))
  const found = named.flatMap(({ path, spans }) =>
    spans.filter((span) => /^--[a-z-]+$/.test(span)).map((span) => `${path}: ${span}`),
  )
  assert.ok(found.length > 10)
  const isKnown = (option: string): boolean => known.has(option) || NODE_OPTIONS.includes(option)
  assert.deepEqual(
    found.filter((each) => !isKnown(each.split(': ')[1] ?? '')),
    [],
  )
})

test('names: products are spelled as their makers do', () => {
  const wrong =
    /\b(?:OpenAi|Open AI|Github|Javascript|Typescript|PostgresSQL|Postgre|Litellm|Lite LLM|Openrouter|Claude code|Vertex Ai|LlamaCpp|Nodejs|NodeJS|HAproxy|Headgate AI|HeadGate)\b/
  for (const { path, prose } of PAGES) {
    const found = wrong.exec(prose.replace(/`[^`\n]*`|\]\([^)]*\)/g, ''))
    assert.equal(found, null, `${path}: ${found?.[0]}`)
  }
})

test('docs/capacity.md: every figure is one of bench/RESULTS.md', () => {
  // A workload has several rows, of which the first names it.
  const measured = read('bench/RESULTS.md').split(/^(?=\| `)/m)
  const rows = [...read('docs/capacity.md').matchAll(/^\| `([\w-]+)` \| (\S+ \S+) /gm)]
  assert.ok(rows.length >= 8)
  for (const [, workload = '', figure = ''] of rows) {
    const row = measured.find((part) => part.startsWith(`| \`${workload}\``))
    assert.ok(row?.includes(` ${figure} `), `${workload}: ${figure}`)
  }
})
