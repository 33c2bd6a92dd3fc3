/**
 * Entry point of every thread: it imports the program that `connect-thread.ts` names, and serves it. Plain JavaScript, so that
 * it can enable the compile cache first: without it, stripping types and compiling take longer than all the rest.
 */
import { enableCompileCache, flushCompileCache } from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'

if (workerData.compileCache) enableCompileCache(workerData.compileCache)
const [{ serveThread }, { program }] = await Promise.all([import('./serve-thread.ts'), import(workerData.program)])
await serveThread(parentPort, program, workerData.data)
flushCompileCache()
