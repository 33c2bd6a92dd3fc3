/** A type name means one thing: it is declared once in `src`. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '..')
const DECLARATION =
  /^\s*(?:export )?(?:declare )?(?:abstract )?(?:type|interface|class) ([A-Za-z_]\w*)(?=\s*(?:[=<{]|extends\b|implements\b|$))/

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
  assert.deepEqual(repeated, [])
})
