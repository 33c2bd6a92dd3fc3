/**
 * Checks the imports of what is beside `src`: the dashboard and the packages take types from `src` and values from `core` only,
 * the dashboard's rooms have an order, tools do not know each other, and no file takes part in an import cycle.
 */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '..')

/** What each room of `dashboard/src` may import from the others. */
const DASHBOARD: { readonly [room: string]: readonly string[] } = {
  // The table of pages, which the build reads too.
  table: [],
  words: ['table'],
  // State, addresses, the API, and what is derived from its answers: the files of the folder itself.
  state: ['table', 'words'],
  parts: ['state', 'table', 'words'],
  connect: ['state', 'words'],
  playground: ['state', 'words'],
  pages: ['connect', 'parts', 'playground', 'state', 'table', 'words'],
  // The frame, which has a place for everything.
  main: ['pages', 'parts', 'state', 'table', 'words'],
}
const ROOM_OF_FILE: { readonly [file: string]: string } = {
  'page-table.ts': 'table',
  'main.tsx': 'main',
  'frame.tsx': 'main',
  'pages.ts': 'main',
}

/** What the folders beside it may import from each other, by the beginning of the path. */
const PROGRAMS: { readonly [program: string]: readonly string[] } = {
  bench: ['scripts/build.ts', 'src/', 'test/e2e/support/', 'test/support/'],
  'tools/figures': ['test/e2e/support/', 'test/support/'],
  'tools/fuzz': ['src/', 'test/support/', 'tools/sim/'],
  'tools/mutation': [],
  'tools/node': [],
  'tools/switching': ['src/'],
  'tools/sim': ['src/', 'test/support/'],
  'tools/soak': ['src/', 'test/support/'],
}

type Import = { readonly to: string; readonly isType: boolean }

const withoutComments = (text: string) => text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
const IMPORT = /\b(?:import|export)\s+(type\s)?[^'";]*?\bfrom\s*'([^']+)'|\bimport\(\s*'([^']+)'|\bimport\s+'([^']+)'/g
const importsOf = (file: string): readonly Import[] =>
  [...withoutComments(readFileSync(join(root, file), 'utf8')).matchAll(IMPORT)]
    .map(([, type, from, dynamic, effect]) => ({ isType: type !== undefined, path: from ?? dynamic ?? effect ?? '' }))
    .filter(({ path }) => path.startsWith('.'))
    .map(({ isType, path }) => ({ isType, to: relative(root, join(root, dirname(file), path)).replaceAll(sep, '/') }))

const files = globSync('{dashboard,packages,suite,tools,bench}/**/*.{ts,tsx,mjs}', {
  cwd: root,
  exclude: ['**/node_modules/**'],
})
  .map((file) => file.replaceAll(sep, '/'))
  .filter((file) => !/\.test\.ts$|\.d\.ts$/.test(file))
  .toSorted()
const imports = new Map(files.map((file) => [file, importsOf(file)]))

const PAGES = 'dashboard/src/pages/'

const roomOf = (file: string): string => {
  const path = file.slice('dashboard/src/'.length)
  return path.includes('/') ? (path.split('/')[0] ?? '') : (ROOM_OF_FILE[path] ?? 'state')
}
/** `requests` for `pages/requests.tsx` and what is in `pages/requests/`. */
const pageOf = (file: string): string => /^([a-z-]+)/.exec(file.slice(PAGES.length))?.[1] ?? ''

for (const file of files.filter((one) => one.startsWith('dashboard/src/')))
  test(`arrows: ${file}`, () => {
    for (const { to, isType } of imports.get(file) ?? []) {
      const message = `${file} imports ${to}`
      if (to.startsWith('src/')) {
        assert.ok(isType || to.startsWith('src/core/'), `${message}: only types come from outside src/core`)
        continue
      }
      assert.ok(to.startsWith('dashboard/src/'), message)
      const [from, other] = [roomOf(file), roomOf(to)]
      if (from !== other) assert.ok(DASHBOARD[from]?.includes(other), `${message}: ${from} must not import ${other}`)
      else if (from === 'pages') assert.equal(pageOf(to), pageOf(file), `${message}: a page must not import another`)
    }
  })

for (const file of files.filter((one) => one.startsWith('packages/')))
  test(`arrows: ${file}`, () => {
    const [, name] = file.split('/')
    for (const { to, isType } of imports.get(file) ?? [])
      assert.ok(
        to.startsWith(`packages/${name}/`) || to.startsWith('src/core/') || (isType && to.startsWith('src/')),
        `${file} imports ${to}: a package takes types from src, and values from src/core only`,
      )
  })

/** The fault suite judges gateways, this one among them: it imports nothing of it. */
for (const file of files.filter((one) => one.startsWith('suite/')))
  test(`arrows: ${file}`, () => {
    for (const { to } of imports.get(file) ?? []) {
      assert.ok(to.startsWith('suite/'), `${file} imports ${to}: the suite imports nothing of the gateway`)
      assert.notEqual(file, 'suite/faults.ts', `${file} imports ${to}: the vocabulary imports nothing`)
    }
  })

test('arrows: what a package needs has the version of the repository', () => {
  const manifest = (path: string) => JSON.parse(readFileSync(join(root, path, 'package.json'), 'utf8'))
  const { dependencies, devDependencies } = manifest('.')
  for (const folder of [...globSync('packages/*', { cwd: root }), 'suite']) {
    const needed: Readonly<Record<string, string>> = manifest(folder).dependencies ?? {}
    for (const [name, version] of Object.entries(needed))
      assert.equal(version, dependencies[name] ?? devDependencies[name], `${folder}: ${name}`)
  }
})

test('arrows: every room of the dashboard is listed, and every program beside it', () => {
  const rooms = new Set(files.filter((file) => file.startsWith('dashboard/src/')).map(roomOf))
  assert.deepEqual([...rooms].sort(), Object.keys(DASHBOARD).sort())
  const programs = new Set(
    files
      .filter((file) => !/^(?:dashboard|packages|suite)\//.test(file))
      .map((file) => (file.startsWith('bench/') ? 'bench' : file.split('/').slice(0, 2).join('/'))),
  )
  assert.deepEqual(
    [...programs].filter((program) => !(program in PROGRAMS)),
    [],
  )
})

for (const [program, allowed] of Object.entries(PROGRAMS))
  test(`arrows: ${program}`, () => {
    for (const file of files.filter((one) => one.startsWith(`${program}/`)))
      for (const { to } of imports.get(file) ?? [])
        assert.ok(
          to.startsWith(`${program}/`) || allowed.some((start) => to.startsWith(start)),
          `${file} imports ${to}: ${program} must not`,
        )
  })

test('arrows: no file beside src takes part in an import cycle, type imports included', () => {
  const done = new Set<string>()
  const cycleFrom = (file: string, path: readonly string[]): readonly string[] | null => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file]
    if (done.has(file)) return null
    for (const { to } of imports.get(file) ?? []) {
      const cycle = cycleFrom(to, [...path, file])
      if (cycle) return cycle
    }
    done.add(file)
    return null
  }
  for (const file of files) assert.equal(cycleFrom(file, [])?.join(' → ') ?? null, null)
})
