/** `headgate what-if`: the targets of all routes, and of models that are requested directly, as if providers were down. */
import type { Shown } from '../../records/entities/shown.ts'
import { WHAT_IF } from '../../server/answers/routes.ts'
import { timeOf } from '../arguments.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { gatewayOf } from '../gateway-client.ts'
import { answerList, type ListingOptions, withListing } from '../listing.ts'
import { type Cell, moneyText } from '../table.ts'

type WhatIfOptions = ListingOptions & { readonly since: string }
type WhatIfAnswer = Shown<typeof WHAT_IF>
type WhatIfRow = WhatIfAnswer['data'][number]

const HEADINGS = ['MODEL', 'NAMED BY', 'REQUESTS', 'NOW', 'THEN', 'EXTRA/HOUR', 'LOSES']

const HOUR = 3_600_000
/** Hours whose requests the gateway counts for an answer, at most. */
const MOST_HOURS = 168

const hoursSince = (since: string): number => {
  // A moment has passed since the time was computed: 24h is no 25th hour.
  const hours = Math.ceil((Date.now() - Date.parse(timeOf('--since', since, -1))) / HOUR - 0.01)
  if (hours > MOST_HOURS) throw new CliError(EXIT.usage, `--since ${since} is too long ago (limit 7 days).`)
  return Math.max(1, hours)
}

const targetText = (target: WhatIfRow['answers']): string | null => target && `${target.provider}/${target.model}`

const sourceOf = ({ direct, team }: WhatIfRow): string =>
  direct ? 'clients' : team === null ? 'a route' : `a route of ${team.name ?? team.id}`

const extraCell = ({ affected, extra_per_hour: extra }: WhatIfRow): Cell => {
  if (affected === 0) return '–'
  return extra === null ? 'unknown' : { text: moneyText(extra), sort: Number(extra) }
}

const cells = (row: WhatIfRow, { paint }: Cli): readonly Cell[] => [
  row.name,
  sourceOf(row),
  row.requests.toLocaleString('en'),
  targetText(row.before) ?? 'no target',
  targetText(row.answers) ?? { text: 'no target', paint: paint.bad },
  extraCell(row),
  row.loses.join(', ') || '–',
]

/** The extra cost of all substitutes together; empty: no request would have one. */
const extraText = ({ data, hours }: WhatIfAnswer): string => {
  const moved = data.filter(({ affected, answers }) => affected > 0 && answers !== null)
  if (moved.length === 0) return ''
  const known = moved.flatMap(({ extra_per_hour: extra }) => (extra === null ? [] : [Number(extra)]))
  const basis = `by the requests of ${hours <= 1 ? 'the last hour' : `the last ${Math.round(hours)} hours`}`
  const unknown = moved.length - known.length
  if (known.length === 0) return ` The extra cost is unknown, ${basis}.`
  const rest = unknown === 0 ? '' : `, and that of ${unknown} is unknown`
  return ` Extra cost: ${moneyText(known.reduce((sum, extra) => sum + extra, 0))} an hour, ${basis}${rest}.`
}

const whatIf = async (cli: Cli, down: readonly string[], options: WhatIfOptions): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const body = { assume: { down }, hours: hoursSince(options.since) }
  const found = await gateway.read(WHAT_IF, '/admin/api/v1/what-if', { method: 'POST', body })
  const { data: rows } = found
  const lost = rows.filter(({ loses_target: isLost }) => isLost)
  if (lost.length > 0) cli.exit(EXIT.failed)
  answerList(cli, options, { headings: HEADINGS, rows, cells: (row) => cells(row, cli) }, (data) => ({
    ...found,
    down,
    data,
  }))
  const requests = lost.reduce((sum, row) => sum + row.requests, 0)
  const named = requests > 0 ? `; ${requests.toLocaleString('en')} requests since ${found.from} named them` : ''
  const kept =
    lost.length === 0
      ? `All ${rows.length} still have a target without ${down.join(', ')}.`
      : `${lost.length} of ${rows.length} have no target without ${down.join(', ')}${named}.`
  cli.note(`${kept}${extraText(found)}`)
}

export const define: DefineVerb = (command, cli) => {
  withListing(command)
    .argument('<providers...>', 'IDs of the providers that are assumed to be down')
    .option('--since <time>', 'beginning of the requests that are counted, at most 7 days ago: 7d, yesterday', '24h')
    .addHelpText(
      'after',
      '\nEXTRA/HOUR: what the first substitutes would cost more for the requests that these providers answered. Nothing changes, and nothing is sent to a provider. Exits with 1 if a route or a requested model has no target then.\n\nExample: headgate what-if groq anthropic',
    )
    .action((providers: string[], options: WhatIfOptions) => whatIf(cli(), providers, options))
}
