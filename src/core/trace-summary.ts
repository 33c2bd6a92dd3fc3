/** Folds of an exchange: what a log line, the trail header, an error's `attempts` and the metrics have to say about it. */
import type { Usage } from './chat.ts'
import { type Failure, rowOf } from './failure.ts'
import type { AttemptSummary } from './protocol.ts'
import type { SharedBy, SkippedTarget, Trace, TraceEvent } from './trace.ts'

/** One attempt with its end. `pending`: none of the others when the exchange was looked at. `abandoned`: another was quicker. */
export type AttemptRecord = {
  readonly provider: string
  readonly model: string
  readonly key: string
  readonly began: number
  /** It was begun while another kept the client waiting. */
  readonly hedge: boolean
  /** When it failed, gave its first content, or was let go; undefined while nothing of it has come. */
  readonly settled: number | undefined
  readonly end: 'failed' | 'committed' | 'broken' | 'abandoned' | 'pending'
  /** When it broke off and another went on. */
  readonly broke: number | undefined
  /** The upstream's status, if it gave one. */
  readonly status: number | null
  readonly failure: Failure | undefined
}

/** A whole exchange in the words of the log. Times in ms. */
export type TraceSummary = {
  readonly id: string
  readonly style: string
  /** The model the client asked for; `upstreamModel` is the one that answered. */
  readonly model: string
  readonly stream: boolean
  /** The id of the client's key; undefined where no key is configured. */
  readonly client: string | undefined
  /** What answered, or what was tried last. */
  readonly provider: string | undefined
  readonly upstreamModel: string | undefined
  readonly key: string | undefined
  readonly status: number
  readonly outcome: 'answered' | 'refused' | 'interrupted' | 'client_gone' | 'open'
  readonly attempts: readonly AttemptRecord[]
  readonly committed: boolean
  readonly firstContentMs: number | null
  readonly totalMs: number
  /** Time during which no attempt was under way: reading, planning, waiting. */
  readonly overheadMs: number
  readonly usage: Usage | undefined
  /** The upstream did not count those tokens, or the answer was not heard to its end. */
  readonly estimated: true | undefined
  readonly failure: Failure | undefined
  readonly dropped: readonly string[]
  /** Events of the answer that could not be read and were left out. */
  readonly droppedEvents: number
  /** A second provider was asked while the first kept the client waiting, and whether its answer was the one given. */
  readonly hedge: 'won' | 'lost' | undefined
  /** Targets passed over without an attempt. */
  readonly skipped: readonly SkippedTarget[]
  /** How many more were passed over than `skipped` lists. */
  readonly moreSkipped: number
  /** Whose answer it was: that of another request, whose id is `with`; or its own, which went on without its client (`left`). */
  readonly shared: { readonly how: SharedBy; readonly with: string } | undefined
  readonly trail: string
}

type EndedEvent = Extract<TraceEvent, { type: 'ended' }>
type ReceivedEvent = Extract<TraceEvent, { type: 'received' }>

const find = <T extends TraceEvent['type']>(exchange: Trace, type: T): Extract<TraceEvent, { type: T }> | undefined =>
  // `find` cannot narrow by a generic's value; the comparison in it is the proof.
  exchange.find((fact) => fact.type === type) as Extract<TraceEvent, { type: T }> | undefined

/** The attempts of an exchange in the order they began, each with how it ended as far as is known. */
export const attemptsIn = (exchange: Trace): readonly AttemptRecord[] => {
  const attempts: { -readonly [name in keyof AttemptRecord]: AttemptRecord[name] }[] = []
  for (const fact of exchange) {
    /** The one it is about, if it is about one. */
    const attempt = 'attempt' in fact ? attempts[fact.attempt] : undefined
    switch (fact.type) {
      case 'attempt':
        attempts.push({
          provider: fact.provider,
          model: fact.model,
          key: fact.key,
          began: fact.at,
          hedge: fact.hedge === true,
          settled: undefined,
          end: 'pending',
          broke: undefined,
          status: null,
          failure: undefined,
        })
        break
      case 'failed':
        if (!attempt) break
        attempt.end = 'failed'
        attempt.settled = fact.at
        attempt.status = fact.failure.status ?? null
        attempt.failure = fact.failure
        break
      case 'committed':
        if (!attempt) break
        attempt.end = 'committed'
        attempt.settled = fact.at
        attempt.status = fact.status
        break
      case 'continued':
        if (!attempt) break
        attempt.end = 'broken'
        attempt.broke = fact.at
        attempt.failure = fact.failure
        break
      case 'abandoned':
        if (!attempt) break
        attempt.end = 'abandoned'
        attempt.settled = fact.at
        break
      case 'skipped':
      case 'received':
      case 'dropped':
      case 'dropped_events':
      case 'usage':
      case 'shared':
      case 'ended':
        break
      default:
        throw new Error(`unknown fact ${JSON.stringify(fact satisfies never)}`)
    }
  }
  return attempts
}

/** The failure that came after an attempt had been chosen, if the exchange ended so. */
const interruption = (attempt: AttemptRecord, ended: EndedEvent | undefined): Failure | undefined =>
  attempt.end === 'committed' && ended?.how === 'interrupted' ? ended.failure : undefined

/** The word for how a failure showed itself: the code its error would have. */
const wordFor = (failure: Failure): string => rowOf(failure).code

/**
 * A bad status is shown as its number; a failure without one, or with a good status, as its word. `incompatible` is shown
 * as its word too: its status alone looks like a fault of the request, after which no other target is tried.
 */
const resultOf = (attempt: AttemptRecord, ended: EndedEvent | undefined): string => {
  const failure = attempt.failure ?? interruption(attempt, ended)
  if (failure)
    return failure.status !== undefined && failure.status >= 400 && failure.kind !== 'incompatible'
      ? String(failure.status)
      : wordFor(failure)
  if (attempt.end === 'committed') return String(attempt.status)
  if (attempt.end === 'abandoned') return 'abandoned'
  return ended?.how === 'client_gone' ? 'client_gone' : 'pending'
}

const trailOf = (exchange: Trace, attempts: readonly AttemptRecord[], ended: EndedEvent | undefined): string => {
  const steps: string[] = []
  let next = 0
  for (const fact of exchange)
    if (fact.type === 'attempt') {
      const attempt = attempts[next++]
      if (attempt) steps.push(`${attempt.provider}#${attempt.key}:${resultOf(attempt, ended)}`)
    } else if (fact.type === 'skipped') {
      for (const { provider, key, why } of fact.targets) steps.push(`${provider}#${key}:${why}`)
      if (fact.more > 0) steps.push(`+${fact.more} skipped`)
    }
  return steps.join(', ')
}

/**
 * Every attempt so far and every skipped target, in order, as `openai#a1f3:503, groq#09be:circuit, anthropic#77c0:200`:
 * provider, key id, then the result of the attempt or the reason of the skip.
 */
export const trail = (exchange: Trace): string => trailOf(exchange, attemptsIn(exchange), find(exchange, 'ended'))

/** The attempts so far as an error body lists them. */
export const attemptsOf = (exchange: Trace): readonly AttemptSummary[] => {
  const ended = find(exchange, 'ended')
  return attemptsIn(exchange).map((attempt) => {
    const failure = attempt.failure ?? interruption(attempt, ended)
    const { provider, model, key, status, began, settled } = attempt
    const kind = failure ? wordFor(failure) : attempt.end === 'committed' ? 'ok' : resultOf(attempt, ended)
    const until = settled ?? ended?.at ?? began
    return { provider, model, key, status, kind, ms: Math.round(until - began) }
  })
}

/** ms up to `end` during which at least one attempt was under way. */
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

const UNKNOWN_REQUEST: ReceivedEvent = { type: 'received', at: 0, id: '', style: '', model: '', stream: false }

/** One fact of each kind that comes once, the last where it may come again; `dropped` and `droppedEvents` are sums. */
type SingleEvents = {
  received: ReceivedEvent
  ended: EndedEvent | undefined
  usage: Extract<TraceEvent, { type: 'usage' }> | undefined
  skipped: readonly SkippedTarget[]
  moreSkipped: number
  shared: Extract<TraceEvent, { type: 'shared' }> | undefined
  dropped: readonly string[]
  droppedEvents: number
}

const foundIn = (exchange: Trace): SingleEvents => {
  const found: SingleEvents = {
    received: UNKNOWN_REQUEST,
    ended: undefined,
    usage: undefined,
    skipped: [],
    moreSkipped: 0,
    shared: undefined,
    dropped: [],
    droppedEvents: 0,
  }
  for (const fact of exchange)
    switch (fact.type) {
      case 'received':
        found.received = fact
        break
      case 'ended':
        found.ended = fact
        break
      case 'usage':
        found.usage = fact
        break
      case 'skipped':
        found.skipped = [...found.skipped, ...fact.targets]
        found.moreSkipped += fact.more
        break
      case 'shared':
        found.shared ??= fact
        break
      case 'dropped':
        found.dropped = [...found.dropped, ...fact.paths]
        break
      case 'dropped_events':
        found.droppedEvents += fact.count
        break
      default:
        break
    }
  return found
}

/** Everything the log and the metrics say about a request. Total: an exchange without its end gives what is known. */
export const summarize = (exchange: Trace): TraceSummary => {
  const { received, ended, usage: recorded, skipped, moreSkipped, shared, dropped, droppedEvents } = foundIn(exchange)
  const attempts = attemptsIn(exchange)
  const chosen = attempts.find(({ end }) => end === 'committed' || end === 'broken')
  const last = attempts.findLast((attempt) => attempt.end === 'committed') ?? attempts.at(-1)
  const end = ended?.at ?? received.at
  const { usage, estimated } = recorded ?? {}
  const hedge = attempts.find((attempt) => attempt.hedge)
  const totalMs = Math.max(0, end - received.at)
  return {
    id: received.id,
    style: received.style,
    model: received.model,
    stream: received.stream,
    client: received.client,
    provider: last?.provider,
    upstreamModel: last?.model,
    key: last?.key,
    status: ended?.status ?? 0,
    outcome: ended?.how ?? 'open',
    attempts,
    committed: chosen !== undefined,
    firstContentMs: chosen?.settled === undefined ? null : Math.max(0, chosen.settled - received.at),
    totalMs,
    // Who reads another's answer waits for that one's attempts.
    overheadMs: shared && attempts.length === 0 ? 0 : Math.max(0, totalMs - busyIn(attempts, end)),
    usage,
    estimated,
    failure: ended?.failure,
    dropped,
    droppedEvents,
    hedge: hedge && (hedge.end === 'committed' ? 'won' : 'lost'),
    skipped,
    moreSkipped,
    shared: shared && { how: shared.how, with: shared.with },
    trail: trailOf(exchange, attempts, ended),
  }
}
