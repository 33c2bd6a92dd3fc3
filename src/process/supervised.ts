/** Connects a process with the others: a worker with its supervisor, an only process with other gateways. */
import type { Watching } from '../config/watch.ts'
import type { Server } from '../server/server.ts'
import { answerQuery, followLive } from './admin-parts.ts'
import { addressOf, announce } from './announce.ts'
import { fleetLine, fleetOf } from './fleet/fleet-place.ts'
import type { ReceivedNotice } from './fleet/notice.ts'
import { logFormatOf, type Runtime } from './runtime.ts'

export const connectToSupervisor = (
  runtime: Runtime,
  server: Server,
  watching: Watching,
  end: (time: number, signal: string) => void,
): void => {
  const { loaded, metrics } = runtime
  const { settings } = runtime.current.config
  const { data, drain } = settings
  runtime.worker?.listening(
    {
      port: server.port,
      host: loaded.launch.host,
      ...addressOf(settings),
      logLevel: loaded.launch.logLevel,
      logFormat: logFormatOf(loaded),
      grace: (drain.delay ?? 0) + drain.timeout,
      dataDir: data.dir,
      fleet: fleetOf(runtime),
    },
    {
      announce: (readyMs) => announce(runtime, server, readyMs),
      end,
      leavePort: server.leavePort,
      reload: () => void watching.reload(),
      metrics: () => metrics.text(),
      ledgerState: (state) => runtime.ledger.sharedState(state),
      answer: (ask) => answerQuery(runtime, ask),
      notice: (received) => onNotice(runtime, received),
      followLive: (on) => void followLive(runtime, on),
      liveEvents: (batch) => runtime.current.live?.receive(batch),
    },
  )
}

/** Acts on what another process has found. */
const onNotice = ({ gateway, current }: Runtime, received: ReceivedNotice): void => {
  const { notice, age } = received
  switch (notice.kind) {
    case 'live':
    case 'live_events':
      return current.fleetLive?.receive(received)
    case 'hints': {
      const { instances } = gateway.config()
      for (const hint of notice.hints) gateway.health.learn(hint, age, instances)
      return
    }
    default:
      // Of a newer version.
      notice satisfies never
  }
}

/** Joins the gateways that share a store; of several workers the supervisor does. */
export const joinFleet = async (runtime: Runtime): Promise<void> => {
  const found = runtime.worker ? null : fleetOf(runtime)
  if (!found) return
  const { openFleet } = await import('./fleet/open-fleet.ts')
  const { FleetLive } = await import('./fleet/fleet-live.ts')
  const fleet = await openFleet(found, {
    answer: async (ask) => ({ of: 1, replies: [{ name: null, reply: await answerQuery(runtime, ask) }] }),
    onNotice: (received) => onNotice(runtime, received),
    onState(problem) {
      const [level, message] = fleetLine(problem)
      runtime.log[level]('gateways', { message })
    },
  })
  runtime.current.fleet = fleet
  runtime.current.fleetLive = new FleetLive({
    tell: (notice, to) => fleet.tell(notice, to),
    onNeeded: (on) => void followLive(runtime, on),
    onEvents: (batch) => runtime.current.live?.receive(batch),
  })
}
