/** Opens the tapes of a gateway with `HEADGATE_TAPE`. */
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Env } from '../config/env.ts'
import { type Launch, variable } from '../config/environment.ts'
import { type ConfigSources, readEnvironment } from '../config/load.ts'
import { type Problem, quote } from '../config/problem.ts'
import { fail } from '../core/failure.ts'
import type { Dial, World } from '../core/world.ts'
import { envPrefix } from '../records/entities/ids.ts'
import { lacksKey } from '../tape/settings.ts'
import type { Tapes } from '../tape/tapes.ts'
import type { Current, Runtime } from './runtime.ts'

/**
 * The connections of a gateway. A strict tape opens none, also for lists of models and sign-ins at clouds; no tape calls a provider
 * that has no key.
 */
export const taped = ({ tape }: Launch, dial: Dial): Dial => {
  if (!tape) return dial
  return (call, listener) => {
    const { host, protocol } = new URL(call.url)
    if (protocol === 'demo:' || (tape.mode !== 'strict' && !lacksKey(call))) return dial(call, listener)
    const reason = tape.mode === 'strict' ? 'opens no connection' : `has no key of ${host}`
    const message = `HEADGATE_TAPE=${tape.mode} ${reason}, and calls of ${host} like this one are not recorded.`
    // In a later turn, as from a connection: the caller receives the call first.
    const waiting = setImmediate(() => listener.onFailure(fail('tape_miss', message)))
    return { abort: () => clearImmediate(waiting), resume() {} }
  }
}

/** The problem of `HEADGATE_TAPE_DIR`; null: its folder can be used, or will be made. */
export const tapeFolderProblem = ({ tape }: Pick<Launch, 'tape'>, folder: string): Problem | null => {
  if (!tape || statSync(resolve(folder, tape.folder), { throwIfNoEntry: false })?.isDirectory() !== false) return null
  const found = `${quote(tape.folder)}, which is not a folder`
  return { where: 'HEADGATE_TAPE_DIR', found, allowed: 'the path of a folder' }
}

type TapeParts = {
  readonly current: Current
  readonly sources: ConfigSources
  readonly log: Runtime['log']
  readonly launch: Launch
  /** Those of the configuration at the start. */
  readonly secrets: () => readonly string[]
}

/** Loads the tapes; undefined: there are none. */
export const openTape = async (
  { current, sources, log, launch, secrets: configured }: TapeParts,
  world: World,
): Promise<Tapes | undefined> => {
  if (!launch.tape) return undefined
  const [{ Tapes }, { secretsIn }] = await Promise.all([import('../tape/tapes.ts'), import('../tape/secrets.ts')])
  const settings = { ...launch.tape, folder: resolve(sources.folder, launch.tape.folder) }
  const environment = secretsIn(await readEnvironment(sources))
  const secrets = () => [
    ...environment,
    ...configured(),
    ...current.config.instances.flatMap(({ keys, headers = {} }) => [
      ...keys.flatMap(({ secret }) => (secret ? [secret.reveal()] : [])),
      ...Object.values(headers).map((value) => value.reveal()),
    ]),
  ]
  return new Tapes({
    settings,
    live: world.dial,
    world,
    secrets,
    report: ({ kind, message }) => (kind === 'miss' ? log.warn('tape', { message }) : log.error('tape', { message })),
  })
}

/**
 * The environment with a key for each provider on the tapes that has none, so that its targets exist. Calls with such a key are never
 * sent.
 */
export const withTapeKeys = async (sources: Pick<ConfigSources, 'env' | 'folder' | 'providers'>): Promise<Env> => {
  const { env, folder } = sources
  const known = await readEnvironment(sources)
  const mode = variable(known, 'HEADGATE_TAPE')?.toLowerCase()
  if (mode !== 'replay' && mode !== 'strict') return env
  const [{ TapeFolder }, { NO_KEY }] = await Promise.all([
    import('../tape/tape-folder.ts'),
    import('../tape/settings.ts'),
  ])
  const tapes = new TapeFolder(resolve(folder, variable(known, 'HEADGATE_TAPE_DIR') ?? 'tapes'))
  const names = new Set(
    tapes.names().flatMap((name) => tapes.open(name).exchanges.map(({ target }) => target.provider)),
  )
  const added = [...names]
    .map((name) => `${envPrefix(name)}_API_KEY`)
    .filter((name) => variable(known, name) === undefined)
  return { ...env, ...Object.fromEntries(added.map((name) => [name, NO_KEY])) }
}
