/** Entry point of the thread that checks a configuration (`thread.ts`). Plain JavaScript, as for the other threads. */
import { enableCompileCache } from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'

if (workerData.compileCache) enableCompileCache(workerData.compileCache)
const { serveCheck } = await import('./thread.ts')
await serveCheck(parentPort, workerData)
