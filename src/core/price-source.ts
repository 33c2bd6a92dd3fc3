/** Where a cost comes from. */
import type { Nano } from './money.ts'

/**
 * Where a cost comes from. `upstream`: its own figure. `assumed`: no price is known, and the dearest ones of the provider apply.
 * `none`: no price is known, and the cost is null or a reservation.
 */
export type PriceSource = 'upstream' | 'override' | 'catalogue' | 'assumed' | 'none'

/** Prices depend on the size of an answer, so that the cost of several is not that of their sum. In nano-dollars. */
export type SummedCost = {
  readonly nano: Nano
  readonly source: Exclude<PriceSource, 'none'>
  readonly version: string
}
