import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Indexed, IndexedSet } from './indexed-set.ts'

test('adds and removes members like a Set', () => {
  const all: readonly Indexed[] = Array.from({ length: 8 }, () => ({ place: -1 }))
  const step = fc.record({ adds: fc.boolean(), at: fc.nat(all.length - 1) })
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      for (const one of all) one.place = -1
      const members = new IndexedSet<Indexed>()
      const set = new Set<Indexed>()
      for (const { adds, at } of steps) {
        const [one] = all.slice(at)
        assert.ok(one)
        if (adds) {
          members.add(one)
          set.add(one)
        } else assert.equal(members.delete(one), set.delete(one))
        assert.equal(members.size, set.size)
        assert.deepEqual(new Set(members), set)
      }
    }),
  )
})
