/**
 * Entry point of the store's thread (`thread.ts`). Plain JavaScript, so that it can enable the compile cache first: without
 * it, stripping types and compiling costs 30 ms and 9 MB.
 */
import { enableCompileCache, flushCompileCache } from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'

if (workerData.compileCache) enableCompileCache(workerData.compileCache)
const { serveStore } = await import('./thread.ts')
serveStore(parentPort, workerData)
flushCompileCache()
