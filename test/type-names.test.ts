/**
 * A type name means one thing: it is declared once in `src`, once in the dashboard, and once in each package and
 * program beside them. The dashboard, which takes types from `src`, exports none of the same name.
 */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '..')
const DECLARATION =
  /^\s*(export )?(?:declare )?(?:abstract )?(?:type|interface|class) ([A-Za-z_]\w*)(?=\s*(?:[=<{]|extends\b|implements\b|$))/

/** `src`, `packages/import`, `dashboard`, `bench`, `tools/sim`. */
const programOf = (file: string): string => file.split('/', /^(?:tools|packages)\//.test(file) ? 2 : 1).join('/')

type Place = { readonly place: string; readonly isExported: boolean }
const declarations = new Map<string, Map<string, Place[]>>()
const files = globSync('{src,packages,suite,dashboard,tools,bench}/**/*.{ts,tsx}', {
  cwd: root,
  exclude: ['**/node_modules/**'],
})
for (const file of files.map((one) => one.replaceAll(sep, '/')).toSorted()) {
  if (file.endsWith('.test.ts')) continue
  const names = declarations.get(programOf(file)) ?? new Map<string, Place[]>()
  declarations.set(programOf(file), names)
  for (const [index, line] of readFileSync(join(root, file), 'utf8').split('\n').entries()) {
    const [, exported, name] = DECLARATION.exec(line) ?? []
    if (name === undefined) continue
    const place = { place: `${file}:${index + 1}`, isExported: exported !== undefined }
    names.set(name, [...(names.get(name) ?? []), place])
  }
}
const namesOf = (program: string) => declarations.get(program) ?? new Map<string, Place[]>()

for (const [program, names] of declarations)
  test(`types: every name of ${program} is declared once`, () => {
    const repeated = [...names].filter(([, places]) => places.length > 1)
    assert.deepEqual(
      repeated.map(([name, places]) => [name, ...places.map(({ place }) => place)]),
      [],
    )
  })

test('types: the dashboard exports no name that src exports', () => {
  const isExported = (places: readonly Place[] | undefined) => places?.some((one) => one.isExported) ?? false
  const both = [...namesOf('dashboard')].filter(
    ([name, places]) => isExported(places) && isExported(namesOf('src').get(name)),
  )
  assert.deepEqual(
    both.map(([name, places]) => [name, ...places.map(({ place }) => place)]),
    [],
  )
})

test('file names: a name that tells only the form of a file is used once; the folders of formats share theirs', () => {
  const forms = /^(?:admission|answer-reader|client|common|errors|helpers|messages|thread|types|utils)\.ts$/
  const places = Object.groupBy(
    files
      .map((one) => one.replaceAll(sep, '/'))
      .filter((one) => one.startsWith('src/') && !one.startsWith('src/protocols/')),
    (one) => one.slice(one.lastIndexOf('/') + 1),
  )
  const repeated = Object.entries(places).filter(([name, found = []]) => forms.test(name) && found.length > 1)
  assert.deepEqual(repeated, [], 'name each by its contents: `ledger-client.ts`, `worker-messages.ts`')
})
