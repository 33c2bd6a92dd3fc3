/** Counts limits and budgets in Redis, in a thread: the event loop that serves clients has no connection to it. */
import type { MessagePort } from 'node:worker_threads'
import type { CountersThreadOptions, ToCountersThread } from './messages.ts'
import { RedisCounters } from './redis-counters.ts'

/** Serves the port until the message `close`. */
export const serveCounters = (port: MessagePort, options: CountersThreadOptions): void => {
  const counters = new RedisCounters(options, (message) => port.postMessage(message))
  port.on('message', (message: ToCountersThread) => {
    switch (message.do) {
      case 'run':
        return counters.run(message.source, message.operations)
      case 'budgets':
        return counters.setBudgets(message.budgets)
      case 'raise':
        return counters.raise(message.sums)
      case 'adopt':
        return counters.adopt(message.sums)
      case 'add':
        return counters.add(message.sums)
      case 'exit':
        return counters.exit(message.source)
      case 'spent':
        return counters.spent(message.source, message.spends)
      case 'close':
        return void counters.close().finally(() => port.close())
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  })
}
