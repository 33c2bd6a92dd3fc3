/** The other gateways, for all workers: queries of the admin API go to the workers and to them. */
import type { NamedReply, OthersReplies } from '../../core/fleet.ts'
import type { Log } from '../../observe/log.ts'
import type { Fleet } from '../fleet/fleet.ts'
import { fleetLine, processName } from '../fleet/fleet-messages.ts'
import type { FromWorker, Query } from './worker-messages.ts'
import type { WorkerProcess } from './worker-process.ts'
import type { WorkerQueries } from './worker-queries.ts'

export class SupervisorFleet {
  readonly #queries: WorkerQueries
  readonly #workers: number
  readonly #log: () => Log | null
  /** Null: this gateway shares no store with others. */
  #fleet: Fleet | null = null

  constructor(queries: WorkerQueries, workers: number, log: () => Log | null) {
    this.#queries = queries
    this.#workers = workers
    this.#log = log
  }

  /** Joins the gateways that share a store; null: there is none. */
  async join(fleet: Extract<FromWorker, { type: 'listening' }>['fleet']): Promise<void> {
    if (!fleet) return
    const { openFleet } = await import('../fleet/open-fleet.ts')
    this.#fleet = await openFleet(fleet, {
      answer: (ask, within) => this.#queries.ask(ask, within),
      onState: (problem) => {
        const [level, message] = fleetLine(problem)
        this.#log()?.[level]('gateways', { message })
      },
    })
  }

  /** Runs the query of a worker. */
  async run(worker: WorkerProcess, query: Query): Promise<string> {
    if (query.about !== 'processes') return this.#queries.run(query)
    const { ask, within } = query
    const fleet = this.#fleet
    const [own, others] = await Promise.all([
      this.#queries.ask(ask, within, worker),
      fleet?.ask(ask, query) ?? { of: 0, replies: [] },
    ])
    const nameOf = (name: string | null) => (fleet ? processName(fleet.node, name) : name)
    const named = ({ name, reply }: NamedReply) => ({ name: nameOf(name), reply })
    const found: OthersReplies = {
      own: nameOf(`${worker.number}/${this.#workers}`),
      of: 1 + own.of + others.of,
      others: [...own.replies.map(named), ...others.replies],
      gateways: fleet?.gateways() ?? null,
    }
    return JSON.stringify(found)
  }

  async close(): Promise<void> {
    await this.#fleet?.close()
  }
}
