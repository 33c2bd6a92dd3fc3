/**
 * Compares a provider's own figures with the ledger, by UTC day and model. Formats: CSV with the columns `day`, `model` and
 * `amount`, a cost and usage export of AWS, and answers of the providers' cost APIs (OpenAI `/v1/organization/costs`, Anthropic
 * `/v1/organizations/cost_report`, OpenRouter `/api/v1/activity`), one or several after another in a JSON array.
 */
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { formatDollars, type Nano, parseDollars } from '../../core/money.ts'
import { parseAwsCosts } from './aws-costs.ts'
import { cellsOf, dayOf, type InvoiceLine, inDollars } from './invoice-values.ts'
import type { UsageEntry } from './queries.ts'

/** Amounts in dollars. `estimated` and `unpriced`: attempts of ours whose usage was estimated, or that had no price. */
export type ReconciledLine = {
  readonly day: string
  readonly model: string | null
  readonly ours: string
  readonly theirs: string
  readonly difference: string
  readonly estimated: number
  readonly unpriced: number
}

/** Parses a file. The failure states the format or the line. */
export const parseInvoice = (text: string): Outcome<readonly InvoiceLine[]> => {
  if (!/^\s*[[{]/.test(text)) return parseCsv(text)
  try {
    const value: unknown = JSON.parse(text)
    return good((Array.isArray(value) ? value : [value]).flatMap(linesOfAnswer))
  } catch (error) {
    return bad(fail('invalid_value', `The file is not an invoice: ${String(error)}. ${FORMATS}`))
  }
}

/**
 * `ours`: usage of the provider by day in UTC and model. Where no line of the invoice has a model, days are compared.
 * Sorted by day and model.
 */
export const reconcile = (
  theirs: readonly InvoiceLine[],
  ours: readonly UsageEntry[],
): Outcome<readonly ReconciledLine[]> => {
  const hasModels = theirs.some(({ model }) => model !== '')
  const lines = new Map<
    string,
    { day: string; model: string; ours: Nano; theirs: Nano; estimated: number; unpriced: number }
  >()
  const lineOf = (day: string, model: string) => {
    const shown = hasModels ? model : ''
    const name = `${day} ${shown}`
    const line = lines.get(name) ?? { day, model: shown, ours: 0, theirs: 0, estimated: 0, unpriced: 0 }
    lines.set(name, line)
    return line
  }
  for (const { day, model, amount } of theirs) lineOf(day, model).theirs += amount
  for (const { start = '', model, cost, estimated, unpriced } of ours) {
    const amount = parseDollars(cost, 'any')
    if (!amount.ok) return amount
    const line = lineOf(start, model ?? '')
    line.ours += amount.value
    line.estimated += estimated
    line.unpriced += unpriced
  }
  const sorted = [...lines].sort(([one], [other]) => (one < other ? -1 : 1))
  return good(
    sorted.map(([, line]) => ({
      ...line,
      model: line.model === '' ? null : line.model,
      ours: formatDollars(line.ours),
      theirs: formatDollars(line.theirs),
      difference: formatDollars(line.theirs - line.ours),
    })),
  )
}

const FORMATS =
  'Use CSV with the columns day, model and amount (dollars), a cost and usage export of AWS as CSV, or the JSON of the cost API of OpenAI, Anthropic or OpenRouter.'

// ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Throws if the format is unknown, or the currency is not US dollars. */
const linesOfAnswer = (answer: unknown): readonly InvoiceLine[] => {
  const data = objectsIn(answer, 'data')
  return data.flatMap((item) => {
    if (typeof item.date === 'string' && typeof item.usage === 'number') return [openRouterLine(item)]
    const results = objectsIn(item, 'results')
    if (typeof item.start_time === 'number') {
      const day = new Date(item.start_time * 1_000).toISOString().slice(0, 10)
      // Line items are descriptions, not models.
      return results.map(({ amount }) => ({ day, model: '', amount: openAiAmount(amount) }))
    }
    if (typeof item.starting_at !== 'string') throw new TypeError('its format is unknown')
    const day = dayOf(item.starting_at)
    return results.map(({ model, amount, currency }) => ({
      day,
      model: typeof model === 'string' ? model : '',
      // In cents, as a decimal text.
      amount: inDollars(currency, Number(amount) / 100),
    }))
  })
}

const openRouterLine = ({ date, model, usage }: JsonObject): InvoiceLine => ({
  day: dayOf(String(date)),
  model: typeof model === 'string' ? model : '',
  amount: inDollars('usd', Number(usage)),
})

const openAiAmount = (amount: unknown): Nano => {
  if (!isObject(amount)) throw new TypeError('a result has no amount')
  return inDollars(amount.currency, Number(amount.value))
}

const objectsIn = (value: unknown, member: string): readonly JsonObject[] => {
  const list = isObject(value) ? value[member] : undefined
  if (!Array.isArray(list) || !list.every(isObject)) throw new TypeError('its format is unknown')
  return list
}

// ── CSV ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

const parseCsv = (text: string): Outcome<readonly InvoiceLine[]> => {
  const [header = '', ...rows] = text.replace(/^\ufeff/, '').split(/\r?\n/)
  const names = cellsOf(header).map((name) => name.trim().toLowerCase())
  const [day, model, amount] = [names.indexOf('day'), names.indexOf('model'), names.indexOf('amount')]
  if (day < 0 || model < 0 || amount < 0)
    return (
      parseAwsCosts(names, rows) ?? bad(fail('invalid_value', `The first line is "${header.slice(0, 80)}". ${FORMATS}`))
    )
  const lines: InvoiceLine[] = []
  for (const [index, row] of rows.entries()) {
    if (row.trim() === '') continue
    const cells = cellsOf(row)
    const dollars = parseDollars(cells[amount]?.trim() ?? '', 'any')
    const date = cells[day]?.trim() ?? ''
    const problem = dollars.ok ? `"${date.slice(0, 40)}" is not a day such as 2026-11-22.` : dollars.failure.message
    if (!dollars.ok || !/^[0-9]{4}-[0-9]{2}-[0-9]{2}$/.test(date))
      return bad(fail('invalid_value', `Line ${index + 2}: ${problem}`))
    lines.push({ day: date, model: cells[model]?.trim() ?? '', amount: dollars.value })
  }
  return good(lines)
}
