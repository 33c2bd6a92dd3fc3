/**
 * Reads what Amazon Bedrock's tokens cost from a cost and usage export of AWS as CSV, version 2.0 or the earlier one
 * (https://docs.aws.amazon.com/bedrock/latest/userguide/cost-mgmt-understanding-cur-data.html). Its lines state the kind of
 * tokens and a name of the model that is not its ID, so days are compared.
 */
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { cellsOf, dayOf, type InvoiceLine, inDollars } from './invoice-values.ts'

/** The columns, as both versions name them. */
const COLUMNS = {
  kind: ['line_item_line_item_type', 'lineitem/lineitemtype'],
  start: ['line_item_usage_start_date', 'lineitem/usagestartdate'],
  usage: ['line_item_usage_type', 'lineitem/usagetype'],
  code: ['line_item_product_code', 'lineitem/productcode'],
  currency: ['line_item_currency_code', 'lineitem/currencycode'],
  cost: ['line_item_unblended_cost', 'lineitem/unblendedcost'],
} as const
/** Models of other companies are products of their own, whose names contain "Amazon Bedrock Edition". */
const PRODUCT = ['product', 'product_product_name', 'product/productname']

/** The lines of a day's tokens. Null: the file is no such export. */
export const parseAwsCosts = (names: readonly string[], rows: readonly string[]): Outcome<InvoiceLine[]> | null => {
  const columnOf = (column: readonly string[]) => names.findIndex((name) => column.includes(name))
  const at = {
    kind: columnOf(COLUMNS.kind),
    start: columnOf(COLUMNS.start),
    usage: columnOf(COLUMNS.usage),
    code: columnOf(COLUMNS.code),
    currency: columnOf(COLUMNS.currency),
    cost: columnOf(COLUMNS.cost),
    product: columnOf(PRODUCT),
  }
  if (Object.values(at).includes(-1)) return null
  const lines: InvoiceLine[] = []
  for (const [index, row] of rows.entries()) {
    const cells = cellsOf(row)
    const cell = (column: keyof typeof at) => cells[at[column]]?.trim() ?? ''
    const isBedrock = cell('code') === 'AmazonBedrock' || cell('product').includes('Amazon Bedrock')
    // Taxes, credits and discounts are lines of their own; guardrails and the like are not counted in tokens.
    if (!isBedrock || cell('kind') !== 'Usage' || !/token/i.test(cell('usage'))) continue
    try {
      const amount = inDollars(cell('currency'), cell('cost') === '' ? Number.NaN : Number(cell('cost')))
      lines.push({ day: dayOf(cell('start')), model: '', amount })
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      return bad(fail('invalid_value', `Line ${index + 2}: ${problem}.`))
    }
  }
  return lines.length > 0 ? good(lines) : bad(fail('invalid_value', 'The export has no tokens of Amazon Bedrock.'))
}
