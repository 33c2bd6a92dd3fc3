/** Queries to all workers at once, and the metrics page merged from their replies. */
import type { NamedReplies } from '../../core/fleet.ts'
import { createRegistry } from '../../observe/registry.ts'
import { addUsage } from '../../observe/usage.ts'
import { mergeMetrics } from './merge-metrics.ts'
import type { Query } from './worker-messages.ts'
import type { WorkerProcess } from './worker-process.ts'

/** Time limit in ms for the workers to reply to a query. */
const REPLY_TIMEOUT = 500

/** Sends queries to the listening workers and collects the replies received within the time limit. */
export class WorkerQueries {
  readonly #workers: readonly WorkerProcess[]
  readonly #page: () => string
  /** s since 1970 when the supervisor began. */
  readonly #started = Math.floor(Date.now() / 1000)
  /** Queries in flight by ID; each takes a worker's reply, or null if it has none. */
  readonly #inFlight = new Map<number, (worker: WorkerProcess, reply: string | null) => void>()
  #lastId = 0
  /** Concurrent metrics requests share one query. */
  #gathering: Promise<string> | null = null
  /** Merged metrics page of ended workers. */
  #past = ''
  #restarts = 0

  /** `page`: figures of what the supervisor does for all workers. */
  constructor(workers: readonly WorkerProcess[], page: () => string) {
    this.#workers = workers
    this.#page = page
  }

  /** Returns the merged metrics page; an empty string for other queries. */
  run(query: Exclude<Query, { readonly about: 'processes' | 'role' }>): Promise<string> {
    if (query.about !== 'metrics') return this.#send(query).then(() => '')
    this.#gathering ??= this.#send(query)
      .then((replies) => this.#mergedPage(replies))
      .finally(() => {
        this.#gathering = null
      })
    return this.#gathering
  }

  /** The replies to a query of the admin API, by the numbers of the workers. `except`: a worker that is not asked. */
  async ask(ask: string, within: number, except?: WorkerProcess): Promise<NamedReplies> {
    const query: Query = { about: 'processes', ask, within, isKept: false }
    const replies = await this.#send(query, within, except)
    const of = this.#workers.length
    const named = [...replies].map(([{ number }, reply]) => ({ name: `${number}/${of}`, reply }))
    return { of: except ? of - 1 : of, replies: named }
  }

  onReply(worker: WorkerProcess, id: number, reply: string): void {
    this.#inFlight.get(id)?.(worker, reply)
  }

  /** Keeps the counters of an ended worker, and stops waiting for its replies. */
  onExit(worker: WorkerProcess): void {
    this.#past = mergeMetrics([], [this.#past, worker.page])
    worker.page = ''
    for (const onReply of [...this.#inFlight.values()]) onReply(worker, null)
  }

  countRestart(): void {
    this.#restarts++
  }

  #send(query: Query, within = REPLY_TIMEOUT, except?: WorkerProcess): Promise<ReadonlyMap<WorkerProcess, string>> {
    return new Promise((resolve) => {
      const id = ++this.#lastId
      const replies = new Map<WorkerProcess, string>()
      const missing = new Set(this.#workers.filter((one) => one.since !== null && one !== except))
      const done = () => {
        clearTimeout(timer)
        this.#inFlight.delete(id)
        resolve(replies)
      }
      const timer = setTimeout(done, within)
      this.#inFlight.set(id, (worker, reply) => {
        if (reply !== null) replies.set(worker, reply)
        missing.delete(worker)
        if (missing.size === 0) done()
      })
      for (const worker of missing) worker.send({ type: 'query', id, query })
      if (missing.size === 0) done()
    })
  }

  #mergedPage(replies: ReadonlyMap<WorkerProcess, string>): string {
    // Without a reply the last known counters are used, since counters must not decrease.
    const late = this.#workers.filter((worker) => !replies.has(worker)).map(({ page }) => page)
    for (const [worker, page] of replies) if (worker.child) worker.page = page
    return mergeMetrics([...replies.values(), this.#ownPage(replies.size)], [this.#past, ...late])
  }

  #ownPage(reporting: number): string {
    const registry = createRegistry()
    const gauge = (name: string, help: string, value: number) => registry.gauge(name, help, []).set({}, value)
    gauge('headgate_workers', 'Configured worker processes.', this.#workers.length)
    gauge(
      'headgate_workers_reporting',
      'Worker processes whose current figures are on this page; for the others the last known ones are used.',
      reporting,
    )
    registry.counter('headgate_worker_restarts_total', 'Worker restarts.', []).add({}, this.#restarts)
    addUsage(registry, this.#started)
    return registry.text() + this.#page()
  }
}
