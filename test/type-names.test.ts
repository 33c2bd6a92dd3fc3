/** A type name means one thing: it is declared once in `src`. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '..')
const DECLARATION =
  /^\s*(?:export )?(?:declare )?(?:abstract )?(?:type|interface|class) ([A-Za-z_]\w*)(?=\s*(?:[=<{]|extends\b|implements\b|$))/

/** Names that are still declared more than once. An entry leaves this list when it is unique, and never returns. */
const PENDING: readonly string[] = ['Context', 'Steps']

const declarations = new Map<string, string[]>()
for (const file of globSync('src/**/*.ts', { cwd: root }).toSorted()) {
  if (file.endsWith('.test.ts')) continue
  for (const [index, line] of readFileSync(join(root, file), 'utf8').split('\n').entries()) {
    const name = DECLARATION.exec(line)?.[1]
    if (name) declarations.set(name, [...(declarations.get(name) ?? []), `${file}:${index + 1}`])
  }
}
const repeated = [...declarations].filter(([, places]) => places.length > 1)

test('types: every name is declared once', () => {
  const found = repeated.filter(([name]) => !PENDING.includes(name))
  assert.deepEqual(found, [])
})
