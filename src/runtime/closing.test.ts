import assert from 'node:assert/strict'
import { test } from 'node:test'
import { closeParts, type Unclosed } from './closing.ts'

const never = () => new Promise(() => {})
const throwing = () => {
  throw new Error('broken')
}

test('parts that never close, or fail, are named, and those after them are closed', async () => {
  const closed: string[] = []
  const unclosed: Unclosed[] = []
  await closeParts(
    [
      {
        within: 20,
        parts: {
          server: never,
          keys: throwing,
          ledger: () => Promise.reject(new Error('full')),
          log: () => closed.push('log'),
        },
      },
      { within: 20, parts: { last: () => closed.push('last') } },
    ],
    (one) => unclosed.push(one),
  )
  assert.deepEqual(closed, ['log', 'last'])
  assert.deepEqual(
    unclosed.toSorted((a, b) => (a.part < b.part ? -1 : 1)),
    [
      { part: 'keys', problem: 'Error: broken' },
      { part: 'ledger', problem: 'Error: full' },
      { part: 'server', problem: 'it did not close within 20 ms' },
    ],
  )
})

test('a step begins when all parts of the step before are closed', async () => {
  const order: string[] = []
  const slowly = async () => {
    await new Promise((resolve) => setImmediate(resolve))
    order.push('first')
  }
  await closeParts(
    [
      { within: 60_000, parts: { slowly } },
      { within: 60_000, parts: { second: () => order.push('second') } },
    ],
    ({ part }) => assert.fail(part),
  )
  assert.deepEqual(order, ['first', 'second'])
})
