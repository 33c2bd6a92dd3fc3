/**
 * Programs that share a thread: those that wait for the same server, and use its connections together. Each has a port of its own,
 * and is a thread to its client. An error that none of them handles ends the thread, and each client starts its program again.
 */
import { EventEmitter } from 'node:events'
import type { MessagePort, ResourceLimits, Worker } from 'node:worker_threads'

/** What a client needs of a thread. Events: `message`, `error`, and `exit`. */
export type ClientThread = Pick<EventEmitter, 'on' | 'once'> & {
  postMessage(message: unknown, moved?: readonly ArrayBuffer[]): void
  terminate(): unknown
  unref(): void
}

/** The thread of programs with connections to the database that gateways share, but for those whose work takes long. */
export const POSTGRES_THREAD = 'postgres'

export type ThreadOpener = (workerData: object, memory: ResourceLimits) => Worker

/** MB, for all programs of a thread. */
const MEMORY = { maxOldGenerationSizeMb: 1_536, maxYoungGenerationSizeMb: 16 }

/** `forget`: no other program joins it. */
type SharedThread = { readonly worker: Worker; readonly parts: Set<ThreadPart>; readonly forget: () => void }

/** By name. */
const known = new Map<string, SharedThread>()

/** Starts a program in the thread of this name, and the thread unless it runs. Neither keeps the process alive. */
export const startPart = (name: string, workerData: object, open: ThreadOpener): ClientThread => {
  return new ThreadPart(known.get(name) ?? openShared(name, workerData, open), workerData)
}

const openShared = (name: string, workerData: object, open: ThreadOpener): SharedThread => {
  const worker = open({ ...workerData, program: null, data: null }, MEMORY)
  const forget = () => known.get(name) === thread && known.delete(name)
  const thread: SharedThread = { worker, parts: new Set(), forget }
  known.set(name, thread)
  worker.on('error', (error) => {
    for (const part of thread.parts) part.emit('error', error)
  })
  worker.on('exit', () => {
    forget()
    for (const part of thread.parts) part.leave()
  })
  return thread
}

class ThreadPart extends EventEmitter implements ClientThread {
  readonly #thread: SharedThread
  readonly #port: MessagePort

  constructor(thread: SharedThread, workerData: object) {
    super()
    this.#thread = thread
    const { port1, port2 } = new MessageChannel()
    // The channel of the platform is that of node:worker_threads.
    this.#port = port1 as unknown as MessagePort
    this.#port.on('message', (message: object) => {
      if ('failed' in message) this.emit('error', message.failed)
      else this.emit('message', message)
    })
    this.#port.on('close', () => this.leave())
    this.unref()
    thread.parts.add(this)
    thread.worker.postMessage({ ...workerData, port: port2 }, [port2 as unknown as MessagePort])
  }

  postMessage(message: unknown, moved: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(message, [...moved])
  }

  /** Other programs of the thread continue. */
  terminate(): void {
    const { worker, parts, forget } = this.#thread
    if (parts.size > 1 || !parts.has(this)) return this.#port.close()
    forget()
    void worker.terminate()
  }

  unref(): void {
    this.#port.unref()
  }

  leave(): void {
    const { worker, parts, forget } = this.#thread
    if (!parts.delete(this)) return
    if (parts.size === 0) {
      forget()
      worker.postMessage(null)
    }
    this.emit('exit')
  }
}
