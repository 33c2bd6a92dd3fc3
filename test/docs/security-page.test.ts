/** SECURITY.md describes the parts that exist, with their present names and durations. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { DATABASES } from '../../src/backup/data-files.ts'
import { SESSION_AGE } from '../../src/records/store/logins.ts'
import { ROLES } from '../../src/server/admin/actor.ts'
import { PAGES, ROOT } from './support.ts'

const { prose, blocks } = PAGES.find(({ path }) => path === 'SECURITY.md') ?? assert.fail('there is no SECURITY.md')
const rowsOf = (title: string): readonly (readonly string[])[] => {
  const [, section = ''] = new RegExp(`^## ${title}\\n([\\s\\S]*?)(?=^## |$(?![\\s\\S]))`, 'm').exec(prose) ?? []
  const lines = section.split('\n').filter((line) => /^\|(?! ?-)/.test(line))
  return lines.slice(1).map((line) => line.split('|').map((cell) => cell.trim()))
}

test('security page: it denies no part that exists', () => {
  assert.doesNotMatch(prose, /in this version|not yet|no (?:spending limits|dashboard|roles|sessions|admin API)/i)
  for (const part of [
    /budget/,
    /session/,
    /dashboard/,
    /Postgres/,
    /Valkey/,
    /backup/,
    /webhook|receiver of alerts/,
    /audit/,
    /kept bodies/,
  ])
    assert.match(prose, part)
})

test('security page: roles, files of the data folder and the age of sessions are those of the program', () => {
  const parties = rowsOf('Trust boundaries').map(([, , party = '']) => party)
  assert.deepEqual(
    parties.filter((party) => /^`[a-z]+`$/.test(party)),
    ROLES.map((role) => `\`${role}\``),
  )
  const shown = new Set(DATABASES.map(({ file }) => file))
  for (const [file = ''] of prose.matchAll(/\b[a-z]+\.db\b/g)) assert.ok(shown.has(file) || file === 'bodies.db', file)
  assert.match(prose, new RegExp(`\\b${SESSION_AGE / 3_600_000} hours without use`))
})

test('security page: each number of the picture has a row, and each row is in the picture', () => {
  const picture = blocks.find(({ info }) => info[0] === 'mermaid')?.text ?? ''
  const numbers = (texts: readonly string[]) => [...new Set(texts.filter((text) => /^[0-9]+$/.test(text)))].toSorted()
  assert.deepEqual(
    numbers([...picture.matchAll(/-->\|([0-9]+)\|/g)].map(([, number = '']) => number)),
    numbers(rowsOf('Trust boundaries').map(([, number = '']) => number)),
  )
})

test('security page: every guarantee names tests that exist', () => {
  const guarantees = rowsOf('Guarantees and their tests')
  assert.ok(guarantees.length > 8)
  for (const [, guarantee, tests = ''] of guarantees) {
    const names = [...tests.matchAll(/`([a-z-]+)`/g)].map(([, name = '']) => name)
    assert.ok(names.length > 0, guarantee)
    for (const name of names) assert.ok(existsSync(join(ROOT, 'test', 'security', `${name}.test.ts`)), name)
  }
})
