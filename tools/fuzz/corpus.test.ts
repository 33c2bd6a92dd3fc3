/** Replays every input that once failed, and the first cases of each target from a fixed seed. `npm run fuzz` runs more. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { corpusNames, corpusOf, runTarget } from './engine.ts'
import { TARGETS } from './targets.ts'

after(async () => {
  for (const { stop } of TARGETS) await stop?.()
})

describe('fuzz: corpus', () => {
  test('each input belongs to a target', () => {
    const names = TARGETS.map(({ name }) => name)
    assert.equal(new Set(names).size, names.length)
    assert.deepEqual(
      corpusNames().filter((name) => !names.includes(name)),
      [],
    )
  })
  for (const target of TARGETS)
    for (const { file, bytes } of corpusOf(target.name)) test(file, async () => target.check(Buffer.from(bytes)))
})

/** ms per target. The first batch always completes. */
const MS = 400

describe('fuzz: first cases of each target', () => {
  for (const target of TARGETS)
    test(`${target.name}: ${target.property}`, async (t) => {
      const { cases, fault } = await runTarget(target, { seed: 1, ms: MS, size: 30 })
      t.diagnostic(`${cases} cases`)
      assert.equal(
        fault,
        null,
        `seed ${fault?.seed}: ${JSON.stringify(fault?.input.toString('latin1'))}\n${fault?.error}`,
      )
    })
})
