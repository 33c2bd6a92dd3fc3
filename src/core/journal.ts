/**
 * The usage journal: what the gateway records of each attempt and request, in whole nano-dollars and ms since 1970. An
 * attempt is recorded before it is sent, so every charge of a provider has a record, whatever happens to the process.
 */
import type { UsageSource } from './accounts.ts'
import type { Incident } from './incident.ts'
import type { PriceSource } from './price-source.ts'
import type { RecordedSwitch } from './switch.ts'

export type JournalRecord = AttemptOpened | AttemptClosed | RequestEnded | IncidentNoted | SpanNoted | ShapeNoted

/** Identifies a request within its process. */
type CallNumber = { readonly call: number }

/** Written before the attempt is sent. */
export type AttemptOpened = CallNumber & {
  readonly type: 'attempt_opened'
  /** The gateway's own ID of the request, which no other request has. */
  readonly request: string
  /** Number of the attempt within the request, from 0. */
  readonly attempt: number
  readonly at: number
  readonly key: string | null
  readonly team: string | null
  /** API style of the client. */
  readonly style: string
  /** The value of the tag by which usage is grouped. */
  readonly tag: string | null
  readonly provider: string
  readonly model: string
  /** Fingerprint of the provider's key. */
  readonly credential: string
  readonly hedge: boolean
  readonly reserved: number
  readonly charges: ChargeList
  /** The route and the kind of client by which usage is grouped. */
  readonly route: string | null
  readonly client: string | null
  /** The ID that the client gave the request (`x-request-id`), which others may have too. */
  readonly clientRequestId: string | null
}

/**
 * A budget counter that pays for the attempt, in the period in which the request was received: `PERIOD_START COUNTER`. One
 * text, made with the counter, because every attempt records it.
 */
export type BudgetCharge = string

export const budgetCharge = (counter: string, periodStart: number): BudgetCharge => `${periodStart} ${counter}`

/** Throws if the text is none. */
export const parseCharge = (charge: BudgetCharge): { readonly counter: string; readonly periodStart: number } => {
  const space = charge.indexOf(' ')
  const periodStart = Number(charge.slice(0, space))
  if (space < 1 || !Number.isSafeInteger(periodStart)) throw new TypeError(`not a charge: ${charge}`)
  return { counter: charge.slice(space + 1), periodStart }
}

/**
 * The charges of an attempt, as JSON; empty: none. One text, made once for the attempts with the same counters, and read once for
 * all of them in a batch.
 */
export type ChargeList = string

export const chargeList = (charges: readonly BudgetCharge[]): ChargeList =>
  charges.length === 0 ? '' : JSON.stringify(charges)

/** Throws if the text is no list of charges. */
export const chargesIn = (list: ChargeList): readonly BudgetCharge[] => (list === '' ? [] : JSON.parse(list))

/** What was spent of a budget counter. */
export type CounterSpend = { readonly counter: string; readonly periodStart: number; readonly spent: number }

export type AttemptClosed = CallNumber & {
  readonly type: 'attempt_closed'
  readonly attempt: number
  readonly at: number
  readonly outcome: RecordedOutcome
  /** Kind of failure. */
  readonly kind: string | null
  readonly status: number | null
  /** Message of the failure. */
  readonly message: string | null
  readonly firstContentMs: number | null
  readonly tokens: BilledTokens
  /** What is billed where tokens are not; null: none, or not known. */
  readonly units: BilledUnits | null
  readonly usageSource: UsageSource
  /** Null: no price is known. */
  readonly cost: number | null
  readonly priceSource: PriceSource
  readonly priceVersion: string | null
}

export type RecordedOutcome = 'ok' | 'failed' | 'interrupted' | 'client_gone' | 'abandoned' | 'unknown'

/** `unit`: as prices name it, with the kind of images: `seconds`, `images/1024x1024/hd`. */
export type BilledUnits = { readonly unit: string; readonly count: number }

/** `input` includes cached tokens, `output` includes reasoning; `cacheWrite` includes `cacheWrite1h`. */
export type BilledTokens = {
  readonly input: number
  readonly output: number
  readonly cacheRead: number
  readonly cacheWrite: number
  readonly cacheWrite1h: number
  readonly reasoning: number
  readonly audioInput: number
  readonly audioOutput: number
}

/** Written once, when the request ends. */
export type RequestEnded = CallNumber & {
  readonly type: 'request_ended'
  readonly request: string
  readonly received: number
  readonly at: number
  readonly style: string
  readonly stream: boolean
  /** The model as the client named it. */
  readonly asked: string
  readonly route: string | null
  /** The target that answered; of the built-in demo also one that failed. */
  readonly provider: string | null
  readonly model: string | null
  readonly key: string | null
  readonly team: string | null
  readonly person: string | null
  readonly endUser: string | null
  /** JSON object of texts. */
  readonly tags: string | null
  readonly tag: string | null
  readonly outcome: RequestOutcome
  readonly status: number
  readonly code: string | null
  /** Message of the failure, as the client received it. */
  readonly message: string | null
  readonly trail: string | null
  /** JSON of a `RoutingDecision`. */
  readonly decision: string | null
  readonly cache: CacheResult
  readonly firstContentMs: number | null
  readonly overheadUs: number | null
  /** What an answer from the cache would have cost. */
  readonly saved: number
  /** What was required of its data, as `x-headgate-require` states it; null: nothing. */
  readonly require: string | null
  /** The ID of its session, and its agent in it; null: none, and the main one. */
  readonly session: string | null
  readonly agent: string | null
  /** The session as the client names it; null: it is guessed, or there is none. */
  readonly sessionName: string | null
  /** Verdicts of guards (`verdictColumn`). */
  readonly guards: string | null
  /** `traceparent` of the request. */
  readonly trace: string | null
  /** The kind of client (`clientOf`). */
  readonly client: string | null
  /** The ID that the client gave the request. */
  readonly clientRequestId: string | null
}

/** Written when an incident begins, changes and ends. A later record replaces an earlier one with the same ID. */
export type IncidentNoted = { readonly type: 'incident'; readonly at: number; readonly incident: Incident }

/**
 * The shape of a request of a route (`policy/drill/shape.ts`), written for a sample of them. It names no request, key, team or
 * person. `access`: the class of clients with the same access and data policy. `provider`: that answered; null: none.
 */
export type ShapeNoted = {
  readonly type: 'shape'
  readonly at: number
  readonly route: string
  readonly access: string
  readonly provider: string | null
  readonly shape: string
  /** The number of requests for which it stands. */
  readonly weight: number
}

/**
 * What spans state beside the ledger's row, written with telemetry only and before the end of its request. `attempt`: null: of
 * the request.
 */
export type SpanNoted = {
  readonly type: 'span'
  readonly at: number
  readonly request: string
  readonly attempt: number | null
  readonly facts: SpanFacts
}

/** At most 400 bytes, without texts of prompts and answers. */
export type SpanFacts = {
  /** Of the request. */
  readonly method?: string | undefined
  /** The session that the request names. */
  readonly session?: string | null
  readonly state?: string | null | undefined
  readonly maxTokens?: number | undefined
  readonly temperature?: number | undefined
  readonly topP?: number | undefined
  readonly topK?: number | undefined
  readonly seed?: number | undefined
  readonly choices?: number | undefined
  readonly effort?: string | undefined
  readonly format?: string | undefined
  /** Of an attempt. `origin`: scheme, host and port of the provider. `finish`: the reason as the provider names it. */
  readonly origin?: string
  readonly vendor?: string
  readonly protocol?: string | null
  readonly id?: string | null
  readonly model?: string | null
  readonly finish?: string | null
}

/** Why a request was routed and answered as it was. Targets as `provider/model`. */
export type RoutingDecision = {
  /** How the model name was resolved, as in `Plan`; null: the request was refused before. */
  readonly by: string | null
  /** The targets in their order. */
  readonly plan: readonly string[]
  /** Number of targets that `plan` does not list. */
  readonly more: number
  /** Targets without an attempt, with the reason. `key`: ID of the provider's key; null: all keys. */
  readonly skipped: readonly { readonly target: string; readonly key: string | null; readonly why: string }[]
  /** Paths of members that were not sent. */
  readonly dropped: readonly string[]
  /** The limit of the client that refused the request: `budget; id=bud_…`. */
  readonly limit: string | null
  /** How a failure has moved its session, or that it came back. `cost`: dollars, null: unknown. Absent: neither. */
  readonly switch?: RecordedSwitch
}

export type RequestOutcome = 'answered' | 'refused' | 'interrupted' | 'client_gone' | 'unknown'
export type CacheResult = 'off' | 'bypass' | 'miss' | 'hit' | 'shared'

export const NO_TOKENS: BilledTokens = {
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  cacheWrite1h: 0,
  reasoning: 0,
  audioInput: 0,
  audioOutput: 0,
}

/** Stores records in their order. */
export type Journal = {
  /** Stores the record of an attempt before it is sent. */
  openAttempt(record: AttemptOpened, listener: JournalListener): void
  /** Stores the end of an attempt or a request, a moment later. */
  append(record: Exclude<JournalRecord, AttemptOpened>): void
}

/** Receives the result for one attempt. */
export type JournalListener = {
  /** Called once, in a later turn of the event loop and in order. Does not throw. */
  readonly onJournaled: (result: JournalResult) => void
}

/**
 * `accepted`: the attempt may be sent. Otherwise it must not be (`ledger.whenUnwritable: refuse`). `refused`: it has no
 * record. `unsynced`: its record is written but may not be on the disk, so its end must be appended too.
 */
export type JournalResult = 'accepted' | 'refused' | 'unsynced'
