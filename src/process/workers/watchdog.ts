/** Kills workers that hang; pulse.ts states when one does. */
import { hangOf, pulseOf, type Watch } from './pulse.ts'
import type { WorkerProcess } from './worker-process.ts'

/** A stopped or blocked worker is replaced within 5 s; no event loop turn takes 4 s. */
const WATCH: Watch = { every: 1_000, misses: 3, busy: 4_000 }

export type WatchdogOptions = {
  readonly watch: Watch | undefined
  /** The workers that listen now. */
  readonly serving: () => readonly WorkerProcess[]
  /** Reports a worker before it is killed. */
  readonly onHang: (hang: {
    readonly worker: number
    readonly pid: number
    readonly why: string
    readonly silent_ms: number
  }) => void
  readonly pulse?: typeof pulseOf
}

export class Watchdog {
  readonly #options: WatchdogOptions
  readonly #watch: Watch

  constructor(options: WatchdogOptions) {
    this.#options = options
    this.#watch = options.watch ?? WATCH
  }

  start(): void {
    setInterval(() => this.check(), this.#watch.every)
  }

  /**
   * One heartbeat. Heartbeats are counted instead of reading a clock, so a suspended machine kills no worker. At most one
   * worker is killed per heartbeat: if all are silent, the cause may be the machine.
   */
  check(): void {
    const { serving, onHang, pulse = pulseOf } = this.#options
    for (const worker of serving()) {
      const pid = worker.child?.pid ?? 0
      worker.pulses.push(pulse(pid))
      const why = hangOf(worker.pulses, this.#watch)
      if (why !== null) {
        const silent = (worker.pulses.length - 1) * this.#watch.every
        onHang({ worker: worker.number, pid, why, silent_ms: silent })
        worker.pulses.length = 0
        worker.kill()
        return
      }
      worker.send({ type: 'ping' })
    }
  }
}
