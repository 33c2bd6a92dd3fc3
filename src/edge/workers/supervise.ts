/**
 * The supervisor process. It starts the workers and serves no requests itself. The first worker validates the configuration
 * and takes the port; then the others start. A crashed worker is restarted after a growing delay, a hanging one is killed.
 * Signals are forwarded, and the supervisor waits for all workers. Workers shut down by themselves if the supervisor ends.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { isatty } from 'node:tty'
import { doubled } from '../../policy/retry/backoff.ts'
import { WORKER_VARIABLE } from '../config/worker-count.ts'
import { paintFor } from '../observe/colour.ts'
import { type Log, openLog } from '../observe/log.ts'
import { createRegistry } from '../observe/registry.ts'
import { addUsage } from '../observe/usage.ts'
import { atomicLines } from './atomic-lines.ts'
import { mergeMetrics } from './merge-metrics.ts'
import type { FromSupervisor, FromWorker, Query } from './messages.ts'
import { hangOf, type Pulse, pulseOf, type Watch } from './pulse.ts'

export type Supervised = {
  /** The program to start and its arguments: this process's own. */
  readonly program: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** From 2. */
  readonly workers: number
  readonly watch?: Watch
}

type Worker = {
  readonly number: number
  child: ChildProcess | null
  /** ms of the monotonic clock when it began to listen; null if it does not. */
  since: number | null
  /** Crashes in a row. */
  deaths: number
  /** One pulse per heartbeat since its last message. */
  pulses: (Pulse | null)[]
  /** Its last metrics page. */
  page: string
  /** Timer to restart or kill it; null if there is none. */
  timer: NodeJS.Timeout | null
}

type Listening = Extract<FromWorker, { type: 'listening' }>

/** Restart delay in ms: first, maximum, and the uptime after which it starts at the first again. */
const RESTART = { first: 100, max: 30_000, uptime: 60_000 }
/** Time limit in ms for a worker to listen; on an overloaded machine a start takes ten seconds. */
const START_TIMEOUT = 60_000
/** ms added to a worker's announced shutdown time before it is killed. */
const MARGIN = 10_000
/** Time limit in ms for the workers to reply to a query. */
const REPLY_TIMEOUT = 500

/** A stopped or blocked worker is replaced within 5 s; no event loop turn takes 4 s. */
const WATCH: Watch = { every: 1_000, misses: 3, busy: 4_000 }

/** Delay in ms before a restart, after `deaths` crashes in a row. */
export const restartDelay = (deaths: number): number => doubled(deaths - 1, RESTART.first, RESTART.max)

/** Starts the workers and supervises them until the process ends. */

export const supervise = ({ program, args, env, workers: count, watch = WATCH }: Supervised): void => {
  if (process.permission?.has('child') === false) return refuseForPermission(count)
  const workers = Array.from({ length: count }, (_, at): Worker => {
    return { number: at + 1, child: null, since: null, deaths: 0, pulses: [], page: '', timer: null }
  })
  const started = Math.floor(Date.now() / 1000)
  const terminal = isatty(1)
  /** The first worker's address and settings, used for all others. */
  let facts: Listening | null = null
  let log: Log | null = null
  /** Whether all workers have listened. From then on crashed workers are restarted; before, the start fails. */
  let complete = false
  /** Number of shutdown requests. */
  let times = 0
  let failed = false
  /** Merged metrics page of ended workers. */
  let past = ''
  let restarts = 0

  const send = ({ child }: Worker, message: FromSupervisor) => {
    // If the worker ends meanwhile, its exit is reported.
    if (child?.connected) child.send(message, () => {})
  }
  const serving = () => workers.filter(({ since }) => since !== null)
  const allGone = () => workers.every(({ child }) => child === null)
  const clearTimer = (worker: Worker) => {
    clearTimeout(worker.timer ?? undefined)
    worker.timer = null
  }
  const after = (worker: Worker, ms: number, run: () => void) => {
    clearTimer(worker)
    worker.timer = setTimeout(run, ms)
  }

  const launch = (worker: Worker): void => {
    const mark = `${worker.number}/${count}${facts === null ? ' first' : ''}`
    const pinned = facts && { PORT: String(facts.port), ...(facts.host !== undefined && { HOST: facts.host }) }
    const child = fork(program, args, { env: { ...env, ...pinned, [WORKER_VARIABLE]: mark }, stdio: 'inherit' })
    Object.assign(worker, { child, since: null, pulses: [] })
    // Only this same program has the other end of the channel.
    child.on('message', (message) => onMessage(worker, message as FromWorker))
    let over = false
    const gone = (code: number | null, why: string) => {
      if (over) return
      over = true
      onGone(worker, code, why)
    }
    child.once('exit', (code, signal) => gone(code, signal ?? `exit code ${code}`))
    // The process could not be started, or a message not sent. In the first case there is no exit event.
    child.on('error', (error) => {
      if (child.pid === undefined) gone(null, error.message)
    })
    after(worker, START_TIMEOUT, () => child.kill('SIGKILL'))
  }

  const onMessage = (worker: Worker, message: FromWorker): void => {
    worker.pulses.length = 0
    switch (message.type) {
      case 'listening':
        return onListening(worker, message)
      case 'ending':
        return killAfter(worker, message.within)
      case 'query':
        return void runQuery(message.query).then((reply) => send(worker, { type: 'reply', id: message.id, reply }))
      case 'reply':
        return queries.get(message.id)?.(worker, message.reply)
      case 'pong':
        return
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }

  const onListening = (worker: Worker, message: Listening): void => {
    clearTimer(worker)
    worker.since = performance.now()
    if (times > 0) return endWorker(worker, 'SIGTERM')
    if (complete) return log?.info('worker_started', { worker: worker.number, pid: worker.child?.pid })
    if (facts === null) {
      facts = message
      log = openLog({
        out: atomicLines(1),
        level: message.logLevel,
        format: message.logFormat,
        paint: paintFor(env, terminal),
      })
      for (const other of workers) if (other !== worker) launch(other)
      return
    }
    if (serving().length < count) return
    complete = true
    const [first] = workers
    if (first) send(first, { type: 'announce', ms: performance.now() })
  }

  const onGone = (worker: Worker, code: number | null, why: string): void => {
    const { child, since, page } = worker
    past = mergeMetrics([], [past, page])
    Object.assign(worker, { child: null, since: null, page: '' })
    clearTimer(worker)
    for (const onReply of [...queries.values()]) onReply(worker, null)
    if (times > 0) {
      if (since !== null && code !== 0) failed = true
      if (allGone()) finish()
      return
    }
    if (!complete) return abortStart(why, code)
    const lived = since !== null && performance.now() - since >= RESTART.uptime
    worker.deaths = lived ? 1 : worker.deaths + 1
    restarts++
    const delay = restartDelay(worker.deaths)
    // A worker that ended gracefully by request is replaced too.
    const level = code === 0 ? 'info' : 'error'
    log?.[level]('worker_ended', {
      worker: worker.number,
      pid: child?.pid,
      why,
      deaths: worker.deaths,
      again_ms: delay,
    })
    after(worker, delay, () => launch(worker))
  }

  /** Ends the start. A worker that refused to start has printed the reason itself; a killed one could not. */
  const abortStart = (why: string, code: number | null): void => {
    if (code !== 1 && !failed)
      process.stderr.write(`headgate: a worker ended before all of them were listening (${why})\n`)
    failed = true
    for (const { child } of workers) child?.kill('SIGKILL')
    if (allGone()) process.exit(1)
  }

  /**
   * One heartbeat. Heartbeats are counted instead of reading a clock, so a suspended machine kills no worker. At most one
   * worker is killed per heartbeat: if all are silent, the cause may be the machine.
   */
  const checkWorkers = (): void => {
    for (const worker of serving()) {
      const pid = worker.child?.pid ?? 0
      worker.pulses.push(pulseOf(pid))
      const why = hangOf(worker.pulses, watch)
      if (why !== null) {
        const silent = (worker.pulses.length - 1) * watch.every
        log?.error('worker_hangs', { worker: worker.number, pid, why, silent_ms: silent })
        worker.pulses.length = 0
        worker.child?.kill('SIGKILL')
        return
      }
      send(worker, { type: 'ping' })
    }
  }
  // A debugger may pause a worker on purpose.
  const debugged = [...process.execArgv, env.NODE_OPTIONS ?? ''].some((one) => one.includes('--inspect'))
  if (!debugged) setInterval(checkWorkers, watch.every)

  // ── Shutdown ───────────────────────────────────────────────────────────────────────────────────────────────────

  const killAfter = (worker: Worker, ms: number) => after(worker, ms + MARGIN, () => worker.child?.kill('SIGKILL'))

  const endWorker = (worker: Worker, signal: string): void => {
    if (worker.since === null) {
      clearTimer(worker)
      worker.child?.kill('SIGTERM')
    } else send(worker, { type: 'end', time: times, signal })
    if (times === 1) killAfter(worker, facts?.grace ?? 0)
    if (times > 2) worker.child?.kill('SIGKILL')
  }

  const end = (signal: string): void => {
    if (++times === 1) log?.info('draining', { signal, workers: serving().length })
    for (const worker of workers) {
      if (worker.child) endWorker(worker, signal)
      else clearTimer(worker)
    }
    if (allGone()) finish()
  }

  const finish = (): void => {
    log?.info('stopped', { workers: count, in_order: !failed })
    log?.close()
    process.exit(failed ? 1 : 0)
  }

  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => end(signal))
  // Reload, or shut down if the terminal has been closed.
  process.on('SIGHUP', () => {
    if (terminal && !isatty(1)) end('SIGHUP')
    else for (const worker of serving()) send(worker, { type: 'reload' })
  })

  // ── Queries to all workers ─────────────────────────────────────────────────────────────────────────────────────

  /** Queries in flight by ID; each takes a worker's reply, or null if it has none. */
  const queries = new Map<number, (worker: Worker, reply: string | null) => void>()
  let lastQuery = 0

  /** The replies received within the time limit. */
  const queryAll = (query: Query): Promise<ReadonlyMap<Worker, string>> =>
    new Promise((resolve) => {
      const id = ++lastQuery
      const replies = new Map<Worker, string>()
      const missing = new Set(serving())
      const done = () => {
        clearTimeout(timer)
        queries.delete(id)
        resolve(replies)
      }
      const timer = setTimeout(done, REPLY_TIMEOUT)
      queries.set(id, (worker, reply) => {
        if (reply !== null) replies.set(worker, reply)
        missing.delete(worker)
        if (missing.size === 0) done()
      })
      for (const worker of missing) send(worker, { type: 'query', id, query })
    })

  /** Concurrent metrics requests share one query. */
  let gathering: Promise<string> | null = null

  const runQuery = (query: Query): Promise<string> => {
    if (query.about !== 'metrics') return queryAll(query).then(() => '')
    gathering ??= queryAll(query)
      .then(mergedPage)
      .finally(() => {
        gathering = null
      })
    return gathering
  }

  const mergedPage = (replies: ReadonlyMap<Worker, string>): string => {
    // Without a reply the last known counters are used, since counters must not decrease.
    const late = workers.filter((worker) => !replies.has(worker)).map(({ page }) => page)
    for (const [worker, page] of replies) if (worker.child) worker.page = page
    return mergeMetrics([...replies.values(), ownPage(replies.size)], [past, ...late])
  }

  const ownPage = (replied: number): string => {
    const registry = createRegistry()
    const gauge = (name: string, help: string, value: number) => registry.gauge(name, help, []).set({}, value)
    gauge('headgate_workers', 'Configured worker processes.', count)
    gauge(
      'headgate_workers_told',
      'Worker processes whose current figures are on this page; for the others the last known ones are used.',
      replied,
    )
    registry.counter('headgate_worker_restarts_total', 'Worker restarts.', []).add({}, restarts)
    addUsage(registry, started)
    return registry.text()
  }

  const [first] = workers
  if (first) launch(first)
}

/** Without this check Node fails with a stack trace where the process may not start others. */
const refuseForPermission = (count: number): void => {
  process.stderr.write(
    `headgate: WORKERS=${count}: Node's permission model (--permission) does not allow child processes. Set --allow-child-process, or WORKERS=1.\n`,
  )
  process.exit(1)
}
