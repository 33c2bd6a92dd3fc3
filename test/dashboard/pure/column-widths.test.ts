import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type ColumnSpace, columnWidths, hiddenColumns } from '../../../dashboard/src/parts/column-widths.ts'

const space = (members: Partial<ColumnSpace> = {}): ColumnSpace => ({
  least: 50,
  wanted: 100,
  isFixed: false,
  drop: 0,
  ...members,
})

test('with room for all, each column is as wide as its content', () => {
  assert.deepEqual(columnWidths([space(), space({ wanted: 300 })], 400), [100, 300])
  assert.deepEqual([...hiddenColumns([space({ drop: 1 })], 50)], [])
})

test('without, the wide ones become smaller, and fixed ones do not', () => {
  assert.deepEqual(columnWidths([space({ isFixed: true }), space({ wanted: 250 })], 200), [100, 100])
  assert.deepEqual(columnWidths([space(), space({ wanted: 150 })], 175), [75, 100])
  assert.deepEqual(columnWidths([space({ isFixed: true }), space(), space({ least: 100 })], 220), [100, 40, 80])
})

test('columns are hidden by their number, as few as needed', () => {
  const columns = [space({ isFixed: true }), space({ drop: 1 }), space({ drop: 3 }), space({ drop: 2 }), space()]
  assert.deepEqual([...hiddenColumns(columns, 250)], [2])
  assert.deepEqual([...hiddenColumns(columns, 200)], [2, 3])
  assert.deepEqual([...hiddenColumns(columns, 10)], [2, 3, 1])
})

test('widths are never more than the room while the fixed ones fit, and no column gets more than it wants', () => {
  const anySpace = fc
    .record({ least: fc.nat(200), more: fc.nat(300), isFixed: fc.boolean(), drop: fc.nat(3) })
    .map(({ least, more, ...rest }) => ({ least, wanted: least + more, ...rest }))
  fc.assert(
    fc.property(fc.array(anySpace, { minLength: 1 }), fc.nat(3_000), (columns, room) => {
      const widths = columnWidths(columns, room)
      const total = widths.reduce((sum, width) => sum + width, 0)
      const fixed = columns.reduce((sum, { isFixed, wanted }) => sum + (isFixed ? wanted : 0), 0)
      assert.ok(total <= Math.max(room, fixed) + 0.01)
      for (const [at, { wanted }] of columns.entries()) assert.ok((widths[at] ?? -1) <= wanted + 0.01)
    }),
  )
})
