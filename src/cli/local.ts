/** The configuration and data folder of this working folder, as the gateway would read them. */
import { resolve } from 'node:path'
import { openCatalogue } from '../config/catalogue/catalogue.ts'
import { loadProviders } from '../config/catalogue/load-providers.ts'
import type { Loaded } from '../config/configure.ts'
import type { Env } from '../config/env.ts'
import { variable } from '../config/environment.ts'
import { type ConfigSources, loadTexts, readEnvironment, readTexts } from '../config/load.ts'
import { problemLine } from '../config/problem.ts'
import { sharedControl } from '../records/store/place.ts'
import { readStoredAccounts, recordsAtStart } from '../records/store/read-accounts.ts'
import { readSharedAccounts } from '../records/store/read-shared.ts'
import type { SharedControl, StoredAccounts } from '../records/store/record-operations.ts'
import { problemOf } from '../storage/sql/sqlite/sqlite-problem.ts'
import { trustByDefault } from '../transport/net/authorities.ts'
import { CliError, type CliHost, EXIT } from './cli.ts'

export type Local = {
  readonly loaded: Loaded
  /** The environment merged with `.env`. */
  readonly env: Env
  /** Absolute path of `data.dir`; the default one if the configuration is invalid. */
  readonly dataDir: string
}

/** What the configuration of the working folder is made of. */
export const localSources = async ({ env, folder, home }: CliHost): Promise<ConfigSources> => {
  const catalogue = openCatalogue(() => {}, new URL('data/catalogue.json', home))
  return { env, folder, providers: await loadProviders(), stored: storedIn(folder), catalogue }
}

/** Reads the configuration of the working folder. Never throws for an invalid one. */
export const readLocal = async (host: CliHost): Promise<Local> => {
  const { folder } = host
  const sources = await localSources(host)
  const [texts, merged] = await Promise.all([readTexts(sources), readEnvironment(sources)])
  // Claims are checked where the configuration is checked: other commands work without them.
  const loaded = loadTexts(texts, sources)
  if (loaded.ok) trustByDefault(loaded.config.network.tls)
  const dir = loaded.ok ? loaded.config.settings.data.dir : (variable(merged, 'DATA_DIR') ?? '.headgate')
  return { loaded, env: merged, dataDir: resolve(folder, dir) }
}

/** The records of the database in the data folder; the path of that folder is relative to `folder`. */
export const storedIn =
  (folder: string): NonNullable<ConfigSources['stored']> =>
  (settings) =>
    recordsAtStart({ folder: resolve(folder, settings.data.dir), database: sharedControl(settings) })

/** The shared database, of the environment if the configuration is invalid; null: files in the data folder. */
export const sharedIn = ({ loaded, env }: Local): SharedControl | null => {
  if (loaded.ok) return sharedControl(loaded.config.settings)
  const url = variable(env, 'DATABASE_URL')
  return url === undefined ? null : { url, migrate: 'never', snapshot: false }
}

/** All accounts of the database. Throws `CliError` if there is none, or if it cannot be read. */
export const storedAccountsOf = async (local: Local): Promise<StoredAccounts> => {
  const shared = sharedIn(local)
  const place = shared ? 'Postgres' : local.dataDir
  let stored: StoredAccounts | null
  try {
    stored = shared ? await readSharedAccounts(shared.url) : readStoredAccounts(local.dataDir)
  } catch (error) {
    if (!shared) throw error
    throw new CliError(EXIT.failed, `The database of keys and budgets cannot be read: ${problemOf(error)}.`)
  }
  if (stored) return stored
  throw new CliError(EXIT.conflict, `There is no database of keys and budgets in ${place}.`)
}

/** The configuration, or the exit code for an invalid one with all problems. */
export const validConfig = ({ loaded }: Local): Extract<Loaded, { readonly ok: true }> => {
  if (loaded.ok) return loaded
  throw new CliError(
    EXIT.invalidConfig,
    `The configuration is invalid.\n${loaded.problems.map(problemLine).join('\n')}`,
  )
}
