/** Passes live events among the workers while one of them needs them. */
import type { LiveFromSupervisor, LiveFromWorker } from './worker-messages.ts'

/** A worker that can receive messages. */
export type LiveWorker = { send(message: LiveFromSupervisor): void }

export class LiveRelay {
  readonly #serving: () => readonly LiveWorker[]
  readonly #gateways: LiveWorker
  readonly #needing = new Set<LiveWorker>()

  /** `serving`: the workers that serve requests. `gateways`: the other gateways, as one that neither serves nor keeps events. */
  constructor(serving: () => readonly LiveWorker[], gateways: LiveWorker) {
    this.#serving = serving
    this.#gateways = gateways
  }

  onMessage(worker: LiveWorker, message: LiveFromWorker): void {
    switch (message.type) {
      case 'live':
        return this.#need(worker, message.on)
      case 'live_events':
        // Each worker keeps them, so that a client can continue its stream at any of them.
        for (const other of [...this.#serving(), this.#gateways]) if (other !== worker) other.send(message)
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
    const before = this.#needs()
    if (on) this.#needing.add(worker)
    else this.#needing.delete(worker)
    const after = this.#needs()
    if (after.all !== before.all) for (const one of this.#serving()) one.send({ type: 'live', on: after.all })
    if (after.workers !== before.workers) this.#gateways.send({ type: 'live', on: after.workers })
  }

  /** Whether a worker or another gateway needs events, and whether a worker does: gateways must not need those of each other only. */
  #needs(): { readonly all: boolean; readonly workers: boolean } {
    const all = this.#needing.size
    return { all: all > 0, workers: all > (this.#needing.has(this.#gateways) ? 1 : 0) }
  }
}
