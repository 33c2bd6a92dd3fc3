/** `headgate status`: health, providers, the ledger and budgets near their end of a running gateway. */
import { setTimeout as pause } from 'node:timers/promises'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { resetDay } from '../budget-text.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { type GatewayClient, gatewayOf, RefusedError } from '../gateway-client.ts'
import { providerTable } from '../provider-rows.ts'
import { durationText, moneyText } from '../table.ts'

/** ms between two readings of `--watch`. */
const INTERVAL = 2_000

/** A part that needs a permission which this caller may not have. A token that is not accepted is an error. */
const optional = async (
  gateway: GatewayClient,
  path: string,
): Promise<{ readonly body: Json; readonly problem?: string }> => {
  try {
    return await gateway.call(path)
  } catch (error) {
    if (!(error instanceof RefusedError) || error.code !== EXIT.notPermitted) throw error
    if (error.status === 401 && gateway.token !== undefined) throw error
    return { body: null, problem: error.message }
  }
}

const healthLine = (health: JsonObject, url: string, { paint }: Cli): string => {
  const status = text(health.status) ?? 'unknown'
  const shown = status === 'ok' ? paint.good(status) : paint.bad(status)
  const uptime = durationText(number(health.uptime_ms) ?? 0)
  return `${paint.bold(`headgate ${text(health.version) ?? ''}`)}  ${shown}  up ${uptime}  ${url}  client keys ${health.auth === 'keys' ? 'required' : 'not required'}`
}

/** The share of a budget from which it is shown. */
const NEAR = 0.8

/** Budgets of which most is spent, the fullest first. Those with several counters have no single figure. */
const nearTheirEnd = (body: Json): readonly JsonObject[] => {
  const share = (budget: JsonObject): number => {
    const remaining = text(object(budget.now)?.remaining)
    const amount = Number(text(budget.amount))
    if (remaining === undefined) return 0
    return amount === 0 ? 1 : 1 - Number(remaining) / amount
  }
  return (isObject(body) ? list(body.data) : [])
    .filter(isObject)
    .filter((budget) => share(budget) >= NEAR)
    .toSorted((a, b) => share(b) - share(a))
}

const budgetLine = (budget: JsonObject, { paint }: Cli): string => {
  const now = object(budget.now)
  const day = resetDay(budget)
  const line = `budget ${text(budget.name)}: ${moneyText(text(now?.remaining))} of ${moneyText(text(budget.amount))} left${day === null ? '' : `, resets ${day}`}`
  return Number(text(now?.remaining)) > 0 ? paint.warn(line) : paint.bad(line)
}

/** ms of lag below which the ledger is up to date. */
const LAG = 2_000

const ledgerLines = (ledger: JsonObject | null, { paint }: Cli): readonly string[] => {
  const [lag, dropped] = [number(ledger?.lag_ms) ?? 0, number(ledger?.dropped) ?? 0]
  return [
    ...(lag > LAG ? [paint.warn(`ledger: ${durationText(lag)} of usage are not stored yet`)] : []),
    ...(dropped > 0 ? [paint.bad(`ledger: ${dropped} records could not be written`)] : []),
  ]
}

const showOnce = async (cli: Cli, gateway: GatewayClient): Promise<void> => {
  // 503 while draining, with the same body.
  const answer = await gateway.send('/health')
  const health = object(await answer.json())
  if (!health) throw new CliError(EXIT.failed, `${gateway.url} is not a Headgate: /health returned no object.`)
  const providers = await optional(gateway, '/providers/status')
  const rows = isObject(providers.body) ? list(providers.body.data) : null
  cli.exit(health.status === 'ok' ? EXIT.done : EXIT.failed)
  const system = await optional(gateway, '/admin/api/v1/system')
  const listed = await optional(gateway, '/admin/api/v1/budgets?limit=200')
  const budgets = nearTheirEnd(listed.body)
  const ledger = (isObject(system.body) && object(system.body.ledger)) || null
  cli.answer({ url: gateway.url, health, providers: rows, budgets: [...budgets], ledger }, () => [
    healthLine(health, gateway.url, cli),
    ...list(health.problems).map((problem) =>
      cli.paint.bad(`${object(problem)?.component}: ${object(problem)?.reason}`),
    ),
    ...ledgerLines(ledger, cli),
    ...budgets.map((budget) => budgetLine(budget, cli)),
    ...(listed.problem === undefined ? [] : [`Budgets: ${listed.problem}`]),
    ...(rows ? ['', ...providerTable(rows.filter(isObject), cli)] : [`Providers: ${providers.problem}`]),
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
