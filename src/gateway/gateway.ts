/** The gateway's dependencies, as one value that every call receives. */
import type { Catalogue, Config } from '../core/config.ts'
import type { BodyKeeper } from '../core/kept-bodies.ts'
import type { ResponseStore } from '../core/stored-response.ts'
import type { GatewayEvent } from '../core/trace.ts'
import type { World } from '../core/world.ts'
import type { PriceBook } from '../policy/accounts/price-book.ts'
import type { Accounts } from './accounts/accounts.ts'
import type { ActiveCalls } from './call/cancellation.ts'
import type { UpstreamHealth } from './health/upstream-health.ts'
import type { BackgroundResponse } from './responses/background-response.ts'
import type { ResponseCache } from './sharing/response-cache.ts'

/** What routing a call needs. */
export type RouterDeps = {
  readonly world: World
  readonly health: UpstreamHealth
  readonly catalogue: Catalogue
  /** The current prices. */
  readonly prices: () => PriceBook
  /** Publishes an event to the log and the metrics. */
  readonly emit: (event: GatewayEvent) => void
  /** Limits and budgets of clients, and the journal. */
  readonly accounts: Accounts
  /** Keeps bodies of calls. Absent: none are kept. */
  readonly bodies?: BodyKeeper
  /** Calls in progress: shutdown cancels them through this. */
  readonly activeCalls: ActiveCalls
}

export type Gateway = RouterDeps & {
  /** The current configuration. A request keeps the one it started with. */
  readonly config: () => Config
  /** The providers' own model lists as last fetched, by instance id. */
  readonly lists: () => ReadonlyMap<string, readonly string[]>
  /** The durable store of responses. */
  readonly responses: ResponseStore
  readonly cache: ResponseCache
  /** Background responses in progress, by response id. */
  readonly jobs: Map<string, BackgroundResponse>
}
