/** docs/errors.md has every error code with its statuses, and no other. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { KINDS } from '../../src/core/failure.ts'

const DOCS = join(import.meta.dirname, '..', '..', 'docs')
const page = readFileSync(join(DOCS, 'errors.md'), 'utf8')

test('docs: the page of errors has every code with its statuses', () => {
  const rows = [...page.matchAll(/^\| `(\w+)` \| (\d+) \| .+ \| .+ \|$/gm)].map(
    ([, code, status]) => `${code} ${status}`,
  )
  const codes = Object.values(KINDS).map(({ code, status }) => `${code} ${status}`)
  const stated = new Set(rows)
  // A code with two meanings may have one row, which describes both.
  const missing = codes.filter(
    (one) => !stated.has(one) && !rows.some((row) => row.startsWith(`${one.split(' ')[0]} `)),
  )
  assert.deepEqual([...new Set(missing)], [])
  assert.deepEqual(
    rows.filter((row) => !codes.includes(row)),
    [],
  )
  assert.equal(stated.size, rows.length)
})

test('docs: every setting that the page of errors names exists', () => {
  const known = readFileSync(join(DOCS, 'configuration.md'), 'utf8')
  const named = [...page.matchAll(/`([A-Z][A-Z_]{4,})`/g)].map(([, name]) => name ?? '')
  const own = named.filter((name) => name !== 'NODE_EXTRA_CA_CERTS')
  assert.deepEqual(
    own.filter((name) => !known.includes(name)),
    [],
  )
})
