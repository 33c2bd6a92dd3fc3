/** The dependencies of the handlers. */

import type { ConfigSources } from '../../config/load.ts'
import type { ReloadEntry } from '../../config/reload-state.ts'
import type { Client, Directory } from '../../core/accounts.ts'
import type { FullConfig } from '../../core/config.ts'
import type { Outcome } from '../../core/failure.ts'
import type { AskProcesses } from '../../core/fleet.ts'
import type { SeenIdentity } from '../../core/seen-identity.ts'
import type { ShadowState } from '../../core/shadow.ts'
import type { TapeState } from '../../core/tape-state.ts'
import type { DrillRuns } from '../../gateway/drill/drill-runs.ts'
import type { LiveDrill } from '../../gateway/drill/live-drill.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import type { HealthProblem } from '../../gateway/handlers/pages.ts'
import type { AlertingState } from '../../observe/alerts/alerting.ts'
import type { RequestCounts } from '../../observe/alerts/request-counts.ts'
import type { ClientsSeen } from '../../observe/clients-seen.ts'
import type { LiveHub } from '../../observe/live/hub.ts'
import type { IncidentLog } from '../../observe/live/incident-log.ts'
import type { TransitionLog } from '../../observe/live/transition-log.ts'
import type { ProviderMinutes } from '../../observe/provider-minutes.ts'
import type { RouteReport } from '../../policy/drill/report.ts'
import type { RunOperation } from '../../records/store/record-operations.ts'
import type { RequestBodies } from '../../usage/bodies/body-keeper.ts'
import type { UsageLedger } from '../../usage/bookkeeper/usage-ledger.ts'
import type { UsageReader } from '../../usage/reading/usage-reader.ts'
import type { Handlers } from '../routes.ts'
import type { Authentication } from './authentication.ts'
import type { Replays } from './replay.ts'
import type { SignIn } from './sign-in/sign-in.ts'

export type AdminDeps = {
  readonly gateway: Gateway
  readonly authentication: Authentication
  readonly control: Control
  readonly signIn: Pick<SignIn, 'endSession' | 'membershipOf'>
  readonly usage: UsageReader
  readonly bodies: Pick<RequestBodies, 'read' | 'kept' | 'search'>
  readonly replays: Replays
  /** The handlers of the model API. */
  readonly handlers: Handlers
  /** The client of the dashboard's own requests. `source`: the value of their tag `source`. */
  readonly dashboard: (source: string) => Outcome<Client>
  readonly ledger: Pick<UsageLedger, 'adjust' | 'state' | 'telemetry'>
  readonly process: RunningProcess
  readonly configuration: Configuration
  /** The other processes of this gateway, and other gateways that share a store with it; null: there are none. */
  readonly processes: AskProcesses | null
  /** Waits until this process has read the teams, keys, budgets and prices that were written so far. */
  readonly refresh: () => Promise<void>
  /** The last changes of circuits and keys in this process. */
  readonly transitions: Pick<TransitionLog, 'between'>
  /** The outages of providers in this process, and in earlier ones. */
  readonly incidents: Pick<IncidentLog, 'all'>
  /** The kinds of clients that have called this process. */
  readonly clients: Pick<ClientsSeen, 'all'>
  /** The subjects of signed tokens that have called this process, the latest first. */
  readonly identities: () => readonly SeenIdentity[]
  /** The tapes of this process. `state`: null: off. */
  readonly tape: { readonly mode: TapeState['mode'] | null; readonly state: () => TapeState | null }
  /** What this process has compared of the shadows of routes. */
  readonly shadows: () => readonly ShadowState[]
  /** The attempts of this process at each provider, by minute. */
  readonly minutes: Pick<ProviderMinutes, 'of'>
  /** The alerts that were sent; null: none are configured, or another process sends them. */
  readonly alerts: () => AlertingState | null
  /** The teams, keys and budgets in effect. */
  readonly directory: () => Directory
  /** What this process has seen of requests. */
  readonly counts: Pick<RequestCounts, 'sums'>
  /** ms by which the usage database lags behind the journal. */
  readonly ledgerLag: () => number
  /** What the last drill of this process has found. */
  readonly drilled: () => readonly RouteReport[]
  /** The live checks of this process; null: no route has them. */
  readonly liveDrill: () => LiveDrill | null
  /** The drill of routes, loaded on use. */
  readonly drill: () => Promise<DrillRuns>
  /** The live events, loaded on use. */
  readonly live: () => Promise<LiveHub>
}

/** The running process. */
export type RunningProcess = {
  readonly version: string
  /** ms since 1970. */
  readonly startedAt: number
  /** ms. */
  readonly uptime: () => number
  readonly production: boolean
  readonly draining: () => boolean
  /** Requests and WebSocket turns in progress. */
  readonly live: () => number
  readonly connections: () => number
  readonly problems: () => readonly HealthProblem[]
  /** Of the port. `notAfter`: ms since 1970. */
  readonly certificates: () => readonly { readonly file: string; readonly notAfter: number }[]
  /** Null: the only process that serves the port. */
  readonly worker: { readonly number: number; readonly of: number } | null
}

/** The configuration on disk and its reloads. */
export type Configuration = {
  readonly sources: ConfigSources
  readonly running: () => FullConfig
  /** Of the running configuration. */
  readonly warnings: () => readonly string[]
  /** Newest first. */
  readonly reloads: () => readonly ReloadEntry[]
  /** Reads the files now; `reloads` then has the result. */
  readonly reload: () => Promise<void>
}

/**
 * The teams, keys, budgets, prices and tokens of this process. Messages to the thread of `control.db` are plain JSON, so
 * that they can also go to another process.
 */
export type Control = {
  readonly run: RunOperation
  /** Whether there is a database. */
  readonly isStored: () => boolean
  /** Reads what others have stored, for a token that is not known. */
  readonly lookUp: () => Promise<boolean>
  /** Whether model calls need no client key. */
  readonly isOpen: () => boolean
  readonly directory: () => Directory
}
