/**
 * The process that starts the workers and serves nothing itself. It loads next to nothing, so that it neither grows nor
 * fails: the first worker reads the configuration, refuses it if it is wrong, takes the port and says so; then the others
 * are started. One that dies is started anew, after a pause that grows while it does not live; one that gives no sign of
 * life is ended. What asks this process to end is passed on, and it waits for all of them; they end by themselves if it is
 * gone.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { isatty } from 'node:tty'
import { doubled } from '../../policy/backoff.ts'
import { paintFor } from '../observe/colour.ts'
import { type Log, openLog } from '../observe/log.ts'
import { createRegistry } from '../observe/registry.ts'
import { addUsage } from '../observe/usage.ts'
import { atomicLines } from './atomic-lines.ts'
import { mergeMetrics } from './merge-metrics.ts'
import type { FromSupervisor, FromWorker, Question } from './messages.ts'
import { hangOf, type Pulse, pulseOf, type Watch } from './pulse.ts'
import { WORKER_VARIABLE } from './worker-count.ts'

export type Supervised = {
  /** The program to start, and what it is given: this process's own. */
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
  /** ms of the monotonic clock since which it listens; null: it does not. */
  since: number | null
  /** How often in a row it did not live. */
  deaths: number
  /** Its pulse at each heartbeat since its last message. */
  pulses: (Pulse | null)[]
  /** Its page of metrics as it was last told. */
  page: string
  /** Starts it anew, or gives it up; null: nothing is awaited. */
  timer: NodeJS.Timeout | null
}

type Listening = Extract<FromWorker, { say: 'listening' }>

/** ms before one that died is started anew: the first, and the most; and for how long it has to live to begin with the first again. */
const REST = { first: 100, most: 30_000, life: 60_000 }
/** ms for a worker to listen; a machine that does everything at once takes ten seconds. */
const START = 60_000
/** ms beyond the time a worker has said that ending takes it. */
const MARGIN = 10_000
/** ms for the workers to answer what one of them asks of all. */
const ANSWERS = 500

/** A worker that was stopped, or whose event loop stands still, is replaced within 5 s; no turn of the loop takes 4 s. */
const WATCH: Watch = { every: 1_000, misses: 3, busy: 4_000 }

/** ms before a worker is started anew that died the `deaths`-th time in a row. */
export const restOf = (deaths: number): number => doubled(deaths - 1, REST.first, REST.most)

export const supervise = ({ program, args, env, workers: count, watch = WATCH }: Supervised): void => {
  if (process.permission?.has('child') === false) return refuseForPermission(count)
  const workers = Array.from({ length: count }, (_, at): Worker => {
    return { number: at + 1, child: null, since: null, deaths: 0, pulses: [], page: '', timer: null }
  })
  const started = Math.floor(Date.now() / 1000)
  const terminal = isatty(1)
  /** What the first worker found out for all of them. */
  let facts: Listening | null = null
  let log: Log | null = null
  /** All have listened once. From then on one that dies is started anew; before, the start has failed. */
  let complete = false
  /** How often the end was asked for. */
  let times = 0
  let failed = false
  /** Counts of workers that are gone. */
  let past = ''
  let restarts = 0

  const tell = ({ child }: Worker, message: FromSupervisor) => {
    // One that dies in between is told by its exit.
    if (child?.connected) child.send(message, () => {})
  }
  const serving = () => workers.filter(({ since }) => since !== null)
  const allGone = () => workers.every(({ child }) => child === null)
  const nothingAwaited = (worker: Worker) => {
    clearTimeout(worker.timer ?? undefined)
    worker.timer = null
  }
  const after = (worker: Worker, ms: number, run: () => void) => {
    nothingAwaited(worker)
    worker.timer = setTimeout(run, ms)
  }

  const launch = (worker: Worker): void => {
    const mark = `${worker.number}/${count}${facts === null ? ' first' : ''}`
    const pinned = facts && { PORT: String(facts.port), ...(facts.host !== undefined && { HOST: facts.host }) }
    const child = fork(program, args, { env: { ...env, ...pinned, [WORKER_VARIABLE]: mark }, stdio: 'inherit' })
    Object.assign(worker, { child, since: null, pulses: [] })
    // Only this same program has the other end of the channel.
    child.on('message', (message) => hear(worker, message as FromWorker))
    let over = false
    const gone = (code: number | null, why: string) => {
      if (over) return
      over = true
      onGone(worker, code, why)
    }
    child.once('exit', (code, signal) => gone(code, signal ?? `exit code ${code}`))
    // It could not be started, or not be told something: the first has no exit.
    child.on('error', (error) => {
      if (child.pid === undefined) gone(null, error.message)
    })
    after(worker, START, () => child.kill('SIGKILL'))
  }

  const hear = (worker: Worker, message: FromWorker): void => {
    worker.pulses.length = 0
    switch (message.say) {
      case 'listening':
        return onListening(worker, message)
      case 'ending':
        return giveUpAfter(worker, message.within)
      case 'ask':
        return void ask(message.question).then((answer) => tell(worker, { do: 'told', id: message.id, answer }))
      case 'told':
        return asks.get(message.id)?.(worker, message.answer)
      case 'alive':
        return
      default:
        throw new Error(`unknown word ${JSON.stringify(message satisfies never)}`)
    }
  }

  const onListening = (worker: Worker, message: Listening): void => {
    nothingAwaited(worker)
    worker.since = performance.now()
    if (times > 0) return endOf(worker, 'SIGTERM')
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
    if (first) tell(first, { do: 'announce', ms: performance.now() })
  }

  const onGone = (worker: Worker, code: number | null, why: string): void => {
    const { child, since, page } = worker
    past = mergeMetrics([], [past, page])
    Object.assign(worker, { child: null, since: null, page: '' })
    nothingAwaited(worker)
    for (const answered of [...asks.values()]) answered(worker, null)
    if (times > 0) {
      if (since !== null && code !== 0) failed = true
      if (allGone()) finish()
      return
    }
    if (!complete) return giveUpStart(why, code)
    const lived = since !== null && performance.now() - since >= REST.life
    worker.deaths = lived ? 1 : worker.deaths + 1
    restarts++
    const rest = restOf(worker.deaths)
    // Who is asked to end by itself does so in order, and is replaced all the same.
    const level = code === 0 ? 'info' : 'error'
    log?.[level]('worker_ended', { worker: worker.number, pid: child?.pid, why, deaths: worker.deaths, again_ms: rest })
    after(worker, rest, () => launch(worker))
  }

  /** Said once: whoever refused to serve has said why, and one that was killed could not. */
  const giveUpStart = (why: string, code: number | null): void => {
    if (code !== 1 && !failed) process.stderr.write(`headgate: a worker ended before all of them served (${why})\n`)
    failed = true
    for (const { child } of workers) child?.kill('SIGKILL')
    if (allGone()) process.exit(1)
  }

  /**
   * One heartbeat. Heartbeats are counted and no clock is read, so a machine that was suspended ends no worker. Ends one
   * worker at a time: where all are silent it may be the machine, and the others have until the next heartbeat.
   */
  const look = (): void => {
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
      tell(worker, { do: 'sign' })
    }
  }
  // Whoever looks at a worker with a debugger has it stand still on purpose.
  const debugged = [...process.execArgv, env.NODE_OPTIONS ?? ''].some((one) => one.includes('--inspect'))
  if (!debugged) setInterval(look, watch.every)

  // ── The end ────────────────────────────────────────────────────────────────────────────────────────────────────

  const giveUpAfter = (worker: Worker, ms: number) => after(worker, ms + MARGIN, () => worker.child?.kill('SIGKILL'))

  const endOf = (worker: Worker, signal: string): void => {
    if (worker.since === null) {
      nothingAwaited(worker)
      worker.child?.kill('SIGTERM')
    } else tell(worker, { do: 'end', time: times, signal })
    if (times === 1) giveUpAfter(worker, facts?.grace ?? 0)
    if (times > 2) worker.child?.kill('SIGKILL')
  }

  const end = (signal: string): void => {
    if (++times === 1) log?.info('draining', { signal, workers: serving().length })
    for (const worker of workers) {
      if (worker.child) endOf(worker, signal)
      else nothingAwaited(worker)
    }
    if (allGone()) finish()
  }

  const finish = (): void => {
    log?.info('stopped', { workers: count, in_order: !failed })
    log?.close()
    process.exit(failed ? 1 : 0)
  }

  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => end(signal))
  // A reload, or, where the terminal itself is gone, the end.
  process.on('SIGHUP', () => {
    if (terminal && !isatty(1)) end('SIGHUP')
    else for (const worker of serving()) tell(worker, { do: 'reload' })
  })

  // ── What one of them asks of all ───────────────────────────────────────────────────────────────────────────────

  /** Takes the answer of a worker, or that it has none, by the number of what was asked. */
  const asks = new Map<number, (worker: Worker, answer: string | null) => void>()
  let asked = 0

  /** What those that serve answer within the time they have. */
  const askAll = (question: Question): Promise<ReadonlyMap<Worker, string>> =>
    new Promise((resolve) => {
      const id = ++asked
      const answers = new Map<Worker, string>()
      const missing = new Set(serving())
      const done = () => {
        clearTimeout(timer)
        asks.delete(id)
        resolve(answers)
      }
      const timer = setTimeout(done, ANSWERS)
      asks.set(id, (worker, answer) => {
        if (answer !== null) answers.set(worker, answer)
        missing.delete(worker)
        if (missing.size === 0) done()
      })
      for (const worker of missing) tell(worker, { do: 'tell', id, question })
    })

  /** Pages are gathered once for all who ask meanwhile. */
  let gathering: Promise<string> | null = null

  const ask = (question: Question): Promise<string> => {
    if (question.about !== 'metrics') return askAll(question).then(() => '')
    gathering ??= askAll(question)
      .then(pageOfAll)
      .finally(() => {
        gathering = null
      })
    return gathering
  }

  const pageOfAll = (answers: ReadonlyMap<Worker, string>): string => {
    // Who is late has counted at least what it counted last time: what never falls must not fall here either.
    const late = workers.filter((worker) => !answers.has(worker)).map(({ page }) => page)
    for (const [worker, page] of answers) if (worker.child) worker.page = page
    return mergeMetrics([...answers.values(), ownPage(answers.size)], [past, ...late])
  }

  const ownPage = (answered: number): string => {
    const registry = createRegistry()
    const gauge = (name: string, help: string, value: number) => registry.gauge(name, help, []).set({}, value)
    gauge('headgate_workers', 'Worker processes there should be.', count)
    gauge(
      'headgate_workers_told',
      'Of them those whose figures this page has; of others it has earlier ones.',
      answered,
    )
    registry.counter('headgate_worker_restarts_total', 'Workers started anew.', []).add({}, restarts)
    addUsage(registry, started)
    return registry.text()
  }

  const [first] = workers
  if (first) launch(first)
}

/** Node ends with a trace of its own insides where a process that may start no others does. */
const refuseForPermission = (count: number): void => {
  process.stderr.write(
    `headgate: WORKERS=${count}: Node's permission model (--permission) lets this process start no others. Allow it (--allow-child-process), or run one (WORKERS=1)\n`,
  )
  process.exit(1)
}
