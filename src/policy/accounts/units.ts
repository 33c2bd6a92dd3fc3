/** Prices of what is not billed by tokens: seconds of audio, characters, images, queries. */
import type { PriceOverride } from '../../core/accounts.ts'
import type { UnitCount } from '../../core/chat.ts'

/**
 * The cost of units before rounding, in nano-dollars. Undefined: they are not billed by this list, so tokens are. NaN: they are, and
 * the count or the price of this kind is unknown.
 */
export const unitCost = (units: UnitCount | undefined, { perUnit }: PriceOverride): number | undefined => {
  if (!units || !perUnit) return undefined
  const prices = pricesOf(units, perUnit)
  if (prices.length === 0) return undefined
  const price = priceOfKind(units, perUnit)
  return units.count !== null && units.count >= 0 && price !== undefined ? units.count * price : Number.NaN
}

/** The same at most: a kind that is not known costs as much as the dearest. */
export const dearestUnitCost = (units: UnitCount | undefined, { perUnit }: PriceOverride): number | undefined => {
  if (!units || !perUnit) return undefined
  const prices = pricesOf(units, perUnit)
  if (prices.length === 0) return undefined
  return (units.count ?? Number.NaN) * (priceOfKind(units, perUnit) ?? Math.max(...prices))
}

type UnitPrices = NonNullable<PriceOverride['perUnit']>

const pricesOf = ({ unit }: UnitCount, perUnit: UnitPrices): readonly number[] =>
  Object.entries(perUnit).flatMap(([name, price]) => (name === unit || name.startsWith(`${unit}/`) ? [price] : []))

/** `images/1024x1024/high`, or else `images/1024x1024`, or else `images`. */
const priceOfKind = ({ unit, kind = [] }: UnitCount, perUnit: UnitPrices): number | undefined => {
  for (let parts = kind.length; parts >= 0; parts--) {
    const name = [unit, ...kind.slice(0, parts)].join('/')
    if (Object.hasOwn(perUnit, name)) return perUnit[name]
  }
  return undefined
}
