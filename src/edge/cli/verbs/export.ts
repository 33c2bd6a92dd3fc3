/** `headgate export`: teams, keys, budgets and prices of the database, as headgate.yaml has them. */
import { DEFAULT_TEAM, NO_ACCOUNTS } from '../../../core/accounts.ts'
import { buildDirectory } from '../../../policy/accounts/directory.ts'
import { accountsYaml } from '../../config/account-yaml.ts'
import { readStoredAccounts } from '../../control/read-accounts.ts'
import { CliError, type DefineVerb, EXIT } from '../cli.ts'
import { readLocal } from '../local.ts'

export const define: DefineVerb = (command, cli) => {
  command
    .requiredOption('--yaml', 'write YAML for headgate.yaml')
    .addHelpText(
      'after',
      '\nReads the database of the data folder, also while the gateway runs. Keys are written with their digests, not with\ntheir secrets. What headgate.yaml has already is not written.\n\nExample: headgate export --yaml > accounts.yaml',
    )
    .action(async () => {
      const { host, options, print } = cli()
      const { dataDir, loaded } = await readLocal(host)
      const stored = readStoredAccounts(dataDir)
      if (!stored) throw new CliError(EXIT.conflict, `There is no database of keys and budgets in ${dataDir}.`)
      const { records } = stored
      const directory = buildDirectory(loaded.ok ? loaded.config.accounts : NO_ACCOUNTS, records)
      const teams = records.teams.filter(({ id }) => id !== DEFAULT_TEAM.id)
      const yaml = accountsYaml({ ...records, teams }, directory)
      print(options.json ? JSON.stringify({ yaml }) : yaml.trimEnd())
    })
}
