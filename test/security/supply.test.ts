/** Third-party code at run time: few packages, with pinned versions and hashes, and without install scripts. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { packInto } from '../../scripts/package.ts'
import { isList, type JsonObject, object, text } from '../../src/core/json.ts'

const root = join(import.meta.dirname, '..', '..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')
// A project file that is a JSON object.
const json = (path: string): JsonObject => JSON.parse(read(path)) as JsonObject

const MANIFESTS = ['package.json', 'tools/node/package.json'] as const
const LOCKS = ['package-lock.json', 'tools/node/package-lock.json'] as const
const OTHERS = ['dependencies', 'devDependencies', 'optionalDependencies'] as const

test('supply: at most fifteen packages at run time', () => {
  assert.ok(Object.keys(object(json('package.json').dependencies) ?? {}).length <= 15)
})

for (const path of MANIFESTS)
  test(`supply: ${path} names exact versions from the registry only`, () => {
    for (const kind of OTHERS)
      for (const [name, version] of Object.entries(object(json(path)[kind]) ?? {}))
        assert.match(
          String(version),
          /^\d+\.\d+\.\d+$/,
          `${name}: a range, an address or a folder can change by itself`,
        )
  })

test('supply: installation runs no scripts, and no project command needs one', () => {
  assert.match(read('.npmrc'), /^ignore-scripts=true$/m)
  assert.match(read('scripts/setup.mjs'), /'ci', '--ignore-scripts'/)
  // npm would skip these silently.
  const own = Object.keys(object(json('package.json').scripts) ?? {})
  const before = own.filter((name) => own.some((other) => name === `pre${other}` || name === `post${other}`))
  assert.deepEqual(before, [])
  for (const name of ['preinstall', 'install', 'postinstall', 'prepare', 'prepublish'])
    assert.ok(!own.includes(name), `${name} would run on every machine that installs this`)
})

for (const path of LOCKS)
  test(`supply: ${path} has a hash for every package, and only registry sources`, () => {
    const packages = Object.entries(object(json(path).packages) ?? {}).filter(([place]) => place !== '')
    assert.ok(packages.length > 2)
    for (const [place, entry] of packages) {
      const { integrity, resolved, hasInstallScript, link } = object(entry) ?? {}
      assert.match(text(integrity) ?? '', /^sha512-[A-Za-z0-9+/]{86}==$/, place)
      assert.equal(link, undefined, `${place} is an external folder`)
      // The registry depends on the installation; the hash verifies what it sent.
      if (resolved !== undefined) assert.match(text(resolved) ?? '', /^https:\/\/registry\.npmjs\.org\//, place)
      assert.notEqual(hasInstallScript, true, `${place} runs an install script: list it here with a reason`)
    }
  })

for (const [at, path] of LOCKS.entries())
  test(`supply: ${path} matches its package.json`, () => {
    const wanted = json(MANIFESTS[at] ?? '')
    const locked = object(object(json(path).packages)?.['']) ?? {}
    for (const kind of OTHERS) assert.deepEqual(locked[kind] ?? {}, wanted[kind] ?? {}, kind)
  })

/** Packages with native code are for development only. */
test('supply: only JavaScript runs in production', () => {
  const packages = Object.entries(object(json('package-lock.json').packages) ?? {})
  for (const [place, entry] of packages) {
    const { dev, devOptional, os, cpu } = object(entry) ?? {}
    if (place === '' || dev === true || devOptional === true) continue
    assert.ok(os === undefined && cpu === undefined, `${place} is platform-specific`)
  }
})

test('supply: only run-time files are published', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-supply-'))
  const { stdout } = spawnSync('tar', ['-tzf', await packInto(folder)], { encoding: 'utf8', timeout: 30_000 })
  rmSync(folder, { recursive: true })
  const files = stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.replace(/^package\//, ''))
  const expected = [
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'SECURITY.md',
    'bin/headgate.mjs',
    'data/CATALOGUE-LICENSE',
    'data/catalogue.json',
    'headgate.schema.json',
    'llms.txt',
    'package.json',
    'sbom.cdx.json',
  ]
  assert.deepEqual(files.filter((path) => !/^(?:dist\/|docs\/[\w/-]+\.md$)/.test(path)).sort(), expected)
  // Of the bundle only what `npm run build` wrote: code, with a digit where two sources have the same name, the dashboard, and
  // licences.
  const parts = files.filter((path) => path.startsWith('dist/'))
  assert.deepEqual(
    parts.filter(
      (path) =>
        !/^dist\/(?:[a-z_-]+\d?\.mjs|LICENCES\.txt|dashboard\/[\w-]+\.(?:js|css|html|txt)(?:\.gz|\.br)?)$/.test(path),
    ),
    [],
  )
})

/** Actions are not pinned by digest, but no download source can change except apt's signed packages. */
test('supply: the CI run has no project key and publishes nothing', () => {
  const run = read('.ci/run')
  assert.doesNotMatch(run, /npm (?:publish|login|token|adduser)|NPM_TOKEN|_authToken/)
  assert.match(run, /npm run (?:--silent )?audit-packages/)
  assert.doesNotMatch(run, /curl[^\n]*\|\s*(?:ba)?sh/)
  assert.ok(!isList(json('package.json').publishConfig))
})
