/** Messages between the workers and their supervisor, over the IPC channel of `fork`. */

import type { EgressTls } from '../../core/egress.ts'
import type { AskOptions, RoleAnswer, RoleCall } from '../../core/fleet.ts'
import type { AccountsFromSupervisor, AccountsFromWorker } from '../../limits/workers/account-messages.ts'
import type { NewsPlace } from '../../news/open-news.ts'
import type { LiveBatch } from '../../observe/live/event-batch.ts'
import type { ProcessNotice, ReceivedNotice } from '../fleet/notice.ts'

/** A question of one worker to all of them. */
export type Query =
  /** Their metrics pages. */
  | { readonly about: 'metrics' }
  /** A query of the admin API, as JSON; the reply is `OthersReplies` as JSON. */
  | ({ readonly about: 'processes'; readonly ask: string } & AskOptions)
  /** A call about a role among gateways; the reply is `RoleReply` as JSON. */
  | { readonly about: 'role'; readonly role: string; readonly call: RoleCall }

/** Null: the call has failed. */
export type RoleReply = { readonly value: RoleAnswer } | null

/** Live events, while a worker has a listener. */
export type LiveFromWorker =
  /** Whether this worker needs the events of the others. */
  { readonly type: 'live'; readonly on: boolean } | ({ readonly type: 'live_events' } & LiveBatch)

export type LiveFromSupervisor =
  /** Whether another worker needs the events of this one. */
  { readonly type: 'live'; readonly on: boolean } | ({ readonly type: 'live_events' } & LiveBatch)

export type FromWorker =
  | {
      readonly type: 'listening'
      /** The address for the workers started later. */
      readonly port: number
      readonly host: string | undefined
      readonly basePath: string
      readonly secure: boolean
      readonly healthPort: number
      /** Log settings for the supervisor, which does not read the configuration. */
      readonly logLevel: 'debug' | 'info' | 'warn' | 'error'
      readonly logFormat: 'pretty' | 'json'
      /** Time limit of a graceful shutdown, in ms. */
      readonly grace: number
      /** The folder for `run.json`. */
      readonly dataDir: string
      /** The store of the gateways, and the name of this one; null: there is none. It contains a password. */
      readonly fleet: { readonly place: NewsPlace; readonly node: string } | null
    }
  /** What the threads of the supervisor trust: sent before what starts them. */
  | { readonly type: 'authorities'; readonly tls: Pick<EgressTls, 'ca' | 'caOnly'> }
  /** The worker shuts down gracefully, within `within` ms. */
  | { readonly type: 'ending'; readonly within: number }
  | { readonly type: 'query'; readonly id: number; readonly query: Query }
  | { readonly type: 'reply'; readonly id: number; readonly reply: string }
  | { readonly type: 'pong' }
  /** For the other workers and gateways. */
  | { readonly type: 'notice'; readonly notice: ProcessNotice }
  | AccountsFromWorker
  | LiveFromWorker

export type FromSupervisor =
  /** All workers are listening, `ms` after the start. */
  | { readonly type: 'announce'; readonly ms: number }
  /** Shut down. `time`: 1 is gracefully, 2 at once, 3 immediately without cleanup. */
  | { readonly type: 'end'; readonly time: number; readonly signal: string }
  | { readonly type: 'reload' }
  | { readonly type: 'query'; readonly id: number; readonly query: Query }
  | { readonly type: 'reply'; readonly id: number; readonly reply: string }
  | { readonly type: 'ping' }
  | ({ readonly type: 'notice' } & ReceivedNotice)
  | AccountsFromSupervisor
  | LiveFromSupervisor
