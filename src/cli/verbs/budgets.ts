/** `headgate budgets`: budgets, in a running gateway or in its files. Figures need a running gateway. */
import type { Command } from 'commander'
import type { JsonObject } from '../../core/json.ts'
import { type BUDGET_COUNTER, BUDGET_MEMBERS } from '../../records/entities/budget.ts'
import type { Shown } from '../../records/entities/shown.ts'
import { ADJUSTED_BUDGET, BUDGET_COUNTERS } from '../../server/answers/budgets.ts'
import { deletedAs } from '../../server/answers/fields.ts'
import {
  findRecord,
  idOf,
  listAll,
  namesOf,
  RECORDS,
  type RecordStore,
  type Stored,
  withRecords,
} from '../accounts/record-store.ts'
import { choice, globList, repeated, tagsOf, wholeNumber } from '../arguments.ts'
import { basisText, resetDay } from '../budget-text.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { answerList, type ListingOptions, withListing } from '../listing.ts'
import { type Cell, moneyText, table } from '../table.ts'

type OwnerCounter = Shown<typeof BUDGET_COUNTER>

const { period, per, countFrom, reserve, onOverrun } = BUDGET_MEMBERS

type BudgetOptions = {
  readonly amount: string
  readonly period: string
  readonly tz: string
  readonly team?: string
  readonly key?: string
  readonly models?: string
  readonly providers?: string
  readonly tag?: readonly string[]
  readonly per: string
  readonly hard?: true
  readonly soft?: true
  readonly strict?: true
  readonly countFrom: string
  readonly alert?: string
  readonly startDay?: string
  readonly reserve?: string
  readonly onOverrun?: string
}

const HEADINGS = ['NAME', 'PERIOD', 'SPENT', 'RESERVED', 'LIMIT', 'LEFT', 'STATE']

const stateOf = (budget: BudgetLine, left: number | null): string => {
  const { forecast } = budget
  const basis = forecast ? basisText(forecast) : null
  const outlook = forecast?.projected
    ? [`projected ${moneyText(forecast.projected)}${basis === null ? '' : ` ${basis}`}`]
    : []
  // With a counter for each owner there is no state of the whole.
  if (left === null) return outlook[0] ?? '–'
  if (left > 0) return ['ok', ...outlook].join(', ')
  const day = resetDay(budget)
  return `${budget.mode === 'soft' ? 'exceeded' : 'exhausted'}${day === null ? '' : ` until ${day}`}`
}

/** After the amount of a budget whose figures are those of all owners together. */
const EACH: { readonly [per: string]: string } = {
  team: ' each team',
  key: ' each key',
  user: ' each user',
  end_user: ' each end user',
  session: ' each session',
}

/** A budget, or one of its counters in its place. */
type BudgetLine = Pick<Stored<'budget'>, 'name' | 'amount' | 'period' | 'timezone' | 'mode' | 'forecast' | 'now'> &
  Partial<Pick<Stored<'budget'>, 'per'>>

const cells = (budget: BudgetLine, { paint }: Cli): readonly Cell[] => {
  const { name, period, timezone, now, per } = budget
  const amount = Number(budget.amount)
  const remaining = now?.remaining ?? null
  const left = remaining === null ? null : amount === 0 ? 0 : Math.max(0, Number(remaining) / amount)
  const style = left === null ? paint.dim : left <= 0 ? paint.bad : left < 0.1 ? paint.warn : paint.good
  return [
    name,
    `${period} ${timezone}`,
    moneyText(now?.spent),
    moneyText(now?.reserved),
    `${moneyText(budget.amount)}${EACH[per ?? ''] ?? ''}`,
    left === null ? '–' : `${Math.round(left * 100)} %`,
    { text: stateOf(budget, left), paint: style },
  ]
}

const print = (cli: Cli, budget: Stored<'budget'>): void =>
  cli.answer(budget, () => table(HEADINGS, [cells(budget, cli)], cli))

/** Counters that are shown of one budget, and in the list. */
const MAX_COUNTERS = 20
const LISTED_COUNTERS = 3

/** The counters of a budget that has several, the fullest first. */
const countersOf = async (
  store: RecordStore,
  { id, per }: Stored<'budget'>,
  limit: number,
): Promise<readonly OwnerCounter[] | null> => {
  if (per === 'all' || !store.gateway) return null
  return (await store.gateway.read(BUDGET_COUNTERS, `/admin/api/v1/budgets/${id}/counters?limit=${limit}`)).data
}

type NamesByKind = { readonly [per: string]: ReadonlyMap<string, string> }

const ownerNames = async (store: RecordStore): Promise<NamesByKind> => ({
  team: await namesOf(store, 'team'),
  key: await namesOf(store, 'key'),
})

/** Requests without a user share a counter. */
const ownerOf = ({ of: owner }: OwnerCounter, per: string, names: NamesByKind): string =>
  names[per]?.get(owner) ?? (owner === '' ? 'without a user' : owner)

const counterLines = async (cli: Cli, store: RecordStore, budget: Stored<'budget'>): Promise<readonly string[]> => {
  const counters = cli.options.json ? null : await countersOf(store, budget, MAX_COUNTERS)
  if (counters === null || counters.length === 0) return []
  const { per } = budget
  const names = await ownerNames(store)
  const rows = counters.map((counter) => [
    ownerOf(counter, per, names),
    ...[counter.spent, counter.reserved, counter.remaining].map(moneyText),
  ])
  return ['', ...table([OWNERS[per] ?? '', 'SPENT', 'RESERVED', 'LEFT'], rows, cli)]
}

/** A line of the list: a budget, or one counter of a budget that has one for each owner. */
type BudgetRow = { readonly budget: Stored<'budget'>; readonly counter: OwnerCounter | null; readonly owner: string }

/** Budgets, each that is counted for each owner followed by its fullest counters: its amount is the limit of one of them. */
const rowsOf = async (store: RecordStore, budgets: readonly Stored<'budget'>[]): Promise<readonly BudgetRow[]> => {
  const found = await Promise.all(budgets.map((budget) => countersOf(store, budget, LISTED_COUNTERS)))
  const names = found.some((counters) => counters !== null && counters.length > 0) ? await ownerNames(store) : {}
  return budgets.flatMap((budget, at) => [
    { budget, counter: null, owner: '' },
    ...(found[at] ?? []).map((counter) => ({
      budget,
      counter,
      owner: ownerOf(counter, budget.per, names),
    })),
  ])
}

/** The budget with its listed counters, if it has one for each owner. */
const withCounters = (budget: Stored<'budget'>, rows: readonly BudgetRow[]): object => {
  const counters = rows.flatMap((row) =>
    row.budget === budget && row.counter !== null ? [{ ...row.counter, name: row.owner }] : [],
  )
  return budget.per === 'all' || counters.length === 0 ? budget : { ...budget, counters }
}

const rowCells = ({ budget, counter, owner }: BudgetRow, cli: Cli): readonly Cell[] => {
  if (counter === null) return cells(budget, cli)
  const { amount, period, timezone, name, mode, now } = budget
  return cells({ amount, period, timezone, mode, name: `${name}: ${owner}`, now: now && { ...now, ...counter } }, cli)
}

const OWNERS: { readonly [per: string]: string } = {
  team: 'TEAM',
  key: 'KEY',
  user: 'USER',
  end_user: 'END USER',
  session: 'SESSION',
}

const show = async (cli: Cli, store: RecordStore, name: string): Promise<void> => {
  const { id } = await findRecord(store, 'budget', name)
  const budget = await store.run(RECORDS.budget, { do: 'get', kind: 'budget', id })
  const counters = await counterLines(cli, store, budget)
  cli.answer(budget, () => [...table(HEADINGS, [cells(budget, cli)], cli), ...counters])
}

const alertsOf = (written: string | undefined): readonly number[] => {
  const alerts = (written ?? '')
    .split(',')
    .filter((one) => one.trim() !== '')
    .map(Number)
  if (alerts.every(Number.isFinite)) return alerts
  throw new CliError(EXIT.usage, '--alert needs percentages, such as --alert 80,100.')
}

const create = (cli: Cli, name: string, options: BudgetOptions): Promise<void> => {
  if (options.hard && options.soft) throw new CliError(EXIT.usage, 'A budget is --hard or --soft, not both.')
  return withRecords(cli, async (store) => {
    const { team, key, models, providers, tag } = options
    const body = {
      name,
      amount: options.amount,
      period: options.period,
      timezone: options.tz,
      appliesTo: {
        ...(team !== undefined && { teams: [await idOf(store, 'team', team)] }),
        ...(key !== undefined && { keys: [await idOf(store, 'key', key)] }),
        ...(models !== undefined && { models: globList(models) ?? null }),
        ...(providers !== undefined && { providers: globList(providers) ?? null }),
        ...(tag !== undefined && { tags: tagsOf(tag) }),
      },
      per: options.per,
      mode: options.soft ? 'soft' : 'hard',
      enforcement: options.strict ? 'strict' : 'fast',
      countFrom: options.countFrom,
      alerts: [...alertsOf(options.alert)],
      ...(options.startDay !== undefined && { startDay: wholeNumber('--start-day', options.startDay) ?? null }),
      ...(options.reserve !== undefined && { reserve: options.reserve }),
      ...(options.onOverrun !== undefined && { onOverrun: options.onOverrun }),
    }
    print(cli, await store.run(RECORDS.budget, { do: 'create', kind: 'budget', body }))
  })
}

type BudgetUpdate = {
  readonly amount?: string
  readonly soft?: true
  readonly hard?: true
  readonly alert?: string
}

const update = (cli: Cli, name: string, { amount, soft, hard, alert }: BudgetUpdate): Promise<void> => {
  const patch = {
    ...(amount !== undefined && { amount }),
    ...((soft || hard) && { mode: soft ? 'soft' : 'hard' }),
    ...(alert !== undefined && { alerts: [...alertsOf(alert)] }),
  }
  if (Object.keys(patch).length === 0 || (soft && hard))
    throw new CliError(EXIT.usage, 'Set one or more of --amount, --alert, and --soft or --hard.')
  return withRecords(cli, async (store) => {
    const id = await idOf(store, 'budget', name)
    print(cli, await store.run(RECORDS.budget, { do: 'patch', kind: 'budget', id, patch, rev: null }))
  })
}

/** Adjustments are rows of the ledger, which only a running gateway writes. */
const adjust = (cli: Cli, name: string, action: 'adjust' | 'reset', body: JsonObject): Promise<void> =>
  withRecords(cli, async (store: RecordStore) => {
    if (!store.gateway)
      throw new CliError(EXIT.unreachable, 'Adjustments need a running gateway, which owns the ledger.')
    const id = await idOf(store, 'budget', name)
    const path = `/admin/api/v1/budgets/${id}/${action}`
    const adjusted = await store.gateway.read(ADJUSTED_BUDGET, path, { method: 'POST', body })
    cli.answer(adjusted, () => [`${name}: ${action === 'adjust' ? `adjusted by ${body.amount} dollars` : 'reset'}`])
  })

const defineAdjustments = (command: Command, cli: () => Cli): void => {
  command
    .command('adjust <budget> <amount>')
    .description('Add an amount to what is spent, or take it away with a minus sign. The ledger keeps the adjustment.')
    .requiredOption('--reason <text>', 'reason, for the ledger and the audit log')
    .option('--of <id>', 'the counter, for a budget with one for each team, key or user')
    .addHelpText('after', '\nExample: headgate budgets adjust search-month --reason "refund of the provider" -- -25.00')
    .action((name: string, amount: string, { reason, of }: { reason: string; of?: string }) =>
      adjust(cli(), name, 'adjust', { amount, reason, ...(of !== undefined && { of }) }),
    )
  command
    .command('reset <budget>')
    .description('Set what is spent to 0, by an adjustment.')
    .requiredOption('--reason <text>', 'reason, for the ledger and the audit log')
    .option('--of <id>', 'the counter, for a budget with one for each team, key or user')
    .addHelpText('after', '\nExample: headgate budgets reset search-month --reason "load test"')
    .action((name: string, { reason, of }: { reason: string; of?: string }) =>
      adjust(cli(), name, 'reset', { reason, ...(of !== undefined && { of }) }),
    )
}

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate budgets list')
  withListing(command.command('list'))
    .description(
      'List budgets with what is spent and left, and what a running gateway projects for the end of the period.',
    )
    .addHelpText('after', '\nExample: headgate budgets list --sort left')
    .action((options: ListingOptions) =>
      withRecords(cli(), async (store) => {
        const budgets = await listAll(store, 'budget', store.gateway ? { forecast: true } : {})
        const rows = await rowsOf(store, budgets)
        answerList(cli(), options, { headings: HEADINGS, rows, cells: (row) => rowCells(row, cli()) }, (sorted) => ({
          object: 'list',
          data: sorted.filter(({ counter }) => counter === null).map(({ budget }) => withCounters(budget, rows)),
        }))
      }),
    )
  command
    .command('create <name>')
    .description('Create a budget.')
    .requiredOption('--amount <dollars>', 'limit of a period, such as 2500.00')
    .addOption(choice('--period <name>', 'period of the amount', period.options).default('month'))
    .option('--tz <zone>', 'IANA time zone of the period', 'UTC')
    .option('--team <team>', 'only requests of this team')
    .option('--key <key>', 'only requests with this key')
    .option('--models <globs>', 'only these models')
    .option('--providers <globs>', 'only these providers')
    .option('--tag <name=value>', 'only requests with this tag; may be repeated', repeated)
    .addOption(choice('--per <owner>', 'one counter for all, or one for each', per.unwrap().options).default('all'))
    .option('--hard', 'refuse what exceeds the amount; the default')
    .option('--soft', 'report instead of refusing')
    .option('--strict', 'with WORKERS: refuse while the first process does not answer, instead of using a share')
    .addOption(
      choice(
        '--count-from <start>',
        'period: also what was spent earlier in this period',
        countFrom.unwrap().options,
      ).default('creation'),
    )
    .option('--alert <percentages>', 'percentages that send an alert, such as 80,100')
    .option('--start-day <number>', 'first day of a week (1 is Monday) or month (1 to 28)')
    .addOption(choice('--reserve <size>', 'max: reserve the longest possible answer', reserve.unwrap().options))
    .addOption(choice('--on-overrun <action>', 'cut: end a stream that exceeds the budget', onOverrun.unwrap().options))
    .addHelpText(
      'after',
      '\nExample: headgate budgets create search-month --amount 2500 --team search --tz Europe/Berlin',
    )
    .action((name: string, options: BudgetOptions) => create(cli(), name, options))
  command
    .command('show <budget>')
    .description('Show a budget by name or ID, with its fullest counters.')
    .addHelpText('after', '\nExample: headgate budgets show search-month')
    .action((name: string) => withRecords(cli(), (store) => show(cli(), store, name)))
  command
    .command('update <budget>')
    .description('Change a budget. What is spent stays.')
    .option('--amount <dollars>', 'limit of a period, such as 2500.00')
    .option('--soft', 'report instead of refusing')
    .option('--hard', 'refuse what exceeds the amount')
    .option('--alert <percentages>', 'percentages that send an alert, such as 80,100')
    .addHelpText('after', '\nExample: headgate budgets update search-month --amount 3000')
    .action((name: string, options: BudgetUpdate) => update(cli(), name, options))
  command
    .command('delete <budget>')
    .description('Delete a budget.')
    .addHelpText('after', '\nExample: headgate budgets delete search-month')
    .action((name: string) =>
      withRecords(cli(), async (store) => {
        const result = await store.run(deletedAs('budget'), {
          do: 'delete',
          kind: 'budget',
          id: await idOf(store, 'budget', name),
          rev: null,
        })
        cli().answer(result, () => [`${name} is deleted`])
      }),
    )
  defineAdjustments(command, cli)
}
