/** The parts of the running process, and what its modules share. */

import type { ConfigSources, LoadedTexts } from '../config/load.ts'
import type { reloadState } from '../config/reload-state.ts'
import type { Watching } from '../config/watch.ts'
import type { FullConfig } from '../core/config.ts'
import type { DrillRuns } from '../gateway/drill/drill-runs.ts'
import type { LiveDrill } from '../gateway/drill/live-drill.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { FetchedModelLists } from '../gateway/handlers/model-lists.ts'
import type { HealthProblem } from '../gateway/handlers/pages.ts'
import type { Shadows } from '../gateway/shadow/shadows.ts'
import type { LimitsProblem } from '../limits/limits-report.ts'
import type { RestoredBudgets } from '../limits/restored-budgets.ts'
import type { SharedLimits } from '../limits/shared-limits.ts'
import type { Alerting } from '../observe/alerts/alerting.ts'
import type { RequestCounts } from '../observe/alerts/request-counts.ts'
import type { ClientsSeen } from '../observe/clients-seen.ts'
import { paintFor } from '../observe/colour.ts'
import type { LiveHub } from '../observe/live/hub.ts'
import type { IncidentLog } from '../observe/live/incident-log.ts'
import type { TransitionLog } from '../observe/live/transition-log.ts'
import type { Log } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { ProviderMinutes } from '../observe/provider-minutes.ts'
import type { KeyStore } from '../records/store/key-store.ts'
import type { ControlPlace, StoredAccounts } from '../records/store/record-operations.ts'
import type { LoadMeter } from '../runtime/load.ts'
import { isKeyRequired } from '../server/access-rules.ts'
import type { InboundTls } from '../server/inbound-tls.ts'
import type { Server } from '../server/server.ts'
import type { threadedStore } from '../storage/responses/threaded-store.ts'
import type { Tapes } from '../tape/tapes.ts'
import type { Dialer } from '../transport/client/dial.ts'
import type { SigningDialer } from '../transport/identity/signing.ts'
import type { RequestBodies } from '../usage/bodies/body-keeper.ts'
import type { UsageLedger } from '../usage/bookkeeper/usage-ledger.ts'
import type { UsageSink } from '../usage/export/usage-sink.ts'
import type { UsageReader } from '../usage/reading/usage-reader.ts'
import type { Fleet } from './fleet/fleet.ts'
import type { FleetLive } from './fleet/fleet-live.ts'
import type { TokenIssuers } from './signed-tokens.ts'
import type { WorkerLink } from './workers/worker.ts'

export const terminal = process.stdout.isTTY === true

export const paint = paintFor(process.env, terminal)

/** A valid configuration at the start of the process. */
type Started = Extract<LoadedTexts, { readonly ok: true }>

/** What changes while the process runs. */
export type Current = {
  /** Undefined: off. */
  tape: Tapes | undefined
  config: FullConfig
  /** Undefined if the port takes plain HTTP. */
  tls: InboundTls | undefined
  /** Undefined until it listens. */
  server: Server | undefined
  /** Undefined until it listens. */
  watching: Watching | undefined
  /** Undefined until alerts are configured. */
  alerting: Alerting | undefined
  /** Undefined until an export is configured, and in all workers but the first. */
  exporter: UsageSink | undefined
  /** Undefined until a route has a shadow. */
  shadows: Shadows | undefined
  /** Undefined until a route has live checks. */
  liveDrill: LiveDrill | undefined
  /** Undefined until shapes of requests are counted. */
  drill: DrillRuns | undefined
  /** Undefined until usage is read. */
  reader: UsageReader | undefined
  /** The other gateways. Null: this one shares no store, or the supervisor has the connection. */
  fleet: Fleet | null
  fleetLive: FleetLive | null
  /** Undefined until something listens to live events. */
  live: LiveHub | undefined
  /** Problems of the configuration that do not prevent its use. */
  warnings: readonly string[]
}

export type StartOptions = {
  /** The folder above the sources, and above the built files. */
  readonly home: URL
  readonly version: string
  readonly sources: Omit<ConfigSources, 'stored'>
  readonly loaded: Started
  readonly worker: WorkerLink | undefined
  readonly read: (place: ControlPlace) => StoredAccounts | null
}

/** The parts of the running process. */
export type Runtime = Pick<StartOptions, 'home' | 'version'> & {
  readonly current: Current
  readonly loaded: Started
  /** The link to the supervisor; undefined if this is the only process. */
  readonly worker: WorkerLink | undefined
  readonly sources: ConfigSources
  readonly log: Log
  readonly metrics: Metrics
  readonly gateway: Gateway
  readonly load: LoadMeter
  readonly lists: FetchedModelLists
  readonly responses: ReturnType<typeof threadedStore>
  readonly ledger: UsageLedger
  readonly bodies: RequestBodies
  readonly keys: KeyStore
  readonly budgets: Pick<RestoredBudgets, 'changed' | 'unknown'> & Partial<Pick<RestoredBudgets, 'reading'>>
  /** Limits that several gateways share. Null: this one counts alone. `shared`: null: the supervisor has the connection. */
  readonly limits: { readonly problem: () => LimitsProblem | null; readonly shared: SharedLimits | null } | null
  readonly reload: ReturnType<typeof reloadState>
  readonly transitions: TransitionLog
  readonly incidents: IncidentLog
  /** What alerts count. */
  readonly counts: RequestCounts
  readonly clients: ClientsSeen
  readonly issuers: TokenIssuers
  readonly minutes: ProviderMinutes
  readonly problems: () => readonly HealthProblem[]
  readonly dialer: Dialer
  readonly signing: SigningDialer
  /** s since 1970. */
  readonly started: number
}

export const logFormatOf = ({ launch }: Started) => launch.logFormat ?? (terminal ? 'pretty' : 'json')

export const isKeyed = ({ current, keys }: Runtime) => isKeyRequired(current.config.settings, keys)

export const refuseToStart = (lines: readonly string[]): never => {
  process.stderr.write(lines.map((line) => `headgate: ${line}\n`).join(''))
  process.exit(1)
}
