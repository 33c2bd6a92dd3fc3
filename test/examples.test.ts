/** Every folder of `examples/`, except those of the quick lane. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { EXAMPLES, QUICK, testExample } from './support/examples.ts'

for (const name of EXAMPLES) if (!QUICK.includes(name)) testExample(name)

test('examples: examples/README.md has each once, by its title', () => {
  const root = join(import.meta.dirname, '..')
  const listed = readFileSync(join(root, 'examples', 'README.md'), 'utf8').matchAll(
    /^\| \[(.+)\]\(([^)]+)\/README\.md\)/gm,
  )
  assert.deepEqual(
    [...listed].map(([, title, name]) => `${name}: ${title}`).sort(),
    EXAMPLES.map((name) => {
      const [heading = ''] = readFileSync(join(root, 'examples', name, 'README.md'), 'utf8').split('\n')
      return `${name}: ${heading.replace('# ', '')}`
    }),
  )
})
