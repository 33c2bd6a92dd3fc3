/**
 * Notices when the configuration on the disk changes, and says what the new one is. Polling and a hash of the content:
 * notifications miss the second rename of an editor, network mounts, and the link swap of a Kubernetes ConfigMap.
 */
import { createHash } from 'node:crypto'
import { type StatWatcher, unwatchFile, watchFile } from 'node:fs'
import type { Config } from '../../core/config.ts'
import type { Loaded } from './configure.ts'
import { describeChange } from './describe.ts'
import { loadTexts, type Place, pathsOf, type Read, readTexts } from './load.ts'
import type { Problem } from './problem.ts'

export type Reloaded =
  /** Good: `changes` says what is different. Apply it whole. */
  | {
      readonly kind: 'changed'
      readonly config: Config
      readonly changes: readonly string[]
      readonly warnings: readonly string[]
    }
  /** Read again on request, or mended after a bad change, and nothing is different from what runs. */
  | { readonly kind: 'unchanged'; readonly warnings: readonly string[] }
  /** Bad: what runs stays. */
  | { readonly kind: 'refused'; readonly problems: readonly Problem[] }

export type Watching = {
  /** Reads now, whatever the files' times say; what SIGHUP does. */
  reload(): Promise<void>
  stop(): void
}

type Signals = {
  on(name: 'SIGHUP', run: () => void): unknown
  off(name: 'SIGHUP', run: () => void): unknown
}

type Running = Extract<Loaded, { ok: true }>

export type WatchOptions = Place & {
  /** What runs now. */
  readonly running: Running
  readonly tell: (reloaded: Reloaded) => void
  /** ms between looks at the files. */
  readonly interval?: number
  /** ms a text must stay the same before it is believed: a writer may be in the middle of it. */
  readonly settle?: number
  /** Where SIGHUP comes from. */
  readonly signals?: Signals
}

const hashOf = ({ dotenv, file, problems }: Read): string =>
  createHash('sha256')
    .update(JSON.stringify([dotenv, file, problems]))
    .digest('hex')

const LAUNCH = ['port', 'host', 'production', 'logLevel', 'logFormat', 'httpClient', 'httpServer', 'workers'] as const

/** What only a restart can change: the process itself, and where its database is. */
const launchChanges = (began: Running, now: Running): readonly string[] => {
  const changed: string[] = LAUNCH.filter((name) => began.launch[name] !== now.launch[name])
  if (began.config.settings.data.dir !== now.config.settings.data.dir) changed.push('data.dir')
  return changed.map((name) => `${name} has changed; this takes effect with the next start`)
}

export const watchConfig = ({
  running,
  tell,
  interval = 750,
  settle = 150,
  signals = process,
  ...place
}: WatchOptions): Watching => {
  let current = running
  let seen: string | undefined
  let stopped = false
  let busy: Promise<void> | undefined
  let again: { asked: boolean } | undefined
  let refused = false
  let pause: { timer: NodeJS.Timeout; wake: () => void } | undefined

  const wait = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer)
        pause = undefined
        resolve()
      }
      const timer = setTimeout(wake, ms)
      pause = { timer, wake }
    })

  /** The texts once two looks in a row agree; the last look if they never do. A file is empty when a writer begins: that is looked at longest. */
  const readSettled = async (): Promise<{ read: Read; hash: string }> => {
    let read = await readTexts(place)
    let hash = hashOf(read)
    for (let tries = 0; tries < 10 && !stopped; tries++) {
      await wait(settle)
      read = await readTexts(place)
      const next = hashOf(read)
      if (next === hash && read.file?.text !== '') break
      hash = next
    }
    return { read, hash }
  }

  /** A file that was there and is gone is a mistake or half of a rename, not a wish to run without it. */
  const gone = (read: Read): Problem | undefined => {
    const { file } = current.sources
    return file !== null && read.file === undefined && read.problems.length === 0
      ? { where: file, found: 'no file where there was one', allowed: 'a file; to run without it, restart' }
      : undefined
  }

  const load = (read: Read): Loaded => {
    const missing = gone(read)
    if (missing) return { ok: false, problems: [missing], launch: undefined, warnings: [] }
    try {
      return loadTexts(read, place)
    } catch (error) {
      // A bug of ours must not take down what runs well.
      const found = `an error of ours while reading it (${error instanceof Error ? error.message : String(error)})`
      const problem = { where: read.file?.name ?? 'configuration', found, allowed: 'the configuration as it was' }
      return { ok: false, problems: [problem], launch: undefined, warnings: [] }
    }
  }

  const look = async (asked: boolean): Promise<void> => {
    const { read, hash } = await readSettled()
    if (stopped || (hash === seen && !asked)) return
    seen = hash
    const loaded = load(read)
    if (!loaded.ok) {
      refused = true
      tell({ kind: 'refused', problems: loaded.problems })
      return
    }
    const changes = describeChange(current.config, loaded.config)
    const warnings = [...loaded.warnings, ...launchChanges(running, loaded)]
    if (changes.length > 0) {
      current = loaded
      tell({ kind: 'changed', config: loaded.config, changes, warnings })
    } else if (asked || refused) tell({ kind: 'unchanged', warnings })
    refused = false
  }

  // One look at a time; what happens during one is looked at after it.
  const schedule = (asked: boolean): Promise<void> => {
    if (stopped) return Promise.resolve()
    if (busy) {
      again = { asked: asked || again?.asked === true }
      return busy
    }
    busy = look(asked).finally(() => {
      busy = undefined
      const next = again
      again = undefined
      if (next) void schedule(next.asked)
    })
    return busy
  }

  const paths = pathsOf(place.folder, { HEADGATE_CONFIG: running.launch.configPath })
  const onChange = () => void schedule(false)
  const watchers: StatWatcher[] = [paths.file, paths.dotenv].map((path) =>
    watchFile(path, { interval, persistent: false }, onChange),
  )
  for (const watcher of watchers) watcher.unref()
  const onSignal = () => void schedule(true)
  signals.on('SIGHUP', onSignal)
  // What was changed between the start's own reading and the first poll would never be noticed otherwise.
  onChange()

  return {
    reload: () => schedule(true),
    stop() {
      if (stopped) return
      stopped = true
      for (const path of [paths.file, paths.dotenv]) unwatchFile(path, onChange)
      signals.off('SIGHUP', onSignal)
      pause?.wake()
    },
  }
}
