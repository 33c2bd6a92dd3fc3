import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { FAULTS } from './fault-table.ts'

const ROOT = join(import.meta.dirname, '..', '..')

/** The ids of the tables. The missing numbers were never assigned. */
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

test('fault table: lists every fault once', () => {
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

/**
 * Whether a file has a test with this name: an argument of `test`, `describe` or a helper for both HTTP stacks, a row's
 * `name`, or its first element.
 */
const isNamed = (file: string, name: string): boolean => {
  const places = ['test(', 'onBothClients(', 'onBothServers(', 'describe(', 'name: ', '[']
  return places.some((place) => ["'", '`'].some((quote) => sourceOf(file).includes(place + quote + name)))
}

for (const { id, what, citations: proofs } of FAULTS)
  test(`fault table: ${id}, ${what}: its tests exist`, () => {
    assert.ok(proofs.length > 0)
    for (const [file, name] of proofs) assert.ok(isNamed(file, name), `${file} has no test that begins “${name}”`)
  })
