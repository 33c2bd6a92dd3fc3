/** The messages of a WebSocket connection that wait for the turn in progress. */
import type { SocketMemory } from './socket-memory.ts'
import type { SocketTask } from './web-socket-message.ts'

/** Messages that may be queued; their characters are limited by `limit.body`. */
export const MAX_QUEUED = 16

/** `held`: characters of the message. */
export type QueuedTask = { readonly task: SocketTask; readonly held: number }

export class TurnQueue {
  readonly #memory: Pick<SocketMemory, 'done'>
  readonly #tasks: QueuedTask[] = []
  #size = 0

  /** `memory`: counts the messages until they are done. */
  constructor(memory: Pick<SocketMemory, 'done'>) {
    this.#memory = memory
  }

  /** Whether a task can wait. `limit`: of the size of all. */
  hasRoom({ size }: SocketTask, limit: number): boolean {
    return this.#tasks.length < MAX_QUEUED && this.#size + size <= limit
  }

  push(task: SocketTask, held: number): void {
    this.#tasks.push({ task, held })
    this.#size += task.size
  }

  /** Removes the oldest task. Its message is still counted. */
  shift(): QueuedTask | undefined {
    const oldest = this.#tasks.shift()
    if (oldest) this.#size -= oldest.task.size
    return oldest
  }

  /** Drops all tasks. */
  clear(): void {
    for (const { held } of this.#tasks.splice(0)) this.#memory.done(held)
    this.#size = 0
  }
}
