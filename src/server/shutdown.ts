/** Graceful and immediate shutdown of a server. */
import type { HttpServer } from '../transport/server/http-server.ts'
import type { Admission } from './request-admission.ts'
import type { Upgrade } from './upgrade.ts'

/** How a server drains. */
export type Drain = {
  /** ms to serve on before the port closes, so that load balancers notice. */
  readonly delay: number
  /** ms for requests in progress to finish. */
  readonly timeout: number
  /** Makes every stream in progress end with an error event. */
  readonly endStreams: () => void
  /** Other work in progress for which no client waits, such as background responses. */
  readonly pending?: () => number
}

type ShutdownOptions = {
  readonly server: HttpServer
  readonly admission: Admission
  readonly upgrade: Upgrade
  /** ms for streams to end after `endStreams`. */
  readonly farewell: number
  readonly stopMeasuring: () => void
}

/** Ends a server, once. */
export class Shutdown {
  readonly #options: ShutdownOptions
  #drained: Promise<void> | null = null
  /** Ends the current wait early. */
  #skipWait: (() => void) | null = null
  /** Ends the delay of the drain early, while it lasts. */
  #skipDelay: (() => void) | null = null
  #hurried = false
  #isPortWanted = false

  constructor(options: ShutdownOptions) {
    this.#options = options
  }

  /** Ends gracefully; resolves when nothing is left. A second call skips the remaining waits: streams end with an error within `farewell` ms. */
  drain(how: Drain): Promise<void> {
    if (this.#drained) {
      this.#hurried = true
      this.#skipWait?.()
    }
    this.#drained ??= this.#drain(how)
    return this.#drained
  }

  /** Makes a drain, now or later, close the port without its delay. Requests in progress keep their time. */
  leavePort(): void {
    this.#isPortWanted = true
    this.#skipDelay?.()
  }

  /** Ends at once: requests in progress are aborted. */
  async close(): Promise<void> {
    const { server, admission, stopMeasuring } = this.#options
    if (admission.phase === 'serving') admission.phase = 'draining'
    stopMeasuring()
    const closed = server.close()
    this.#destroyConnections()
    await closed
  }

  async #drain({ delay, timeout, endStreams, pending = () => 0 }: Drain): Promise<void> {
    const { server, admission, upgrade, farewell, stopMeasuring } = this.#options
    admission.phase = 'draining'
    upgrade.drain()
    const left = () => admission.requests + upgrade.open() + pending()
    for (const { active } of admission.connections)
      for (const { exchange } of active) if (!exchange.begun) exchange.closeAfter()
    if (delay > 0 && !this.#hurried && !this.#isPortWanted) await this.#serveOn(delay)
    const closed = server.close()
    if (left() > 0 && !this.#hurried) await this.#waitUntil(() => left() === 0, timeout)
    if (left() > 0) {
      admission.phase = 'ending'
      endStreams()
      this.#hurried = false
      await this.#waitUntil(() => left() === 0, farewell)
    }
    this.#destroyConnections()
    await closed
    stopMeasuring()
  }

  #destroyConnections(): void {
    for (const { connection } of this.#options.admission.connections) connection.destroy()
  }

  /** Idle connections stay while the port is open: a request may be in flight on one. */
  #serveOn(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const stop = () => {
        clearTimeout(timer)
        this.#skipWait = null
        this.#skipDelay = null
        resolve()
      }
      const timer = setTimeout(stop, ms)
      this.#skipWait = stop
      this.#skipDelay = stop
    })
  }

  /** Polls every few ms until the condition holds, the time is over or a second call skips the wait. */
  #waitUntil(isDone: () => boolean, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = performance.now() + ms
      const poll = setInterval(
        () => {
          this.#options.server.closeIdle()
          if (isDone() || this.#hurried || performance.now() >= end) stop()
        },
        Math.min(50, Math.max(1, ms)),
      )
      const stop = () => {
        clearInterval(poll)
        this.#skipWait = null
        resolve()
      }
      this.#skipWait = stop
    })
  }
}
