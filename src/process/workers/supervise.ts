/**
 * The supervisor process. It starts the workers and serves no requests itself. The first worker validates the configuration
 * and takes the port; then the others start. A crashed worker is restarted after a growing delay, a hanging one is killed.
 * Signals are forwarded, and the supervisor waits for all workers. Workers shut down by themselves if the supervisor ends.
 */

import { isatty } from 'node:tty'
import type { Env } from '../../config/env.ts'
import { WORKER_VARIABLE } from '../../config/worker-count.ts'
import { LimitsReport } from '../../limits/limits-report.ts'
import { EARLIER_USAGE_COUNTS } from '../../limits/restored-budgets.ts'
import { SharedAccounts } from '../../limits/workers/shared-accounts.ts'
import { paintFor } from '../../observe/colour.ts'
import { bookkeeperReadings } from '../../observe/ledger-readings.ts'
import { type Log, openLog } from '../../observe/log.ts'
import { createRegistry, readingsText } from '../../observe/registry.ts'
import { storeTimes } from '../../observe/store-times.ts'
import { doubled } from '../../policy/retry/backoff.ts'
import { closeParts, LONGEST_END } from '../../runtime/closing.ts'
import { removeRunFile, writeRunFile } from '../../runtime/run-file.ts'
import { trustByDefault } from '../../transport/net/authorities.ts'
import { atomicLines } from './atomic-lines.ts'
import { ledgerLog } from './ledger-log.ts'
import { LiveRelay } from './live-relay.ts'
import type { Watch } from './pulse.ts'
import { SupervisorFleet } from './supervisor-fleet.ts'
import { Watchdog } from './watchdog.ts'
import type { FromWorker } from './worker-messages.ts'
import { type WorkerExit, WorkerProcess } from './worker-process.ts'
import { WorkerQueries } from './worker-queries.ts'

/** Options of `supervise`. */
export type Supervised = {
  /** The program to start and its arguments: this process's own. */
  readonly program: string
  readonly args: readonly string[]
  readonly env: Env
  /** From 2. */
  readonly workers: number
  readonly watch?: Watch
}

type Listening = Extract<FromWorker, { type: 'listening' }>

/** Restart delay in ms: first, maximum, and the uptime after which it starts at the first again. */
const RESTART = { first: 100, max: 30_000, uptime: 60_000 }
/** ms for what the supervisor has for all workers, after they have ended. */
const CLOSING = 5_000

/** Delay in ms before a restart, after `deaths` crashes in a row. */
export const restartDelay = (deaths: number): number => doubled(deaths - 1, RESTART.first, RESTART.max)

/** Starts the workers and supervises them until the process ends. */
export const supervise = (options: Supervised): void => {
  if (process.permission?.has('child') === false) return refuseForPermission(options.workers)
  new Supervisor(options).run()
}

/** The state of the supervisor process. It ends the process itself. */
class Supervisor {
  readonly #options: Supervised
  readonly #workers: readonly WorkerProcess[]
  readonly #queries: WorkerQueries
  readonly #fleet: SupervisorFleet
  readonly #accounts: SharedAccounts
  /** Figures of what it does for all workers. */
  readonly #registry = createRegistry()
  readonly #storeTimes = storeTimes(this.#registry)
  readonly #limits = new LimitsReport(
    () => Date.now(),
    () => this.#log,
  )
  readonly #live: LiveRelay
  readonly #terminal = isatty(1)
  /** Differs after a restart of the gateway. */
  readonly #instance = `${process.pid}-${Date.now()}`
  /** The first worker's address and settings, used for all others. */
  #facts: Listening | null = null
  #log: Log | null = null
  /** All workers have listened once. From then on crashed workers are restarted; before, a crash ends the start. */
  #complete = false
  /** Number of shutdown requests. */
  #times = 0
  #failed = false

  constructor(options: Supervised) {
    this.#options = options
    this.#workers = Array.from({ length: options.workers }, (_, at) => new WorkerProcess(at + 1))
    this.#accounts = new SharedAccounts({
      serving: () => this.#serving(),
      report: (event, { folder, journal, database }) => {
        if (this.#log) ledgerLog(this.#log, { folder: database ? null : folder, journal })(event)
      },
      onRestored: () => this.#log?.info('ledger', { message: EARLIER_USAGE_COUNTS }),
      onTime: (store, op, ms) => this.#storeTimes.record({ store, op }, ms / 1000),
      onLimits: (problem) => this.#limits.report(problem),
    })
    this.#queries = new WorkerQueries(
      this.#workers,
      () => this.#registry.text() + readingsText(bookkeeperReadings(this.#accounts.progress)),
    )
    this.#fleet = new SupervisorFleet({
      queries: this.#queries,
      workers: options.workers,
      serving: () => this.#serving(),
      log: () => this.#log,
      onLive: (message) => this.#live.onMessage(this.#fleet, message),
    })
    this.#live = new LiveRelay(() => this.#serving(), this.#fleet)
  }

  run(): void {
    // A debugger may pause a worker on purpose.
    const { NODE_OPTIONS = '' } = this.#options.env
    const debugged = [...process.execArgv, NODE_OPTIONS].some((option) => option.includes('--inspect'))
    if (!debugged)
      new Watchdog({
        watch: this.#options.watch,
        serving: () => this.#serving(),
        onHang: (hang) => this.#log?.error('worker_hangs', hang),
      }).start()
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => this.#end(signal))
    // Reload, or shut down if the terminal has been closed.
    process.on('SIGHUP', () => {
      if (this.#terminal && !isatty(1)) this.#end('SIGHUP')
      else for (const worker of this.#serving()) worker.send({ type: 'reload' })
    })
    const [first] = this.#workers
    if (first) this.#launch(first)
  }

  #serving(): readonly WorkerProcess[] {
    return this.#workers.filter(({ since }) => since !== null)
  }

  #allEnded(): boolean {
    return this.#workers.every(({ child }) => child === null)
  }

  #launch(worker: WorkerProcess): void {
    const { program, args, env, workers: count } = this.#options
    const facts = this.#facts
    const mark = `${worker.number}/${count} ${this.#instance}${facts === null ? ' first' : ''}`
    const pinned = facts && { PORT: String(facts.port), ...(facts.host !== undefined && { HOST: facts.host }) }
    worker.start(
      { program, args, env: { ...env, ...pinned, [WORKER_VARIABLE]: mark } },
      {
        onMessage: (message) => this.#onMessage(worker, message),
        onExit: (exit) => this.#onExit(worker, exit),
      },
    )
  }

  #onMessage(worker: WorkerProcess, message: FromWorker): void {
    worker.pulses.length = 0
    switch (message.type) {
      case 'listening':
        return this.#onListening(worker, message)
      case 'authorities':
        return void trustByDefault(message.tls)
      case 'ending':
        return this.#killAfter(worker, message.within)
      case 'query':
        return void this.#fleet
          .run(worker, message.query)
          .then((reply) => worker.send({ type: 'reply', id: message.id, reply }))
      case 'reply':
        return this.#queries.onReply(worker, message.id, message.reply)
      case 'pong':
        return
      case 'ledger':
      case 'journal_problem':
      case 'ledger_query':
      case 'budgets':
      case 'lease':
      case 'lease_totals':
      case 'lease_known':
      case 'shared_limits':
        return this.#accounts.onMessage(worker, message)
      case 'notice':
        return this.#fleet.tell(worker, message.notice)
      case 'live':
      case 'live_events':
        return this.#live.onMessage(worker, message)
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }

  #onListening(worker: WorkerProcess, message: Listening): void {
    worker.clearTimer()
    worker.since = performance.now()
    this.#live.onListening(worker)
    if (this.#times > 0) return this.#endWorker(worker, 'SIGTERM')
    if (this.#complete) return this.#log?.info('worker_started', { worker: worker.number, pid: worker.child?.pid })
    if (this.#facts === null) {
      this.#facts = message
      this.#log = openLog({
        out: atomicLines(1),
        level: message.logLevel,
        format: message.logFormat,
        paint: paintFor(this.#options.env, this.#terminal),
      })
      for (const other of this.#workers) if (other !== worker) this.#launch(other)
      return
    }
    if (this.#serving().length < this.#workers.length) return
    this.#complete = true
    void this.#fleet.join(this.#facts.fleet)
    const { dataDir, host = '::', port, basePath, secure, healthPort } = this.#facts
    writeRunFile(dataDir, { pid: process.pid, host, port, basePath, secure, healthPort })
    process.once('exit', () => removeRunFile(dataDir, process.pid))
    this.#workers[0]?.send({ type: 'announce', ms: performance.now() })
  }

  #onExit(worker: WorkerProcess, { code, why, pid, since }: WorkerExit): void {
    this.#queries.onExit(worker)
    this.#accounts.onExit(worker)
    this.#live.onExit(worker)
    if (this.#times > 0) {
      if (since !== null && code !== 0) this.#failed = true
      if (this.#allEnded()) void this.#finish()
      return
    }
    if (!this.#complete) return this.#abortStart(why, code)
    const lived = since !== null && performance.now() - since >= RESTART.uptime
    worker.deaths = lived ? 1 : worker.deaths + 1
    this.#queries.countRestart()
    const delay = restartDelay(worker.deaths)
    // A worker that ended gracefully by request is replaced too.
    const level = code === 0 ? 'info' : 'error'
    this.#log?.[level]('worker_ended', {
      worker: worker.number,
      pid,
      why,
      deaths: worker.deaths,
      again_ms: delay,
    })
    worker.after(delay, () => this.#launch(worker))
  }

  /** Ends the start. A worker that refuses its configuration has printed the reason; a killed worker has not. */
  #abortStart(why: string, code: number | null): void {
    if (code !== 1 && !this.#failed)
      process.stderr.write(`headgate: a worker ended before all of them were listening (${why})\n`)
    this.#failed = true
    for (const worker of this.#workers) worker.kill()
    if (this.#allEnded()) process.exit(1)
  }

  #killAfter(worker: WorkerProcess, ms: number): void {
    worker.after(ms + LONGEST_END, () => worker.kill())
  }

  #endWorker(worker: WorkerProcess, signal: string): void {
    if (worker.since === null) {
      worker.clearTimer()
      worker.kill('SIGTERM')
    } else worker.send({ type: 'end', time: this.#times, signal })
    if (this.#times === 1) this.#killAfter(worker, this.#facts?.grace ?? 0)
    if (this.#times > 2) worker.kill()
  }

  #end(signal: string): void {
    if (++this.#times === 1) this.#log?.info('draining', { signal, workers: this.#serving().length })
    for (const worker of this.#workers) {
      if (worker.child) this.#endWorker(worker, signal)
      else worker.clearTimer()
    }
    if (this.#allEnded()) void this.#finish()
  }

  async #finish(): Promise<void> {
    const parts = { accounts: () => this.#accounts.close(), gateways: () => this.#fleet.close() }
    await closeParts([{ within: CLOSING, parts }], (unclosed) => this.#log?.warn('not_closed', unclosed))
    this.#log?.info('stopped', { workers: this.#workers.length, in_order: !this.#failed })
    this.#log?.close()
    process.exit(this.#failed ? 1 : 0)
  }
}

/** Without this check Node fails with a stack trace if the process may not create child processes. */
const refuseForPermission = (count: number): void => {
  process.stderr.write(
    `headgate: WORKERS=${count}: Node's permission model (--permission) does not allow child processes. Set --allow-child-process, or WORKERS=1.\n`,
  )
  process.exit(1)
}
