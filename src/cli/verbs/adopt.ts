/** `headgate adopt`: one record of the database as headgate.yaml has it, with its ID, so that its history goes on. */
import { Argument } from 'commander'
import { type AccountRecords, NO_ACCOUNTS } from '../../core/accounts.ts'
import { nearest } from '../../core/nearest.ts'
import { buildDirectory } from '../../policy/accounts/directory.ts'
import { accountsYaml } from '../../records/entities/account-yaml.ts'
import { CliError, type DefineVerb, EXIT } from '../cli.ts'
import { readLocal, storedAccountsOf } from '../local.ts'

const KINDS = { team: 'teams', key: 'keys', budget: 'budgets', price: 'prices' } as const
type AdoptedKind = keyof typeof KINDS

/** The record with this name or ID, as the only one. Throws `CliError` if there is none, or several. */
const only = (records: AccountRecords, kind: AdoptedKind, name: string): Partial<AccountRecords> & { id: string } => {
  const pick = <T extends { readonly id: string }>(list: readonly T[], nameOf: (record: T) => string): T => {
    const found = list.filter((record) => record.id === name || nameOf(record) === name)
    const [first, second] = found
    if (!first) {
      const [near] = nearest(name, list.map(nameOf))
      const hint = near === undefined ? '' : ` Did you mean "${near}"?`
      throw new CliError(EXIT.conflict, `The database has no ${kind} "${name}".${hint}`)
    }
    if (second)
      throw new CliError(
        EXIT.conflict,
        `Several ${kind}s are called "${name}"; use the ID: ${found.map(({ id }) => id).join(', ')}.`,
      )
    return first
  }
  switch (kind) {
    case 'team': {
      const team = pick(records.teams, (one) => one.name)
      return { id: team.id, teams: [team] }
    }
    case 'key': {
      const key = pick(
        records.keys.filter(({ status }) => status !== 'revoked'),
        (one) => one.name,
      )
      return { id: key.id, keys: [key] }
    }
    case 'budget': {
      const budget = pick(records.budgets, (one) => one.name)
      return { id: budget.id, budgets: [budget] }
    }
    case 'price': {
      const price = pick(records.prices, (one) => `${one.provider}/${one.model}`)
      return { id: price.id, prices: [price] }
    }
    default:
      throw new Error(`unknown kind ${JSON.stringify(kind satisfies never)}`)
  }
}

export const define: DefineVerb = (command, cli) => {
  command
    .addArgument(new Argument('<kind>', 'kind of the record').choices(Object.keys(KINDS)))
    .argument('<name>', 'its name or ID; of a price PROVIDER/MODEL')
    .addHelpText(
      'after',
      '\nPrints the YAML of a record of the database. Put it in headgate.yaml: the entry has the same ID, so from the next reload\non the file replaces the record without a gap; what is spent and the ledger stay. A key is written with its digest, not\nwith its secret. If the entry is removed from the file later, the record of the database applies again.\n\nExample: headgate adopt team search >> headgate.yaml',
    )
    .action(async (kind: AdoptedKind, name: string) => {
      const { host, options, print, note } = cli()
      const local = await readLocal(host)
      const stored = await storedAccountsOf(local)
      const { id, ...record } = only(stored.records, kind, name)
      const file = local.loaded.ok ? local.loaded.config.accounts : NO_ACCOUNTS
      const place = file.places[id]
      if (place !== undefined)
        throw new CliError(EXIT.conflict, `The ${kind} "${name}" is in the file already: ${place}.`)
      const yaml = accountsYaml(record, buildDirectory(file, stored.records))
      print(options.json ? JSON.stringify({ id, yaml }) : yaml.trimEnd())
      const section = KINDS[kind]
      note(
        `Put the entry below \`${section}:\` in headgate.yaml. The file then replaces the record of the database, with its ID (${id}) and its history.`,
      )
    })
}
