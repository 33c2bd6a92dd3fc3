/** Checks one text in a thread, because a parser can need seconds for it. Loaded by `check-thread.mjs`. */
import type { MessagePort } from 'node:worker_threads'
import { loadProviders } from '../catalogue/load-providers.ts'
import { checkText } from './check-text.ts'
import type { CheckMessage, CheckTask } from './messages.ts'

/** Says that the modules are loaded, and then the result. */
export const serveCheck = async (port: MessagePort, task: CheckTask): Promise<void> => {
  const post = (message: CheckMessage) => port.postMessage(message)
  const providers = await loadProviders()
  post({ ready: true })
  post(await checkText(task, providers))
}
