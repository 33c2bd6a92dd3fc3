/** Runs test files with Node's runner and emits a plain outcome for each test. */
import { fork } from 'node:child_process'
import { join, relative, sep } from 'node:path'
import { run } from 'node:test'
import { LONG_VARIABLE } from '../../test/support/lane.ts'

const root = join(import.meta.dirname, '..', '..')

/** The end of a test or of a file. Plain data, because it is sent between processes. */
export type Outcome =
  | { readonly kind: 'passed'; readonly file: string; readonly name: string }
  | { readonly kind: 'skipped'; readonly file: string; readonly name: string; readonly reason: string }
  /** `isWhole`: the file itself or a hook failed, so that tests may have no outcome. */
  | {
      readonly kind: 'failed'
      readonly file: string
      readonly name: string
      readonly error: string
      readonly isWhole?: boolean
    }
  /** `seconds`: the duration of the file. */
  | { readonly kind: 'file'; readonly file: string; readonly seconds: number }

export type Listener = (outcome: Outcome) => void

/** Longest a file may take (ms); for files that share a process, all of them together. Long tests may take four hours. */
const longest = (): number => (process.env[LONG_VARIABLE] === '1' ? 14_400_000 : 600_000)

const inProject = (path: string | undefined): string => relative(root, path ?? '').replaceAll(sep, '/')

const describeError = (error: unknown): string => {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  return cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)
}

/** Node's error of a hook; a failed test of a suite has another type. */
const isFailedHook = (error: unknown): boolean =>
  error instanceof Error && 'failureType' in error && error.failureType === 'hookFailed'

/** The origin of an event. `file` is the file that defines the test, which may be a helper. */
type Origin = { readonly name: string; readonly file?: string | undefined; readonly entryFile?: string | undefined }

/**
 * Emits an outcome for each event. Suites are not counted, because their tests are, unless a hook of theirs failed or they were
 * skipped: then their tests are not known.
 */
const listen = (stream: ReturnType<typeof run>, emit: Listener): Promise<void> => {
  const fileOf = (event: Origin) => inProject(event.entryFile ?? event.file)
  stream.on('test:pass', (event) => {
    const { skip, todo, name } = event
    if (event.details.type === 'suite' && skip === undefined) return
    if (skip === undefined && todo === undefined) emit({ kind: 'passed', file: fileOf(event), name })
    else {
      const reason = [skip, todo].find((each) => typeof each === 'string' && each !== '')
      emit({ kind: 'skipped', file: fileOf(event), name, reason: String(reason ?? 'no reason given') })
    }
  })
  stream.on('test:fail', (event) => {
    // A failed hook after the tests of a suite fails nothing else.
    if (event.details.type === 'suite' && !isFailedHook(event.details.error)) return
    const file = fileOf(event)
    const isFile = inProject(event.name) === file
    const error = describeError(event.details.error)
    const isWhole = isFile || event.details.type === 'suite'
    emit({ kind: 'failed', file, name: isFile ? 'the file itself' : event.name, error, ...(isWhole && { isWhole }) })
    if (isFile) emit({ kind: 'file', file, seconds: event.details.duration_ms / 1_000 })
  })
  stream.on('test:summary', (event) => {
    if (event.file !== undefined)
      emit({ kind: 'file', file: inProject(event.file), seconds: event.duration_ms / 1_000 })
  })
  return new Promise((resolve) => {
    stream.on('end', () => resolve())
    stream.resume()
  })
}

/** Runs each file in a process of its own, `concurrency` of them at a time, in the order given. */
export const runApart = (files: readonly string[], concurrency: number, emit: Listener): Promise<void> => {
  const stream = run({ files: files.map((file) => join(root, file)), concurrency, timeout: longest(), cwd: root })
  stream.on('test:stderr', ({ message }) => process.stderr.write(message))
  return listen(stream, emit)
}

/** Runs all files in this process, one after the other. */
export const runHere = (files: readonly string[], emit: Listener): Promise<void> =>
  listen(run({ files: files.map((file) => join(root, file)), isolation: 'none', cwd: root }), emit)

/** Runs all files in one child process. If it does not end, or ends early, that is a failure of its own. */
export const runTogether = (files: readonly string[], emit: Listener): Promise<void> =>
  new Promise((resolve) => {
    const child = fork(join(import.meta.dirname, 'shared.ts'), [...files], {
      cwd: root,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    const left = new Set(files)
    const fail = (error: string) =>
      emit({ kind: 'failed', file: [...left][0] ?? '', name: `the process of ${files.length} files`, error })
    let ended = false
    const killer = setTimeout(() => child.kill('SIGKILL'), longest())
    // shared.ts sends only these messages.
    child.on('message', (message: Outcome | { readonly kind: 'end' }) => {
      if (message.kind === 'end') ended = true
      else {
        if (message.kind === 'file') left.delete(message.file)
        emit(message)
      }
    })
    child.on('error', (error) => fail(error.message))
    child.on('close', (code, signal) => {
      clearTimeout(killer)
      if (!ended) fail(`it ended with ${signal ?? `code ${code}`} before its tests did`)
      resolve()
    })
  })
