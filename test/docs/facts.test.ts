/**
 * What the pages state about the program is so: defaults and values of settings, statuses of codes, rules of alerts, members of
 * budgets, paths, headers, folders, features that exist or are missing, and numbers with a marker.
 *
 * A marker is a comment on the line before a paragraph or table: it names a constant of the source, and the words that state
 * its value, here or further below in the section.
 *
 *     <!-- fact: src/observe/alerts/alerting.ts MAX_WAITING "At most 100" -->
 */
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { alertsSchema } from '../../src/config/alerts-schema.ts'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import { jsonSchemaOf, type Schema, type SettingRow, styleNames } from '../../src/config/definition.ts'
import { launchRows, settingRows } from '../../src/config/rows.ts'
import { ssoSchema } from '../../src/config/sso-schema.ts'
import { KINDS } from '../../src/core/failure.ts'
import { RELAY_ROWS } from '../../src/core/relay.ts'
import { BUDGET_ENTRY } from '../../src/records/entities/budget.ts'
import { TABLE } from '../../src/server/admin/table.ts'
import { ADMIN_BASE } from '../../src/server/admin-request.ts'
import { CLAUDE_ROUTES, pathsOf, ROUTES } from '../../src/server/routes.ts'
import { TARGETS } from '../../tools/fuzz/targets.ts'
import { INVARIANTS } from '../../tools/sim/invariants.ts'
import { ROWS } from '../security/rows.ts'
import { PAGES, ROOT } from './support.ts'

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
const pageOf = (path: string) => PAGES.find((page) => page.path === path) ?? assert.fail(`there is no ${path}`)
/** The values of Helm have names of their own. */
const WRITTEN = PAGES.filter(({ path }) => path !== 'docs/deploy/kubernetes.md')

const SETTINGS = new Map<string, SettingRow>([
  ...settingRows.flatMap((row): [string, SettingRow][] => [
    [row.name, row],
    [row.env, row],
  ]),
  ...launchRows.map((row): [string, SettingRow] => [row.env, row]),
])

/** Numbers that a text may mean: `30 s` is 30 or 30,000, `64 KB` 64,000 or 65,536. */
const UNITS: Readonly<Record<string, readonly number[]>> = {
  ms: [1],
  s: [1, 1_000],
  second: [1, 1_000],
  minute: [1, 60_000],
  hour: [1, 3_600_000],
  day: [1, 86_400_000],
  KB: [1, 1_000, 1_024],
  MB: [1, 1_000_000, 1_048_576],
  GB: [1_000, 1_024],
}
const WORDS = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten']
const numbersOf = (text: string): readonly number[] => {
  const [, digits = '', unit = ''] =
    /([0-9][0-9,]*(?:\.[0-9]+)?)(?:\s(ms|s|second|minute|hour|day|KB|MB|GB)s?\b)?/.exec(text) ?? []
  const word = WORDS.findIndex((each) => new RegExp(`\\b${each}\\b`).test(text))
  if (digits === '' && word < 0) return []
  const value = digits === '' ? word : Number(digits.replaceAll(',', ''))
  const [, named = unit] = digits === '' ? (/\b(second|minute|hour|day)s?\b/.exec(text) ?? []) : []
  return (UNITS[named] ?? [1]).map((factor) => value * factor)
}

/** Whether a text states this value. Lists may be written with or without brackets. */
const states = (text: string, value: unknown): boolean => {
  if (typeof value === 'number') return numbersOf(text).includes(value)
  const plain = text.replace(/[`[\]]|\.$/g, '').trim()
  return Array.isArray(value) ? plain.replace(/\s*,\s*/g, ',') === value.join(',') : plain === String(value)
}

/** Statements of a default: `a.b` (5) · `a.b` (default 5) · `a.b`, default `x` · `a.b: x` (the default) · 5 s (`a.b`). */
const DEFAULTS: readonly RegExp[] = [
  /(?<value>[0-9][0-9,.]* (?:ms|s|seconds?|minutes?|hours?|days?|KB|MB|GB)) \(`(?<name>[A-Za-z][\w.]*)`\)/g,
  /`(?<name>[A-Za-z][\w.]*)` \((?:the )?(?:default:? )?(?<value>`[^`]+`|[0-9][0-9,.]*(?: (?:ms|s|seconds|minutes|hours|days|KB|MB|GB))?)\)/g,
  /`(?<name>[A-Za-z][\w.]*)`[,;]? (?:whose )?(?:by )?default:?(?: is)? (?<value>`[^`]+`|[0-9][0-9,.]*(?: (?:ms|s|MB|GB|days))?)/g,
  /`(?<name>[A-Za-z][\w.]*)(?:: |=)(?<value>[^`]+)`,? (?:\((?:the )?default\b|is the default\b|the default\b)/g,
]

test('facts: each default of a setting that a page states is its default', () => {
  const stated = WRITTEN.flatMap(({ path, prose }) =>
    DEFAULTS.flatMap((pattern) =>
      [...prose.replaceAll('\n', ' ').matchAll(pattern)].flatMap(({ groups }) => {
        const row = SETTINGS.get(groups?.name ?? '')
        const value = groups?.value ?? ''
        // A variable in brackets is the other name of the setting.
        return row === undefined || SETTINGS.has(value.replaceAll('`', '')) ? [] : [{ path, row, value }]
      }),
    ),
  )
  assert.ok(stated.length > 10, `${stated.length} statements`)
  const wrong = stated.filter(({ row, value }) => !states(value, row.schema.default))
  assert.deepEqual(
    wrong.map(
      ({ path, row, value }) => `${path}: ${row.name}: ${value}, in truth ${JSON.stringify(row.schema.default)}`,
    ),
    [],
  )
})

/** The tables of pages with a column of settings or rules and one of defaults. */
const defaultRows = (prose: string): readonly { readonly name: string; readonly value: string }[] => {
  let columns: readonly string[] = []
  return prose.split('\n').flatMap((line) => {
    const cells = line.startsWith('|') ? line.split('|').map((cell) => cell.trim()) : []
    if (cells.length === 0) columns = []
    else if (columns.length === 0) columns = cells
    const [named, value] = [
      columns.findIndex((cell) => /^(?:setting|rule|variable)$/.test(cell)),
      columns.indexOf('default'),
    ]
    const [, name] = /^`([A-Za-z][\w.]*)`$/.exec(cells[named] ?? '') ?? []
    return named < 0 || value < 0 || name === undefined ? [] : [{ name, value: cells[value] ?? '' }]
  })
}

test('facts: defaults in tables of settings are those of the program', () => {
  const rows = WRITTEN.flatMap(({ path, prose }) =>
    defaultRows(prose).flatMap(({ name, value }) => {
      const row = SETTINGS.get(name)
      return row === undefined ? [] : [{ path, row, value }]
    }),
  )
  assert.ok(rows.length > 80, `${rows.length} rows`)
  const wrong = rows.filter(({ row, value }) => {
    const real = row.schema.default
    return real === undefined || (Array.isArray(real) && real.length === 0) ? value !== '' : !states(value, real)
  })
  assert.deepEqual(
    wrong.map(
      ({ path, row, value }) => `${path}: ${row.name}: ${value}, in truth ${JSON.stringify(row.schema.default)}`,
    ),
    [],
  )
})

/** Whether a setting may have this value; null: a value that is not one word. */
const allows = (schema: Schema, value: string): boolean | null => {
  if (schema.enum) return schema.enum.includes(value)
  if (schema.anyOf) return schema.anyOf.some((one) => allows(one, value) !== false)
  if (schema.type === 'boolean') return value === 'true' || value === 'false'
  if (schema.type !== 'integer' && schema.type !== 'number') return null
  const number = Number(value)
  return number >= (schema.minimum ?? -Infinity) && number <= (schema.maximum ?? Infinity)
}

test('facts: each value that a page gives a setting is allowed', () => {
  const given = WRITTEN.flatMap(({ path, prose, blocks }) => [
    ...[...prose.matchAll(/`([A-Za-z][\w.]*)(?:: |=)([^`\s<{[…]+)`/g)].map(([, name = '', value = '']) => ({
      path,
      name,
      value,
    })),
    ...blocks
      .filter(({ info }) => info[0] === 'sh')
      .flatMap(({ text }) => [...text.matchAll(/(?:^|[ ])([A-Z][A-Z_]+)=([\w.-]+)(?=\s|$)/gm)])
      .map(([, name = '', value = '']) => ({ path, name, value })),
  ]).flatMap(({ path, name, value }) => {
    const row = SETTINGS.get(name)
    return row === undefined ? [] : [{ path, name, value, row }]
  })
  assert.ok(given.length > 60, `${given.length} values`)
  assert.deepEqual(
    given
      .filter(({ row, value }) => allows(row.schema, value) === false)
      .map(({ path, name, value }) => `${path}: ${name}=${value}`),
    [],
  )
})

test('facts: the page of observability has every rule of alerts with its default, and no other', () => {
  const rules = jsonSchemaOf(alertsSchema).properties?.rules?.properties ?? {}
  const { prose } = pageOf('docs/observability.md')
  const rows = defaultRows(prose).filter(({ name }) => !SETTINGS.has(name))
  assert.deepEqual(
    rows.filter(({ name, value }) => !states(value, rules[name]?.default)),
    [],
  )
  for (const [name, { default: real }] of Object.entries(rules)) {
    if (rows.some((row) => row.name === name)) continue
    // A part of another rule is in that rule's row.
    const [, value = ''] = new RegExp(`\`${name}\` \\(([^)]+)\\)`).exec(prose) ?? []
    assert.ok(states(value, real), `${name} (${JSON.stringify(real)}) is not on the page`)
  }
})

test('facts: the page of budgets has every member with all its values', () => {
  const members = jsonSchemaOf(BUDGET_ENTRY).properties ?? {}
  const [, table = ''] =
    /\| member \| values \| meaning \|\n([\s\S]*?)\n\n/.exec(pageOf('docs/keys-and-budgets.md').prose) ?? []
  const rows = new Map(
    [...table.matchAll(/^\| `(\w+)` \| ([^|]+) \|/gm)].map(([, name = '', values = '']) => [
      name,
      [...values.matchAll(/`(\w+)`/g)].map(([, value = '']) => value),
    ]),
  )
  for (const [name, schema] of Object.entries(members)) {
    const values = schema.enum ?? Object.keys(schema.properties ?? {})
    if (values.length > 1) assert.deepEqual(rows.get(name), values, name)
  }
  for (const name of rows.keys()) assert.ok(members[name], name)
})

test('facts: each status that a page gives a code is one of the code', () => {
  const statuses = new Map<string, Set<number>>()
  for (const { code, status } of Object.values(KINDS)) statuses.set(code, (statuses.get(code) ?? new Set()).add(status))
  const stated = PAGES.flatMap(({ path, prose }) =>
    [...prose.matchAll(/\b([45]\d\d) `([a-z_]+)`|`([a-z_]+)` \(([45]\d\d)\)/g)].map(
      ([, first, one, other, second]) => ({
        path,
        code: one ?? other ?? '',
        status: Number(first ?? second),
      }),
    ),
  )
  assert.ok(stated.length > 15)
  assert.deepEqual(
    stated.filter(({ code, status }) => statuses.has(code) && statuses.get(code)?.has(status) !== true),
    [],
  )
})

test('facts: each path of an API that a page names exists', () => {
  const admin = TABLE.map(({ method, path }) => `${method} ${ADMIN_BASE}${path}`)
  const client = new Set([
    ...Object.values(ROUTES).flatMap(({ method, path }) => pathsOf(path).map((each) => `${method} ${each}`)),
    ...Object.values(CLAUDE_ROUTES).map(({ method, path }) => `${method} ${path}`),
  ])
  // The WebSocket of the responses API.
  const known = [...admin, ...client, 'GET /v1/responses'].map((each) => each.replace(/\{\w+\}/g, '{}'))
  const named = PAGES.filter(({ path }) => !/^docs\/(?:admin-api|migrate\/)/.test(path)).flatMap(({ path, prose }) =>
    [...prose.matchAll(/`(?:(GET|POST|PUT|PATCH|DELETE) )?(\/(?:admin\/api\/)?v1\/[^`\s?]+)/g)].map(
      ([, method, target = '']) => ({
        path,
        method,
        target: target.replace(/\{\w+\}|\b(?:ID|NAME)\b/g, '{}'),
      }),
    ),
  )
  assert.ok(named.length > 40, `${named.length} paths`)
  const isKnown = (method: string | undefined, target: string): boolean =>
    known.some((each) => (method === undefined ? each.endsWith(` ${target}`) : each === `${method} ${target}`))
  assert.deepEqual(
    named.filter(({ method, target }) => !isKnown(method, target) && !OUTSIDE.some((each) => each.test(target))),
    [],
  )
})

/** Paths of providers, and of what is no request of its own. */
const OUTSIDE: readonly RegExp[] = [/^\/v1\/(?:organization|api\/|images|projects|files)/, /^\/v1\/v1\b/, /\*$/]

test('facts: each header of the gateway that a page names is in the source', () => {
  const source = globSync('src/**/*.ts', { cwd: ROOT })
    .filter((path) => !path.endsWith('.test.ts'))
    .map(read)
    .join('\n')
  const named = PAGES.flatMap(({ path, prose }) =>
    [...prose.matchAll(/\bx-headgate-[a-z]+(?:-[a-z]+)*\b(?!-)/g)].map(([name]) => ({ path, name })),
  )
  assert.ok(named.length > 20)
  assert.deepEqual(
    named.filter(({ name }) => !source.includes(name)),
    [],
  )
})

test('facts: files and folders of the source that a page names exist', () => {
  const pages = [...globSync('{docs,docs/decisions}/*.md', { cwd: ROOT }), 'CONTRIBUTING.md', 'README.md']
  const wrong = pages.flatMap((page) =>
    [
      ...read(page).matchAll(
        /`((?:src|packages|test|tools|scripts|bench|deploy|examples|dashboard)\/[\w./-]+)`(?: \(([a-z][\w-]*(?:, [a-z][\w-]*)*)\))?/g,
      ),
    ].flatMap(([, path = '', inside]) => {
      if (!existsSync(join(ROOT, path))) return IMAGINED.has(path) ? [] : [`${page}: ${path}`]
      // `src/policy/routing` (plan, order): files of the folder or of folders below it.
      const below = inside === undefined ? [] : globSync(`${path}/**/*`, { cwd: ROOT })
      return (inside?.split(', ') ?? [])
        .filter(
          (name) =>
            below.length > 0 &&
            !/ /.test(name) &&
            !below.some((file) => new RegExp(`/${name}(?:\\.\\w+)?$`).test(file.replaceAll('\\', '/'))),
        )
        .map((name) => `${page}: ${path} (${name})`)
    }),
  )
  assert.deepEqual(wrong, [])
})

/** Files of the examples in CONTRIBUTING.md. */
const IMAGINED: ReadonlySet<string> = new Set(['src/providers/quickcloud.ts', 'src/cli/verbs/NAME.ts'])

test('facts: docs/architecture.md has every thread', () => {
  const threads = globSync('src/**/*-thread.{ts,mjs}', { cwd: ROOT, exclude: ['src/storage/thread/**'] }).map((path) =>
    dirname(path.replaceAll('\\', '/')),
  )
  const [, table = ''] = /^## Threads\n([\s\S]*?)(?=^## )/m.exec(read('docs/architecture.md')) ?? []
  const named = [...table.matchAll(/^\| .+ \| `(src\/[\w/-]+)` \|/gm)].map(([, path]) => path)
  assert.deepEqual(named.toSorted(), threads.toSorted())
})

/** What people look for by name, and whether the program has it. */
const hasSetting = (name: string): boolean => SETTINGS.has(name)
const hasPath = (path: string): boolean => Object.values(ROUTES).some((row) => row.path === path)
const FEATURES: readonly (readonly [name: string, words: RegExp, has: boolean])[] = [
  ['Postgres', /\bPostgres\b/, hasSetting('database.url')],
  ['Redis', /\b(?:Redis|Valkey)\b/, hasSetting('redis.url')],
  ['the dashboard', /\bdashboard\b/, hasSetting('dashboard.enabled')],
  ['a response cache', /\bresponse cache\b/, hasSetting('cache.maxMegabytes')],
  ['budgets', /\bbudgets?\b|\bspending limits?\b/, hasSetting('budget.maxOutput')],
  ['webhooks of alerts', /\bwebhooks?\b/, 'url' in alertsSchema.shape],
  ['proxies', /\bHTTPS?_PROXY\b|\bHTTPS? prox(?:y|ies)\b/, existsSync(join(ROOT, 'docs/deploy/network.md'))],
  ['embeddings', /\bembeddings\b/, hasPath('/v1/embeddings')],
  ['OIDC', /\bOIDC\b/, 'providers' in ssoSchema.shape],
  ['OTLP', /\bOTLP\b/, hasSetting('otel.endpoint')],
  ['guardrails', /\bguardrails\b/, existsSync(join(ROOT, 'docs/guards.md'))],
  ['rerank', /\brerank\b/, hasPath('/v1/rerank')],
  ['images', /\bimages\b/, hasPath('/v1/images/generations')],
  ['audio', /\baudio\b/, hasPath('/v1/audio/speech')],
  ['forms', /\b(?:multipart|binary)\b/, Object.values(ROUTES).some(({ body }) => body === 'multipart')],
  ...RELAY_ROWS.map(([name]) => [name, new RegExp(`\\b${name}\\b`), true] as const),
  ['checks of prompts and answers in the source', /\bguards?\b/, existsSync(join(ROOT, 'src/core/guard.ts'))],
  ['batches', /\bbatches\b/, hasPath('/v1/batches')],
  ["Gemini's own API", /\bGemini's own API\b/, hasPath('/v1beta/models/{id}')],
  ['MCP', /\bMCP\b/, hasPath('/mcp')],
]

/** Sentences and rows that deny something: a row of what is missing, and words such as "none yet". */
const denials = ({ path, prose }: (typeof PAGES)[number]): readonly string[] => {
  const lacks = /^## What (?:Headgate lacks|you lose)\n([\s\S]*?)(?=^## )/m.exec(prose)?.[1] ?? ''
  const rows = lacks.split('\n').flatMap((line) => {
    const [, subject = '', ours = ''] = line.split('|').map((cell) => cell.trim())
    return path === 'docs/compare.md' || /^(?:none|no)\b/.test(ours) ? [subject.split(': here ')[0] ?? ''] : []
  })
  const sentences = prose
    .replace(/^\|.*$/gm, (row) => `${row}\n`)
    .split(/\n\n|(?<=[.:;]) /)
    .filter((sentence) =>
      /\b(?:none yet|not yet (?:supported|possible|available)|no \w+ yet|in this version|(?:is|are) not supported|is no support)\b/.test(
        sentence,
      ),
    )
  return [...rows, ...sentences]
}

/** The page for those who change the program. */
const GUIDE = { path: 'CONTRIBUTING.md', prose: read('CONTRIBUTING.md'), blocks: [] }

test('facts: no page denies a feature that exists', () => {
  const wrong = [...PAGES, GUIDE].flatMap((page) =>
    denials(page).flatMap((text) =>
      FEATURES.filter(([, words, has]) => has && words.test(text)).map(([name]) => `${page.path}: ${name}: ${text}`),
    ),
  )
  assert.deepEqual(wrong, [])
})

test('facts: docs/compare.md names every feature that is missing', () => {
  const missing = denials(pageOf('docs/compare.md'))
  assert.ok(missing.length > 8)
  assert.deepEqual(
    FEATURES.filter(([, words, has]) => !has && !missing.some((row) => words.test(row))).map(([name]) => name),
    [],
  )
})

test('facts: counts of formats and providers are those of the program', async () => {
  const hosted = [...(await loadProviders()).values()].filter(({ builtin, generic }) => !builtin && !generic).length
  const formats = Object.keys(styleNames).length
  const found = { formats: 0, providers: 0 }
  for (const { path, prose } of PAGES) {
    for (const [text] of prose.matchAll(/\b\w+ wire formats\b/g)) {
      const [stated] = numbersOf(text)
      if (stated === undefined) continue
      found.formats++
      assert.equal(stated, formats, `${path}: ${text}`)
    }
    for (const [text, more, , count] of prose.matchAll(/\b(more than )?((\d+) (?:others|providers))\b/g)) {
      if (path === 'docs/compare.md') continue
      found.providers++
      assert.ok(
        more === undefined ? Number(count) === hosted : Number(count) < hosted,
        `${path}: ${text}, in truth ${hosted}`,
      )
    }
  }
  assert.ok(found.formats > 1 && found.providers > 1, JSON.stringify(found))
})

test('facts: counts of tests in docs/reliability.md are those of the tests', () => {
  const { prose } = pageOf('docs/reliability.md')
  const stated = (pattern: RegExp): number => Number(pattern.exec(prose)?.[1])
  assert.equal(stated(/\| (\d+) rows, all with tests \|/), ROWS.length)
  assert.ok(ROWS.every(({ tests = [] }) => tests.length > 0))
  assert.equal(stated(/\| (\d+) targets, /), TARGETS.length)
  const checked = Object.values(INVARIANTS).filter((row) => 'check' in row)
  assert.equal(stated(/keeps (\d+) invariants/), checked.length)
})

/** The value of a constant in the text of a source file, as a number; `NAME.member` is a member of an object. */
const constantOf = (file: string, name: string): number | null => {
  const [constant = '', member] = name.split('.')
  const value = '([0-9][0-9_]*(?: \\* [0-9][0-9_]*)*)'
  const declared =
    member === undefined
      ? `\\b${constant}(?:: number)? = ${value}`
      : `\\b${constant}(?:: [^=]+)? = \\{[^}]*?\\b${member}: ${value}`
  const [, digits] = new RegExp(declared).exec(read(file)) ?? []
  return digits === undefined
    ? null
    : digits.split(' * ').reduce((product, factor) => product * Number(factor.replaceAll('_', '')), 1)
}

test('facts: numbers with a marker are those of the program', () => {
  const pages = [...PAGES, { path: 'docs/architecture.md', prose: read('docs/architecture.md') }]
  const seen = new Set<string>()
  for (const { path, prose } of pages)
    for (const [whole, marker = ''] of prose.matchAll(/<!-- fact: (.+?) -->/g)) {
      const [, file = '', name = '', words = ''] =
        /^(\S+\.ts) ([\w.]+) "([^"]+)"$/.exec(marker) ?? assert.fail(`${path}: ${whole}`)
      seen.add(marker)
      const real = constantOf(file, name)
      assert.ok(real !== null, `${path}: ${file} has no ${name}`)
      assert.ok(numbersOf(words).includes(real), `${path}: "${words}", but ${name} is ${real}`)
      const [section = ''] = prose.slice(prose.indexOf(whole) + whole.length).split(/^#/m)
      assert.ok(section.replaceAll('\n', ' ').includes(words), `${path}: the section after the marker lacks "${words}"`)
    }
  assert.ok(seen.size >= 10, `${seen.size} markers`)
})

test('facts: the tests find false sentences', () => {
  assert.ok(
    states('30 s', 30_000) &&
      states('64 KB', 65_536) &&
      states('three seconds', 3_000) &&
      states('[ 80, 100 ]', [80, 100]),
  )
  assert.ok(!states('20 s', 30_000) && !states('`serve`', 'refuse') && !states('[ 80 ]', [80, 100]))
  const [inBrackets] = 'the rows of `usage.keepDays` (90 days) stay'.matchAll(DEFAULTS[1] ?? /$/g)
  assert.deepEqual({ ...inBrackets?.groups }, { name: 'usage.keepDays', value: '90 days' })
  const page = {
    path: 'x.md',
    blocks: [],
    prose:
      'Forms have no place yet.\n\n## What you lose\n\n| a | b |\n|---|---|\n| Postgres, keys | none yet: files |\n\n## End\n\nBudgets are not supported.',
  }
  assert.deepEqual(denials(page), [
    'Postgres, keys',
    'Forms have no place yet.',
    '| Postgres, keys | none yet:',
    'Budgets are not supported.',
  ])
})
