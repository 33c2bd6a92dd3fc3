/** What is kept of an incomplete report, and when it is read again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PartMemory } from './part-memory.ts'

const reader = (memory: PartMemory) => {
  let reads = 0
  const read = async (part: string, { report = 'by team', now = 0, values = 1 } = {}) => {
    const before = reads
    await memory.get(report, part, now, async () => {
      reads++
      return Array.from({ length: values }, (_, n) => n)
    })
    return reads > before
  }
  return read
}

test('part memory: a report that was not answered continues, another one is read', async () => {
  const memory = new PartMemory()
  const read = reader(memory)
  memory.begin('by team', true)
  assert.equal(await read('monday'), true)
  memory.begin('by team', true)
  assert.equal(await read('monday'), false)
  assert.equal(await read('tuesday'), true)
  assert.equal(await read('monday', { report: 'by key' }), true)
})

test('part memory: an answered report is read again, but its next pages are not', async () => {
  const memory = new PartMemory()
  const read = reader(memory)
  await read('monday')
  memory.answered('by team', true)
  memory.begin('by team', false)
  assert.equal(await read('monday'), false)
  memory.begin('by team', true)
  assert.equal(await read('monday'), true)
  memory.answered('by team', false)
  assert.equal(await read('monday'), true)
})

test('part memory: parts are kept for ten minutes, and up to a number of values and reports', async () => {
  const memory = new PartMemory()
  const read = reader(memory)
  await read('monday')
  assert.equal(await read('monday', { now: 600_000 }), false)
  assert.equal(await read('monday', { now: 600_001 }), true)
  await read('large', { now: 600_001, values: 100_000 })
  assert.equal(await read('large', { now: 600_001, values: 100_000 }), true)
  for (let n = 0; n < 8; n++) await read('monday', { report: `report ${n}`, now: 600_001 })
  assert.equal(await read('monday', { now: 600_001 }), true)
})
