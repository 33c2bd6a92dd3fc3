/** `headgate export`: teams, keys, budgets and prices of the database, as headgate.yaml has them. */
import { DEFAULT_TEAM, NO_ACCOUNTS } from '../../core/accounts.ts'
import { buildDirectory } from '../../policy/accounts/directory.ts'
import { accountsYaml } from '../../records/entities/account-yaml.ts'
import type { DefineVerb } from '../cli.ts'
import { readLocal, storedAccountsOf } from '../local.ts'

export const define: DefineVerb = (command, cli) => {
  command
    .requiredOption('--yaml', 'write YAML for headgate.yaml')
    .addHelpText(
      'after',
      '\nReads the database of the data folder, or the one of DATABASE_URL, also while the gateway runs. Keys are written with their digests, not with\ntheir secrets. What headgate.yaml has already is not written.\n\nExample: headgate export --yaml > accounts.yaml',
    )
    .action(async () => {
      const { host, options, print } = cli()
      const local = await readLocal(host)
      const { loaded } = local
      const { records } = await storedAccountsOf(local)
      const directory = buildDirectory(loaded.ok ? loaded.config.accounts : NO_ACCOUNTS, records)
      const teams = records.teams.filter(({ id }) => id !== DEFAULT_TEAM.id)
      const yaml = accountsYaml({ ...records, teams }, directory)
      print(options.json ? JSON.stringify({ yaml }) : yaml.trimEnd())
    })
}
