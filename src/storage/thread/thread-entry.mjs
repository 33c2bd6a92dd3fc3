/**
 * Entry point of every thread: it imports the program that `connect-thread.ts` names, and serves it. Plain JavaScript, so that
 * it can enable the compile cache first: without it, stripping types and compiling take longer than all the rest.
 */
import { enableCompileCache, flushCompileCache } from 'node:module'
import { getEnvironmentData, parentPort, workerData } from 'node:worker_threads'

if (workerData.compileCache) enableCompileCache(workerData.compileCache)
// `network.ca`, for the clients of databases: see `authorities.ts` in `transport/net`.
const authorities = getEnvironmentData('headgate authorities')
if (authorities) {
  const { getCACertificates, setDefaultCACertificates } = process.getBuiltinModule('node:tls')
  const own = authorities.caOnly ? [] : getCACertificates('default')
  setDefaultCACertificates([...own, authorities.ca])
}
const serve = async (port, { program: url, data }) => {
  const [{ serveThread }, { program }] = await Promise.all([import('./serve-thread.ts'), import(url)])
  await serveThread(port, program, data)
  flushCompileCache()
}
// Without a program it has several (`thread-part.ts`).
if (workerData.program) await serve(parentPort, workerData)
else
  parentPort.on('message', (part) => {
    if (!part) return parentPort.close()
    // The others of the thread go on.
    serve(part.port, part).catch((error) => {
      part.port.postMessage({ failed: error })
      part.port.close()
    })
  })
