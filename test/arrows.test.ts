/** Reads every import of `src` and names the arrow that points outward, and everything impure in the middle. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'

const src = join(import.meta.dirname, '..', 'src')

const ARROWS: { readonly [folder: string]: readonly string[] } = {
  core: [],
  protocols: ['core'],
  providers: ['core'],
  policy: ['core'],
  gateway: ['core', 'protocols', 'policy'],
  edge: ['core', 'protocols', 'policy', 'gateway'],
}

/** The middle imports no package but this one: the settings are defined with it, once. */
const PACKAGES: { readonly [file: string]: readonly string[] } = { 'core/settings.ts': ['zod'] }

/** Clock, chance, timers, network, environment: they come in as arguments. */
const IMPURE =
  /\b(Date\.now|new Date\(\)|Math\.random|performance\.|setTimeout|setInterval|setImmediate|queueMicrotask|process\.|(?<![#.\w])fetch\(|crypto\.|Buffer\.|console\.|globalThis)/

const files = globSync('**/*.ts', { cwd: src }).filter((file) => !file.endsWith('.test.ts'))
const importsOf = (text: string) => [...text.matchAll(/(?:from|import\()\s*'([^']+)'/g)].map((match) => match[1] ?? '')
const code = (text: string) => text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')

for (const file of files) {
  const folder = file.split('/')[0] ?? ''
  if (!(folder in ARROWS)) continue
  const text = code(readFileSync(join(src, file), 'utf8'))
  test(`arrows: ${file}`, () => {
    for (const path of importsOf(text)) {
      if (path.startsWith('.')) {
        const target = relative(src, join(src, dirname(file), path))
        const other = target.split('/')[0] ?? ''
        assert.ok(
          other === folder || ARROWS[folder]?.includes(other),
          `${file} imports ${target}: ${folder} → ${other} points outward`,
        )
      } else if (folder !== 'edge') {
        assert.ok(
          PACKAGES[file]?.includes(path),
          `${file} imports ${path}: the middle imports no packages and no node: modules`,
        )
      }
    }
    if (folder !== 'edge') {
      const found = IMPURE.exec(text)
      assert.equal(found, null, `${file} uses ${found?.[0]}: what is not pure belongs in src/edge`)
    }
  })
}

test('arrows: every folder of src is drawn', () => {
  const folders = new Set(files.filter((file) => file.includes('/')).map((file) => file.split('/')[0] ?? ''))
  assert.deepEqual([...folders].sort(), Object.keys(ARROWS).sort())
})

test('arrows: nothing imports main.ts, which alone starts things', () => {
  for (const file of files)
    assert.ok(!importsOf(readFileSync(join(src, file), 'utf8')).some((path) => path.endsWith('/main.ts')), file)
})
