/** `headgate usage`: what was used and what it cost, from the ledger of a running gateway. */
import { createWriteStream, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { gunzipSync } from 'node:zlib'
import type { Shown } from '../../records/entities/shown.ts'
import { RECONCILIATION, REPRICING, type USAGE_ENTRY } from '../../server/answers/usage.ts'
import { namesOf, queryOf, throughGateway } from '../accounts/record-store.ts'
import { choice, timeOf } from '../arguments.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { bodyOf, errorOf, gatewayOf } from '../gateway-client.ts'
import { answerList, type ListingOptions, withListing } from '../listing.ts'
import { type Cell, moneyText } from '../table.ts'
import { type ShownReport, USAGE, wholeReport } from '../usage-report.ts'

type RangeOptions = { readonly since: string; readonly until?: string }
type UsageOptions = RangeOptions &
  ListingOptions & { readonly by?: string; readonly bucket: string; readonly tz?: string; readonly cached?: true }

const range = ({ since, until, tz }: RangeOptions & { readonly tz?: string }) => ({
  from: timeOf('--since', since, -1, tz),
  ...(until !== undefined && { to: timeOf('--until', until, -1, tz) }),
})

type ReportRow = Shown<typeof USAGE_ENTRY>

const count = (value: number): string => value.toLocaleString('en')

/** Money whose order is that of the whole amount, not of the rounded one. */
const money = (value: string): Cell => ({ text: moneyText(value), sort: Number(value) })

/** A part of the input in percent; nothing without an input. */
const share = (part: number, input: number): Cell =>
  input === 0 ? '–' : { text: `${((100 * part) / input).toFixed(1)} %`, sort: part / input }

const figures = (row: ShownReport['total'], cached: boolean): readonly Cell[] => [
  count(row.requests),
  count(row.input),
  ...(cached ? [share(row.cache_read, row.input), share(row.cache_write, row.input)] : []),
  count(row.output),
  money(row.cost),
  money(row.saved),
  count(row.estimated),
  count(row.unpriced),
]

const headings = (cached: boolean): readonly string[] => [
  ...['REQUESTS', 'INPUT', ...(cached ? ['CACHED', 'WRITTEN'] : [])],
  ...['OUTPUT', 'COST', 'SAVED', 'ESTIMATED', 'UNPRICED'],
]

/** Names by ID. A name that several have, such as that of a deleted team, is followed by the ID. */
const distinctNames = (names: ShownReport['names']): ReadonlyMap<string, string> => {
  const entries = Object.entries(names)
  const owners = Map.groupBy(entries, ([, name]) => name)
  return new Map(entries.map(([id, name]) => [id, owners.get(name)?.length === 1 ? name : `${name} (${id})`]))
}

/** The rows with the names of their team and key beside the IDs. */
const named = (rows: readonly ReportRow[], names: ReadonlyMap<string, string>): readonly ReportRow[] =>
  rows.map((row) => ({
    ...row,
    ...(row.team !== undefined && { team_name: names.get(row.team ?? '') ?? null }),
    ...(row.key !== undefined && { key_name: names.get(row.key ?? '') ?? null }),
  }))

/** The dearest first, within each period. */
const byCost = (rows: readonly ReportRow[]): readonly ReportRow[] =>
  rows.toSorted((a, b) => {
    const [first, second] = [a.start ?? '', b.start ?? '']
    if (first !== second) return first < second ? -1 : 1
    return Number(b.cost) - Number(a.cost)
  })

const report = async (cli: Cli, options: UsageOptions): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const { by, bucket, tz, cached = false } = options
  const dimensions = by === undefined ? [] : by.split(',').map((name) => name.trim())
  const query = { ...range(options), ...(by !== undefined && { by: dimensions.join(',') }), bucket, tz }
  const whole = await wholeReport(cli, gateway, query)
  const names = distinctNames(whole.names)
  const rows = byCost(named(whole.data, names))
  const shown = (value: unknown): string => (typeof value === 'string' ? (names.get(value) ?? value) : '–')
  const hasStart = bucket !== 'none'
  const labels = [...(hasStart ? ['total'] : []), ...dimensions.map((_, at) => (at === 0 && !hasStart ? 'total' : ''))]
  answerList(
    cli,
    options,
    {
      headings: [...(hasStart ? ['START'] : []), ...dimensions.map((name) => name.toUpperCase()), ...headings(cached)],
      rows,
      cells: (row) => [
        ...(hasStart ? [shown(row.start).replace(/:00\.000Z$/, 'Z')] : []),
        ...dimensions.map((name) => shown(Object.getOwnPropertyDescriptor(row, name)?.value)),
        ...figures(row, cached),
      ],
      total: [...labels, ...figures(whole.total, cached)],
    },
    (data) => ({ ...whole, data }),
  )
}

type ExportOptions = RangeOptions & { readonly format: string; readonly level: string; readonly output?: string }

/** Time limit of an export, in ms. */
const EXPORT_TIMEOUT = 60 * 60_000

const exportRows = async (cli: Cli, options: ExportOptions): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const { format, level, output } = options
  const response = await gateway.send(`${USAGE}/export${queryOf({ ...range(options), format, level })}`, {
    headers: { accept: '*/*', ...(gateway.token && { authorization: `Bearer ${gateway.token}` }) },
    timeout: EXPORT_TIMEOUT,
  })
  if (!response.ok || !response.body) throw errorOf(response, await bodyOf(response))
  if (output === undefined) {
    const decoder = new TextDecoder()
    for await (const chunk of response.body) cli.host.stdout.write(decoder.decode(chunk, { stream: true }))
    return
  }
  await pipeline(Readable.fromWeb(response.body), createWriteStream(resolve(cli.host.folder, output), { mode: 0o600 }))
  cli.answer({ file: output }, () => [`written to ${output}`])
}

type ReconcileOptions = ListingOptions & { readonly apply?: true }

const reconcile = async (cli: Cli, provider: string, file: string, options: ReconcileOptions): Promise<void> => {
  let invoice: string
  try {
    const bytes = readFileSync(resolve(cli.host.folder, file))
    invoice = (file.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString()
  } catch {
    throw new CliError(EXIT.usage, `${file} cannot be read.`)
  }
  const gateway = await gatewayOf(cli)
  const body = { provider, invoice, apply: options.apply === true }
  const whole = await gateway.read(RECONCILIATION, `${USAGE}/reconcile`, { method: 'POST', body })
  answerList(
    cli,
    options,
    {
      headings: ['DAY', 'MODEL', 'OURS', 'ADJUSTED', 'THEIRS', 'DIFFERENCE', 'ESTIMATED'],
      rows: whole.data,
      cells: (row) => [
        row.day,
        row.model ?? '',
        money(row.ours),
        money(row.adjusted),
        money(row.theirs),
        money(row.difference),
        String(row.estimated),
      ],
    },
    (data) => ({ ...whole, data }),
  )
}

type RepriceOptions = ListingOptions & {
  readonly from: string
  readonly to?: string
  readonly provider?: string
  readonly dryRun?: true
}

const reprice = async (cli: Cli, options: RepriceOptions): Promise<void> => {
  const { from, to, provider, dryRun } = options
  const gateway = await gatewayOf(cli)
  const body = {
    from: timeOf('--from', from, -1),
    ...(to !== undefined && { to: timeOf('--to', to, -1) }),
    ...(provider !== undefined && { provider }),
    dry_run: dryRun === true,
  }
  const repriced = await gateway.read(REPRICING, `${USAGE}/reprice`, { method: 'POST', body, timeout: EXPORT_TIMEOUT })
  const names = await namesOf(throughGateway(gateway), 'key')
  answerList(
    cli,
    options,
    {
      headings: ['DAY', 'KEY', 'MODEL', 'ATTEMPTS', 'COST', 'ADJUSTED', 'NOW', 'DIFFERENCE'],
      rows: repriced.data,
      cells: (row) => [
        row.day,
        names.get(row.key ?? '') ?? row.key ?? '–',
        `${row.provider}/${row.model}`,
        count(row.attempts),
        money(row.cost),
        money(row.adjusted),
        money(row.now),
        money(row.difference),
      ],
    },
    (data) => ({ ...repriced, data }),
  )
  if (!cli.options.json)
    cli.print(
      `${count(repriced.applied)} adjustments written, ${count(repriced.skipped)} attempts without a comparable price`,
    )
}

export const define: DefineVerb = (command, cli) => {
  withListing(command)
    .option('--by <dimensions>', 'comma list of team, key, model, provider, tag, style, route, client, session', 'team')
    .option('--since <time>', 'beginning: 7d, 24h, yesterday, "this month" or 2026-11-01', '7d')
    .option('--until <time>', 'end, such as today; default: now')
    .addOption(choice('--bucket <size>', 'size of the periods', ['hour', 'day', 'none']).default('none'))
    .option('--tz <zone>', 'IANA time zone of days and dates; otherwise UTC')
    .option('--cached', 'also the parts of the input that were read from prompt caches and written to them')
    .addHelpText('after', '\nExample: headgate usage --by team,model --since 30d --bucket day')
    .action((options: UsageOptions) => report(cli(), options))
  command
    .command('export')
    .description('Write requests, attempts or days as CSV or JSON lines.')
    .option('--since <time>', 'beginning: 7d, 24h, yesterday, "this month" or 2026-11-01', '7d')
    .option('--until <time>', 'end, such as today; default: now')
    .addOption(choice('--format <name>', 'CSV or JSON lines', ['csv', 'jsonl']).default('csv'))
    .addOption(choice('--level <name>', 'content of a row', ['request', 'attempt', 'day']).default('request'))
    .option('-o, --output <file>', 'file instead of stdout')
    .addHelpText('after', '\nExample: headgate usage export --since 30d --level day -o usage.csv')
    .action((options: ExportOptions) => exportRows(cli(), options))
  withListing(command.command('reconcile <provider> <file>'))
    .description("Compare the ledger with a provider's invoice or cost export.")
    .option('--apply', 'write the differences to the ledger as adjustments')
    .addHelpText(
      'after',
      `
Formats: CSV with the columns day, model and amount (dollars); a cost and usage export of AWS, for Bedrock; the JSON of
the cost API of OpenAI, Anthropic or OpenRouter. A file whose name ends in .gz is decompressed.

Example: headgate usage reconcile openai invoice.csv
Example: headgate usage reconcile bedrock data-export-00001.csv.gz`,
    )
    .action((provider: string, file: string, options: ReconcileOptions) => reconcile(cli(), provider, file, options))
  withListing(command.command('reprice'))
    .description('Compare costs in the ledger with the current prices, and write the differences as adjustments.')
    .requiredOption('--from <time>', 'beginning: 7d, 24h, yesterday, "this month" or 2026-11-01')
    .option('--to <time>', 'end, such as today; default: now')
    .option('--provider <id>', 'only attempts at this provider')
    .option('--dry-run', 'write nothing')
    .addHelpText('after', '\nExample: headgate usage reprice --from 2026-11-01 --dry-run')
    .action((options: RepriceOptions) => reprice(cli(), options))
}
