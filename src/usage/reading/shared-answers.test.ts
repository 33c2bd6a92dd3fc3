import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { SharedAnswers } from './shared-answers.ts'

const given = () => {
  let now = 1_000
  let reads = 0
  const answers = new SharedAnswers(() => now)
  return {
    pass: (ms: number) => {
      now += ms
    },
    reads: () => reads,
    /** Reads for `took` ms of the clock. */
    ask: async (question: string, took = 10, isOk = true): Promise<number | string> => {
      const found: Outcome<number> = await answers.get(question, 60_000, async (report) => {
        const number = ++reads
        await null
        report(took)
        return isOk ? good(number) : bad(fail('storage', 'no'))
      })
      return found.ok ? found.value : found.failure.message
    },
  }
}

test('shared answers: readers of one question share an answer, also while it is read', async () => {
  const { ask, reads } = given()
  assert.deepEqual(await Promise.all([ask('a'), ask('a'), ask('b')]), [1, 1, 2])
  assert.equal(await ask('a'), 1)
  assert.equal(reads(), 2)
})

test('shared answers: an answer is used again for 300 times as long as it took', async () => {
  const { ask, pass } = given()
  assert.equal(await ask('a', 10), 1)
  pass(2_999)
  assert.equal(await ask('a'), 1)
  pass(1)
  assert.equal(await ask('a', 0), 2)
  // What took no time is read again at once.
  assert.equal(await ask('a', 5_000), 3)
  pass(59_999)
  assert.equal(await ask('a'), 3)
  pass(1)
  assert.equal(await ask('a'), 4)
})

test('shared answers: a failure is not kept', async () => {
  const { ask } = given()
  assert.deepEqual(await Promise.all([ask('a', 10, false), ask('a', 10, false)]), ['no', 'no'])
  assert.equal(await ask('a'), 2)
})

test('shared answers: a limited number is kept, the newest', async () => {
  const { ask, reads } = given()
  for (let n = 0; n < 33; n++) await ask(`question ${n}`)
  assert.equal(await ask('question 1', 10), 2)
  assert.equal(reads(), 33)
  assert.equal(await ask('question 0', 10), 34)
})
