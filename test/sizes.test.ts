/**
 * Limits the size of classes, and finds files too small to stand alone. The caps on functions (120 lines, four parameters) are
 * rules of the linter: biome.json.
 */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '..')
const MAX_LINES = 250
const MAX_MEMBERS = 30
const SMALL_FILE = 25

type Size = { readonly lines: number; readonly members: number }

const sources = new Map(
  globSync(['{src,packages,suite,tools,bench}/**/*.{ts,mjs}', 'dashboard/src/**/*.{ts,tsx}'], { cwd: root })
    .filter((file) => !file.includes('.test.') && !file.includes('node_modules/'))
    .toSorted()
    .map((file) => [file, readFileSync(join(root, file), 'utf8')]),
)

/** The classes of a formatted file. A member begins two columns to the right of its class. */
function* classesIn(text: string): Generator<readonly [name: string, size: Size]> {
  const lines = text.split('\n')
  for (const [start, line] of lines.entries()) {
    const [, indent = '', name] = /^( *)(?:export )?(?:default )?(?:abstract )?class (\w+)/.exec(line) ?? []
    if (!name) continue
    const end = line.endsWith('}')
      ? start
      : lines.findIndex((other, at) => at > start && other.startsWith(`${indent}}`))
    const body = lines.slice(start + 1, end)
    const members = body.filter(
      (text) => text.startsWith(`${indent}  `) && /[\w#[]/.test(text[indent.length + 2] ?? ''),
    )
    yield [name, { lines: end - start + 1, members: members.length }]
  }
}

test(`sizes: a class has at most ${MAX_LINES} lines and ${MAX_MEMBERS} members`, () => {
  const wrong: string[] = []
  for (const [file, text] of sources)
    for (const [name, { lines, members }] of classesIn(text)) {
      if (lines <= MAX_LINES && members <= MAX_MEMBERS) continue
      wrong.push(`${file} ${name}: ${lines} lines, ${members} members`)
    }
  assert.deepEqual(wrong, [])
})

test('sizes: the members of a class are counted', () => {
  const text = [
    'export class Example<T> extends Base {',
    '  /** A comment. */',
    '  readonly #first: T',
    '  constructor(',
    '    first: T,',
    '  ) {',
    '    this.#first = first',
    '  }',
    '  get first(): T {',
    '    return this.#first',
    '  }',
    '  static async *[Symbol.iterator]() {}',
    '}',
    'class Other {}',
  ].join('\n')
  assert.deepEqual(
    [...classesIn(text)],
    [
      ['Example', { lines: 13, members: 4 }],
      ['Other', { lines: 1, members: 0 }],
    ],
  )
})

/** Why a small file has one importer: what is found by its place, and what starts a thread. */
const SMALL_BY_PLACE: readonly (readonly [path: RegExp, reason: string])[] = [
  [/^src\/providers\//, 'one file for each provider'],
  [/^src\/cli\/verbs\//, 'one file for each verb'],
  [/-thread\.(?:ts|mjs)$|\/thread-entry\.mjs$/, 'the entry of a thread'],
  [/\/index\.ts$/, 'the face of its folder'],
  [
    /^src\/protocols\/[\w-]+\/(?:(?:de|en)code-answer|pass-answer|count-tokens|states-cost)\.ts$/,
    'each format has the same files',
  ],
]

test(`sizes: a file of ${SMALL_FILE} lines or fewer has two importers or a reason`, () => {
  const importers = new Map<string, number>()
  for (const file of globSync(['{src,test,tools,bench,scripts}/**/*.{ts,mjs}', 'dashboard/**/*.{ts,tsx}'], {
    cwd: root,
  })) {
    if (file.includes('node_modules/')) continue
    const text = readFileSync(join(root, file), 'utf8')
    const targets = [...text.matchAll(/(?:\bfrom|\bimport\(|\bimport|new URL\()\s*'(\.[^']+)'/g)].map(
      ([, path = '']) => path,
    )
    for (const target of new Set(targets.map((path) => join(dirname(file), path))))
      importers.set(target, (importers.get(target) ?? 0) + 1)
  }
  const alone = [...sources.keys()].filter((file) => {
    const lines = (sources.get(file) ?? '').split('\n').length - 1
    const hasReason = SMALL_BY_PLACE.some(([path]) => path.test(file))
    return file.startsWith('src/') && lines <= SMALL_FILE && (importers.get(file) ?? 0) < 2 && !hasReason
  })
  assert.deepEqual(alone, [])
})
