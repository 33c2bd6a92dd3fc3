import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { FAULTS } from './fault-table.ts'

const ROOT = join(import.meta.dirname, '..', '..')

/** The ids of the tables. Those between that are missing were never given out. */
const between = (letter: string, last: number, without: readonly number[]) =>
  Array.from({ length: last }, (_, at) => at + 1)
    .filter((number) => !without.includes(number))
    .map((number) => `${letter}${String(number).padStart(2, '0')}`)
const IDS = [
  ...between('F', 49, [17, 26, 32, 33, 38]),
  'F27b',
  ...between('S', 15, [13]),
  ...Array.from({ length: 75 }, (_, at) => String(at + 1)),
]

test('fault table: every fault is there, once', () => {
  assert.deepEqual(FAULTS.map(({ id }) => id).toSorted(), IDS.toSorted())
})

const sources = new Map<string, string>()
const sourceOf = (file: string): string => {
  const known =
    sources.get(file) ??
    readFileSync(join(ROOT, file), 'utf8')
      .replaceAll(/\(\s+|\[\s+/g, (blank) => blank.trim())
      .replaceAll(/\$\{[^}]*\}/g, '…')
  sources.set(file, known)
  return known
}

/** A test's name is a text at the place of one: what `test` and `describe` are given, a row's `name`, or its first member. */
const isNamed = (file: string, name: string): boolean => {
  const places = [`test('`, 'test(`', `describe('`, `name: '`, 'name: `', `['`, '[`']
  return places.some((place) => sourceOf(file).includes(place + name))
}

for (const { id, what, proofs } of FAULTS)
  test(`fault table: ${id}, ${what}: its tests exist`, () => {
    assert.ok(proofs.length > 0)
    for (const [file, name] of proofs) assert.ok(isNamed(file, name), `${file} has no test that begins “${name}”`)
  })
