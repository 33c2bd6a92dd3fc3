/** Reads the configuration and starts the gateway. Only `main.ts` imports this. */

import { openCatalogue } from '../config/catalogue/catalogue.ts'
import { loadProviders } from '../config/catalogue/load-providers.ts'
import { loadConfig } from '../config/load.ts'
import { problemLine } from '../config/problem.ts'
import { watchConfig } from '../config/watch.ts'
import { WORKER_VARIABLE } from '../config/worker-count.ts'
import type { Settings } from '../core/settings.ts'
import { sharedControl } from '../records/store/place.ts'
import { readAtStart, recordsAtStart } from '../records/store/read-accounts.ts'
import type { ControlPlace, StoredAccounts } from '../records/store/record-operations.ts'
import { trustByDefault } from '../transport/net/authorities.ts'
import { announce, publishAddress, warnIfOpen } from './announce.ts'
import { build } from './build.ts'
import { startDrill } from './drill.ts'
import { startExport } from './export.ts'
import { listen } from './listen.ts'
import { startLiveDrill } from './live-drill.ts'
import { applyReload, rememberConfig, startAlerts } from './reload.ts'
import { refuseToStart, type StartOptions } from './runtime.ts'
import { startShadows } from './shadows.ts'
import { drain, handleSignals } from './shutdown.ts'
import { connectToSupervisor, joinFleet } from './supervised.ts'
import { tapeFolderProblem, withTapeKeys } from './tape.ts'

/** ms to wait for keys in Postgres before the gateway listens. */
const FIRST_READ = 3_000

const { env } = process

/**
 * Starts the gateway, or prints the problems and exits. No top-level await: modules loaded later may import this file and
 * would wait for it. `home`: the folder with `package.json`, `data` and `docs`.
 */
export const serve = async (home: URL, version: string): Promise<void> => {
  const mark = env[WORKER_VARIABLE]
  const worker = mark === undefined ? undefined : (await import('./workers/worker.ts')).connectWorker(mark)
  const catalogue = openCatalogue(() => {}, new URL('data/catalogue.json', home))
  const read = { env, folder: process.cwd(), providers: await loadProviders() }
  const sources = { ...read, env: await withTapeKeys(read), catalogue }
  const reading = readOnce()
  const loaded = await loadConfig({ ...sources, stored: reading.records })
  if (!loaded.ok) return refuseToStart(loaded.problems.map(problemLine))
  const problem = tapeFolderProblem(loaded.launch, sources.folder)
  if (problem) return refuseToStart([problemLine(problem)])
  await start({ home, version, sources, loaded, worker, read: reading.read })
}

/** Reads the database of keys once: for the checks of the file, and for the `KeyStore`. */
const readOnce = () => {
  let found: StoredAccounts | null | undefined
  const read = (place: ControlPlace): StoredAccounts | null => {
    const accounts = found === undefined ? readAtStart(place) : found
    found = undefined
    return accounts
  }
  const records = (settings: Settings) =>
    recordsAtStart({ folder: settings.data.dir, database: sharedControl(settings) }, (place) => {
      found = readAtStart(place)
      return found
    })
  return { read, records }
}

const OLD_NODE = 'network.ca is not trusted by the clients of Postgres and Redis: this needs Node 24.5 or later.'

/** Before the first thread starts. */
const trusting = ({ loaded, worker, ...options }: StartOptions): StartOptions => {
  const { tls } = loaded.config.network
  worker?.authorities(tls)
  const warnings = trustByDefault(tls) ? loaded.warnings : [...loaded.warnings, OLD_NODE]
  return { ...options, worker, loaded: { ...loaded, warnings } }
}

const start = async (options: StartOptions): Promise<void> => {
  const runtime = await build(trusting(options))
  const { sources } = runtime
  const { loaded, worker } = options
  await runtime.keys.readShared(FIRST_READ)
  await runtime.budgets.changed()
  await startShadows(runtime)
  const server = await listen(runtime)
  runtime.current.server = server
  runtime.lists.follow(runtime.current.config.instances)
  runtime.issuers.follow()
  runtime.keys.start()
  // With several workers the first one announces, once all are listening, and the supervisor writes the file.
  if (!worker) {
    announce(runtime, server, performance.now())
    publishAddress(runtime, server)
  }
  // Until then it requires keys.
  if (runtime.keys.isUnavailable()) void runtime.keys.loaded.then(() => warnIfOpen(runtime))
  const watching = watchConfig({ ...sources, running: loaded, onReload: (reloaded) => applyReload(runtime, reloaded) })
  runtime.current.watching = watching
  const end = handleSignals(runtime, (signal) => drain(runtime, server, watching, signal))
  connectToSupervisor(runtime, server, watching, end)
  await joinFleet(runtime)
  void startAlerts(runtime)
  void startExport(runtime)
  void startLiveDrill(runtime)
  void startDrill(runtime)
  void rememberConfig(runtime, loaded.text())
  void runtime.ledger.openEarlier()
  process.on('uncaughtException', (error) => runtime.gateway.emit({ event: 'error', error }))
  process.on('unhandledRejection', (error) => runtime.gateway.emit({ event: 'error', error }))
}
