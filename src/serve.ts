/** Reads the configuration, builds the dependencies, starts the server and shuts it down. Only `main.ts` imports this. */
import { readFileSync } from 'node:fs'
import { isatty } from 'node:tty'
import type { Config } from './core/config.ts'
import { fail } from './core/failure.ts'
import type { TraceSummary } from './core/trace-summary.ts'
import { openCatalogue } from './edge/catalogue/catalogue.ts'
import { loadProviders } from './edge/catalogue/load-providers.ts'
import type { Loaded } from './edge/config/configure.ts'
import { type ConfigSources, loadConfig, readEnvironment } from './edge/config/load.ts'
import { problemLine } from './edge/config/problem.ts'
import { reloadState } from './edge/config/reload-state.ts'
import { type Watching, type WatchOptions, watchConfig } from './edge/config/watch.ts'
import { WORKER_VARIABLE } from './edge/config/worker-count.ts'
import { handlersFor } from './edge/http/app/handlers.ts'
import { type Server, startServer } from './edge/http/app/server.ts'
import { type SigningDialer, signing } from './edge/identity/signing.ts'
import { banner, openWarning, readyFields } from './edge/observe/banner.ts'
import { paintFor } from './edge/observe/colour.ts'
import { eventBus } from './edge/observe/event-bus.ts'
import { type Log, openLog } from './edge/observe/log.ts'
import { memoizeLast } from './edge/observe/memoize-last.ts'
import { createMetrics, type Metrics } from './edge/observe/metrics.ts'
import { healthReadings, loadReadings, readingsOf } from './edge/observe/readings.ts'
import { limitYoungGeneration } from './edge/process/heap-tuning.ts'
import { type LoadMeter, measureLoad } from './edge/process/load.ts'
import { turn } from './edge/process/turns.ts'
import { realWorld } from './edge/process/world.ts'
import { type StoreChange, threadedStore } from './edge/store/client.ts'
import { withByteAccounting } from './edge/upstream-http/buffered-bytes.ts'
import { connectionFor, type Dialer, dialer } from './edge/upstream-http/dial.ts'
import type { WorkerLink } from './edge/workers/worker.ts'
import { ActiveCalls } from './gateway/call/cancellation.ts'
import { FetchedModelLists } from './gateway/endpoints/model-lists.ts'
import type { HealthProblem } from './gateway/endpoints/pages.ts'
import type { Gateway } from './gateway/gateway.ts'
import { UpstreamHealth } from './gateway/health/upstream-health.ts'
import { createResponse } from './gateway/responses/create-response.ts'
import { bufferLimitBytes } from './policy/health/shed.ts'
import { factsOf, isListedModel } from './policy/routing/models.ts'
import { cost } from './policy/routing/price.ts'

/** The folder above the sources, and above the built files. */
const HOME = new URL('../', import.meta.url)
const { version } = JSON.parse(readFileSync(new URL('package.json', HOME), 'utf8'))
const { env } = process
const terminal = process.stdout.isTTY === true
const paint = paintFor(env, terminal)

const refuseToStart = (lines: readonly string[]): never => {
  process.stderr.write(lines.map((line) => `headgate: ${line}\n`).join(''))
  process.exit(1)
}

/**
 * Starts the gateway, or prints the problems and exits. No top-level await: modules loaded later may import this file and
 * would wait for it.
 */
export const serve = async (): Promise<void> => {
  const mark = env[WORKER_VARIABLE]
  const worker = mark === undefined ? undefined : (await import('./edge/workers/worker.ts')).connectWorker(mark)
  const sources = { env, folder: process.cwd(), providers: await loadProviders() }
  const loaded = await loadConfig(sources)
  if (!loaded.ok) return refuseToStart(loaded.problems.map(problemLine))
  await start(sources, loaded, worker)
}

/** A valid configuration at the start of the process. */
type Started = Extract<Loaded, { readonly ok: true }>

/** What changes while the process runs. */
type Current = {
  config: Config
  /** Undefined until it listens. */
  server: Server | undefined
}

/** The parts of the running process. */
type Runtime = {
  readonly current: Current
  readonly loaded: Started
  /** The link to the supervisor; undefined if this is the only process. */
  readonly worker: WorkerLink | undefined
  /** Problems of the configuration that do not prevent the start. */
  readonly warnings: readonly string[]
  readonly log: Log
  readonly metrics: Metrics
  readonly gateway: Gateway
  readonly load: LoadMeter
  readonly lists: FetchedModelLists
  readonly responses: ReturnType<typeof threadedStore>
  readonly reload: ReturnType<typeof reloadState>
  readonly problems: () => readonly HealthProblem[]
  readonly dialer: Dialer
  readonly signing: SigningDialer
  /** s since 1970. */
  readonly started: number
}

const start = async (sources: ConfigSources, loaded: Started, worker: WorkerLink | undefined): Promise<void> => {
  const runtime = await build(sources, loaded, worker)
  const server = await listen(runtime)
  runtime.current.server = server
  runtime.lists.follow(runtime.current.config.instances)
  // With several workers the first one announces, once all are listening.
  if (!worker) announce(runtime, server, performance.now())
  const watching = watchConfig({ ...sources, running: loaded, onReload: (reloaded) => applyReload(runtime, reloaded) })
  const end = handleSignals(runtime, (signal) => drain(runtime, server, watching, signal))
  connectToSupervisor(runtime, server, watching, end)
  process.on('uncaughtException', (error) => runtime.gateway.emit({ event: 'error', error }))
  process.on('unhandledRejection', (error) => runtime.gateway.emit({ event: 'error', error }))
}

/** Creates everything that the server needs. */
const build = async (sources: ConfigSources, loaded: Started, worker: WorkerLink | undefined): Promise<Runtime> => {
  const { launch } = loaded
  const config = worker ? worker.share(loaded.config) : loaded.config
  const current: Current = { config, server: undefined }
  const catalogue = openCatalogue(
    (problem) => log.warn('catalogue', { message: problem }),
    new URL('data/catalogue.json', HOME),
  )
  /** Cost in dollars, from the catalogue's nano-dollars; undefined if the price is unknown. */
  const costOf = memoizeLast(({ provider, upstreamModel, usage }: TraceSummary): number | undefined => {
    const instance = current.config.instances.find(({ id }) => id === provider)
    if (!instance || upstreamModel === undefined || !usage) return undefined
    if (instance.provider.builtin) return 0
    const nano = cost(usage, factsOf(catalogue, instance, upstreamModel))
    return nano === undefined ? undefined : nano / 1e9
  })
  const log = openLog({
    out: worker?.out ?? process.stdout,
    level: launch.logLevel,
    format: logFormatOf(loaded),
    shared: worker && { worker: worker.number, whole: worker.whole },
    paint,
    costOf,
  })
  const upstream = dialer({ open: await connectionFor(launch.httpClient) })
  const signed = signing({
    dial: upstream.dial,
    environment: () => readEnvironment(sources),
    report: (error) => log.warn('sign_in', error),
  })
  const load = measureLoad()
  const limit = () => bufferLimitBytes(current.config.settings.limit)
  const world = realWorld({ dial: withByteAccounting(signed.dial, { held: load.held, limit, turn }) })
  const started = Math.floor(world.date() / 1000)
  const lists = new FetchedModelLists(world)
  const activeCalls = new ActiveCalls()
  if (launch.heapTuning === 'on') limitYoungGeneration(() => activeCalls.size)
  const emit = eventBus([(event) => log.record(event), (event) => metrics.record(event)], (error) => {
    process.stderr.write(`headgate: A gateway event could not be logged: ${error}\n`)
  })
  const { dir } = config.settings.data
  const responses = threadedStore({
    folder: dir,
    limits: () => current.config.settings.responses,
    date: world.date,
    changed: (change) => logStoreChange(log, dir, change),
  })
  const reload = reloadState(world.date)
  const problems = (): readonly HealthProblem[] => {
    const store = responses.problem()
    return [store && { component: 'store' as const, ...store }, reload.problem()].filter((problem) => problem !== null)
  }
  const gateway: Gateway = {
    world,
    emit,
    activeCalls,
    health: new UpstreamHealth(world, emit),
    catalogue,
    config: () => current.config,
    lists: () => lists.all,
    responses,
    jobs: new Map(),
  }
  const metrics = createMetrics({
    version,
    started,
    readings: () => [
      ...readingsOf(gateway),
      ...(current.server ? loadReadings(load, current.server) : []),
      ...healthReadings(problems()),
    ],
    costOf,
    isKnown: (provider, model) =>
      isListedModel({ config: current.config, lists: lists.all, catalogue }, provider, model),
  })
  return {
    current,
    loaded,
    worker,
    warnings: [...loaded.warnings, ...(worker ? worker.warnings(config) : [])],
    log,
    metrics,
    gateway,
    load,
    lists,
    responses,
    reload,
    problems,
    dialer: upstream,
    signing: signed,
    started,
  }
}

const logFormatOf = ({ launch }: Started) => launch.logFormat ?? (terminal ? 'pretty' : 'json')

/** Starts the server, or exits with a message if the port cannot be used. */
const listen = async (runtime: Runtime): Promise<Server> => {
  const { gateway, loaded, log, metrics, worker, started, problems, load } = runtime
  const { launch } = loaded
  const { host } = launch
  const refuseToListen = (error: NodeJS.ErrnoException) => refuseToStart([notListening(error, launch.port, host)])
  const port = worker ? await worker.claim(launch.port, host).catch(refuseToListen) : launch.port
  const server: Server = await startServer({
    port,
    host,
    reusePort: worker !== undefined,
    httpServer: launch.httpServer,
    settings: () => runtime.current.config.settings,
    handlers: handlersFor({
      gateway,
      version,
      started,
      uptime: () => process.uptime() * 1000,
      draining: () => server.draining(),
      problems,
      metrics: worker ? worker.metrics : () => metrics.text(),
      worker,
    }),
    answerTurn: (received, reply, connection) => createResponse(gateway, received, reply, connection),
    onError: (error, id) => gateway.emit({ event: 'error', error, ...(id !== '' && { id }) }),
    onUnread: ({ client, ...ended }) => {
      log.warn('unread_ended', { ...ended, client: client || undefined })
      metrics.shed('unread')
    },
    onRefused: ({ id, method, path, status, failure, client, why }) => {
      log.info('refused', {
        id,
        method,
        path,
        client: client || undefined,
        status,
        kind: failure.kind,
        message: failure.message,
      })
      if (why !== undefined || failure.kind === 'draining') metrics.shed(why ?? failure.kind)
    },
    load,
  }).catch(refuseToListen)
  return server
}

const openWarningOf = ({ current, loaded }: Runtime) => openWarning(current.config, loaded.launch.host ?? '::')

const warnIfOpen = (runtime: Runtime): void => {
  const message = openWarningOf(runtime)
  if (message !== null) runtime.log.warn('open', { message })
}

/** Prints the banner, or logs `ready`. `readyMs`: ms since the start of the process. */
const announce = (runtime: Runtime, server: Server, readyMs: number): void => {
  const { loaded, log, warnings, worker } = runtime
  const { config } = runtime.current
  const { launch, sources } = loaded
  const facts = {
    version,
    readyMs,
    address: { host: launch.host ?? '::', port: server.port },
    config,
    production: launch.production,
    file: sources.file,
    warnings,
    workers: worker?.of,
  }
  if (terminal && launch.logFormat !== 'json') process.stdout.write(`${banner(facts, paint)}\n`)
  else {
    for (const warning of warnings) log.warn('config', { message: warning })
    log.info('ready', readyFields(facts))
  }
  warnIfOpen(runtime)
  if (config.instances.length === 0)
    log.error('unconfigured', {
      message:
        'No provider is configured: model calls are answered 503. Set OPENAI_API_KEY, ANTHROPIC_API_KEY or another.',
    })
}

const applyReload = (runtime: Runtime, reloaded: Parameters<WatchOptions['onReload']>[0]): void => {
  const { lists, log, reload, worker } = runtime
  reload.note(reloaded)
  if (reloaded.kind === 'refused') {
    for (const problem of reloaded.problems) log.error('config_refused', { message: problemLine(problem) })
    return
  }
  for (const warning of reloaded.warnings) log.warn('config', { message: warning })
  if (reloaded.kind === 'unchanged') return log.info('config_unchanged')
  const wasOpen = openWarningOf(runtime) !== null
  runtime.current.config = worker ? worker.share(reloaded.config) : reloaded.config
  lists.follow(runtime.current.config.instances)
  if (!wasOpen) warnIfOpen(runtime)
  log.info('config_changed', { changes: [...reloaded.changes] })
}

/** Shuts down gracefully and exits. */
const drain = async (runtime: Runtime, server: Server, watching: Watching, signal: string): Promise<void> => {
  const { gateway, log } = runtime
  const { delay = 0, timeout } = runtime.current.config.settings.drain
  log.info('draining', { signal, delay, timeout })
  runtime.worker?.ending(delay + timeout)
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
  runtime.lists.stop()
  runtime.signing.close()
  await runtime.dialer.close()
  // Background responses whose end could not be stored so far. The store limits the time of a write.
  await Promise.all([...gateway.jobs.values()].map((job) => job.storeAgain()))
  await runtime.responses.close()
  log.info('stopped')
  log.close()
  process.exit(0)
}

/** Shuts down on the first signal; the returned function does the same for a signal from the supervisor. */
const handleSignals = (runtime: Runtime, shutDown: (signal: string) => Promise<void>) => {
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

const connectToSupervisor = (
  runtime: Runtime,
  server: Server,
  watching: Watching,
  end: (time: number, signal: string) => void,
): void => {
  const { gateway, loaded, metrics } = runtime
  const { drain } = runtime.current.config.settings
  runtime.worker?.listening(
    {
      port: server.port,
      host: loaded.launch.host,
      logLevel: loaded.launch.logLevel,
      logFormat: logFormatOf(loaded),
      grace: (drain.delay ?? 0) + drain.timeout,
    },
    {
      announce: (readyMs) => announce(runtime, server, readyMs),
      end,
      reload: () => void watching.reload(),
      metrics: () => metrics.text(),
      async cancel(response, owner) {
        const job = gateway.jobs.get(response)
        if (job?.owner === owner) await job.cancel()
      },
    },
  )
}

function logStoreChange(log: Log, folder: string, change: StoreChange): void {
  const { status } = change
  if (status === 'degraded')
    log.error('store', {
      status,
      message: `Responses cannot be stored in ${folder} (data.dir, DATA_DIR): ${change.reason}. Answers state store: false until they can.`,
    })
  else if (status === 'ok') log.info('store', { status, message: `Responses are stored in ${folder} again.` })
  else
    log.warn('store', {
      status,
      message: `The database in ${folder} (data.dir, DATA_DIR) was deleted or moved while in use. A new one was created.`,
    })
}

function notListening(error: NodeJS.ErrnoException, port: number, host: string | undefined): string {
  switch (error.code) {
    case 'EADDRINUSE':
      return `Port ${port} is in use. Choose another: PORT=${port + 1}`
    case 'EACCES':
      return `Port ${port} requires more privileges. Choose one above 1023: PORT=3000`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `HOST=${host} is not an address of this machine. Choose another: HOST=127.0.0.1`
    case 'ENOTSUP':
      return 'WORKERS: this system does not support several processes on one port. Set WORKERS=1, or run several instances on different ports behind a load balancer.'
    default:
      return `Cannot listen on port ${port}: ${error.message}`
  }
}
