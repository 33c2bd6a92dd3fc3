/**
 * Entry point of the thread of a Postgres connection (`connection.ts`). Plain JavaScript, so that it can enable the compile
 * cache first.
 */
import { enableCompileCache, flushCompileCache } from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'

if (workerData.compileCache) enableCompileCache(workerData.compileCache)
const { serveConnection } = await import('./connection.ts')
serveConnection(workerData.port, workerData, parentPort)
flushCompileCache()
