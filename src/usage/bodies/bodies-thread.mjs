/**
 * Entry point of the thread of `bodies.db` (`thread.ts`). Plain JavaScript, so that it can enable the compile cache first:
 * without it, stripping types and compiling take longer than all the rest.
 */
import { enableCompileCache, flushCompileCache } from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'

if (workerData.compileCache) enableCompileCache(workerData.compileCache)
const { serveBodies } = await import('./thread.ts')
serveBodies(parentPort, workerData)
flushCompileCache()
