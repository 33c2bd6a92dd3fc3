/** Connects a worker with its supervisor. */
import type { Watching } from '../config/watch.ts'
import type { Server } from '../server/server.ts'
import { answerQuery, followLive } from './admin-parts.ts'
import { announce } from './announce.ts'
import { logFormatOf, type Runtime } from './runtime.ts'

export const connectToSupervisor = (
  runtime: Runtime,
  server: Server,
  watching: Watching,
  end: (time: number, signal: string) => void,
): void => {
  const { gateway, loaded, metrics } = runtime
  const { data, drain } = runtime.current.config.settings
  runtime.worker?.listening(
    {
      port: server.port,
      host: loaded.launch.host,
      logLevel: loaded.launch.logLevel,
      logFormat: logFormatOf(loaded),
      grace: (drain.delay ?? 0) + drain.timeout,
      dataDir: data.dir,
    },
    {
      announce: (readyMs) => announce(runtime, server, readyMs),
      end,
      leavePort: server.leavePort,
      reload: () => void watching.reload(),
      metrics: () => metrics.text(),
      async cancel(response, owner) {
        const job = gateway.jobs.get(response)
        if (job?.owner === owner) await job.cancel()
      },
      ledgerState: (state) => runtime.ledger.sharedState(state),
      answer: (ask) => answerQuery(runtime, ask),
      followLive: (on) => void followLive(runtime, on),
      liveEvents: (batch) => runtime.current.live?.receive(batch),
    },
  )
}
