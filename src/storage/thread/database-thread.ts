/** Starts and ends the threads that own databases. Loads `node:worker_threads` only when a thread starts. */
import { getCompileCacheDir } from 'node:module'
import type { ResourceLimits, Worker } from 'node:worker_threads'
import { problemOf } from '../sql/sqlite/errors.ts'

export type DatabaseThread = Worker

export type DatabaseThreadOptions<Message> = {
  /** The entry point. Its `workerData` has the members of `data` and `compileCache`, the folder of the compile cache. */
  readonly file: URL
  readonly data: object
  /** Memory limits in MB. */
  readonly memory: Pick<ResourceLimits, 'maxOldGenerationSizeMb' | 'maxYoungGenerationSizeMb'>
  readonly onMessage: (message: Message) => void
  /** Called once; `problem` is why the thread has ended. */
  readonly onExit: (thread: DatabaseThread, problem: string) => void
}

/** Starts a thread, which does not keep the process alive. A text is the reason why it cannot start. */
export const startThread = <Message>(options: DatabaseThreadOptions<Message>): DatabaseThread | string => {
  const { file, data, memory, onMessage, onExit } = options
  const workerData = { ...data, compileCache: getCompileCacheDir() }
  try {
    // The thread gets no environment variables, which may contain keys.
    const { Worker } = process.getBuiltinModule('node:worker_threads')
    const thread = new Worker(file, { workerData, env: {}, execArgv: [], resourceLimits: memory })
    let problem = 'its thread has ended'
    thread.on('message', onMessage)
    thread.on('error', (error) => {
      problem = `its thread has ended: ${problemOf(error)}`
    })
    thread.on('exit', () => onExit(thread, problem))
    thread.unref()
    return thread
  } catch (error) {
    // Node's permission model allows threads only with --allow-worker.
    return `its thread cannot start: ${problemOf(error)}`
  }
}

/** Waits until the thread has ended by itself, at most `limit` ms, and terminates it then. */
export const threadEnd = async (thread: DatabaseThread, limit: number): Promise<void> => {
  const exited = new Promise<void>((resolve) => thread.once('exit', () => resolve()))
  const { promise: late, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, limit)
  await Promise.race([exited, late])
  clearTimeout(timer)
  // Not awaited: a thread that waits for a disk ends when the disk answers.
  void thread.terminate()
}
