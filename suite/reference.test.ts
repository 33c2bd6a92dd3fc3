/** The suite can be passed, and finds each mistake. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Flaw, startReference } from './reference.ts'
import { type CellResult, cellsOf, modelValues, runSuite, scenarios, wallScripts } from './suite.ts'
import { readSystem } from './system.ts'
import { startWall } from './wall.ts'

const SCALE = 0.1
const all = scenarios(SCALE)

const results = async (
  only: readonly string[],
  flaws: readonly Flaw[] = [],
  styles = 'chat, messages, responses',
): Promise<readonly CellResult[]> => {
  const wall = await startWall(wallScripts(all))
  const routes = new Map(modelValues(all, 1, wall).map((values) => [values.model ?? '', values]))
  const gateway = await startReference({ routes, idle: 2_500, flaws: new Set(flaws) })
  const text = `name: reference\nstyles: [${styles}]\nparams: { base_url: "${gateway.url}" }\n`
  const system = readSystem(text, {}, () => ({}))
  try {
    return await runSuite({ system, wall, scale: SCALE, runs: 1, only, atOnce: 6, progress: () => {} })
  } finally {
    await gateway.close()
    await wall.close()
  }
}

const notPassed = (found: readonly CellResult[]) =>
  found.flatMap(({ id, style, verdict, runs, reason }) =>
    verdict === 'pass'
      ? []
      : [
          {
            cell: `${id} ${style}`,
            verdict,
            reason,
            kinds: runs[0]?.kinds,
            checks: runs[0]?.checks,
            attempts: runs[0]?.attempts,
            error: runs[0]?.error,
            transcript: runs[0]?.transcript.slice(-600),
          },
        ],
  )

test('suite: sixty scenarios, each with a public source', () => {
  assert.equal(all.length, 60)
  assert.equal(new Set(all.map(({ id }) => id)).size, 60)
  for (const { id, source } of all) assert.match(source, /^https:\/\//, id)
  assert.equal(cellsOf(all).length, 41 * 3 + 19)
})

test('suite: the reference passes every cell', { timeout: 300_000 }, async () => {
  const only = process.env.ONLY?.split(',') ?? []
  const found = await results(only)
  assert.ok(found.length > 0)
  assert.deepEqual(notPassed(found), [])
})

/** Cells that a flaw must not touch, unless it is listed. */
const OTHERS = 'a01 a08 b07 c02 c07 f03'.split(' ')

/** The scenarios that each mistake must lose. */
const LOST: { readonly [flaw in Flaw]: string } = {
  'adds a finish': 'b01 b02 b03 b09 b11 b12',
  'swallows errors': 'a13 b05',
  'retries refusals': 'd03 d04 f06',
  hammers: 'a07 a09',
  'mixes streams': 'g01',
  'drops a piece': 'a01 a08 b07 c02 c07',
  'counts the wrong usage': 'f02',
  'leaks the key': 'f05',
  'names the wrong model': 'f01',
  'ignores departures': 'd02',
  'forwards the key': 'd09',
  'drops members': 'd08',
  'forgets Retry-After': 'd06',
  'has no circuit': 'd05',
  'never returns': 'e01',
  'reads only LF': 'c02',
  'repeats side effects': 'd07',
  'uses one key': 'e05',
  'has no idle limit': 'a04',
}

for (const [flaw, lost] of Object.entries(LOST))
  test(`suite: a gateway with the flaw "${flaw}" loses ${lost}`, { timeout: 240_000 }, async () => {
    const expected = lost.split(' ')
    // Two answers at once cross, whatever they are about.
    const others = flaw === 'mixes streams' ? [] : OTHERS
    const styles = flaw === 'repeats side effects' ? 'responses' : 'chat'
    // The keys of the table are flaws.
    const found = await results([...expected, ...others], [flaw as Flaw], styles)
    const missed = found.flatMap(({ id, verdict }) => (verdict === 'pass' || verdict === 'n/a' ? [] : [id]))
    assert.deepEqual(missed.sort(), expected)
  })
