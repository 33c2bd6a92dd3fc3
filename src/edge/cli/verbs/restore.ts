/** `headgate restore`: a backup into the data folder. */
import { resolve } from 'node:path'
import { restoreBackup } from '../../backup/backup.ts'
import { foldersOf, withExitCode } from '../backup-folders.ts'
import { CliError, type DefineVerb, EXIT } from '../cli.ts'
import { runningHere } from '../gateway-client.ts'
import { readLocal } from '../local.ts'

export const define: DefineVerb = (command, cli) => {
  command
    .argument('<file>', 'archive of headgate backup')
    .option('--replace', 'move present databases to a folder replaced-… in the data folder')
    .addHelpText(
      'after',
      '\nThe gateway must not run. Nothing is changed if the archive is damaged.\n\nExample: headgate restore headgate-2026-11-23.tar.gz',
    )
    .action(async (file: string, { replace }: { replace?: true }) => {
      const { answer, host } = cli()
      const local = await readLocal(host)
      const running = runningHere(local)
      if (running)
        throw new CliError(EXIT.conflict, `A gateway runs with this data folder (${running.url}). Stop it first.`)
      const path = resolve(host.folder, file)
      const { manifest, moved } = await withExitCode(restoreBackup(path, foldersOf(local), replace === true))
      answer({ folder: local.dataDir, moved, ...manifest }, () => [
        ...manifest.files.map(({ name, bytes }) => `${name}  ${bytes.toLocaleString('en')} bytes`),
        `restored to ${local.dataDir}${moved > 0 ? `; ${moved} files were moved away` : ''}`,
      ])
    })
}
