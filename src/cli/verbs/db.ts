/** `headgate db`: the databases of the data folder, and the shared one. */
import { setTimeout as sleep } from 'node:timers/promises'
import { databasesIn } from '../../backup/data-files.ts'
import { isSame, MoveError, moveToShared } from '../../backup/move.ts'
import { isUnreachable, migrateSchemas, type SchemaMigration, schemaStates } from '../../backup/schemas.ts'
import { formatDollars } from '../../core/money.ts'
import { problemOf } from '../../storage/sql/sqlite/sqlite-problem.ts'
import { durationMs } from '../arguments.ts'
import { foldersOf } from '../backup-folders.ts'
import { CliError, type DefineVerb, EXIT } from '../cli.ts'
import { runningHere } from '../gateway-client.ts'
import { type Local, readLocal, sharedIn, validConfig } from '../local.ts'
import { table } from '../table.ts'

const SCHEMAS_HELP =
  '\nThe gateway migrates a database when it opens it; with database.migrate never only headgate db migrate does it in Postgres.'

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate db status')
  command
    .command('status')
    .description('Show the databases of the data folder and of DATABASE_URL with their schema versions.')
    .addHelpText('after', `${SCHEMAS_HELP}\n\nExample: headgate db status`)
    .action(async () => {
      const { answer, exit, host } = cli()
      const local = await readLocal(host)
      const { dataDir } = local
      const shared = sharedIn(local)
      const found = databasesIn(dataDir)
      const schemas = shared ? await schemaStates(shared.url) : []
      if ([...found, ...schemas].some(({ problem }) => problem !== null)) exit(EXIT.failed)
      const isLate = (version: number | null, newest: number | null) =>
        newest !== null && (version ?? newest) < newest ? 'migrated at the next start' : 'ok'
      answer({ object: 'list', folder: dataDir, data: found, ...(shared && { schemas }) }, () => [
        `Data folder ${dataDir}`,
        ...table(
          ['FILE', 'SIZE', 'SCHEMA', 'STATE'],
          found.map(({ file, bytes, version, newest, problem }) => [
            file,
            `${(bytes / 1_048_576).toFixed(1)} MiB`,
            version === null ? '–' : `${version} of ${newest}`,
            problem ?? isLate(version, newest),
          ]),
          cli(),
        ),
        ...(shared
          ? [
              '',
              'Postgres (DATABASE_URL)',
              ...table(
                ['NAME', 'SCHEMA', 'ROWS', 'STATE'],
                schemas.map(({ schema, version, newest, rows, problem }) => [
                  schema,
                  version === null ? '–' : `${version} of ${newest}`,
                  Object.entries(rows)
                    .map(([name, count]) => `${count} ${name}`)
                    .join(', ') || '–',
                  problem ?? (version === null ? 'no tables' : isLate(version, newest)),
                ]),
                cli(),
              ),
            ]
          : []),
      ])
    })
  command
    .command('migrate')
    .description('Create or upgrade the tables in Postgres.')
    .option('--wait <duration>', 'how long to wait for a database that cannot be reached, such as 60s')
    .addHelpText(
      'after',
      '\nRun it before gateways with database.migrate never start. It can be repeated.\nExits with 3 without DATABASE_URL.\n\nExample: headgate db migrate --wait 60s',
    )
    .action(async ({ wait = '0s' }: { wait?: string }) => {
      const { answer, host, note } = cli()
      const limit = durationMs(wait)
      if (limit === undefined) throw new CliError(EXIT.usage, '--wait needs a duration such as 60s.')
      const { url } = sharedOf(await readLocal(host))
      const done = await migrated(url, performance.now() + limit, note)
      answer({ object: 'list', data: done }, () =>
        table(
          ['NAME', 'BEFORE', 'NOW'],
          done.map(({ schema, before, version }) => [schema, before === null ? '–' : `${before}`, `${version}`]),
          cli(),
        ),
      )
    })
  command
    .command('move')
    .description('Copy keys, budgets, the audit log and usage of the data folder into Postgres.')
    .option('--resume', 'continue a move that was interrupted, into tables that are not empty')
    .option('--dry-run', 'show what would be copied')
    .addHelpText(
      'after',
      '\nThe gateway must not run. The files stay as they are. Afterwards rows and sums of cost are compared; a difference exits\nwith 1. Stored responses and kept bodies stay in the data folder.\n\nExample: DATABASE_URL=postgres://… headgate db move',
    )
    .action(async ({ resume, dryRun }: { resume?: true; dryRun?: true }) => {
      const { answer, exit, host, note, paint } = cli()
      const local = await readLocal(host)
      const { url } = sharedOf(local)
      const running = runningHere(local)
      if (running)
        throw new CliError(EXIT.conflict, `A gateway runs with this data folder (${running.url}). Stop it first.`)
      const options = { folders: foldersOf(local), url, resume: resume === true, dryRun: dryRun === true }
      const moved = await moveToShared({ ...options, onTable: (table) => note(`copied ${table}`) }).catch(
        (error: unknown) => {
          if (error instanceof MoveError) throw new CliError(EXIT.conflict, error.message)
          throw new CliError(EXIT.failed, `The move has failed: ${problemOf(error)}. Repeat it with --resume.`)
        },
      )
      if (!moved.every(isSame)) exit(EXIT.failed)
      answer({ object: 'list', data: moved }, () =>
        table(
          ['TABLE', 'ROWS', 'COST', 'ROWS IN POSTGRES', 'COST IN POSTGRES', 'RESULT'],
          moved.map((one) => [
            one.table,
            `${one.source.rows}`,
            dollars(one.source.sum),
            one.target ? `${one.target.rows}` : '–',
            dollars(one.target?.sum),
            one.target === null
              ? 'not copied'
              : isSame(one)
                ? { text: 'the same', paint: paint.good }
                : { text: 'different', paint: paint.bad },
          ]),
          cli(),
        ),
      )
    })
}

/** Nano-dollars as dollars; a dash for tables without amounts. */
const dollars = (sum: number | null | undefined): string => (typeof sum === 'number' ? `$${formatDollars(sum)}` : '–')

/** The shared database, or the exit code of a configuration without one. */
const sharedOf = (local: Local) => {
  validConfig(local)
  const shared = sharedIn(local)
  if (shared) return shared
  throw new CliError(
    EXIT.invalidConfig,
    'There is no shared database. Set DATABASE_URL, such as postgres://user:password@host/name.',
  )
}

/** ms between two attempts. */
const PAUSE = 1_000

/** Migrates, and tries again until `end` while the database cannot be reached. `end`: ms of the monotonic clock. */
const migrated = async (
  url: string,
  end: number,
  note: (line: string) => void,
): Promise<readonly SchemaMigration[]> => {
  for (let isNoted = false; ; isNoted = true)
    try {
      return await migrateSchemas(url)
    } catch (error) {
      if (!isUnreachable(error) || performance.now() + PAUSE > end)
        throw new CliError(EXIT.failed, `The tables cannot be migrated: ${problemOf(error)}.`)
      if (!isNoted) note(`Waiting for the database: ${problemOf(error)}.`)
      await sleep(PAUSE)
    }
}
