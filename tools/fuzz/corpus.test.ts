/** Every input that once failed, and the first thousands of each target from a seed that stays. `npm run fuzz` goes on. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { keptFor, keptNames, runTarget } from './engine.ts'
import { TARGETS } from './targets.ts'

after(async () => {
  for (const { stop } of TARGETS) await stop?.()
})

describe('inputs that are kept', () => {
  test('each belongs to a target', () => {
    const names = TARGETS.map(({ name }) => name)
    assert.equal(new Set(names).size, names.length)
    assert.deepEqual(
      keptNames().filter((name) => !names.includes(name)),
      [],
    )
  })
  for (const target of TARGETS)
    for (const { file, bytes } of keptFor(target.name)) test(file, async () => target.check(Buffer.from(bytes)))
})

/** ms a target may go on for; it begins with one batch whatever it takes. */
const MS = 400

describe('a beginning of each target', () => {
  for (const target of TARGETS)
    test(`${target.name}: ${target.holds}`, async (t) => {
      const { cases, fault } = await runTarget(target, { seed: 1, ms: MS, size: 30 })
      t.diagnostic(`${cases} cases`)
      assert.equal(
        fault,
        null,
        `seed ${fault?.seed}: ${JSON.stringify(fault?.input.toString('latin1'))}\n${fault?.error}`,
      )
    })
})
