/** The other gateways, for all workers: queries of the admin API go to the workers and to them. */
import type { NamedReply, OthersReplies, RoleCall } from '../../core/fleet.ts'
import type { Log } from '../../observe/log.ts'
import type { Fleet } from '../fleet/fleet.ts'
import type { FleetLive } from '../fleet/fleet-live.ts'
import { fleetLine, processName } from '../fleet/fleet-place.ts'
import type { ProcessNotice, ReceivedNotice } from '../fleet/notice.ts'
import type { FromWorker, LiveFromSupervisor, LiveFromWorker, Query, RoleReply } from './worker-messages.ts'
import type { WorkerProcess } from './worker-process.ts'
import type { WorkerQueries } from './worker-queries.ts'

export type SupervisorFleetOptions = {
  readonly queries: WorkerQueries
  /** How many there should be. */
  readonly workers: number
  readonly serving: () => readonly WorkerProcess[]
  readonly log: () => Log | null
  /** Other gateways need events, or send theirs. */
  readonly onLive: (message: LiveFromWorker) => void
}

export class SupervisorFleet {
  readonly #options: SupervisorFleetOptions
  /** Null: this gateway shares no store with others. */
  #fleet: Fleet | null = null
  #live: FleetLive | null = null

  constructor(options: SupervisorFleetOptions) {
    this.#options = options
  }

  /** Joins the gateways that share a store; null: there is none. */
  async join(fleet: Extract<FromWorker, { type: 'listening' }>['fleet']): Promise<void> {
    if (!fleet) return
    const { openFleet } = await import('../fleet/open-fleet.ts')
    const { FleetLive } = await import('../fleet/fleet-live.ts')
    this.#fleet = await openFleet(fleet, {
      answer: (ask, within) => this.#options.queries.ask(ask, within),
      onNotice: (received) => {
        if (received.notice.kind === 'hints') this.#toWorkers(received)
        else this.#live?.receive(received)
      },
      onState: (problem) => {
        const [level, message] = fleetLine(problem)
        this.#options.log()?.[level]('gateways', { message })
      },
    })
    this.#live = new FleetLive({
      tell: (notice, to) => this.#fleet?.tell(notice, to),
      onNeeded: (on) => this.#options.onLive({ type: 'live', on }),
      onEvents: (batch) => this.#options.onLive({ type: 'live_events', ...batch }),
    })
  }

  /** A message of the relay of live events, to the other gateways. */
  send(message: LiveFromSupervisor): void {
    if (message.type === 'live') this.#live?.follow(message.on)
    else this.#live?.send(message)
  }

  /** Runs the query of a worker. */
  async run(worker: WorkerProcess, query: Query): Promise<string> {
    if (query.about === 'role') return JSON.stringify(await this.#runRole(query.role, query.call))
    if (query.about !== 'processes') return this.#options.queries.run(query)
    const { ask, within } = query
    const fleet = this.#fleet
    const [own, others] = await Promise.all([
      this.#options.queries.ask(ask, within, worker),
      fleet?.ask(ask, query) ?? { of: 0, replies: [] },
    ])
    const nameOf = (name: string | null) => (fleet ? processName(fleet.node, name) : name)
    const named = ({ name, reply }: NamedReply) => ({ name: nameOf(name), reply })
    const found: OthersReplies = {
      own: nameOf(`${worker.number}/${this.#options.workers}`),
      of: 1 + own.of + others.of,
      others: [...own.replies.map(named), ...others.replies],
      gateways: fleet?.gateways() ?? null,
    }
    return JSON.stringify(found)
  }

  async #runRole(role: string, call: RoleCall): Promise<RoleReply> {
    try {
      return this.#fleet ? { value: await this.#fleet.runRole(role, call) } : null
    } catch {
      return null
    }
  }

  /** Passes news of a worker to the others. */
  tell(worker: WorkerProcess, notice: ProcessNotice): void {
    this.#toWorkers({ notice, from: '', age: 0 }, worker)
    this.#fleet?.tell(notice)
  }

  #toWorkers(received: ReceivedNotice, except?: WorkerProcess): void {
    for (const one of this.#options.serving()) if (one !== except) one.send({ type: 'notice', ...received })
  }

  async close(): Promise<void> {
    this.#live?.close()
    await this.#fleet?.close()
  }
}
