/**
 * All interleavings of a few processes with losses at any point. `LEASE_MODEL=3,4,2,1 npm test -- lease-interleavings` explores 3
 * processes with 4 operations each, a limit of 2 and 1 loss of each kind, in some ten minutes. The loss of the store for all is
 * explored with one operation less.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exploreLeases, type Loss, type ModelSize } from '../../../test/support/lease-model.ts'

type Size = Omit<ModelSize, 'loss'>

const sizeOf = ([processes = 3, operations = 4, limit = 2, losses = 1]: readonly number[]): Size => ({
  ...{ processes, operations, limit, losses },
})
/** As large as a few seconds allow. The last ones also give leases back. */
const SMALL = [
  sizeOf([3, 2, 2, 1]),
  sizeOf([2, 4, 2, 1]),
  sizeOf([2, 3, 2, 2]),
  { ...sizeOf([2, 2, 4, 1]), leaves: true },
  { ...sizeOf([1, 6, 2, 1]), leaves: true },
]
const SIZES: { readonly [loss in Loss]: readonly Size[] } = {
  'store of one': SMALL,
  'store of all': [sizeOf([2, 3, 2, 1]), { ...sizeOf([2, 2, 4, 1]), leaves: true }],
  lease: [sizeOf([3, 2, 2, 1]), sizeOf([2, 3, 2, 1]), { ...sizeOf([1, 6, 2, 1]), leaves: true }],
  process: SMALL,
  counter: SMALL,
}
const LOSSES = Object.keys(SIZES) as readonly Loss[]
const given = process.env.LEASE_MODEL?.split(',').map(Number)
const largeOf = (loss: Loss, [processes = 3, operations = 4, ...more]: readonly number[]): Size =>
  sizeOf([processes, loss === 'store of all' ? operations - 1 : operations, ...more])

const nameOf = ({ processes, operations, limit, losses }: Size, loss: Loss): string =>
  `${processes} processes with ${operations} operations, a limit of ${limit}, and ${losses} losses of the ${loss}`

for (const loss of LOSSES)
  for (const size of given ? [largeOf(loss, given)] : SIZES[loss])
    test(`lease: ${nameOf(size, loss)}: bounds hold`, (t) => {
      const { states, steps, most } = exploreLeases({ ...size, loss })
      t.diagnostic(`${states} states, ${steps} steps`)
      // The whole limit can be used, and the overdraft without the store.
      const isCut = loss.startsWith('store') || loss === 'lease'
      assert.ok(isCut ? most > size.limit : most === size.limit, `${most}`)
    })
