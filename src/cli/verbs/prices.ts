/** `headgate prices`: prices in place of those of the catalogue, in a running gateway or in its files. */
import type { JsonObject } from '../../core/json.ts'
import { PRICE } from '../../records/entities/price.ts'
import { deletedAs } from '../../server/answers/fields.ts'
import { findRecord, listAll, type RecordStore, type Stored, withRecords } from '../accounts/record-store.ts'
import { timeOf } from '../arguments.ts'
import { CliError, type DefineVerb, EXIT } from '../cli.ts'
import { answerList, type ListingOptions, withListing } from '../listing.ts'
import { type Cell, table } from '../table.ts'

/** The prices by their options, in dollars per million tokens. `factor` multiplies the whole cost. */
const PARTS = {
  input: '--input',
  output: '--output',
  cacheRead: '--cache-read',
  cacheWrite: '--cache-write',
  reasoning: '--reasoning',
  factor: '--factor',
} as const

type SetOptions = { readonly [part in keyof typeof PARTS]?: string } & { readonly from?: string }

const HEADINGS = ['PROVIDER', 'MODEL', 'FROM', 'PER MILLION TOKENS', 'ID', 'MANAGED']

const cells = (price: Stored<'price'>): readonly Cell[] => [
  price.provider,
  price.model,
  price.effective_from?.slice(0, 10) ?? 'always',
  Object.entries(price.prices)
    .map(([part, value]) =>
      part === 'factor' ? `factor ${value}` : `${part} $${typeof value === 'number' ? value : '…'}`,
    )
    .join(', '),
  price.id,
  price.managed,
]

const pricesOf = (options: SetOptions): JsonObject => {
  const prices: Record<string, number> = {}
  for (const [part, option] of Object.entries(PARTS)) {
    // The entries are those of PARTS.
    const written = options[part as keyof typeof PARTS]
    if (written === undefined) continue
    if (!/^[0-9]{1,7}(?:\.[0-9]{1,9})?$/.test(written))
      throw new CliError(EXIT.usage, `${option} needs a number of 0 or more, such as ${option} 0.85.`)
    prices[part] = Number(written)
  }
  if (Object.keys(prices).length === 0)
    throw new CliError(EXIT.usage, `Set one or more of ${Object.values(PARTS).join(', ')}.`)
  return prices
}

/** The body of a price. */
type NewPrice = {
  readonly provider: string
  readonly model: string
  readonly effective_from?: string | null
  readonly prices: JsonObject
}

/** Creates the record. One for the same models and time is replaced, after the new one was found valid. */
const replace = async (store: RecordStore, body: NewPrice): Promise<Stored<'price'>> => {
  const create = () => store.run(PRICE, { do: 'create', kind: 'price', body })
  try {
    return await create()
  } catch (error) {
    if (!(error instanceof CliError) || error.code !== EXIT.conflict) throw error
    const timeOfPrice = (price: Pick<NewPrice, 'effective_from'>) => Date.parse(price.effective_from ?? '') || 0
    const same = (await listAll(store, 'price')).find(
      (price) =>
        price.provider === body.provider && price.model === body.model && timeOfPrice(price) === timeOfPrice(body),
    )
    if (!same) throw error
    await store.run(deletedAs('price'), { do: 'delete', kind: 'price', id: same.id, rev: null })
    return await create()
  }
}

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate prices list')
  withListing(command.command('list'))
    .description('List price overrides.')
    .addHelpText('after', '\nExample: headgate prices list --json')
    .action((options: ListingOptions) =>
      withRecords(cli(), async (store) => {
        const rows = await listAll(store, 'price')
        answerList(cli(), options, { headings: HEADINGS, rows, cells })
      }),
    )
  command
    .command('set <provider> <model>')
    .description(
      'Set prices of a model, in dollars per million tokens, for calls from now on. Costs in the ledger stay.',
    )
    .option('--input <dollars>', 'input')
    .option('--output <dollars>', 'output')
    .option('--cache-read <dollars>', 'input read from a cache')
    .option('--cache-write <dollars>', 'input written to a cache')
    .option('--reasoning <dollars>', 'reasoning')
    .option('--factor <number>', 'multiplies the whole cost: 0.85 for a discount of 15 %')
    .option('--from <time>', 'only requests from this time on')
    .addHelpText('after', "\nExample: headgate prices set openai 'gpt-5*' --factor 0.85")
    .action((provider: string, model: string, options: SetOptions) => {
      const prices = pricesOf(options)
      const from = options.from === undefined ? {} : { effective_from: timeOf('--from', options.from, 1) }
      return withRecords(cli(), async (store) => {
        const price = await replace(store, { provider, model, ...from, prices })
        cli().answer(price, () => table(HEADINGS, [cells(price)], cli()))
      })
    })
  command
    .command('remove <price>')
    .description('Remove a price override by its ID, or by PROVIDER/MODEL.')
    .addHelpText('after', "\nExample: headgate prices remove 'openai/gpt-5*'")
    .action((name: string) =>
      withRecords(cli(), async (store) => {
        const { id } = await findRecord(store, 'price', name)
        const result = await store.run(deletedAs('price'), { do: 'delete', kind: 'price', id, rev: null })
        cli().answer(result, () => [`${name} is removed`])
      }),
    )
}
