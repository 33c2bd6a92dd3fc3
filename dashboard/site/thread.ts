/** Makes the files of the documentation in a thread of the gateway: the npm package has the Markdown only. */
import { parentPort, workerData } from 'node:worker_threads'
import { siteFiles } from './files.ts'

parentPort?.postMessage(siteFiles(workerData.root))
