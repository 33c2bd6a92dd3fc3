/** `headgate restore`: a backup into the data folder. */
import { resolve } from 'node:path'
import { restoreBackup } from '../../backup/backup.ts'
import { DATABASES } from '../../backup/data-files.ts'
import { foldersOf, withExitCode } from '../backup-folders.ts'
import { CliError, type DefineVerb, EXIT } from '../cli.ts'
import { runningHere } from '../gateway-client.ts'
import { readLocal } from '../local.ts'

const isSharedFile = (name: string): boolean => DATABASES.some(({ file, isShared }) => isShared && file === name)

export const define: DefineVerb = (command, cli) => {
  command
    .argument('<file>', 'archive of headgate backup')
    .option('--replace', 'move present databases to a folder replaced-… in the data folder')
    .addHelpText(
      'after',
      '\nThe gateway must not run. Nothing is changed if the archive is damaged.\n\nExample: headgate restore headgate-2026-11-23.tar.gz',
    )
    .action(async (file: string, { replace }: { replace?: true }) => {
      const { answer, host, note } = cli()
      const local = await readLocal(host)
      const running = runningHere(local)
      if (running)
        throw new CliError(EXIT.conflict, `A gateway runs with this data folder (${running.url}). Stop it first.`)
      const path = resolve(host.folder, file)
      const folders = foldersOf(local)
      const { manifest, moved } = await withExitCode(restoreBackup(path, folders, replace === true))
      if (folders.isShared && manifest.files.some(({ name }) => isSharedFile(name)))
        note('The gateway uses Postgres (DATABASE_URL): it does not read the restored databases of keys and usage.')
      else if (manifest.postgres) note('The archive contains no keys, budgets and usage: they were in Postgres.')
      answer({ folder: local.dataDir, moved, ...manifest }, () => [
        ...manifest.files.map(({ name, bytes }) => `${name}  ${bytes.toLocaleString('en')} bytes`),
        `restored to ${local.dataDir}${moved > 0 ? `; ${moved} files were moved away` : ''}`,
      ])
    })
}
