/** Targets in the documentation exist: links, anchors, npm scripts, test filters, decision records. */
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { anchors } from '../dashboard/site/anchors.ts'

const root = join(import.meta.dirname, '..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const pages = globSync(['*.md', 'docs/**/*.md', '.github/**/*.md'], { cwd: root }).sort()

const anchorsIn = (text: string): readonly string[] => {
  const anchorOf = anchors()
  return [...text.matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) => anchorOf(heading))
}

const matches = (text: string, pattern: RegExp): readonly string[] =>
  [...text.matchAll(pattern)].map(([, found = '']) => found)

for (const page of pages)
  test(`docs: links of ${page} lead to files and headings`, () => {
    for (const link of matches(read(page), /\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link)) continue
      const [path = '', anchor] = link.split('#')
      const file = path === '' ? page : join(dirname(page), path)
      assert.ok(existsSync(join(root, file)), `${page}: ${link}`)
      if (anchor !== undefined) assert.ok(anchorsIn(read(file)).includes(anchor), `${page}: ${link}`)
    }
  })

test('docs: npm scripts named in a page exist', () => {
  const { scripts }: { readonly scripts: Readonly<Record<string, string>> } = JSON.parse(read('package.json'))
  for (const page of pages)
    for (const name of matches(read(page), /npm run (?:-s |--silent )?([a-z][a-z0-9:-]*)/g))
      assert.ok(Object.hasOwn(scripts, name), `${page}: npm run ${name}`)
})

test('docs: filters of `npm test` named in a page match a test file', () => {
  const files = globSync(['{src,packages,suite}/**/*.test.ts', 'test/**/*.test.ts', 'scripts/**/*.test.ts'], {
    cwd: root,
  })
  for (const page of pages)
    for (const filter of matches(read(page), /npm test -- ([a-z][\w./-]*)/g))
      assert.ok(
        files.some((file) => file.includes(filter)),
        `${page}: npm test -- ${filter}`,
      )
})

test('docs: the list of decision records is complete', () => {
  const list = read('docs/decisions/README.md')
  const records = globSync('docs/decisions/[0-9]*.md', { cwd: root }).map((file) =>
    file.slice(file.lastIndexOf('/') + 1),
  )
  assert.deepEqual(matches(list, /\]\((\d{4}-[a-z0-9-]+\.md)\)/g), records.sort())
})
