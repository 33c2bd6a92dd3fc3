/** `headgate db`: the databases of the data folder. */

import { databasesIn } from '../../backup/data-files.ts'
import { type DefineVerb, EXIT } from '../cli.ts'
import { readLocal } from '../local.ts'
import { table } from '../table.ts'

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate db status')
  command
    .command('status')
    .description('Show the databases of the data folder with size and schema version.')
    .addHelpText('after', '\nThe gateway migrates a database when it opens it.\n\nExample: headgate db status')
    .action(async () => {
      const { answer, exit, host, paint } = cli()
      const { dataDir } = await readLocal(host)
      const found = databasesIn(dataDir)
      if (found.some(({ problem }) => problem !== null)) exit(EXIT.failed)
      answer({ object: 'list', folder: dataDir, data: found }, () => [
        `Data folder ${dataDir}`,
        ...table(
          ['FILE', 'SIZE', 'SCHEMA', 'STATE'],
          found.map(({ file, bytes, version, newest, problem }) => [
            file,
            `${(bytes / 1_048_576).toFixed(1)} MiB`,
            version === null ? '–' : `${version} of ${newest}`,
            problem ?? (version !== null && newest !== null && version < newest ? 'migrated at the next start' : 'ok'),
          ]),
          paint,
        ),
      ])
    })
}
