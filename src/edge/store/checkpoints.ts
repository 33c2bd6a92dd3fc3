/**
 * SQLite writes what is committed into a log (WAL), and moves it into the file from time to time: a checkpoint, for which it
 * waits for the disk twice. That is 5 to 20 ms, and on a busy disk the better part of a second. Done by whoever happens to
 * commit, it would keep every request of the process waiting; so a thread does it.
 */
import type { Worker } from 'node:worker_threads'

export type Checkpoints = {
  /** So many bytes have been committed; a little more or less does not matter. */
  wrote(bytes: number): void
  /** Ends the thread; what it has not moved stays in the log. */
  close(): Promise<void>
}

/** Bytes in the log at which it is moved: what SQLite does by itself, 1,000 pages. */
const MOVED = 4 * 1_048_576

const THREAD = new URL('./checkpoint-thread.mjs', import.meta.url)

type Bounds = {
  /** Pages of the log from which on SQLite moves it at a commit, while the thread does not. */
  readonly most: number
  /** There is no such thread, or no longer; called at most once, maybe at once. */
  readonly failed: () => void
}

export const checkpoints = (path: string, { most, failed }: Bounds): Checkpoints => {
  let worker: Worker | null = null
  let waiting = 0
  let busy = false
  const lost = () => {
    if (worker) failed()
    worker = null
  }
  const ask = () => {
    if (busy || waiting < MOVED) return
    waiting = 0
    busy = true
    worker?.postMessage(null)
  }
  try {
    // Loaded by nobody who keeps nothing. It needs nothing of the environment, least of all keys; and little memory.
    const { Worker } = process.getBuiltinModule('node:worker_threads')
    worker = new Worker(THREAD, { workerData: path, env: {}, execArgv: [], resourceLimits: SMALL })
    worker.on('message', (pages: number) => {
      busy = false
      // More comes than the thread can move: the next commit moves the rest, which the thread at work would prevent.
      if (pages < most) ask()
    })
    worker.on('error', lost)
    worker.on('exit', lost)
    worker.unref()
  } catch {
    // Node's permission model allows none (--allow-worker).
    failed()
  }
  return {
    wrote(bytes) {
      waiting += bytes
      ask()
    },
    async close() {
      const ending = worker
      worker = null
      await ending?.terminate()
    },
  }
}

/** MB; a thread of its own has V8's defaults of a whole process otherwise. */
const SMALL = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 }
