/** `headgate models`: the models that clients can request. */
import { z } from 'zod'
import type { Shown } from '../../records/entities/shown.ts'
import { listOf } from '../../server/answers/fields.ts'
import { MODEL } from '../../server/answers/providers.ts'
import { pagesOf, queryOf } from '../accounts/record-store.ts'
import { type DefineVerb, EXIT } from '../cli.ts'
import { type GatewayClient, gatewayOf } from '../gateway-client.ts'
import { answerList, type ListingOptions, withListing } from '../listing.ts'
import type { Cell } from '../table.ts'

type ModelsOptions = ListingOptions & { readonly provider?: string; readonly price?: true; readonly key?: string }

type ModelRow = Shown<typeof MODEL>

const priceText = ({ pricing }: ModelRow): string =>
  pricing ? `$${pricing.input} / ${pricing.output === undefined ? '–' : `$${pricing.output}`}` : '–'

const HEADINGS = ['MODEL', 'OWNER', 'CONTEXT', 'PRICE in / out per 1M tokens']

const cells = (model: ModelRow): readonly Cell[] => [
  model.id,
  model.owned_by,
  String(model.context_window ?? '–'),
  { text: priceText(model), sort: model.pricing?.input ?? '–' },
]

/** `/v1/models`. */
const CLIENT_MODELS = z.looseObject({ data: z.array(MODEL) })

/** With a client key the models that it may use, otherwise all. */
const modelsOf = async (gateway: GatewayClient, given: string | undefined): Promise<readonly ModelRow[]> => {
  const key = given ?? gateway.key
  if (key === undefined)
    return await pagesOf((page) => gateway.read(listOf(MODEL), `/admin/api/v1/models${queryOf(page)}`))
  return (await gateway.read(CLIENT_MODELS, '/v1/models', { headers: { authorization: `Bearer ${key}` } })).data
}

export const define: DefineVerb = (command, cli) => {
  withListing(command)
    .argument('[filter]', 'part of the name')
    .option('--provider <id>', 'only models of this provider')
    .option('--price', 'only models with a known price')
    .option('--key <key>', 'client key (HEADGATE_API_KEY)')
    .addHelpText('after', '\nExample: headgate models claude --price')
    .action(async (filter: string | undefined, options: ModelsOptions) => {
      const { exit } = cli()
      const rows = (await modelsOf(await gatewayOf(cli()), options.key))
        .filter(({ id }) => id.toLowerCase().includes((filter ?? '').toLowerCase()))
        .filter(({ owned_by }) => options.provider === undefined || owned_by === options.provider)
        .filter(({ pricing }) => !options.price || pricing !== undefined)
      if (rows.length === 0) exit(EXIT.conflict)
      answerList(cli(), options, { headings: HEADINGS, rows, cells, none: 'No model matches.' })
    })
}
