/**
 * Detects changes of the configuration on disk and loads the new one. It polls and hashes the content, because file system
 * notifications miss the second rename of an editor, network mounts, and the link swap of a Kubernetes ConfigMap.
 */
import { unwatchFile, watchFile } from 'node:fs'
import { resolve } from 'node:path'
import type { FullConfig } from '../core/config.ts'
import type { Loaded } from './configure.ts'
import { describeChange } from './describe.ts'
import {
  type ConfigSources,
  type ConfigTexts,
  hashOf,
  type LoadedTexts,
  loadTexts,
  pathsOf,
  readTexts,
  withClaims,
} from './load.ts'
import type { Problem } from './problem.ts'

export type Reloaded =
  /** Valid: `changes` lists the differences. Apply it completely. */
  | {
      readonly kind: 'changed'
      readonly config: FullConfig
      /** Of the file; null: there is none. */
      readonly text: string | null
      readonly changes: readonly string[]
      readonly warnings: readonly string[]
    }
  /** Reloaded without a difference: on request, or after an invalid change was reverted. */
  | { readonly kind: 'unchanged'; readonly warnings: readonly string[] }
  /** Invalid: the running configuration stays. */
  | { readonly kind: 'refused'; readonly problems: readonly Problem[] }

export type Watching = {
  /** Reads the files now, as SIGHUP does. */
  reload(): Promise<void>
  stop(): void
}

type Signals = {
  on(name: 'SIGHUP', run: () => void): unknown
  off(name: 'SIGHUP', run: () => void): unknown
}

type Running = Extract<Loaded, { ok: true }>

export type WatchOptions = ConfigSources & {
  /** The running configuration, and the hash of its texts. */
  readonly running: Extract<LoadedTexts, { ok: true }>
  readonly onReload: (reloaded: Reloaded) => void
  /** ms between polls. */
  readonly interval?: number
  /** ms a text must stay unchanged before it is used, since it may be incomplete. */
  readonly settle?: number
  /** The source of SIGHUP; a test's own. */
  readonly signals?: Signals
}

const LAUNCH = [
  'port',
  'host',
  'production',
  'logLevel',
  'logFormat',
  'httpClient',
  'httpServer',
  'heapTuning',
  'workers',
] as const

/** Changes that need a restart: launch values, and where data is stored. */
const launchChanges = (began: Running, now: Running): readonly string[] => {
  const changed: string[] = LAUNCH.filter((name) => began.launch[name] !== now.launch[name])
  if (began.launch.socket?.mode !== now.launch.socket?.mode) changed.push('socketMode')
  const [before, after] = [began.config.settings, now.config.settings]
  if (before.basePath !== after.basePath) changed.push('basePath')
  if (before.proxyProtocol !== after.proxyProtocol) changed.push('proxyProtocol')
  if (JSON.stringify(before.tls) !== JSON.stringify(after.tls)) changed.push('tls')
  if (before.data.dir !== after.data.dir) changed.push('data.dir')
  if (before.ledger.folder !== after.ledger.folder) changed.push('ledger.folder')
  if (before.database.url !== after.database.url) changed.push('database.url')
  if (before.database.readUrl !== after.database.readUrl) changed.push('database.readUrl')
  if (before.redis.url !== after.redis.url) changed.push('redis.url')
  if (before.cache.shared !== after.cache.shared) changed.push('cache.shared')
  if (JSON.stringify(before.otel) !== JSON.stringify(after.otel)) changed.push('otel')
  return changed.map((name) => `${name} has changed; restart to apply it`)
}

export const watchConfig = ({
  running,
  onReload,
  interval = 750,
  settle = 150,
  signals = process,
  ...sources
}: WatchOptions): Watching => {
  let current: Running = running
  let seen = running.hash
  let stopped = false
  let busy: Promise<void> | undefined
  let next: { requested: boolean } | undefined
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

  /** Reads until two reads in a row agree, at most ten times. An empty file is read again, since writers truncate first. */
  const readSettled = async (): Promise<{ read: ConfigTexts; hash: string }> => {
    let read = await readTexts(sources)
    let hash = hashOf(read)
    for (let tries = 0; tries < 10 && !stopped; tries++) {
      await wait(settle)
      read = await readTexts(sources)
      const next = hashOf(read)
      if (next === hash && read.file?.text !== '') break
      hash = next
    }
    return { read, hash }
  }

  /** A missing file is treated as a mistake or an unfinished rename, not as a request to run without a file. */
  const gone = (read: ConfigTexts): Problem | undefined => {
    const { file } = current.sources
    return file !== null && read.file === undefined && read.problems.length === 0
      ? { where: file, found: 'a missing file', allowed: 'a file; to run without it, restart' }
      : undefined
  }

  const load = async (read: ConfigTexts): Promise<Loaded> => {
    const missing = gone(read)
    if (missing) return { ok: false, problems: [missing], launch: undefined, warnings: [] }
    try {
      return await withClaims(loadTexts(read, sources), sources)
    } catch (error) {
      // An internal error must not affect the running configuration.
      const found = `an internal error (${error instanceof Error ? error.message : String(error)})`
      const problem = { where: read.file?.name ?? 'configuration', found, allowed: 'the configuration as it was' }
      return { ok: false, problems: [problem], launch: undefined, warnings: [] }
    }
  }

  const check = async (requested: boolean): Promise<void> => {
    const { read, hash } = await readSettled()
    if (!stopped)
      follow(
        [...(read.files?.keys() ?? []), ...(read.certificates?.keys() ?? [])].map((path) =>
          resolve(sources.folder, path),
        ),
      )
    if (stopped || (hash === seen && !requested)) return
    seen = hash
    const loaded = await load(read)
    if (stopped) return
    if (!loaded.ok) {
      refused = true
      onReload({ kind: 'refused', problems: loaded.problems })
      return
    }
    const changes = describeChange(current.config, loaded.config)
    const warnings = [...loaded.warnings, ...launchChanges(running, loaded)]
    if (changes.length > 0) {
      current = loaded
      onReload({ kind: 'changed', config: loaded.config, text: read.file?.text ?? null, changes, warnings })
    } else if (requested || refused) onReload({ kind: 'unchanged', warnings })
    refused = false
  }

  // One check at a time; changes during a check cause another one.
  const schedule = (requested: boolean): Promise<void> => {
    if (stopped) return Promise.resolve()
    if (busy) {
      next = { requested: requested || next?.requested === true }
      return busy
    }
    busy = check(requested).finally(() => {
      busy = undefined
      const following = next
      next = undefined
      if (following) void schedule(following.requested)
    })
    return busy
  }

  const paths = pathsOf(sources.folder, { HEADGATE_CONFIG: running.launch.configPath })
  const onChange = () => void schedule(false)
  const watch = (path: string) => watchFile(path, { interval, persistent: false }, onChange).unref()
  for (const path of [paths.file, paths.dotenv]) watch(path)
  const followed = new Set<string>()
  /** Watches these files with secrets, and no others. */
  const follow = (files: readonly string[]) => {
    for (const path of followed)
      if (!files.includes(path)) {
        unwatchFile(path, onChange)
        followed.delete(path)
      }
    for (const path of files)
      if (!followed.has(path)) {
        watch(path)
        followed.add(path)
      }
  }
  const onSignal = () => void schedule(true)
  signals.on('SIGHUP', onSignal)
  // The files may have changed between the start's own read and the first poll.
  onChange()

  return {
    reload: () => schedule(true),
    stop() {
      if (stopped) return
      stopped = true
      for (const path of [paths.file, paths.dotenv, ...followed]) unwatchFile(path, onChange)
      signals.off('SIGHUP', onSignal)
      pause?.wake()
    },
  }
}
