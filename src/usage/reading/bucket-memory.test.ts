import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BucketMemory } from './bucket-memory.ts'

const BUCKET = { from: 0, to: 10_000 }

const given = () => {
  const memory = new BucketMemory()
  let reads = 0
  return {
    at: (now: number, name = 'all', bucket = BUCKET) => memory.get(name, bucket, now, async () => ++reads),
  }
}

test('bucket memory: a past bucket is read again after half of its age', async () => {
  const { at } = given()
  assert.equal(await at(70_000), 1)
  assert.equal(await at(99_999), 1)
  assert.equal(await at(100_000), 2)
  assert.equal(await at(144_999), 2)
  assert.equal(await at(145_000), 3)
})

test('bucket memory: a bucket that has not ended is read each time, and so is one after the clock was set back', async () => {
  const { at } = given()
  assert.deepEqual([await at(9_000), await at(9_001), await at(10_000), await at(10_000)], [1, 2, 3, 4])
  assert.deepEqual([await at(90_000), await at(50_000)], [5, 6])
})

test('bucket memory: values are those of a bucket and a name, and a limited number is kept', async () => {
  const { at } = given()
  assert.deepEqual([await at(70_000), await at(70_000, 'failed')], [1, 2])
  assert.equal(await at(70_000, 'all', { from: 1, to: 10_000 }), 3)
  for (let n = 0; n < 998; n++) await at(70_000, `name ${n}`)
  assert.equal(await at(70_000, 'failed'), 2)
  assert.equal(await at(70_000), 1_002)
})
