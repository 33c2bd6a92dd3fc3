import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { UsageEntry } from './queries.ts'
import { parseInvoice, reconcile } from './reconcile.ts'

const CENT = 10_000_000

const OPENAI = {
  object: 'page',
  data: [
    {
      object: 'bucket',
      start_time: 1_795_305_600,
      end_time: 1_795_392_000,
      results: [
        { amount: { value: 0.06, currency: 'usd' }, line_item: 'x', project_id: null },
        { amount: { value: 1.5, currency: 'usd' }, line_item: null },
      ],
    },
  ],
}
const ANTHROPIC = {
  data: [
    {
      starting_at: '2026-11-22T00:00:00Z',
      ending_at: '2026-11-23T00:00:00Z',
      results: [
        { currency: 'USD', amount: '123.45', model: 'claude-a' },
        { currency: 'USD', amount: '7', model: null },
      ],
    },
  ],
  has_more: false,
}
const OPENROUTER = { data: [{ date: '2026-11-22', model: 'openai/gpt-4.1', usage: 0.015, requests: 5 }] }

const BEDROCK = `line_item_line_item_type,line_item_usage_start_date,product,line_item_product_code,line_item_usage_type,line_item_currency_code,line_item_unblended_cost
Usage,2026-11-22T03:00:00.000Z,"{""product_name"":""Amazon Bedrock""}",AmazonBedrock,USE1-Nova2.0Lite-input-tokens,USD,0.0000330000
Usage,2026-11-22 04:00:00.000,"{""product_name"":""Amazon Bedrock""}",AmazonBedrock,USE1-Nova2.0Lite-output-tokens,USD,1.5E-4
Usage,2026-11-23T00:00:00.000Z,"{""product_name"":""Claude Sonnet 4.5 (Amazon Bedrock Edition)""}",5x0a1b2c3d4e5f6g7h8i9j0k,MP:USE1_InputTokenCount-Units,USD,2.25
Usage,2026-11-23T00:00:00.000Z,"{""product_name"":""Amazon Bedrock""}",AmazonBedrock,USE1-Guardrail-ContentPolicyUnitsConsumed,USD,9
Usage,2026-11-23T00:00:00.000Z,"{""product_name"":""Amazon Elastic Compute Cloud""}",AmazonEC2,BoxUsage:tokens,USD,9
Tax,2026-11-23T00:00:00.000Z,"{""product_name"":""Amazon Bedrock""}",AmazonBedrock,USE1-Nova2.0Lite-input-tokens,USD,9
`
const BEDROCK_LEGACY = `identity/LineItemId,lineItem/LineItemType,lineItem/UsageStartDate,lineItem/ProductCode,lineItem/UsageType,lineItem/CurrencyCode,lineItem/UnblendedCost,product/ProductName
a,Usage,2026-11-22T03:00:00Z,AmazonBedrock,EUW1-Nova2.0Lite-cache-read-input-token-count,USD,0.25,Amazon Bedrock
b,Usage,2026-11-22T04:00:00Z,5x0a1b2c3d4e5f6g7h8i9j0k,EUW1-MP:EUW1_OutputTokenCount-Units,USD,0.5,Claude Sonnet 4.5 (Amazon Bedrock Edition)
`

const READ: readonly (readonly [string, string, readonly unknown[]])[] = [
  [
    'CSV',
    '\ufeffmodel,Day,amount\r\n"a,""b""",2026-11-22,1.25\r\n\r\nc,2026-11-23,-0.5\r\n',
    [
      { day: '2026-11-22', model: 'a,"b"', amount: 125 * CENT },
      { day: '2026-11-23', model: 'c', amount: -50 * CENT },
    ],
  ],
  [
    'OpenAI',
    JSON.stringify(OPENAI),
    [
      { day: '2026-11-22', model: '', amount: 6 * CENT },
      { day: '2026-11-22', model: '', amount: 150 * CENT },
    ],
  ],
  [
    'Anthropic, in cents',
    JSON.stringify(ANTHROPIC),
    [
      { day: '2026-11-22', model: 'claude-a', amount: 1_234_500_000 },
      { day: '2026-11-22', model: '', amount: 7 * CENT },
    ],
  ],
  [
    'AWS, the tokens of Bedrock alone',
    BEDROCK,
    [
      { day: '2026-11-22', model: '', amount: 33_000 },
      { day: '2026-11-22', model: '', amount: 150_000 },
      { day: '2026-11-23', model: '', amount: 225 * CENT },
    ],
  ],
  [
    'AWS, with the earlier names of columns',
    BEDROCK_LEGACY,
    [
      { day: '2026-11-22', model: '', amount: 25 * CENT },
      { day: '2026-11-22', model: '', amount: 50 * CENT },
    ],
  ],
  [
    'OpenRouter, two pages',
    JSON.stringify([OPENROUTER, OPENROUTER]),
    [
      { day: '2026-11-22', model: 'openai/gpt-4.1', amount: 15_000_000 },
      { day: '2026-11-22', model: 'openai/gpt-4.1', amount: 15_000_000 },
    ],
  ],
]
for (const [name, text, lines] of READ)
  test(`reconcile: reads ${name}`, () => {
    assert.deepEqual(parseInvoice(text), { ok: true, value: lines })
  })

for (const [text, message] of [
  ['', /first line is "".*CSV with the columns/],
  ['day,amount\n', /first line is "day,amount"/],
  ['day,model,amount\n2026-11-22,a,1\n22.11.2026,a,1', /Line 3: "22\.11\.2026" is not a day/],
  ['day,model,amount\n2026-11-22,a,$5', /Line 2: "\$5" is not an amount/],
  [BEDROCK.replace('1.5E-4', 'x'), /Line 3: an amount is not a number/],
  [BEDROCK.replace('USD,2.25', 'CNY,2.25'), /Line 4: the currency CNY is not USD/],
  [BEDROCK.replace('2026-11-22T03', '22.11.2026'), /Line 2: "22\.11\.2026:00:00\.000Z" is not a date/],
  [BEDROCK.split('\n').slice(0, 1).join(), /no tokens of Amazon Bedrock/],
  ['{"data":[{"x":1}]}', /format is unknown/],
  ['{"data":', /not an invoice/],
  [JSON.stringify(ANTHROPIC).replaceAll('USD', 'EUR'), /EUR is not USD/],
  [JSON.stringify(ANTHROPIC).replace('123.45', 'many'), /amount is not a number/],
] as const)
  test(`reconcile: ${JSON.stringify(text).slice(0, 50)} is refused`, () => {
    const found = parseInvoice(text)
    assert.match(found.ok ? '' : found.failure.message, message)
  })

const own = (start: string, model: string, cost: string): UsageEntry => ({
  start,
  model,
  cost,
  saved: '0.000000000',
  lost: '0.000000000',
  requests: 1,
  failed: 0,
  refused: 0,
  attempts: 1,
  input: 0,
  output: 0,
  cache_read: 0,
  cache_write: 0,
  reasoning: 0,
  estimated: 2,
  unpriced: 1,
  first_content_ms: null,
  total_ms: null,
})

test('reconcile: ours, theirs and the difference by day and model', () => {
  const ours = [own('2026-11-22', 'a', '1.000000000'), own('2026-11-23', 'b', '0.250000000')]
  const theirs = [
    { day: '2026-11-22', model: 'a', amount: 60 * CENT },
    { day: '2026-11-22', model: 'a', amount: 50 * CENT },
    { day: '2026-11-22', model: 'c', amount: CENT },
  ]
  const found = reconcile(theirs, ours)
  assert.ok(found.ok)
  assert.deepEqual(
    found.value.map((line) => [
      line.day,
      line.model,
      line.ours,
      line.theirs,
      line.difference,
      line.estimated,
      line.unpriced,
    ]),
    [
      ['2026-11-22', 'a', '1.000000000', '1.100000000', '0.100000000', 2, 1],
      ['2026-11-22', 'c', '0.000000000', '0.010000000', '0.010000000', 0, 0],
      ['2026-11-23', 'b', '0.250000000', '0.000000000', '-0.250000000', 2, 1],
    ],
  )
})

test('reconcile: without models in the invoice days are compared', () => {
  const ours = [own('2026-11-22', 'a', '1.000000000'), own('2026-11-22', 'b', '0.500000000')]
  const found = reconcile([{ day: '2026-11-22', model: '', amount: 156 * CENT }], ours)
  assert.ok(found.ok)
  assert.deepEqual(found.value, [
    {
      day: '2026-11-22',
      model: null,
      ours: '1.500000000',
      theirs: '1.560000000',
      difference: '0.060000000',
      estimated: 4,
      unpriced: 2,
    },
  ])
})
