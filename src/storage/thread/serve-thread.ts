/** Serves a program in its thread. Loaded by `thread-entry.mjs`. */
import type { MessagePort } from 'node:worker_threads'
import { problemOf } from '../sql/sqlite/sqlite-problem.ts'
import type { FromThread, ThreadAnswer, ThreadCall, ThreadProgram, ToThread } from './thread-program.ts'

type Method = (argument: unknown, call: ThreadCall) => unknown

/** Serves the port until the message `close`. Calls run concurrently; those that end together are answered in one message. */
export const serveThread = async (port: MessagePort, program: ThreadProgram, data: unknown): Promise<void> => {
  const calls = new Map<number, ThreadCall>()
  let answers: ThreadAnswer[] = []
  const post = (message: FromThread) => port.postMessage(message)
  const flush = () => {
    if (answers.length > 0) post({ answers })
    answers = []
  }
  const emit = (event: string, value: unknown) => {
    flush()
    post({ event, value })
  }
  const settle = (answer: ThreadAnswer) => {
    calls.delete(answer.number)
    if (answers.push(answer) === 1) queueMicrotask(flush)
  }
  // The client has the type of this program: its data and arguments are of these types.
  const service = await program(data as never, emit)
  const methods = service.methods as { readonly [method: string]: Method | undefined }
  const methodOf = (name: string): Method => {
    const method = methods[name]
    if (!method) throw new Error(`unknown method ${name}`)
    return method
  }
  const answer = async (number: number, name: string, argument: unknown) => {
    const call: ThreadCall = { onCancel: null }
    calls.set(number, call)
    try {
      settle({ number, value: await methodOf(name)(argument, call) })
    } catch (error) {
      settle({ number, problem: problemOf(error) })
    }
  }
  const end = async () => {
    await service.close?.()
    // The answers that it has caused are posted before.
    setImmediate(() => {
      flush()
      port.close()
    })
  }
  port.on('message', (message: ToThread) => {
    if ('cancel' in message) return calls.get(message.cancel)?.onCancel?.()
    if ('close' in message) return void end()
    const { number, method, argument } = message
    if (number !== undefined) return void answer(number, method, argument)
    methodOf(method)(argument, { onCancel: null })
  })
  post({ ready: true })
}
