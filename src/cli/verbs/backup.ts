/** `headgate backup`: the databases and the journal of the data folder in one archive. */
import { resolve } from 'node:path'
import { writeBackup } from '../../backup/backup.ts'
import { IN_POSTGRES } from '../../backup/data-files.ts'
import { foldersOf, withExitCode } from '../backup-folders.ts'
import type { DefineVerb } from '../cli.ts'
import { readLocal } from '../local.ts'

export const define: DefineVerb = (command, cli) => {
  command
    .argument('<file>', 'archive to write, such as headgate.tar.gz')
    .option('--no-usage', 'without the ledger: keys, teams, budgets and stored responses only')
    .addHelpText(
      'after',
      '\nThe gateway may run meanwhile. The archive contains digests of client keys, no keys of providers, and not\nheadgate.yaml, .env or the pepper: keep these as well. With DATABASE_URL keys, budgets and usage are in Postgres and not\npart of it: use pg_dump.\n\nExample: headgate backup headgate-2026-11-23.tar.gz',
    )
    .action(async (file: string, { usage }: { usage: boolean }) => {
      const { answer, host, note } = cli()
      const path = resolve(host.folder, file)
      const folders = foldersOf(await readLocal(host))
      const manifest = await withExitCode(writeBackup(path, folders, { usage, version: host.version }))
      if (folders.isShared) note(IN_POSTGRES)
      answer({ file: path, ...manifest }, () => [
        ...manifest.files.map(({ name, bytes }) => `${name}  ${bytes.toLocaleString('en')} bytes`),
        `written to ${path}`,
      ])
    })
}
