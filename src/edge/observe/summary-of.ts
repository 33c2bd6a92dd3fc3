import type { Exchange } from '../../core/exchange.ts'
import { type Summary, summarize } from '../../core/summary.ts'

let last: { readonly exchange: Exchange; readonly facts: number; readonly summary: Summary } | null = null

/** The summary of an exchange, made once for all who hear of it one after the other. */
export const summaryOf = (exchange: Exchange): Summary => {
  if (last?.exchange !== exchange || last.facts !== exchange.length)
    last = { exchange, facts: exchange.length, summary: summarize(exchange) }
  return last.summary
}
