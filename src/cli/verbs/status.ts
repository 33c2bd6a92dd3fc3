/** `headgate status`: health, providers, the ledger and budgets near their end of a running gateway. */
import { setTimeout as pause } from 'node:timers/promises'
import type { z } from 'zod'
import type { Shown } from '../../records/entities/shown.ts'
import { LISTED_BUDGET } from '../../server/answers/budgets.ts'
import { listOf } from '../../server/answers/fields.ts'
import { HEALTH, PROVIDERS_STATUS } from '../../server/answers/health.ts'
import { SYSTEM } from '../../server/answers/system.ts'
import { readAnswer } from '../answer.ts'
import { resetDay } from '../budget-text.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { bodyOf, errorOf, type GatewayClient, gatewayOf, RefusedError } from '../gateway-client.ts'
import { providerTable } from '../provider-rows.ts'
import { durationText, moneyText } from '../table.ts'

/** ms between two readings of `--watch`. */
const INTERVAL = 2_000

type Health = Shown<typeof HEALTH>
type ListedBudget = Shown<typeof LISTED_BUDGET>

/** A part that needs a permission which this caller may not have. A token that is not accepted is an error. */
const optional = async <Schema extends z.ZodType>(
  gateway: GatewayClient,
  schema: Schema,
  path: string,
): Promise<{ readonly value: Shown<Schema> } | { readonly problem: string }> => {
  try {
    return { value: await gateway.read(schema, path) }
  } catch (error) {
    if (!(error instanceof RefusedError) || error.code !== EXIT.notPermitted) throw error
    if (error.status === 401 && gateway.token !== undefined) throw error
    return { problem: error.message }
  }
}

const healthLine = ({ status, uptime_ms, version, auth }: Health, url: string, { paint }: Cli): string => {
  const shown = status === 'ok' ? paint.good(status) : paint.bad(status)
  return `${paint.bold(`headgate ${version}`)}  ${shown}  up ${durationText(uptime_ms)}  ${url}  client keys ${auth === 'keys' ? 'required' : 'not required'}`
}

/** The share of a budget from which it is shown. */
const NEAR = 0.8

/** Budgets of which most is spent, the fullest first. Those with several counters have no single figure. */
const nearTheirEnd = (budgets: readonly ListedBudget[]): readonly ListedBudget[] => {
  const share = ({ amount, now: { remaining } }: ListedBudget): number => {
    if (remaining === null) return 0
    return Number(amount) === 0 ? 1 : 1 - Number(remaining) / Number(amount)
  }
  return budgets.filter((budget) => share(budget) >= NEAR).toSorted((a, b) => share(b) - share(a))
}

const budgetLine = (budget: ListedBudget, { paint }: Cli): string => {
  const { name, amount, now } = budget
  const day = resetDay(budget)
  const line = `budget ${name}: ${moneyText(now.remaining)} of ${moneyText(amount)} left${day === null ? '' : `, resets ${day}`}`
  return Number(now.remaining) > 0 ? paint.warn(line) : paint.bad(line)
}

/** ms of lag below which the ledger is up to date. */
const LAG = 2_000

const ledgerLines = (ledger: Shown<typeof SYSTEM>['ledger'] | null, { paint }: Cli): readonly string[] => {
  const { lag_ms: lag = 0, dropped = 0 } = ledger ?? {}
  return [
    ...(lag > LAG ? [paint.warn(`ledger: ${durationText(lag)} of usage are not stored yet`)] : []),
    ...(dropped > 0 ? [paint.bad(`ledger: ${dropped} records could not be written`)] : []),
  ]
}

const showOnce = async (cli: Cli, gateway: GatewayClient): Promise<void> => {
  // 503 while draining, with the same body.
  const response = await gateway.send('/health')
  const body = await bodyOf(response)
  const answer = readAnswer(HEALTH, body)
  if (!answer.ok && response.status >= 400) throw errorOf(response, body)
  if (!answer.ok)
    throw new CliError(EXIT.failed, `${gateway.url} is not a Headgate: the answer to /health: ${answer.problem}.`)
  const health = answer.value
  const providers = await optional(gateway, PROVIDERS_STATUS, '/providers/status')
  const rows = 'value' in providers ? providers.value.data : null
  cli.exit(health.status === 'ok' ? EXIT.done : EXIT.failed)
  const system = await optional(gateway, SYSTEM, '/admin/api/v1/system')
  const listed = await optional(gateway, listOf(LISTED_BUDGET), '/admin/api/v1/budgets?limit=200')
  const budgets = nearTheirEnd('value' in listed ? listed.value.data : [])
  const ledger = 'value' in system ? system.value.ledger : null
  cli.answer({ url: gateway.url, health, providers: rows, budgets, ledger }, () => [
    healthLine(health, gateway.url, cli),
    ...(health.problems ?? []).map(({ component, reason }) => cli.paint.bad(`${component}: ${reason}`)),
    ...ledgerLines(ledger, cli),
    ...budgets.map((budget) => budgetLine(budget, cli)),
    ...('problem' in listed ? [`Budgets: ${listed.problem}`] : []),
    ...('problem' in providers
      ? [`Providers: ${providers.problem}`]
      : ['', ...providerTable(providers.value.data, cli)]),
  ])
}

export const define: DefineVerb = (command, cli) => {
  command
    .option('--watch', 'read again every 2 s until interrupted')
    .addHelpText('after', '\nExits with 1 if the gateway is not ok.\n\nExample: headgate status --watch')
    .action(async ({ watch }: { watch?: true }) => {
      const gateway = await gatewayOf(cli())
      await showOnce(cli(), gateway)
      while (watch) {
        await pause(INTERVAL)
        if (cli().host.stdout.isTTY && !cli().options.json) cli().print('\u001b[H\u001b[2J')
        await showOnce(cli(), gateway)
      }
    })
}
