/** Values of invoices. Functions throw a TypeError that states the problem. */
import type { Nano } from '../../core/money.ts'

/** `model` is empty where the provider does not state it. */
export type InvoiceLine = { readonly day: string; readonly model: string; readonly amount: Nano }

export const inDollars = (currency: unknown, amount: number): Nano => {
  if (String(currency).toLowerCase() !== 'usd') throw new TypeError(`the currency ${String(currency)} is not USD`)
  const nano = Math.round(amount * 1e9)
  if (!Number.isSafeInteger(nano)) throw new TypeError('an amount is not a number')
  return nano
}

/** The date of a time in UTC. */
export const dayOf = (time: string): string => {
  const [day = ''] = /^[0-9]{4}-[0-9]{2}-[0-9]{2}/.exec(time) ?? []
  if (day === '') throw new TypeError(`"${time.slice(0, 40)}" is not a date`)
  return day
}

/** Cells of a line of CSV; those in quotation marks may contain commas, but no line breaks. */
export const cellsOf = (line: string): readonly string[] =>
  [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, bare = '']) =>
    quoted === undefined ? bare : quoted.replaceAll('""', '"'),
  )
