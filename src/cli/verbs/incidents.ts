/** `headgate incidents`: the outages of providers, one line each. */
import type { Shown } from '../../records/entities/shown.ts'
import { type INCIDENT, INCIDENTS_PAGE } from '../../server/answers/incidents.ts'
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

const cells = (incident: Shown<typeof INCIDENT>): readonly Cell[] => [
  incident.providers.join(', '),
  secondOf(incident.begin) ?? '',
  secondOf(incident.end) ?? 'lasts',
  { text: durationText(incident.seconds * 1_000), sort: incident.seconds },
  incident.cause,
  String(incident.failures),
  String(incident.rerouted),
  String(incident.lost),
  incident.models.join(', '),
  incident.nodes.join(', '),
  incident.request ?? '–',
]

const listIncidents = async (cli: Cli, options: IncidentsOptions): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const { since, until, provider, limit } = options
  const query = {
    from: timeOf('--since', since, -1),
    ...(until !== undefined && { to: timeOf('--until', until, -1) }),
    provider,
    limit,
  }
  const page = await gateway.read(INCIDENTS_PAGE, `/admin/api/v1/incidents${queryOf(query)}`)
  if (page.missing !== null) cli.note(`Only what this gateway has in memory is listed. ${page.missing}`)
  const listing = { headings: HEADINGS, rows: page.data, cells, none: 'There were no incidents.' }
  answerList(cli, options, listing, (data) => ({ ...page, data }))
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
