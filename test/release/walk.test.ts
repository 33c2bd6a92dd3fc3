/** The package alone and a clone alone lead to a first answer, the dashboard and the documentation, as their pages say. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { basename, delimiter, dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { publint } from 'publint'
import { packInto } from '../../scripts/package.ts'
import { walk } from './support/walk.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const place = mkdtempSync(join(tmpdir(), 'headgate-walk-'))
after(() => rmSync(place, { recursive: true, force: true }))

const folder = (name: string): string => {
  mkdirSync(join(place, name))
  return join(place, name)
}

/** The environment of a new user: no setting of Headgate, and packages from npm's cache where it has them. */
const environment = (home: string, more: Readonly<Record<string, string>> = {}) => ({
  PATH: [join(home, 'bin'), dirname(process.execPath), process.env.PATH ?? ''].join(delimiter),
  HOME: home,
  npm_config_prefix: home,
  npm_config_cache: process.env.npm_config_cache ?? join(homedir(), '.npm'),
  npm_config_prefer_offline: 'true',
  npm_config_update_notifier: 'false',
  // Where the registry is behind a proxy of the network, its authority is trusted as everywhere else on this machine.
  ...(process.env.NODE_EXTRA_CA_CERTS && { NODE_EXTRA_CA_CERTS: process.env.NODE_EXTRA_CA_CERTS }),
  ...more,
})

const checkAnswers = (printed: string): void => {
  assert.match(printed, /"object":"chat\.completion".*\[demo\]/)
}

let archive = ''
before(async () => {
  archive = await packInto(place)
})

/** A folder with the archive and nothing else. */
const withArchive = (name: string): string => {
  const cwd = folder(name)
  execFileSync('cp', [archive, cwd])
  return cwd
}

test('the package alone, as docs/deploy/npm.md says', async () => {
  const printed = await walk('docs/deploy/npm.md', {
    cwd: withArchive('package'),
    env: environment(folder('package-home')),
  })
  checkAnswers(printed)
  assert.match(printed, /event: message_stop/)
  assert.match(printed, /hgk_/)
})

test('publint finds nothing in the package', async () => {
  const bytes = readFileSync(archive)
  const tarball = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)
  const { messages } = await publint({ pack: { tarball } })
  assert.deepEqual(messages, [])
})

test('the package is installed without a network, and npx starts it', () => {
  const cwd = withArchive('offline')
  const env = environment(folder('offline-home'), { npm_config_offline: 'true' })
  execFileSync('npm', ['install', '--omit=dev', '--ignore-scripts', `./${basename(archive)}`], { cwd, env })
  const version = execFileSync('npx', ['headgate', '--version'], { cwd, env, encoding: 'utf8' })
  assert.equal(`headgate-${version.trim()}.tgz`, basename(archive))
  checkSize(cwd)
})

/** The installed size is the one of the comparison, and of the pages that state it. */
const checkSize = (folder: string): void => {
  const measured = Number(execFileSync('du', ['-sm', folder, '--exclude=*.tgz'], { encoding: 'utf8' }).split('\t')[0])
  const { numbers } = JSON.parse(readFileSync(join(ROOT, 'bench', 'peers', 'size.json'), 'utf8'))
  const [stated = 0] = numbers.Headgate
  assert.ok(Math.abs(measured - stated) <= 1, `${measured} MB; bench/peers/size.json has ${stated}`)
  for (const [file, sentence] of [
    ['docs/deploy/npm.md', /26 packages \((\d+) MB\)/],
    ['CHANGELOG.md', /installs 26 packages, (\d+) MB/],
  ] as const)
    assert.equal(Number(sentence.exec(readFileSync(join(ROOT, file), 'utf8'))?.[1]), stated, file)
}

test('a clone alone, as README.md says', async () => {
  const cwd = join(place, 'clone')
  execFileSync('git', ['-c', 'safe.directory=*', 'clone', '--quiet', ROOT, cwd])
  checkAnswers(await walk('README.md', { cwd, env: environment(folder('clone-home')) }))
})
