/** Shuts the process down, by a signal or by the supervisor. */

import { isatty } from 'node:tty'
import type { Watching } from '../config/watch.ts'
import { fail } from '../core/failure.ts'
import type { Server } from '../server/server.ts'
import { type Runtime, terminal } from './runtime.ts'

/** Shuts down gracefully and exits. */
export const drain = async (runtime: Runtime, server: Server, watching: Watching, signal: string): Promise<void> => {
  const { gateway, log } = runtime
  const { delay = 0, timeout } = runtime.current.config.settings.drain
  log.info('draining', { signal, delay, timeout })
  runtime.worker?.ending(delay + timeout)
  runtime.current.live?.close()
  runtime.current.fleetLive?.close()
  const endStreams = () => {
    for (const call of [...gateway.activeCalls])
      call.cancel(fail('shutdown', 'The gateway is shutting down. Ask again in a moment.'))
  }
  await server.drain({
    delay,
    timeout,
    endStreams,
    pending: () => gateway.jobs.values().reduce((sum, { hasEnded }) => (hasEnded ? sum : sum + 1), 0),
  })
  // Responses continued for a client that may reconnect are ended too; their cost is recorded.
  endStreams()
  watching.stop()
  runtime.current.exporter?.stop()
  await runtime.current.alerting?.stop()
  runtime.incidents.stop()
  runtime.lists.stop()
  runtime.signing.close()
  await runtime.dialer.close()
  // Background responses whose end could not be stored so far. The store limits the time of a write.
  await Promise.all([...gateway.jobs.values()].map((job) => job.storeAgain()))
  await gateway.accounts.close()
  await Promise.all([runtime.limits?.shared?.close(), runtime.current.fleet?.close()])
  await Promise.all([runtime.keys.close(), runtime.responses.close(), runtime.ledger.close(), runtime.bodies.close()])
  log.info('stopped')
  log.close()
  process.exit(0)
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
