/** What an operator sees at the start: the banner or the log line `ready`, and warnings. */
import type { Settings } from '../core/settings.ts'
import { banner, FOLDER_CLOSES, isReachable, openWarning, readyFields } from '../observe/banner.ts'
import { removeRunFile, writeRunFile } from '../runtime/run-file.ts'
import type { Server } from '../server/server.ts'
import { isKeyed, paint, type Runtime, terminal } from './runtime.ts'

export const openWarningOf = (runtime: Runtime) => openWarning(isKeyed(runtime), runtime.loaded.launch.host ?? '::')

export const warnIfOpen = (runtime: Runtime): void => {
  const message = openWarningOf(runtime)
  if (message !== null) runtime.log.warn('open', { message })
}

/** Nothing that is stated closes the gateway, so that the loss of its data folder would open it. */
const warnIfFolderCloses = ({ loaded, current, keys, log }: Runtime): void => {
  const { required } = current.config.settings.auth
  if (required === 'auto' && keys.isNamed() && !keys.isStated() && isReachable(loaded.launch.host ?? '::'))
    log.warn('keys', { message: FOLDER_CLOSES })
}

/** The part of the address that settings state. */
export const addressOf = ({ basePath, tls }: Settings) => ({
  basePath,
  secure: tls.cert.length > 0,
  healthPort: tls.healthPort,
})

/** Prints the banner, or logs `ready`. `readyMs`: ms since the start of the process. */
export const announce = (runtime: Runtime, server: Server, readyMs: number): void => {
  const { version, loaded, log, worker } = runtime
  const { config, warnings } = runtime.current
  const { launch, sources } = loaded
  const facts = {
    version,
    readyMs,
    address: { host: launch.host ?? '::', port: server.port, ...addressOf(config.settings) },
    config,
    production: launch.production,
    keyed: isKeyed(runtime),
    file: sources.file,
    warnings,
    workers: worker?.of,
  }
  if (terminal && launch.logFormat !== 'json') process.stdout.write(`${banner(facts, paint)}\n`)
  else {
    for (const warning of warnings) log.warn('config', { message: warning })
    log.info('ready', readyFields(facts))
  }
  warnIfOpen(runtime)
  warnIfFolderCloses(runtime)
  if (config.instances.length === 0)
    log.error('unconfigured', {
      message:
        'No provider is configured: model calls are answered 503. Set OPENAI_API_KEY, ANTHROPIC_API_KEY or another.',
    })
}

/** Writes the address for the command line; the file is removed at exit. */
export const publishAddress = ({ loaded, current }: Runtime, { port }: Server): void => {
  const folder = current.config.settings.data.dir
  writeRunFile(folder, {
    pid: process.pid,
    host: loaded.launch.host ?? '::',
    port,
    ...addressOf(current.config.settings),
  })
  process.once('exit', () => removeRunFile(folder, process.pid))
}
