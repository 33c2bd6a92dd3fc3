/** Creates the parts of the process in their order. */
import { createHmac, randomBytes } from 'node:crypto'
import { openCatalogue } from '../config/catalogue/catalogue.ts'
import { type ConfigSources, readEnvironment } from '../config/load.ts'
import { reloadState } from '../config/reload-state.ts'
import type { Budget, Directory } from '../core/accounts.ts'
import { canaryStateOf, canaryStateText } from '../core/canary.ts'
import type { Config } from '../core/config.ts'
import { memoizeLast } from '../core/memoize-last.ts'
import { summaryOf } from '../core/trace-summary.ts'
import type { World } from '../core/world.ts'
import { demoUpstream } from '../demo/demo.ts'
import { Accounts, type AccountsOptions } from '../gateway/accounts/accounts.ts'
import type { AccountRules } from '../gateway/accounts/accounts-state.ts'
import type { ReservationRules } from '../gateway/accounts/reservations.ts'
import { ActiveCalls } from '../gateway/call/cancellation.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { FetchedModelLists } from '../gateway/handlers/model-lists.ts'
import type { HealthProblem } from '../gateway/handlers/pages.ts'
import { UpstreamHealth } from '../gateway/health/upstream-health.ts'
import { runAgain } from '../gateway/responses/run-again.ts'
import { applyRunNews } from '../gateway/responses/run-news.ts'
import { ResponseCache } from '../gateway/sharing/response-cache.ts'
import { countersPlace } from '../limits/counters-place.ts'
import { EARLIER_USAGE_COUNTS, RestoredBudgets } from '../limits/restored-budgets.ts'
import { SentBudgets } from '../limits/workers/sent-budgets.ts'
import { budgetReadings } from '../observe/account-metrics.ts'
import { RequestCounts } from '../observe/alerts/request-counts.ts'
import { ClientsSeen } from '../observe/clients-seen.ts'
import { eventBus } from '../observe/event-bus.ts'
import { bookkeeperReadings, drillReadings, exportReadings, ledgerReadings } from '../observe/ledger-readings.ts'
import { auditEvent } from '../observe/live/live-event.ts'
import { TransitionLog } from '../observe/live/transition-log.ts'
import { openLog } from '../observe/log.ts'
import { createMetrics } from '../observe/metrics.ts'
import { telemetryOptions, telemetryRules } from '../observe/otlp/telemetry-settings.ts'
import { ProviderMinutes } from '../observe/provider-minutes.ts'
import { healthReadings, loadReadings, readingsOf } from '../observe/readings.ts'
import type { BlockedUsers } from '../policy/accounts/blocked-users.ts'
import { type BudgetScope, budgetScope } from '../policy/accounts/budget-scope.ts'
import { priceBook } from '../policy/accounts/price-book.ts'
import { operatorGuards } from '../policy/guards/operator-guards.ts'
import { bufferLimitBytes } from '../policy/health/shed.ts'
import { isListedModel } from '../policy/routing/models.ts'
import { shadowedRoutes } from '../policy/routing/team-routes.ts'
import type { StoppedSessions } from '../policy/sessions/stopped-session.ts'
import { KeyStore, type KeyStoreOptions, PROCESS } from '../records/store/key-store.ts'
import { sharedControl } from '../records/store/place.ts'
import { withByteAccounting } from '../runtime/buffered-bytes.ts'
import { limitYoungGeneration, tuneEngine } from '../runtime/heap-tuning.ts'
import { measureLoad } from '../runtime/load.ts'
import { turn } from '../runtime/turns.ts'
import { realWorld } from '../runtime/world.ts'
import { isKeyRequired } from '../server/access-rules.ts'
import { fingerprint } from '../server/fingerprint.ts'
import { clientNow } from '../server/key-index.ts'
import { sessionLetters } from '../server/session-letters.ts'
import { type StoreOptions, threadedStore } from '../storage/responses/threaded-store.ts'
import { sharedDatabase } from '../storage/sql/shared-database.ts'
import { connectionFor, dialer } from '../transport/client/dial.ts'
import { serviceRules } from '../transport/guards/service-rules.ts'
import { signing } from '../transport/identity/signing.ts'
import { type BodyKeeperOptions, RequestBodies } from '../usage/bodies/body-keeper.ts'
import { journalFolder, UsageLedger, type UsageLedgerOptions } from '../usage/bookkeeper/usage-ledger.ts'
import { drilledRoutes } from './drilled.ts'
import { HintBatch } from './fleet/notice.ts'
import { openIncidents } from './incidents.ts'
import { logControlState, logSnapshotState, logStoreChange, shadowReport } from './log-problems.ts'
import { openPassedCalls } from './passed-calls.ts'
import { type Current, logFormatOf, paint, type Runtime, type StartOptions } from './runtime.ts'
import { openIssuers } from './signed-tokens.ts'
import { openTape, taped } from './tape.ts'
import { ledgerLog } from './workers/ledger-log.ts'

/** Creates everything that the server needs. */
export const build = async ({ home, version, loaded, worker, ...options }: StartOptions): Promise<Runtime> => {
  const sources: ConfigSources = { ...options.sources, stored: () => keys.stored() }
  const [{ launch }, current] = [loaded, currentOf({ loaded, worker })]
  const catalogue = openCatalogue((message) => log.warn('catalogue', { message }), new URL('data/catalogue.json', home))
  const prices = pricesOf(catalogue, () => keys.directory())
  const log = openLog({
    out: worker?.out ?? process.stdout,
    level: launch.logLevel,
    format: logFormatOf(loaded),
    shared: worker && { worker: worker.number, whole: worker.whole },
    paint,
  })
  const upstream = dialer({
    open: await connectionFor(launch.httpClient),
    inProcess: demoUpstream(),
    egress: () => current.config.network,
    onProxyConnect: (proxy, outcome) => metrics.proxyConnect(proxy, outcome),
  })
  const signed = signing({
    dial: upstream.dial,
    environment: () => readEnvironment(sources),
    report: (error) => log.warn('sign_in', error),
  })
  const isTuned = launch.heapTuning === 'on'
  if (isTuned) tuneEngine()
  const activeCalls = new ActiveCalls()
  const inFlight = () => activeCalls.size
  const load = measureLoad({ inFlight, ...(isTuned && { whileBusy: () => limitYoungGeneration(inFlight) }) })
  const limit = () => bufferLimitBytes(current.config.settings.limit)
  const world = realWorld({
    dial: withByteAccounting(taped(launch, signed.dial), { held: load.held, limit, turn }),
  })
  current.tape = await openTape({ current, sources, log, launch, secrets: loaded.secrets }, world)
  const started = Math.floor(world.date() / 1000)
  const lists = new FetchedModelLists(world, (id, listed) => gateway.health.list(id, listed))
  const transitions = new TransitionLog(world.date)
  const [clients, minutes, counts] = [new ClientsSeen(world.date), new ProviderMinutes(world.date), new RequestCounts()]
  const emit = eventBus(
    [
      (event) => log.record(event),
      (event) => metrics.record(event),
      (event) => current.config.alerts && counts.observe(event),
      (event) => current.live?.observe(event),
      (event) => transitions.observe(event),
      (event) => incidents.observe(event),
      (event) => event.event === 'request' && clients.ended(summaryOf(event.trace)),
      (event) => event.event === 'request' && minutes.record(summaryOf(event.trace)),
      (event) => event.event === 'request' && gateway.health.canaries.observe(current.config, summaryOf(event.trace)),
    ],
    reportUnlogged,
  )
  const onTime = (store: string) => (op: string, ms: number) => metrics.store(store, op, ms)
  const responses = openResponses({ current, log, gateway: () => gateway }, { date: world.date, onTime })
  const ledger = openLedger({ current, log, worker, version }, { date: world.date, onTime: onTime('usage') })
  const incidents = openIncidents({ current, ledger, log }, world)
  const keys = openKeys({ current, log }, options.read, {
    date: world.date,
    onTime: onTime('control'),
    onChange(records) {
      for (const record of records) current.live?.note(auditEvent(record, world.date()))
      applyDecisions(gateway, keys)
      void budgets.changed()
    },
  })
  const issuers = openIssuers({ current, keys, log }, world)
  const bodies = openBodies(current, { date: world.date, onTime: onTime('bodies') })
  const reload = reloadState(world.date)
  const limits = await openLimits({ current, keys, ledger, log, worker }, { world, onTime: onTime('limits') })
  const problems = () => problemsOf({ current, responses, keys, ledger, reload, limits, budgets })
  const gateway: Gateway = {
    world,
    emit,
    bodies,
    activeCalls,
    health: healthOf({ current, worker }, world, emit),
    catalogue,
    prices,
    config: () => current.config,
    guards: guardsOf({ current, keys }, world, emit),
    lists: () => lists.all,
    teamRoutes: () => keys.directory().routes,
    responses,
    ...openPassedCalls({ current, keys, log, ledger, issuers, gateway: () => gateway }, world),
    accounts: openAccounts(
      { world, prices, reading: () => budgets.reading?.() },
      { current, keys, ledger, worker, limits },
    ),
    cache: await openCache(current, world, onTime('cache')),
    jobs: new Map(),
    clientNow: clientsOf({ current, keys, issuers }, world),
    ...optionalParts({ current, worker, responses }),
  }
  const budgets: Runtime['budgets'] = limits?.shared ?? restoredBudgets({ current, gateway, keys, ledger, log, worker })
  applyDecisions(gateway, keys)
  const metrics = createMetrics({
    version,
    started,
    readings: () => metricReadings({ current, gateway, load, problems, ledger, bodies, worker, limits }),
    perKey: () => current.config.settings.metrics.perKey,
    isKnown: (provider, model) =>
      isListedModel({ config: current.config, lists: lists.all, catalogue }, provider, model),
  })
  return {
    current,
    home,
    version,
    loaded,
    worker,
    sources,
    log,
    metrics,
    gateway,
    load,
    lists,
    responses,
    ledger,
    bodies,
    keys,
    budgets,
    limits,
    reload,
    transitions,
    incidents,
    counts,
    clients,
    issuers,
    minutes,
    problems,
    dialer: upstream,
    signing: signed,
    started,
  }
}

/** The current prices. */
const pricesOf = (catalogue: Gateway['catalogue'], directory: () => Directory) => {
  const bookOf = memoizeLast((rules: Directory['prices']) => priceBook(catalogue, rules))
  return () => bookOf(directory().prices)
}

const currentOf = ({ loaded, worker }: Pick<StartOptions, 'loaded' | 'worker'>): Current => {
  const config = worker ? worker.share(loaded.config) : loaded.config
  return {
    config,
    server: undefined,
    watching: undefined,
    alerting: undefined,
    tls: undefined,
    exporter: undefined,
    shadows: undefined,
    liveDrill: undefined,
    drill: undefined,
    reader: undefined,
    fleet: null,
    fleetLive: null,
    live: undefined,
    tape: undefined,
    warnings: [...loaded.warnings, ...(worker ? worker.warnings(config) : [])],
  }
}

const reportUnlogged = (error: unknown): void => {
  process.stderr.write(`headgate: A gateway event could not be logged: ${error}\n`)
}

/** Tells other processes what they should know of upstreams. */
const healthOf = ({ current, worker }: Pick<Runtime, 'current' | 'worker'>, world: World, emit: Gateway['emit']) => {
  const hints = new HintBatch((notice) => (worker ?? current.fleet)?.tell(notice))
  return new UpstreamHealth(world, emit, (hint) => hints.add(hint))
}

const openKeys = (
  { current, log }: Pick<Runtime, 'current' | 'log'>,
  read: StartOptions['read'],
  on: Pick<KeyStoreOptions, 'date' | 'onChange' | 'onTime'>,
): KeyStore => {
  const { settings } = current.config
  const folder = settings.data.dir
  const database = sharedControl(settings)
  const reportShadowed = shadowReport(log)
  const keys = new KeyStore({
    folder,
    database,
    read,
    file: () => current.config.accounts,
    auth: () => current.config.settings.auth,
    auditDays: () => current.config.settings.audit.keepDays,
    isConfigured() {
      const { keys, admin } = current.config.settings.auth
      const { sso, tokenRules } = current.config
      const hasCredentials = keys.length > 0 || admin !== undefined || tokenRules.length > 0
      return database !== null || hasCredentials || sso !== null
    },
    needsStore() {
      const { accounts, settings, tokenRules } = current.config
      const { keys, admin, required } = settings.auth
      const hasOthers = [keys, accounts.keys, tokenRules].some(({ length }) => length > 0) || required === false
      return (admin !== undefined || required === true) && !hasOthers
    },
    isReadyWithoutStore: () => current.config.settings.auth.required === true,
    ...on,
    onChange(records) {
      on.onChange?.(records)
      reportShadowed(shadowedRoutes(current.config, keys.directory().routes))
    },
    onState: (problem) => logControlState(log, database ? null : folder, problem),
    onSnapshot: (problem) => logSnapshotState(log, folder, problem),
  })
  reportShadowed(shadowedRoutes(current.config, keys.directory().routes))
  return keys
}

const clientsOf =
  (
    { current, keys, issuers }: Pick<Runtime, 'current' | 'keys' | 'issuers'>,
    world: World,
  ): NonNullable<Gateway['clientNow']> =>
  (client) => {
    const { settings } = current.config
    if (client.id === '' && isKeyRequired(settings, keys)) return null
    const known = clientNow({ auth: settings.auth, directory: keys.directory() }, client, world.date())
    return known ?? issuers.clientNow(client)
  }

/** Without a pepper the masks of this process are its own: a restart costs the caches of providers. */
const guardsOf = ({ current, keys }: Pick<Runtime, 'current' | 'keys'>, world: World, emit: Gateway['emit']) => {
  const teamsOf = memoizeLast(({ teams }: Directory) => new Set(Array.from(teams.values(), ({ name }) => name)))
  const secret = randomBytes(32)
  return operatorGuards({
    services: serviceRules({ ...world, onError: (error) => emit({ event: 'guard_error', ...error }) }),
    rules: () => current.config.guards,
    digest: (text) =>
      createHmac('sha256', current.config.settings.auth.pepper ?? secret)
        .update(`guards ${text}`)
        .digest(),
    fingerprint,
    turn,
    now: () => performance.now(),
    names: {
      team: (name) => teamsOf(keys.directory()).has(name),
      route: (name) => current.config.routes.has(name),
    },
  })
}

/** The parts that depend on the configuration. */
const optionalParts = (parts: Parameters<typeof claimsOf>[0]): Pick<Gateway, 'claims' | 'shadow' | 'tape'> => ({
  ...claimsOf(parts),
  ...(parts.current.tape && { tape: parts.current.tape }),
  shadow: (call) => parts.current.shadows?.follow(call) ?? null,
})

/** Workers share the file of stored responses, and gateways their database. */
const claimsOf = ({
  current,
  worker,
  responses,
}: Pick<Runtime, 'current' | 'worker' | 'responses'>): Pick<Gateway, 'claims'> =>
  worker === undefined && current.config.settings.database.url === undefined ? {} : { claims: responses.claims }

const openResponses = (
  { current, log, gateway }: Pick<Runtime, 'current' | 'log'> & { readonly gateway: () => Gateway },
  {
    date,
    onTime,
  }: { readonly date: StoreOptions['date']; readonly onTime: (store: string) => NonNullable<StoreOptions['onTime']> },
) => {
  const { dir } = current.config.settings.data
  const database = sharedDatabase(current.config.settings)
  return threadedStore({
    folder: dir,
    database,
    settings: () => current.config.settings,
    date,
    onTime: onTime('responses'),
    onNews: (news) => applyRunNews(gateway(), news),
    onLost(lost) {
      const message = `${lost.length} background responses of gateways that have ended run here now.`
      log.info('responses', { message })
      for (const run of lost) void runAgain(gateway(), run)
    },
    changed: (change) => logStoreChange(log, database ? null : dir, change),
  })
}

const openBodies = (current: Current, on: Pick<BodyKeeperOptions, 'date' | 'onTime'>) =>
  new RequestBodies({
    folder: current.config.settings.data.dir,
    settings: () => current.config.settings.bodies,
    ...on,
  })

const openLedger = (
  { current, log, worker, version }: Pick<Runtime, 'current' | 'log' | 'worker' | 'version'>,
  on: Pick<UsageLedgerOptions, 'date' | 'onTime'>,
) => {
  const { settings } = current.config
  const { dir } = settings.data
  return new UsageLedger({
    settings: () => current.config.settings,
    worker: worker && { number: worker.number, bookkeeper: worker.accounts },
    telemetry: telemetryOptions(current.config, version, (message) => log.error('telemetry', { message })),
    ...on,
    report: ledgerLog(log, {
      folder: settings.database.url === undefined ? dir : null,
      journal: journalFolder(settings),
    }),
  })
}

const openAccounts = (
  { world, prices, reading }: Pick<AccountsOptions, 'world' | 'prices' | 'reading'>,
  { current, keys, ledger, worker, limits }: Pick<Runtime, 'current' | 'keys' | 'ledger' | 'worker' | 'limits'>,
): Accounts => {
  const store = worker?.accounts.store ?? limits?.shared?.store
  return new Accounts({
    world,
    budgets: () => budgetsOf(keys.directory().budgets),
    prices,
    journal: () => (current.config.settings.usage.ledger ? ledger : null),
    rules: () => accountRules(current.config),
    blockedUsers: () => blockedUsersOf(keys.decisions()),
    stoppedSessions: () => stoppedSessionsOf(keys.decisions()),
    sessionLetters,
    shared: store && { store, rules: () => leaseRules(current, worker) },
    reading,
  })
}

const problemsOf = ({
  current,
  responses,
  keys,
  ledger,
  reload,
  limits,
  budgets,
}: Pick<
  Runtime,
  'current' | 'responses' | 'keys' | 'ledger' | 'reload' | 'limits' | 'budgets'
>): readonly HealthProblem[] => {
  const store = responses.problem()
  const control = keys.problem()
  const unrecorded = ledger.problem()
  const unshared = limits?.problem()
  const unknown = budgets.unknown()
  const unexported = current.exporter?.problem()
  return [
    store && { component: 'store' as const, ...store },
    unrecorded && { component: 'ledger' as const, ...unrecorded },
    control && { component: 'control' as const, ...control },
    unshared && { component: 'limits' as const, ...unshared },
    unknown && { component: 'budgets' as const, ...unknown },
    unexported && { component: 'export' as const, ...unexported },
    reload.problem(),
  ].filter((problem) => problem !== null && problem !== undefined)
}

/** What all that read earlier usage need. */
const restoringOf = ({ current, log }: Pick<Runtime, 'current' | 'log'>) => ({
  isRecorded: () => current.config.settings.usage.ledger,
  onProblem: (reason: string, unread: readonly Budget[]) => {
    const names = unread.map(({ name }) => name).join(', ')
    const meanwhile =
      whenUnknown(current.config) === 'serve'
        ? 'Budgets count from zero until it can'
        : 'Hard ones answer 503 budget_unavailable until it can (budget.whenUnknown, BUDGET_WHEN_UNKNOWN), soft ones count from zero'
    const message = `The earlier usage of budgets cannot be read: ${reason} (${names}). ${meanwhile}.`
    log.error('ledger', { message })
  },
})

/** A supervisor answers in memory: workers ask often, and wait for it. */
const leaseRules = ({ config, fleet }: Runtime['current'], worker: Runtime['worker']): ReservationRules => {
  const { lease } = config.settings
  const starting = () => Math.max(STARTING * (worker?.of ?? 1), fleet?.processes() ?? 0)
  return worker && countersPlace(config.settings) === null
    ? { ...lease, interval: Math.min(lease.interval, SUPERVISED.interval), hurry: SUPERVISED.hurry, starting }
    : { ...lease, hurry: HURRY, starting }
}

/** Gateways that may start at once while the counters that they share are away, beyond those that the list of gateways has. */
const STARTING = 10

/** ms that a `fast` budget waits for a store that gateways share before its overdraft is used. */
const HURRY = 50
/** ms. */
const SUPERVISED = { interval: 100, hurry: 60_000 }

/** Limits that several gateways share; null: this gateway counts alone. */
const openLimits = async (
  { current, keys, ledger, log, worker }: Pick<Runtime, 'current' | 'keys' | 'ledger' | 'log' | 'worker'>,
  { world, onTime }: Pick<Gateway, 'world'> & Required<Pick<UsageLedgerOptions, 'onTime'>>,
): Promise<Runtime['limits']> => {
  const { settings } = current.config
  const { data, database, lease } = settings
  const place = countersPlace(settings)
  if (place === null) return null
  const [{ LimitsReport }, { sharedName }, { SharedLimits }] = await Promise.all([
    import('../limits/limits-report.ts'),
    import('../usage/journal/node-name.ts'),
    import('../limits/shared-limits.ts'),
  ])
  const report = new LimitsReport(world.date, () => (worker ? null : log))
  const isLedgerShared = database.url !== undefined
  const store = { place, node: sharedName(data.dir), timeout: lease.timeout, isLedgerShared }
  const problem = () => report.problem
  const onReply = (reason: string | null) => report.report(reason)
  if (worker) {
    worker.accounts.shareLimits(store, onReply)
    return { problem, shared: null }
  }
  const shared = new SharedLimits({
    ...store,
    ...restoringOf({ current, log }),
    ledger,
    budgets: () => budgetList(keys),
    servesUnknown: () => whenUnknown(current.config) === 'serve',
    date: world.date,
    later: world.later,
    onRestored: () => log.info('ledger', { message: EARLIER_USAGE_COUNTS }),
    onReply,
    onTime,
  })
  return { problem, shared }
}

const budgetList = (keys: KeyStore): readonly Budget[] =>
  budgetsOf(keys.directory().budgets).map(({ budget }) => budget)

/** Reads what budgets have spent in earlier runs; of several workers the supervisor does. */
const restoredBudgets = ({
  current,
  gateway,
  keys,
  ledger,
  log,
  worker,
}: Pick<Runtime, 'current' | 'gateway' | 'keys' | 'ledger' | 'log' | 'worker'>): Runtime['budgets'] => {
  const restoring = restoringOf({ current, log })
  return worker
    ? new SentBudgets({
        ...restoring,
        rules: () => ({ budgets: budgetList(keys), whenUnknown: whenUnknown(current.config) }),
        ledger,
        send: (rules) => worker.accounts.setBudgets(rules),
      })
    : new RestoredBudgets({
        ...restoring,
        accounts: gateway.accounts,
        ledger,
        date: gateway.world.date,
        later: gateway.world.later,
        onRestored: () => log.info('ledger', { message: EARLIER_USAGE_COUNTS }),
      })
}

const metricReadings = ({
  current,
  gateway,
  load,
  problems,
  ledger,
  bodies,
  worker,
  limits,
}: Pick<Runtime, 'current' | 'gateway' | 'load' | 'problems' | 'ledger' | 'bodies' | 'worker' | 'limits'>) => [
  ...readingsOf(gateway),
  ...(current.server ? loadReadings(load, current.server) : []),
  ...(current.tls ? current.tls.readings() : []),
  ...healthReadings(problems(), limits !== null),
  ...ledgerReadings({ dropped: ledger.state().dropped, lostBodies: bodies.lost }),
  ...(current.exporter ? exportReadings(current.exporter.figures()) : []),
  ...drillReadings(drilledRoutes({ current, worker })),
  // Of several workers the page is completed with those of all together.
  ...(worker
    ? []
    : [
        ...bookkeeperReadings(ledger.progress()),
        ...budgetReadings(gateway.accounts.budgetStates(), current.config.settings.metrics.perKey),
      ]),
]

/** Stops using the keys that an operator has disabled, and the providers that rest. Decisions about canaries go both ways. */
const applyDecisions = ({ health, world }: Gateway, keys: KeyStore): void => {
  health.canaries.onDecision = (id, state) => {
    const decision = { do: 'decide', kind: 'canary', id, until: null, reason: state.reason } as const
    void keys.run({ ...decision, state: canaryStateText(state) }, PROCESS)
  }
  health.canaries.decide(
    new Map(
      keys.decisions().flatMap(({ kind, id, state, reason }) => {
        const known = kind === 'canary' ? canaryStateOf(state, reason) : undefined
        return known ? [[id, known]] : []
      }),
    ),
  )
  const toMonotonic = world.now() - world.date()
  health.cooldowns.decide(
    keys.decisions().flatMap(({ kind, id, state, until, reason }) => {
      const [provider = '', key = null] = id.split(' ')
      const isInEffect = kind === 'credential' ? state === 'disabled' && key !== null : state === 'open'
      return isInEffect ? [{ provider, key, until: until === null ? Infinity : until + toMonotonic, reason }] : []
    }),
  )
}

const blockedUsersOf = memoizeLast((decisions: ReturnType<KeyStore['decisions']>): BlockedUsers | null => {
  const blocked = decisions.filter(({ kind }) => kind === 'end_user')
  return blocked.length === 0 ? null : new Map(blocked.map(({ id, until }) => [id, until ?? Number.POSITIVE_INFINITY]))
})

const stoppedSessionsOf = memoizeLast((decisions: ReturnType<KeyStore['decisions']>): StoppedSessions | null => {
  const stopped = decisions.filter(({ kind }) => kind === 'session')
  if (stopped.length === 0) return null
  return new Map(
    stopped.map(({ id, until, reason }) => [id, { message: reason, until: until ?? Number.POSITIVE_INFINITY }]),
  )
})

const budgetsOf = memoizeLast((budgets: Directory['budgets']): readonly BudgetScope[] =>
  [...budgets.values()].map(budgetScope),
)

const openCache = async (
  current: Current,
  world: World,
  onTime: (op: string, ms: number) => void,
): Promise<ResponseCache> => {
  const { cache, redis } = current.config.settings
  const options = { world, fingerprint, limit: () => cacheBytes(current.config) }
  if (!cache.shared || redis.url === undefined) return new ResponseCache(options)
  const { CacheClient } = await import('../storage/cache/cache-client.ts')
  return new ResponseCache({ ...options, shared: new CacheClient({ url: redis.url, onTime }) })
}

const cacheBytes = ({ settings }: Config): number => settings.cache.maxMegabytes * 1024 * 1024

/** Made once for each configuration: every call reads them, several times. */
const accountRules = memoizeLast((config: Config): AccountRules => {
  const { budget, usage, sessions } = config.settings
  return {
    maxOutput: budget.maxOutput,
    unknownPrice: budget.unknownPrice,
    whenUnknown: whenUnknown(config),
    rollupTag: usage.rollupTag,
    endUser: usage.endUser,
    guessSessions: sessions.guess,
    telemetry: telemetryRules(config.settings),
  }
})

/** Without records there is no earlier usage. */
const whenUnknown = ({ settings: { budget, usage } }: Config): 'refuse' | 'serve' =>
  usage.ledger ? budget.whenUnknown : 'serve'
