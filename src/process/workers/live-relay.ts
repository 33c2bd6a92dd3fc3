/** Passes live events among the workers while one of them needs them. */
import type { LiveFromSupervisor, LiveFromWorker } from './worker-messages.ts'

/** A worker that can receive messages. */
export type LiveWorker = { send(message: LiveFromSupervisor): void }

export class LiveRelay {
  readonly #serving: () => readonly LiveWorker[]
  readonly #needing = new Set<LiveWorker>()

  /** `serving`: the workers that serve requests. */
  constructor(serving: () => readonly LiveWorker[]) {
    this.#serving = serving
  }

  onMessage(worker: LiveWorker, message: LiveFromWorker): void {
    switch (message.type) {
      case 'live':
        return this.#need(worker, message.on)
      case 'live_events':
        // Each worker keeps them, so that a client can continue its stream at any of them.
        for (const other of this.#serving()) if (other !== worker) other.send(message)
        return
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }

  onListening(worker: LiveWorker): void {
    if (this.#needing.size > 0) worker.send({ type: 'live', on: true })
  }

  onExit(worker: LiveWorker): void {
    this.#need(worker, false)
  }

  #need(worker: LiveWorker, on: boolean): void {
    const before = this.#needing.size > 0
    if (on) this.#needing.add(worker)
    else this.#needing.delete(worker)
    const isNeeded = this.#needing.size > 0
    if (isNeeded !== before) for (const one of this.#serving()) one.send({ type: 'live', on: isNeeded })
  }
}
