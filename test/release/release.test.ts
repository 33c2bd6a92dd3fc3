/** A release in a copy of the files that it changes: versions, notes, commit, and what is refused. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { checkedVersion, commitVersion, FILES, imageTags, nextVersion, notesOf } from '../../scripts/release.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const current: string = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version

let copy = ''
const git = (...words: readonly string[]): string => execFileSync('git', words, { cwd: copy, encoding: 'utf8' }).trim()
const read = (file: string): string => readFileSync(join(copy, file), 'utf8')
/** Writes the changelog and commits it. */
const withNotes = (notes: string): void => {
  writeFileSync(
    join(copy, 'CHANGELOG.md'),
    `# Changelog\n\n## Unreleased\n\n${notes}\n\n## ${current} (2026-01-01)\n\n- old\n`,
  )
  git('commit', '--quiet', '--all', '--allow-empty', '--message', 'notes')
}

beforeEach(() => {
  copy = mkdtempSync(join(tmpdir(), 'headgate-release-test-'))
  for (const file of FILES) {
    mkdirSync(dirname(join(copy, file)), { recursive: true })
    cpSync(join(ROOT, file), join(copy, file))
  }
  git('init', '--quiet')
  git('config', 'user.name', 'Test')
  git('config', 'user.email', 'test@example.com')
  git('add', '--all')
  git('commit', '--quiet', '--message', 'all')
})
afterEach(() => rmSync(copy, { recursive: true, force: true }))

for (const [from, wanted, to] of [
  ['0.1.0', 'minor', '0.2.0'],
  ['0.9.3', 'minor', '0.10.0'],
  ['1.4.2', 'patch', '1.4.3'],
  ['1.4.2', 'major', '2.0.0'],
  ['0.1.0', '0.1.0', '0.1.0'],
] as const)
  test(`release: ${wanted} after ${from} is ${to}`, () => assert.equal(nextVersion(from, wanted), to))

for (const [version, released, tags] of [
  ['1.4.2', ['1.4.1', '1.3.9', '1.4.2'], ['1.4.2', '1.4', '1', 'latest']],
  ['1.10.0', ['1.9.3'], ['1.10.0', '1.10', '1', 'latest']],
  ['1.3.10', ['1.3.9', '1.4.2'], ['1.3.10', '1.3']],
  ['1.9.4', ['1.9.3', '2.0.0'], ['1.9.4', '1.9', '1']],
  ['1.3.8', ['1.3.9', '1.30.0'], ['1.3.8']],
  ['0.1.0', [], ['0.1.0', '0.1', 'latest']],
] as const)
  test(`release: the image of ${version} after ${released.join(', ')} has the tags ${tags.join(', ')}`, () =>
    assert.deepEqual(imageTags(version, released), tags))

test('release: every file that states the version has the new one, and the notes are moved', () => {
  withNotes('### Added\n\n- a thing')
  const next = checkedVersion(copy, 'minor')
  commitVersion(copy, next, '2026-11-24')
  for (const file of FILES.filter((each) => each !== 'CHANGELOG.md')) {
    const text = read(file)
    assert.ok(text.includes(next), file)
    // Another package of the lockfile may have the same version.
    if (file !== 'package-lock.json') assert.ok(!text.includes(current), `${file} still has ${current}`)
  }
  const { version, packages } = JSON.parse(read('package-lock.json'))
  assert.deepEqual([version, packages[''].version], [next, next])
  assert.equal(notesOf(read('CHANGELOG.md'), next), '### Added\n\n- a thing')
  assert.equal(notesOf(read('CHANGELOG.md'), current), '- old')
  assert.equal(git('log', '-1', '--format=%s'), `release: ${next}`)
  assert.equal(git('status', '--porcelain'), '')
  assert.throws(() => commitVersion(copy, nextVersion(next, 'patch'), '2026-11-25'), /CHANGELOG.md: .*is empty/)
})

test('release: the changelog of this commit can be released', () => {
  const next = checkedVersion(copy, 'minor')
  commitVersion(copy, next, '2026-11-24')
  assert.ok(notesOf(read('CHANGELOG.md'), next).length > 0)
})

test('release: a change that is not committed, a tag that exists and a wrong word are refused', () => {
  assert.throws(() => checkedVersion(copy, 'big'), /found "big"; allowed: major, minor, patch/)
  git('tag', `v${nextVersion(current, 'patch')}`)
  assert.throws(() => checkedVersion(copy, 'patch'), /the tag v.* exists already/)
  writeFileSync(join(copy, 'more'), '')
  assert.throws(() => checkedVersion(copy, 'minor'), /commit or remove these changes first:\n\?\? more/)
})

test('release: breaking changes need a version that may break', () => {
  withNotes('### Breaking\n\n- a setting is gone')
  assert.throws(() => commitVersion(copy, nextVersion(current, 'patch'), '2026-11-24'), /has breaking changes/)
  commitVersion(copy, nextVersion(current, 'major'), '2026-11-24')
})

/** Git refuses a checkout of another user, unless the configuration names it. */
const env = { ...process.env, GIT_CONFIG_COUNT: '1', GIT_CONFIG_KEY_0: 'safe.directory', GIT_CONFIG_VALUE_0: '*' }

test('release: the dry run prints the change and leaves the repository as it was', () => {
  const state = () => execFileSync('git', ['status', '--porcelain'], { cwd: ROOT, env, encoding: 'utf8' })
  const before = state()
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(ROOT, 'scripts', 'release.ts'), 'minor', '--dry-run'],
    { env, encoding: 'utf8', timeout: 60_000 },
  )
  // With changes that are not committed it refuses, which is right too while someone works here.
  if (before === '') assert.equal(status, 0, stderr)
  else assert.match(stderr, /commit or remove these changes first/)
  if (before === '') assert.match(stdout, new RegExp(`^\\+  "version": "${nextVersion(current, 'minor')}",$`, 'm'))
  assert.equal(state(), before)
})
