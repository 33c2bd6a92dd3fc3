/** `headgate providers`: the configured providers with their state, the supported ones, and a test call. */

import { loadProviders } from '../../config/catalogue/load-providers.ts'
import type { Provider } from '../../core/provider.ts'
import { PROVIDERS_STATUS } from '../../server/answers/health.ts'
import { CIRCUIT_ACTION, CREDENTIAL_DECISION } from '../../server/answers/providers.ts'
import { durationMs } from '../arguments.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { findGateway, gatewayOf } from '../gateway-client.ts'
import { answerList, type ListingOptions, withListing } from '../listing.ts'
import { readLocal, validConfig } from '../local.ts'
import { checkKeys, type KeyCheck } from '../provider-check.ts'
import { PROVIDER_HEADINGS, providerCells, providerReasons } from '../provider-rows.ts'
import { type Cell, table } from '../table.ts'

const variableOf = ({ name, keyless, keylessVariables }: Provider): string => {
  const prefix = name.replaceAll('-', '_').toUpperCase()
  if (keyless) return `${prefix}_BASE_URL`
  return [`${prefix}_API_KEY`, ...(keylessVariables ?? []).map((suffix) => `${prefix}_${suffix}`)].join(' or ')
}

const listSupported = async (cli: Cli, options: ListingOptions): Promise<void> => {
  const rows = [...(await loadProviders()).values()]
    .filter(({ builtin, generic }) => !builtin && !generic)
    .map((one) => ({ id: one.name, title: one.title, variable: variableOf(one) }))
  answerList(cli, options, {
    headings: ['PROVIDER', 'NAME', 'SET'],
    rows,
    cells: ({ id, title, variable }) => [id, title, variable],
  })
}

const listConfigured = async (cli: Cli, options: ListingOptions): Promise<void> => {
  const local = await readLocal(cli.host)
  const gateway = await findGateway(cli, local)
  if (gateway) {
    const whole = await gateway.read(PROVIDERS_STATUS, '/providers/status')
    const rows = whole.data
    const notes = providerReasons(rows, cli)
    const listing = {
      headings: PROVIDER_HEADINGS,
      rows,
      cells: (row: (typeof rows)[number]) => providerCells(row, cli),
      notes,
    }
    return answerList(cli, options, listing, (data) => ({ ...whole, data }))
  }
  const { config } = validConfig(local)
  cli.note('No gateway is running: this is the configuration of this folder.')
  const rows = config.instances.map(({ id, provider, keys, models }) => ({
    id,
    kind: provider.name,
    keys: keys.filter(({ secret }) => secret !== null).length,
    models,
  }))
  answerList(cli, options, {
    headings: ['PROVIDER', 'KIND', 'KEYS', 'MODELS'],
    rows,
    cells: ({ id, kind, keys, models }) => [id, kind, String(keys), models.join(', ') || 'provider default'],
  })
}

const checkRow = ({ provider, key, ok, detail }: KeyCheck, { paint }: Cli): readonly Cell[] => [
  provider,
  key,
  ok === null
    ? { text: 'skipped', paint: paint.dim }
    : ok
      ? { text: 'ok', paint: paint.good }
      : { text: 'failed', paint: paint.bad },
  detail,
]

const testProvider = async (cli: Cli, id: string): Promise<void> => {
  const { config } = validConfig(await readLocal(cli.host))
  const instances = config.instances.filter((instance) => instance.id === id)
  if (instances.length === 0) {
    const names = config.instances.map((instance) => instance.id).join(', ')
    throw new CliError(EXIT.conflict, `No provider "${id}" is configured here. Configured: ${names || 'none'}.`)
  }
  const checks = await checkKeys({ instances, network: config.network }, cli.host)
  if (checks.some(({ ok }) => ok === false)) cli.exit(EXIT.failed)
  cli.answer({ object: 'list', data: checks }, () =>
    table(
      ['PROVIDER', 'KEY', 'RESULT', 'DETAIL'],
      checks.map((check) => checkRow(check, cli)),
      cli,
    ),
  )
}

const switchKey = async (cli: Cli, path: string, body: object): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const call = { method: 'POST', body }
  cli.answer(await gateway.read(CREDENTIAL_DECISION, `/admin/api/v1/providers/${path}`, call), () => [`done: ${path}`])
}

type RestOptions = { readonly for?: string; readonly reason?: string }

const rest = (cli: Cli, id: string, { for: time, reason }: RestOptions): Promise<void> => {
  const ms = time === undefined ? undefined : durationMs(time)
  if (time !== undefined && ms === undefined)
    throw new CliError(EXIT.usage, '--for needs a duration such as 30s or 10m.')
  return setCircuit(cli, id, {
    action: 'open',
    ...(ms !== undefined && { seconds: Math.ceil(ms / 1_000) }),
    ...(reason !== undefined && { reason }),
  })
}

const setCircuit = async (cli: Cli, id: string, body: object): Promise<void> => {
  const path = `/admin/api/v1/providers/${encodeURIComponent(id)}/circuit`
  const answer = await (await gatewayOf(cli)).read(CIRCUIT_ACTION, path, { method: 'POST', body })
  const { resting, changed } = answer
  cli.answer(answer, () => [resting ? `${id} rests until ${resting.until}` : `${id}: ${changed} circuits changed`])
}

type DisableOptions = { readonly until?: string; readonly reason: string }

export const define: DefineVerb = (command, cli) => {
  withListing(command)
    .option('--all', 'list all supported providers and the variables that configure them')
    .addHelpText('after', '\nExample: headgate providers test openai')
    .action(({ all, ...options }: ListingOptions & { all?: true }) =>
      all ? listSupported(cli(), options) : listConfigured(cli(), options),
    )
  command
    .command('test <id>')
    .description("Fetch the provider's model list with each of its keys, which is free of charge.")
    .addHelpText('after', '\nExample: headgate providers test openai')
    .action((id: string) => testProvider(cli(), id))
  command
    .command('rest <id>')
    .description('Send no requests to a provider for a time, in every process and after a restart.')
    .option('--for <duration>', 'such as 10m; otherwise 10 minutes')
    .option('--reason <text>', 'reason, shown in its status and in the audit log')
    .addHelpText('after', '\nExample: headgate providers rest openai --for 30m --reason "maintenance"')
    .action((id: string, options: RestOptions) => rest(cli(), id, options))
  command
    .command('resume <id>')
    .description('End the rest of a provider, and close its circuits.')
    .addHelpText('after', '\nExample: headgate providers resume openai')
    .action((id: string) => setCircuit(cli(), id, { action: 'close' }))
  command
    .command('probe <id>')
    .description('Let the next request probe the open circuits of a provider.')
    .addHelpText('after', '\nExample: headgate providers probe openai')
    .action((id: string) => setCircuit(cli(), id, { action: 'probe' }))
  command
    .command('disable <id> <key>')
    .description('Stop using a provider key. The key ID is shown by headgate status --json.')
    .requiredOption('--reason <text>', 'reason, for the audit log')
    .option('--until <time>', 'end, ISO 8601; otherwise until it is enabled')
    .addHelpText('after', '\nExample: headgate providers disable openai a1f3 --reason "leaked"')
    .action((id: string, key: string, { reason, until }: DisableOptions) =>
      switchKey(cli(), `${encodeURIComponent(id)}/keys/${encodeURIComponent(key)}/disable`, {
        reason,
        ...(until && { until }),
      }),
    )
  command
    .command('enable <id> <key>')
    .description('Use a disabled or resting provider key again.')
    .addHelpText('after', '\nExample: headgate providers enable openai a1f3')
    .action((id: string, key: string) =>
      switchKey(cli(), `${encodeURIComponent(id)}/keys/${encodeURIComponent(key)}/enable`, {}),
    )
}
