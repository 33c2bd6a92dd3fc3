/**
 * Entry point of the bookkeeper's thread (`thread.ts`). Plain JavaScript, so that it can enable the compile cache first:
 * without it, stripping types and compiling take longer than all the rest.
 */
import { enableCompileCache, flushCompileCache } from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'

if (workerData.compileCache) enableCompileCache(workerData.compileCache)
const { serveLedger } = await import('./thread.ts')
serveLedger(parentPort, workerData)
flushCompileCache()
