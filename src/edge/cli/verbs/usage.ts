/** `headgate usage`: what was used and what it cost, from the ledger of a running gateway. */
import { createWriteStream, readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { gunzipSync } from 'node:zlib'
import { isObject, type JsonObject, list, number, object, text } from '../../../core/json.ts'
import { namesOf, queryOf, throughGateway } from '../accounts/record-store.ts'
import { timeOf } from '../arguments.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { bodyOf, errorOf, gatewayOf } from '../gateway-client.ts'
import { moneyText, table } from '../table.ts'

const API = '/admin/api/v1/usage'

type RangeOptions = { readonly since: string; readonly until?: string }
type UsageOptions = RangeOptions & { readonly by?: string; readonly bucket: string; readonly tz?: string }

const range = ({ since, until }: RangeOptions) => ({
  from: timeOf('--since', since, -1),
  ...(until !== undefined && { to: timeOf('--until', until, -1) }),
})

const count = (value: unknown): string => (typeof value === 'number' ? value.toLocaleString('en') : '–')

const figures = (row: JsonObject): readonly string[] => [
  count(row.requests),
  count(row.input),
  count(row.output),
  moneyText(text(row.cost)),
  moneyText(text(row.saved)),
  count(row.estimated),
  count(row.unpriced),
]

/** Names by ID. A name that several have, such as that of a deleted team, is followed by the ID. */
const distinctNames = (names: { readonly [id: string]: unknown }): ReadonlyMap<string, string> => {
  const entries = Object.entries(names).map(([id, name]) => [id, text(name) ?? id] as const)
  const owners = Map.groupBy(entries, ([, name]) => name)
  return new Map(entries.map(([id, name]) => [id, owners.get(name)?.length === 1 ? name : `${name} (${id})`]))
}

const report = async (cli: Cli, options: UsageOptions): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const { by, bucket, tz } = options
  const dimensions = by === undefined ? [] : by.split(',').map((name) => name.trim())
  const query = { ...range(options), ...(by !== undefined && { by: dimensions.join(',') }), bucket, tz }
  const { body } = await gateway.call(API + queryOf(query))
  const rows = (isObject(body) ? list(body.data) : []).filter(isObject)
  const names = isObject(body) ? distinctNames(object(body.names) ?? {}) : new Map<string, string>()
  const shown = (value: unknown): string => (typeof value === 'string' ? (names.get(value) ?? value) : '–')
  cli.answer(body, () => {
    const start = bucket === 'none' ? [] : ['START']
    const total = isObject(body) ? object(body.total) : undefined
    return table(
      [
        ...start,
        ...dimensions.map((name) => name.toUpperCase()),
        'REQUESTS',
        'INPUT',
        'OUTPUT',
        'COST',
        'SAVED',
        'ESTIMATED',
        'UNPRICED',
      ],
      [
        ...rows.map((row) => [
          ...(bucket === 'none' ? [] : [shown(row.start).replace(/:00\.000Z$/, 'Z')]),
          ...dimensions.map((name) => shown(row[name])),
          ...figures(row),
        ]),
        ...(total
          ? [
              [
                ...start.map(() => 'total'),
                ...dimensions.map((_, at) => (at === 0 && start.length === 0 ? 'total' : '')),
                ...figures(total),
              ],
            ]
          : []),
      ],
      cli.paint,
    )
  })
}

type ExportOptions = RangeOptions & { readonly format: string; readonly level: string; readonly output?: string }

/** Time limit of an export, in ms. */
const EXPORT_TIMEOUT = 60 * 60_000

const exportRows = async (cli: Cli, options: ExportOptions): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const { format, level, output } = options
  const response = await gateway.send(`${API}/export${queryOf({ ...range(options), format, level })}`, {
    headers: { accept: '*/*', ...(gateway.token && { authorization: `Bearer ${gateway.token}` }) },
    timeout: EXPORT_TIMEOUT,
  })
  if (!response.ok || !response.body) throw errorOf(response, await bodyOf(response))
  if (output === undefined) {
    const decoder = new TextDecoder()
    for await (const chunk of response.body) cli.host.stdout.write(decoder.decode(chunk, { stream: true }))
    return
  }
  await pipeline(Readable.fromWeb(response.body), createWriteStream(output, { mode: 0o600 }))
  cli.answer({ file: output }, () => [`written to ${output}`])
}

const reconcile = async (cli: Cli, provider: string, file: string, apply: boolean): Promise<void> => {
  let invoice: string
  try {
    const bytes = readFileSync(file)
    invoice = (file.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString()
  } catch {
    throw new CliError(EXIT.usage, `${file} cannot be read.`)
  }
  const gateway = await gatewayOf(cli)
  const { body } = await gateway.call(`${API}/reconcile`, { method: 'POST', body: { provider, invoice, apply } })
  const rows = (isObject(body) ? list(body.data) : []).filter(isObject)
  cli.answer(body, () =>
    table(
      ['DAY', 'MODEL', 'OURS', 'ADJUSTED', 'THEIRS', 'DIFFERENCE', 'ESTIMATED'],
      rows.map((row) => [
        text(row.day) ?? '',
        text(row.model) ?? '',
        moneyText(text(row.ours)),
        moneyText(text(row.adjusted)),
        moneyText(text(row.theirs)),
        moneyText(text(row.difference)),
        String(number(row.estimated) ?? text(row.estimated) ?? '–'),
      ]),
      cli.paint,
    ),
  )
}

type RepriceOptions = {
  readonly from: string
  readonly to?: string
  readonly provider?: string
  readonly dryRun?: true
}

const reprice = async (cli: Cli, { from, to, provider, dryRun }: RepriceOptions): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const body = {
    from: timeOf('--from', from, -1),
    ...(to !== undefined && { to: timeOf('--to', to, -1) }),
    ...(provider !== undefined && { provider }),
    dry_run: dryRun === true,
  }
  const answer = await gateway.call(`${API}/reprice`, { method: 'POST', body, timeout: EXPORT_TIMEOUT })
  const report = object(answer.body)
  const rows = list(report?.data).filter(isObject)
  const names = cli.options.json ? new Map<string, string>() : await namesOf(throughGateway(gateway), 'key')
  cli.answer(answer.body, () => [
    ...table(
      ['DAY', 'KEY', 'MODEL', 'ATTEMPTS', 'COST', 'ADJUSTED', 'NOW', 'DIFFERENCE'],
      rows.map((row) => [
        text(row.day) ?? '',
        names.get(text(row.key) ?? '') ?? text(row.key) ?? '–',
        `${text(row.provider) ?? ''}/${text(row.model) ?? ''}`,
        count(row.attempts),
        moneyText(text(row.cost)),
        moneyText(text(row.adjusted)),
        moneyText(text(row.now)),
        moneyText(text(row.difference)),
      ]),
      cli.paint,
    ),
    `${count(report?.applied)} adjustments written, ${count(report?.skipped)} attempts without a comparable price`,
  ])
}

export const define: DefineVerb = (command, cli) => {
  command
    .option('--by <dimensions>', 'comma list of team, key, model, provider, tag, style, route, client', 'team')
    .option('--since <time>', 'beginning: 7d, 24h, or 2026-11-01', '7d')
    .option('--until <time>', 'end; default: now')
    .option('--bucket <size>', 'hour, day or none', 'none')
    .option('--tz <zone>', 'IANA time zone of days')
    .addHelpText('after', '\nExample: headgate usage --by team,model --since 30d --bucket day')
    .action((options: UsageOptions) => report(cli(), options))
  command
    .command('export')
    .description('Write requests, attempts or days as CSV or JSON lines.')
    .option('--since <time>', 'beginning: 7d, 24h, or 2026-11-01', '7d')
    .option('--until <time>', 'end; default: now')
    .option('--format <name>', 'csv or jsonl', 'csv')
    .option('--level <name>', 'request, attempt or day', 'request')
    .option('-o, --output <file>', 'file instead of stdout')
    .addHelpText('after', '\nExample: headgate usage export --since 30d --level day -o usage.csv')
    .action((options: ExportOptions) => exportRows(cli(), options))
  command
    .command('reconcile <provider> <file>')
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
    .action((provider: string, file: string, { apply }: { apply?: true }) =>
      reconcile(cli(), provider, file, apply === true),
    )
  command
    .command('reprice')
    .description('Compare costs in the ledger with the current prices, and write the differences as adjustments.')
    .requiredOption('--from <time>', 'beginning: 7d, 24h, or 2026-11-01')
    .option('--to <time>', 'end; default: now')
    .option('--provider <id>', 'only attempts at this provider')
    .option('--dry-run', 'write nothing')
    .addHelpText('after', '\nExample: headgate usage reprice --from 2026-11-01 --dry-run')
    .action((options: RepriceOptions) => reprice(cli(), options))
}
