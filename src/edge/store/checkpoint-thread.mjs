/**
 * The thread of `checkpoints.ts`: asked to, it moves the log of the database into its file. Plain JavaScript, since removing
 * types takes a thread 10 MB and longer than all it does.
 */
import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'

const database = new DatabaseSync(workerData)
database.exec('PRAGMA synchronous = NORMAL')
// While it moves the log others may write to it.
const checkpoint = database.prepare('PRAGMA wal_checkpoint(PASSIVE)')

/** A log begins anew only when nothing is left in it, so what came meanwhile is moved as well; where there is always more it ends too. */
const MOST = 5

parentPort?.on('message', () => {
  let pages = 0
  for (let turn = 0; turn < MOST; turn++) {
    const { log } = checkpoint.get() ?? {}
    if (log === pages) break
    pages = Number(log)
  }
  parentPort?.postMessage(pages)
})
