/** The timeouts of an attempt: when each expires, given the attempt's state. Pure data and one function. */
import { type Failure, fail } from '../../core/failure.ts'
import type { Settings } from '../../core/settings.ts'
import { NEVER } from '../../core/shared-timer.ts'

/** The instants and flags of an attempt that its timeouts depend on. Instants are in ms of the monotonic clock. */
export class AttemptState {
  readonly startedAt: number
  /** The response header block has arrived. */
  hasHeaders = false
  /** The upstream has responded: with a byte of a stream, or with the header block of another response. */
  hasResponded = false
  /** When the first content arrived. */
  firstContentAt: number | null = null
  /** When the last byte and the last content arrived, or when reading resumed. */
  lastByteAt = 0
  lastContentAt = 0
  /** When the answer finished, or when reading resumed after it. Null: not finished. */
  finishedAt: number | null = null
  /** The attempt has been chosen, or has failed. No other attempt can replace it. */
  isSettled = false
  /** The consumer is slow, so the body is not read. */
  isPaused = false
  /** The connection does not read for now, for lack of memory or time. */
  isReadingStopped = false
  /** The response body has ended. */
  isBodyEnded = false
  /** The attempt has ended, with or without a failure. */
  isOver = false
  /** The answer is complete and delivered. The call stays open until its body ends, at most for `BODY_END_GRACE`. */
  isLingering = false

  constructor(now: number) {
    this.startedAt = now
  }
}

/** The limits of an attempt. */
export type TimeoutRules = {
  readonly settings: Pick<Settings, 'circuit' | 'timeout'>
  /** The request asks for a stream. */
  readonly stream: boolean
  /** ms for which content is held back before the choice of target is final. `Infinity`: until the answer is complete. */
  readonly holdbackMs: number
  /** ms for the whole attempt; undefined: only the request has a limit. */
  readonly attemptMs?: number | undefined
}

/**
 * What an attempt waits for: its end, the upstream's first response, its first content, the end of the holdback, the end of the body
 * after the answer, the next byte, and the next content.
 */
export type AttemptTimeout = 'attempt' | 'response' | 'firstContent' | 'holdback' | 'bodyEnd' | 'idle' | 'contentIdle'

/** In the order in which they are handled if several have expired. */
const TIMEOUTS: readonly AttemptTimeout[] = [
  ...(['response', 'firstContent', 'holdback', 'bodyEnd', 'idle', 'contentIdle', 'attempt'] as const),
]

/**
 * How long (ms) an upstream call stays open after its answer has finished. If the body ends in time, the connection can be
 * reused. Protocols without a terminal event delay the client's end of body for as long.
 */
export const BODY_END_GRACE = 2_000

/** The first timeout that has expired at `now`, and the earliest deadline of all (`NEVER`: none is running). */
export const checkTimeouts = (
  state: AttemptState,
  rules: TimeoutRules,
  now: number,
): { readonly expired: AttemptTimeout | null; readonly deadline: number } => {
  // The attempt ends in this turn.
  if (state.isBodyEnded && !state.isOver) return NOT_RUNNING
  let expired: AttemptTimeout | null = null
  let deadline = NEVER
  for (const timeout of TIMEOUTS) {
    const at = deadlineOf(timeout, state, rules)
    if (at <= now) expired ??= timeout
    deadline = Math.min(deadline, at)
  }
  return { expired, deadline }
}

const NOT_RUNNING = { expired: null, deadline: NEVER } as const

const deadlineOf = (timeout: AttemptTimeout, state: AttemptState, rules: TimeoutRules): number => {
  const { firstContentAt, finishedAt, isPaused } = state
  if (state.isOver || finishedAt !== null) return timeout === 'bodyEnd' ? bodyEndDeadline(state) : NEVER
  const { settings, stream, holdbackMs, attemptMs = 0 } = rules
  // A pause of this process is not silence of the upstream.
  const isReading = !isPaused && !state.isReadingStopped
  switch (timeout) {
    case 'attempt':
      return after(state.startedAt, attemptMs)
    case 'response':
      return state.hasResponded ? NEVER : after(state.startedAt, settings.circuit.timeout)
    case 'firstContent':
      return stream && firstContentAt === null ? after(state.startedAt, settings.timeout.firstContent) : NEVER
    case 'holdback':
      return firstContentAt !== null && !state.isSettled ? after(firstContentAt, holdbackMs) : NEVER
    case 'bodyEnd':
      return NEVER
    case 'idle':
      return state.hasHeaders && isReading ? after(state.lastByteAt, settings.timeout.idle) : NEVER
    case 'contentIdle':
      return stream && firstContentAt !== null && isReading
        ? after(state.lastContentAt, settings.timeout.contentIdle)
        : NEVER
    default:
      throw new Error(`unknown timeout ${timeout satisfies never}`)
  }
}

const bodyEndDeadline = ({ finishedAt, isLingering, isOver, isBodyEnded, isPaused }: AttemptState): number => {
  if (finishedAt === null) return NEVER
  return isLingering || (!isOver && !isBodyEnded && !isPaused) ? finishedAt + BODY_END_GRACE : NEVER
}

/** 0 disables a limit. */
const after = (start: number, ms: number): number => (ms > 0 ? start + ms : NEVER)

/** The failure of an attempt by a timeout. Null: the timeout ends a phase, and is no failure. */
export const timeoutFailure = (
  timeout: AttemptTimeout,
  { settings: { circuit, timeout: limits }, attemptMs }: Pick<TimeoutRules, 'settings' | 'attemptMs'>,
): Failure | null => {
  switch (timeout) {
    case 'attempt':
      return fail('timeout', `no complete answer within ${attemptMs} ms`)
    case 'response':
      return fail('timeout', `no response within ${circuit.timeout} ms`)
    case 'firstContent':
      return fail('no_first_content', `no content within ${limits.firstContent} ms`)
    case 'idle':
      return fail('stalled', `no data for ${limits.idle} ms`)
    case 'contentIdle':
      return fail('stalled', `only keep-alives for ${limits.contentIdle} ms`)
    case 'holdback':
    case 'bodyEnd':
      return null
    default:
      throw new Error(`unknown timeout ${timeout satisfies never}`)
  }
}
