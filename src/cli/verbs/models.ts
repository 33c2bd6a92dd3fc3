/** `headgate models`: the models that clients can request. */
import { isObject, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { type DefineVerb, EXIT } from '../cli.ts'
import { type GatewayClient, gatewayOf } from '../gateway-client.ts'
import { answerList, type ListingOptions, withListing } from '../listing.ts'
import type { Cell } from '../table.ts'

type ModelsOptions = ListingOptions & { readonly provider?: string; readonly price?: true; readonly key?: string }

const priceText = (model: JsonObject): string => {
  const pricing = object(model.pricing)
  const [input, output] = [number(pricing?.input), number(pricing?.output)]
  return input === undefined ? '–' : `$${input} / ${output === undefined ? '–' : `$${output}`}`
}

const HEADINGS = ['MODEL', 'OWNER', 'CONTEXT', 'PRICE in / out per 1M tokens']

const cells = (model: JsonObject): readonly Cell[] => [
  text(model.id) ?? '',
  text(model.owned_by) ?? '',
  String(number(model.context_window) ?? '–'),
  { text: priceText(model), sort: number(object(model.pricing)?.input) ?? '–' },
]

/** With a client key the models that it may use, otherwise all. */
const modelsOf = async (gateway: GatewayClient, given: string | undefined): Promise<readonly JsonObject[]> => {
  const key = given ?? gateway.key
  if (key !== undefined) {
    const { body } = await gateway.call('/v1/models', { headers: { authorization: `Bearer ${key}` } })
    return isObject(body) ? list(body.data).filter(isObject) : []
  }
  const models: JsonObject[] = []
  for (let after: string | undefined = ''; after !== undefined; ) {
    const { body } = await gateway.call(
      `/admin/api/v1/models?limit=200${after && `&after=${encodeURIComponent(after)}`}`,
    )
    if (!isObject(body)) break
    models.push(...list(body.data).filter(isObject))
    after = text(body.next)
  }
  return models
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
        .filter(({ id }) =>
          text(id)
            ?.toLowerCase()
            .includes((filter ?? '').toLowerCase()),
        )
        .filter(({ owned_by }) => options.provider === undefined || owned_by === options.provider)
        .filter(({ pricing }) => !options.price || pricing !== undefined)
      if (rows.length === 0) exit(EXIT.conflict)
      answerList(cli(), options, { headings: HEADINGS, rows, cells, none: 'No model matches.' })
    })
}
