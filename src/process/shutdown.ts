/** Shuts the process down, by a signal or by the supervisor. */

import { isatty } from 'node:tty'
import type { Watching } from '../config/watch.ts'
import { fail } from '../core/failure.ts'
import { type ClosingStep, closeParts } from '../runtime/closing.ts'
import type { Server } from '../server/server.ts'
import type { Drain } from '../server/shutdown.ts'
import { type Runtime, terminal } from './runtime.ts'

/**
 * ms for the steps of the end. `server`: in addition to the drain, with a second for streams to end. `ends`: what begins new work.
 * `handovers`: what others are to know. `stores`: what is written. The journal has what the ledger does not store in time.
 */
export const WITHIN = { server: 1_500, ends: 500, handovers: 3_000, stores: 4_500 } as const

/** Shuts down gracefully and exits. */
export const drain = async (runtime: Runtime, server: Server, watching: Watching, signal: string): Promise<void> => {
  const { gateway, log } = runtime
  const { delay = 0, timeout } = runtime.current.config.settings.drain
  log.info('draining', { signal, delay, timeout })
  runtime.worker?.ending(delay + timeout)
  runtime.current.live?.close()
  runtime.current.fleetLive?.close()
  runtime.responses.retire()
  const endStreams = () => {
    // What other gateways can run again does not end here.
    for (const job of gateway.jobs.values()) job.handOver()
    for (const call of [...gateway.activeCalls])
      call.cancel(fail('shutdown', 'The gateway is shutting down. Ask again in a moment.'))
  }
  const background = () => gateway.jobs.values().reduce((sum, { hasEnded }) => (hasEnded ? sum : sum + 1), 0)
  const ends: Drain = {
    delay,
    timeout,
    pending: background,
    endStreams() {
      log.warn('drain_over', { requests: server.live(), background: background() })
      endStreams()
    },
  }
  const first = { within: delay + timeout + WITHIN.server, parts: { server: () => server.drain(ends) } }
  await closeParts([first, ...closingSteps(runtime, watching, endStreams)], (unclosed) =>
    log.warn('not_closed', unclosed),
  )
  log.info('stopped')
  log.close()
  process.exit(runtime.current.tape?.hasFailed ? 1 : 0)
}

const closingSteps = (runtime: Runtime, watching: Watching, endStreams: () => void): readonly ClosingStep[] => {
  const { gateway, current } = runtime
  return [
    {
      within: WITHIN.ends,
      parts: {
        // Responses continued for a client that may reconnect are ended too; their cost is recorded.
        streams: endStreams,
        configuration: () => watching.stop(),
        export: () => current.exporter?.stop(),
        shadows: () => current.shadows?.close(),
        'live checks': () => current.liveDrill?.close(),
        tape: () => current.tape?.close(),
        incidents: () => runtime.incidents.stop(),
        'model lists': () => runtime.lists.stop(),
        credentials: () => runtime.signing.close(),
        'connections to providers': () => runtime.dialer.close(),
      },
    },
    {
      within: WITHIN.handovers,
      parts: {
        alerts: () => current.alerting?.stop(),
        // Those whose end could not be stored so far.
        'background responses': () => Promise.all([...gateway.jobs.values()].map((job) => job.storeAgain())),
        leases: () => gateway.accounts.close(),
      },
    },
    {
      within: WITHIN.stores,
      parts: {
        cache: () => gateway.cache.close(),
        counters: () => runtime.limits?.shared?.close(),
        gateways: () => current.fleet?.close(),
        keys: () => runtime.keys.close(),
        responses: () => runtime.responses.close(),
        passed: () => gateway.passObjects?.close(),
        ledger: () => runtime.ledger.close(),
        bodies: () => runtime.bodies.close(),
      },
    },
  ]
}

/** Shuts down on the first signal; the returned function does the same for a signal from the supervisor. */
export const handleSignals = (runtime: Runtime, shutDown: (signal: string) => Promise<void>) => {
  let times = 0
  /**
   * The second signal skips the remaining waits: streams end with an error within a second. The third exits at once with
   * code 1.
   */
  const endFor = (time: number, signal: string) => {
    // A terminal sends the signal to every process, and the supervisor forwards it as well.
    if (time <= times) return
    times = time
    if (time > 2) {
      runtime.log.close()
      process.exit(1)
    }
    void shutDown(signal)
  }
  let signals = 0
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => endFor(++signals, signal))
  // SIGHUP reloads (see watchConfig); if the terminal itself is closed, it means shutdown.
  process.on('SIGHUP', () => {
    if (terminal && !isatty(1)) endFor(++signals, 'SIGHUP')
  })
  return endFor
}
