/** Summaries of a trace: log line, trail header, the error's `attempts`, and the values for the metrics. */

import type { Usage } from './chat.ts'
import { type Failure, rowOf } from './failure.ts'
import type { RuleVerdict } from './guard-verdict.ts'
import type { CacheResult } from './journal.ts'
import { memoizeLast } from './memoize-last.ts'
import type { AttemptSummary } from './protocol.ts'
import { DEMO } from './provider.ts'
import type { SkippedTarget } from './skipped-target.ts'
import type { Switch } from './switch.ts'
import type { CacheOutcome, SavedUsage, SharedBy, Trace, TraceEvent } from './trace.ts'

/** One attempt and its result. `pending`: not ended yet. `abandoned`: another attempt was selected first. */
export type AttemptRecord = {
  readonly provider: string
  readonly model: string
  readonly key: string
  readonly began: number
  /** It was started as a hedge, while an earlier attempt was slow. */
  readonly hedge: boolean
  /** Time at which it failed, delivered its first content or was cancelled; undefined: not yet. */
  readonly settled: number | undefined
  readonly end: 'failed' | 'committed' | 'broken' | 'abandoned' | 'pending'
  /** Time at which its answer broke off and another attempt continued it. */
  readonly broke: number | undefined
  /** The upstream's status, if it gave one. */
  readonly status: number | null
  readonly failure: Failure | undefined
}

/** Summary of a request for the log. Times in ms. */
export type TraceSummary = {
  /** As the client received it. */
  readonly id: string
  /** The gateway's own ID, under which the request is recorded. */
  readonly ownId: string
  readonly style: string
  /** The requested model; `upstreamModel` is the model that answered. */
  readonly model: string
  readonly stream: boolean
  /** The id of the client's key; undefined where no key is configured. */
  readonly client: string | undefined
  /** The name of the client's team; undefined where no key is configured. */
  readonly team: string | undefined
  /** Of the target that answered, or of the last one tried. */
  readonly provider: string | undefined
  readonly upstreamModel: string | undefined
  readonly key: string | undefined
  readonly status: number
  readonly outcome: 'answered' | 'refused' | 'interrupted' | 'client_gone' | 'open'
  readonly attempts: readonly AttemptRecord[]
  readonly committed: boolean
  readonly firstContentMs: number | null
  readonly totalMs: number
  /** Time without an attempt in flight: reading, planning, waiting. */
  readonly overheadMs: number
  readonly usage: Usage | undefined
  /** The upstream did not report the tokens, or the answer was not received completely. */
  readonly estimated: true | undefined
  /** The cost of all attempts in nano-dollars; undefined: unknown, or there was none. */
  readonly cost: number | undefined
  /** A part of the cost is at a price that is not known: the dearest ones of the provider. */
  readonly isPriceAssumed: true | undefined
  readonly failure: Failure | undefined
  readonly dropped: readonly string[]
  /** Number of unreadable events that were dropped from the answer. */
  readonly droppedEvents: number
  /** A hedge was started; `won`: its answer was delivered. */
  readonly hedge: 'won' | 'lost' | undefined
  /** Targets skipped without an attempt. */
  readonly skipped: readonly SkippedTarget[]
  /** Number of skipped targets that `skipped` does not list. */
  readonly moreSkipped: number
  /** The response was shared with another request (`with`: its ID), or completed after its own client left (`left`). */
  readonly shared: { readonly how: SharedBy; readonly with: string } | undefined
  /** Undefined: the response cache is off for the client and its route. */
  readonly cache: CacheOutcome | undefined
  /** Usage that an answer from the cache did not need again. */
  readonly saved: SavedUsage | undefined
  /** How its session has changed its target; undefined: it has not. */
  readonly switched: Switch | undefined
  /** Verdicts of rules. */
  readonly verdicts: readonly RuleVerdict[]
  readonly trail: string
}

type EventOf<T extends TraceEvent['type']> = Extract<TraceEvent, { type: T }>

/** The end of the request, if it has ended. */
const endIn = (trace: Trace): EventOf<'ended'> | undefined => trace.find((event) => event.type === 'ended')

/** The attempts of a request in the order of their start, each with its result so far. */
export const attemptsIn = (trace: Trace): readonly AttemptRecord[] => {
  if (trace !== lastRead.trace || concernsAttempts(trace, lastRead.length)) lastRead.attempts = readAttempts(trace)
  lastRead.trace = trace
  lastRead.length = trace.length
  return lastRead.attempts
}

/** The attempts of the trace that was read last: headers, log line and metrics read them one after another. */
const lastRead: { trace: Trace | null; length: number; attempts: readonly AttemptRecord[] } = {
  trace: null,
  length: 0,
  attempts: [],
}

/** Whether an event from this place on is of an attempt. */
const concernsAttempts = (trace: Trace, from: number): boolean => {
  if (from > trace.length) return true
  for (let at = from; at < trace.length; at++) {
    const event = trace[at]
    if (event && (event.type === 'attempt' || 'attempt' in event)) return true
  }
  return false
}

const readAttempts = (trace: Trace): readonly AttemptRecord[] => {
  const attempts: { -readonly [name in keyof AttemptRecord]: AttemptRecord[name] }[] = []
  for (const event of trace) {
    if (event.type === 'attempt')
      attempts.push({
        provider: event.provider,
        model: event.model,
        key: event.key,
        began: event.at,
        hedge: event.hedge === true,
        settled: undefined,
        end: 'pending',
        broke: undefined,
        status: null,
        failure: undefined,
      })
    if (!('attempt' in event)) continue
    const attempt = attempts[event.attempt]
    if (!attempt) continue
    switch (event.type) {
      case 'failed':
        attempt.end = 'failed'
        attempt.settled = event.at
        attempt.status = event.failure.status ?? null
        attempt.failure = event.failure
        break
      case 'committed':
        attempt.end = 'committed'
        attempt.settled = event.at
        attempt.status = event.status
        break
      case 'continued':
        attempt.end = 'broken'
        attempt.broke = event.at
        attempt.failure = event.failure
        break
      case 'abandoned':
        attempt.end = 'abandoned'
        attempt.settled = event.at
        break
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }
  return attempts
}

/** The failure that interrupted the answer of a committed attempt, if any. */
const interruption = (attempt: AttemptRecord, ended: EventOf<'ended'> | undefined): Failure | undefined =>
  attempt.end === 'committed' && ended?.how === 'interrupted' ? ended.failure : undefined

/** The error code of the failure's kind. */
const wordFor = (failure: Failure): string => rowOf(failure).code

/**
 * An error status is shown as its number, any other failure as its code. So is `incompatible`: its status alone would
 * look like an error of the request, after which no other target is tried.
 */
const resultOf = (attempt: AttemptRecord, ended: EventOf<'ended'> | undefined): string => {
  const failure = attempt.failure ?? interruption(attempt, ended)
  if (failure)
    return failure.status !== undefined && failure.status >= 400 && failure.kind !== 'incompatible'
      ? String(failure.status)
      : wordFor(failure)
  if (attempt.end === 'committed') return String(attempt.status)
  if (attempt.end === 'abandoned') return 'abandoned'
  return ended?.how === 'client_gone' ? 'client_gone' : 'pending'
}

const trailOf = (trace: Trace, attempts: readonly AttemptRecord[], ended: EventOf<'ended'> | undefined): string => {
  const steps: string[] = []
  let next = 0
  for (const event of trace)
    if (event.type === 'attempt') {
      const attempt = attempts[next++]
      if (attempt) steps.push(`${attempt.provider}#${attempt.key}:${resultOf(attempt, ended)}`)
    } else if (event.type === 'skipped') {
      for (const { provider, key, why } of event.targets) steps.push(`${provider}${key === '' ? '' : `#${key}`}:${why}`)
      if (event.more > 0) steps.push(`+${event.more} skipped`)
    }
  return steps.join(', ')
}

/**
 * Every attempt so far and every skipped target, in order, as `openai#a1f3:503, groq#09be:circuit, anthropic#77c0:200`:
 * provider, key id, then the result of the attempt or the reason of the skip.
 */
export const trail = (trace: Trace): string => trailOf(trace, attemptsIn(trace), endIn(trace))

/** The verdicts of rules so far. */
export const verdictsIn = (trace: Trace): readonly RuleVerdict[] => {
  // A loop: most calls have none, and allocate nothing.
  let found: RuleVerdict[] | null = null
  for (const event of trace)
    if (event.type === 'guard') {
      found ??= []
      found.push(event.verdict)
    }
  return found ?? NONE
}

/** The attempts so far, as listed in an error body. */
export const attemptsOf = (trace: Trace): readonly AttemptSummary[] => {
  const ended = endIn(trace)
  return attemptsIn(trace).map((attempt) => {
    const failure = attempt.failure ?? interruption(attempt, ended)
    const { provider, model, key, status, began, settled } = attempt
    const kind = failure ? wordFor(failure) : attempt.end === 'committed' ? 'ok' : resultOf(attempt, ended)
    const until = settled ?? ended?.at ?? began
    return { provider, model, key, status, kind, ms: Math.round(until - began) }
  })
}

/** ms until `end` with at least one attempt in flight. */
const busyIn = (attempts: readonly AttemptRecord[], end: number): number => {
  let busy = 0
  let counted = Number.NEGATIVE_INFINITY
  for (const { began, end: how, settled = end, broke } of attempts) {
    const until = broke ?? (how === 'committed' ? end : settled)
    busy += Math.max(0, until - Math.max(began, counted))
    counted = Math.max(counted, until)
  }
  return busy
}

const NONE: readonly never[] = []

const UNKNOWN_REQUEST: EventOf<'received'> = {
  type: 'received',
  at: 0,
  date: 0,
  family: '',
  id: '',
  style: '',
  model: '',
  stream: false,
}

/**
 * The target that a request is recorded with: the one that answered, or whose answer the cache had. Of a failed request only
 * the built-in demo, so that sums can leave its requests out.
 */
export const recordedTarget = (
  summary: Pick<TraceSummary, 'cache' | 'saved' | 'committed' | 'provider' | 'upstreamModel'>,
): { readonly provider: string | null; readonly model: string | null } => {
  const { cache, saved, committed, provider, upstreamModel } = summary
  if (cache === 'hit' && saved) return saved
  return committed || provider === DEMO
    ? { provider: provider ?? null, model: upstreamModel ?? null }
    : { provider: null, model: null }
}

/** What a request is recorded with for the response cache; `shared`: the answer is that of another request. */
export const recordedCache = ({ cache, shared }: Pick<TraceSummary, 'cache' | 'shared'>): CacheResult =>
  shared && shared.how !== 'left' && shared.how !== 'cache' ? 'shared' : (cache ?? 'off')

/** Summarizes a request for log and metrics. Accepts an incomplete trace. */
export const summarize = (trace: Trace): TraceSummary => {
  let received = UNKNOWN_REQUEST
  let ended: EventOf<'ended'> | undefined
  let recorded: EventOf<'usage'> | undefined
  let shared: EventOf<'shared'> | undefined
  let cache: EventOf<'cache'> | undefined
  let switched: Switch | undefined
  const skips: EventOf<'skipped'>[] = []
  const drops: EventOf<'dropped'>[] = []
  let droppedEvents = 0
  for (const event of trace)
    if (event.type === 'received') received = event
    else if (event.type === 'ended') ended = event
    else if (event.type === 'usage') recorded = event
    else if (event.type === 'shared') shared ??= event
    else if (event.type === 'cache') cache = event
    else if (event.type === 'switch') switched = event.switched
    else if (event.type === 'skipped') skips.push(event)
    else if (event.type === 'dropped') drops.push(event)
    else if (event.type === 'dropped_events') droppedEvents += event.count
  const attempts = attemptsIn(trace)
  const chosen = attempts.find(({ end }) => end === 'committed' || end === 'broken')
  const last = attempts.findLast((attempt) => attempt.end === 'committed') ?? attempts.at(-1)
  const end = ended?.at ?? received.at
  const hedge = attempts.find((attempt) => attempt.hedge)
  const totalMs = Math.max(0, end - received.at)
  return {
    id: received.id,
    ownId: received.ownId ?? received.id,
    style: received.style,
    model: received.model,
    stream: received.stream,
    client: received.client,
    team: received.team,
    provider: last?.provider,
    upstreamModel: last?.model,
    key: last?.key,
    status: ended?.status ?? 0,
    outcome: ended?.how ?? 'open',
    attempts,
    committed: chosen !== undefined,
    firstContentMs: chosen?.settled === undefined ? null : Math.max(0, chosen.settled - received.at),
    totalMs,
    // A shared response waits for attempts of another request; that wait is not overhead.
    overheadMs: shared && attempts.length === 0 ? 0 : Math.max(0, totalMs - busyIn(attempts, end)),
    usage: recorded?.usage,
    estimated: recorded?.estimated,
    cost: ended?.cost,
    isPriceAssumed: ended?.isPriceAssumed,
    failure: ended?.failure,
    dropped: drops.length === 0 ? NONE : drops.flatMap(({ paths }) => paths),
    droppedEvents,
    hedge: hedge && (hedge.end === 'committed' ? 'won' : 'lost'),
    skipped: skips.length === 0 ? NONE : skips.flatMap(({ targets }) => targets),
    moreSkipped: skips.length === 0 ? 0 : skips.reduce((sum, { more }) => sum + more, 0),
    shared: shared && { how: shared.how, with: shared.with },
    cache: cache?.result,
    saved: shared?.saved,
    switched,
    verdicts: verdictsIn(trace),
    trail: trailOf(trace, attempts, ended),
  }
}

/** The summary of a finished request. The journal, the log and the metrics share one computation. */
export const summaryOf = memoizeLast(summarize)
