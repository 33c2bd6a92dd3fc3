/**
 * Where the store's thread starts (`thread.ts`). Plain JavaScript, because it lets the thread use what Node compiled before:
 * removing types and compiling takes a thread of sources 30 ms and 9 MB.
 */
import { enableCompileCache, flushCompileCache } from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'

if (workerData.compileCache) enableCompileCache(workerData.compileCache)
const { serveStore } = await import('./thread.ts')
serveStore(parentPort, workerData)
flushCompileCache()
