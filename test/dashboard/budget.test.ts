/** The sizes of the built files, compressed: what a visit costs, and that no secret or path of this machine is in them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { bundle } from '../../dashboard/build.ts'

const KB = 1_000

const { sizes, files } = await bundle().then((built) => ({
  files: built,
  sizes: new Map([...built].map(([name, text]) => [name, gzipSync(text, { level: 9 }).length])),
}))
const sum = (names: readonly string[]): number => names.reduce((total, name) => total + (sizes.get(name) ?? 0), 0)
const assets = [...sizes.keys()].filter((name) => name !== 'LICENCES.txt')

/** The files that a page loads before it is usable: those that index.html names, and the page itself. */
const firstLoad = (page: string): readonly string[] => {
  const html = files.get('index.html') ?? ''
  const named = assets.filter((name) => html.includes(`/assets/${name}"`))
  const loaded = new Set(['index.html', ...named, ...assets.filter((name) => name.startsWith(`${page}-`))])
  // Static imports only: what is imported later is no part of the first load.
  for (const name of loaded)
    for (const [, imported = ''] of (files.get(name) ?? '').matchAll(/(?:from|import)"\.\/([^"]+)"/g))
      loaded.add(imported)
  return [...loaded]
}

test('all files together are at most 162 KB', (t) => {
  t.diagnostic(`all files: ${(sum(assets) / KB).toFixed(1)} KB`)
  assert.ok(sum(assets) <= 162 * KB)
})

test('no file is larger than 40 KB', () => {
  for (const name of assets) assert.ok((sizes.get(name) ?? 0) <= 40 * KB, `${name} has ${sizes.get(name)} bytes`)
})

for (const page of ['overview', 'requests'])
  test(`the first load of ${page} is at most 60 KB`, (t) => {
    const names = firstLoad(page)
    assert.ok(names.some((name) => name.startsWith(`${page}-`)))
    t.diagnostic(`first load of ${page}: ${(sum(names) / KB).toFixed(1)} KB in ${names.length} files`)
    assert.ok(sum(names) <= 60 * KB, `${sum(names)} bytes: ${names.join(', ')}`)
  })

test('the files name nothing of this machine', () => {
  for (const [name, text] of files) assert.ok(!text.includes(import.meta.dirname), name)
})
