/** The sizes of the built files, compressed: what a visit costs, and that no secret or path of this machine is in them. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { bundle, OWN_STYLES } from '../../dashboard/build.ts'
import { PAGE_NAMES } from '../../dashboard/src/page-table.ts'
import type { Words } from '../../dashboard/src/words/words.ts'

const KB = 1_000

const { sizes, files } = await bundle().then((built) => ({
  files: built,
  sizes: new Map([...built].map(([name, text]) => [name, gzipSync(text, { level: 9 }).length])),
}))
const sum = (names: readonly string[]): number => names.reduce((total, name) => total + (sizes.get(name) ?? 0), 0)
const assets = [...sizes.keys()].filter((name) => name !== 'LICENCES.txt')

/** The files that a file imports. What it imports later is no part of them. */
const importsOf = (name: string): readonly string[] =>
  [...(files.get(name) ?? '').matchAll(/(?:from|import)"\.\/([^"]+)"/g)].map(([, imported = '']) => imported)

/** The files that a page loads before it is usable: those that index.html names, and the page itself. */
const firstLoad = (page: string): readonly string[] => {
  const html = files.get('index.html') ?? ''
  const named = assets.filter((name) => html.includes(`/assets/${name}"`))
  const loaded = new Set(['index.html', ...named, ...assets.filter((name) => name.startsWith(`${page}-`))])
  for (const name of loaded) for (const imported of importsOf(name)) loaded.add(imported)
  return [...loaded]
}

// As one file they would have 150 KB, which each visit would load first; a file for each page and for what some pages share costs
// 30 KB, since each begins without the words of the others. Of 180 KB, texts are 17, style sheets 13, imports and exports 9, and
// packages 8; the rest is code of pages and parts.
test('all files together are at most 184 KB', (t) => {
  t.diagnostic(`all files: ${(sum(assets) / KB).toFixed(1)} KB`)
  assert.ok(sum(assets) <= 184 * KB)
})

test('no file needs one that needs it: their values would not be there yet', () => {
  for (const name of assets) {
    const needed = new Set(importsOf(name))
    for (const one of needed) for (const imported of importsOf(one)) needed.add(imported)
    assert.ok(!needed.has(name), name)
  }
})

test('no file is larger than 40 KB', () => {
  for (const name of assets) assert.ok((sizes.get(name) ?? 0) <= 40 * KB, `${name} has ${sizes.get(name)} bytes`)
})

// What is not needed to use a page is loaded after it: sheets, the chart of requests, a team's own page, prices, the editor
// of the file. Keys & budgets is the largest one, with 58.9 KB.
for (const page of PAGE_NAMES)
  test(`the first load of ${page} is at most 60 KB`, (t) => {
    const names = firstLoad(page)
    assert.ok(names.some((name) => name.startsWith(`${page}-`)))
    t.diagnostic(`first load of ${page}: ${(sum(names) / KB).toFixed(1)} KB in ${names.length} files`)
    assert.ok(sum(names) <= 60 * KB, `${sum(names)} bytes: ${names.join(', ')}`)
  })

test('classes of a style sheet that a page has for itself are used by no other', () => {
  const root = join(import.meta.dirname, '..', '..', 'dashboard', 'src')
  const classesIn = (file: string) =>
    new Set(readFileSync(join(root, file), 'utf8').match(/(?<=\.)[a-z][\w-]*(?=[^{}]*\{)/g))
  const isOwn = (file: string) => OWN_STYLES.some((page) => file === join('pages', `${page}.css`))
  const shared = new Set(
    globSync('**/*.css', { cwd: root })
      .filter((file) => !isOwn(file))
      .flatMap((file) => [...classesIn(file)]),
  )
  for (const page of OWN_STYLES) {
    const own = classesIn(join('pages', `${page}.css`)).difference(shared)
    assert.ok(own.size > 3, page)
    for (const file of globSync('**/*.tsx', { cwd: root })) {
      if (file.startsWith(join('pages', page))) continue
      const used = [...readFileSync(join(root, file), 'utf8').matchAll(/class(?:Name)?=(?:"([^"]*)"|\{([^}]*)\})/g)]
      const names = used.flatMap(([, plain, code]) => (plain ?? code ?? '').match(/[\w-]+/g) ?? [])
      assert.deepEqual(
        names.filter((name) => own.has(name)),
        [],
        `${file} uses classes of ${page}.css`,
      )
    }
  }
})

const textsIn = (words: Words): readonly string[] =>
  Object.values(words).flatMap((word) =>
    typeof word === 'string' ? [word] : typeof word === 'function' ? [] : textsIn(word),
  )

test('each text of the words is in a file: none is lost where it is used, and none is left that nothing uses', async () => {
  const folder = join(import.meta.dirname, '..', '..', 'dashboard', 'src', 'words')
  const scripts = [...files].flatMap(([name, text]) => (name.endsWith('.js') ? [text] : [])).join('\n')
  for (const file of globSync('*.ts', { cwd: folder })) {
    const tables: Record<string, unknown> = await import(join(folder, file))
    for (const [name, table] of Object.entries(tables)) {
      if (typeof table !== 'object') continue
      // Exported objects of these files are tables.
      const texts = textsIn(table as Words)
      assert.ok(texts.length > 3, name)
      const missing = texts.filter((text) => !scripts.includes(text.replaceAll('\n', '\\n')))
      assert.deepEqual(missing, [], `${file} ${name}`)
    }
  }
})

test('the files name nothing of this machine', () => {
  for (const [name, text] of files) assert.ok(!text.includes(import.meta.dirname), name)
})
