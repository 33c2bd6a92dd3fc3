import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { withoutNote } from './notes.ts'

test('notes: a commit that changes the program needs a line in the changelog, or a reason', () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-notes-'))
  const git = (...words: readonly string[]): string =>
    execFileSync('git', words, { cwd: folder, encoding: 'utf8' }).trim()
  let count = 0
  const commit = (subject: string, files: readonly string[], body = ''): void => {
    for (const file of files) {
      mkdirSync(dirname(join(folder, file)), { recursive: true })
      writeFileSync(join(folder, file), String(count++))
    }
    git('add', '--all')
    git('commit', '--quiet', '--message', `${subject}\n\n${body}`)
  }
  try {
    git('init', '--quiet')
    git('config', 'user.name', 'Test')
    git('config', 'user.email', 'test@example.com')
    commit('before', ['src/old.ts'])
    const base = git('rev-parse', 'HEAD')
    commit('with a line', ['src/a.ts', 'CHANGELOG.md'])
    commit('with a reason', ['src/a.ts'], 'Text.\n\nno-note: only names change')
    commit('only a test', ['src/a.test.ts', 'docs/a.md'])
    assert.deepEqual(withoutNote(folder, base), [])
    commit('without both', ['src/a.ts', 'docs/a.md'])
    commit('with an empty reason', ['src/a.ts'], 'no-note: ')
    assert.deepEqual(
      withoutNote(folder, base).map((line) => line.replace(/^\w+ /, '')),
      ['without both', 'with an empty reason'],
    )
    assert.deepEqual(withoutNote(folder, 'HEAD'), [])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
