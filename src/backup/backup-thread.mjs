/** Entry point of the thread that writes a backup (`thread.ts`). Plain JavaScript, as for the other threads. */
import { parentPort, workerData } from 'node:worker_threads'
import { serveBackup } from './thread.ts'

await serveBackup(parentPort, workerData)
