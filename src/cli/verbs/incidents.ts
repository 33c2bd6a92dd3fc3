/** `headgate incidents`: the outages of providers, one line each. */
import { isObject, type JsonObject, list, number, text } from '../../core/json.ts'
import { queryOf } from '../accounts/record-store.ts'
import { repeated, timeOf } from '../arguments.ts'
import type { Cli, DefineVerb } from '../cli.ts'
import { gatewayOf } from '../gateway-client.ts'
import { answerList, type ListingOptions, secondOf, withListing } from '../listing.ts'
import { type Cell, durationText } from '../table.ts'

type IncidentsOptions = ListingOptions & {
  readonly since: string
  readonly until?: string
  readonly provider?: readonly string[]
  readonly limit: string
}

const HEADINGS = [
  ...['PROVIDER', 'BEGIN', 'END', 'LENGTH', 'CAUSE', 'FAILURES', 'REROUTED', 'LOST'],
  ...['MODELS', 'NODES', 'REQUEST'],
]

const joined = (value: unknown): string =>
  (Array.isArray(value) ? value : []).filter((one) => typeof one === 'string').join(', ')

const cells = (incident: JsonObject): readonly Cell[] => {
  const seconds = number(incident.seconds) ?? 0
  return [
    joined(incident.providers),
    secondOf(incident.begin) ?? '',
    secondOf(incident.end) ?? 'lasts',
    { text: durationText(seconds * 1_000), sort: seconds },
    text(incident.cause) ?? '',
    String(number(incident.failures) ?? 0),
    String(number(incident.rerouted) ?? 0),
    String(number(incident.lost) ?? 0),
    joined(incident.models),
    joined(incident.nodes),
    text(incident.request) ?? '–',
  ]
}

const listIncidents = async (cli: Cli, options: IncidentsOptions): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const { since, until, provider, limit } = options
  const query = {
    from: timeOf('--since', since, -1),
    ...(until !== undefined && { to: timeOf('--until', until, -1) }),
    provider,
    limit,
  }
  const { body } = await gateway.call(`/admin/api/v1/incidents${queryOf(query)}`)
  const missing = isObject(body) ? text(body.missing) : undefined
  if (missing !== undefined) cli.note(`Only what this gateway has in memory is listed. ${missing}`)
  const rows = list(isObject(body) ? body.data : undefined).filter(isObject)
  const listing = { headings: HEADINGS, rows, cells, none: 'There were no incidents.' }
  answerList(cli, options, listing, (data) => ({ ...(isObject(body) ? body : {}), data }))
}

export const define: DefineVerb = (command, cli) => {
  withListing(command)
    .option('--since <time>', 'beginning: 7d, yesterday or 2026-11-01', '7d')
    .option('--until <time>', 'end, such as today; default: now')
    .option('--provider <id>', 'only outages of this provider; may be repeated', repeated)
    .option('--limit <count>', 'at most this many', '50')
    .addHelpText('after', '\nExample: headgate incidents --provider groq --since yesterday')
    .action((options: IncidentsOptions) => listIncidents(cli(), options))
}
