/** What a client is told when no target could answer, and whether it should come back. */
import { type Failure, fail, rowOf } from '../../core/failure.ts'

/** A target that was left out, and until when (ms from now; null: unknown). `unfit`: it cannot carry what was asked. */
export type SkippedReason =
  | { readonly why: 'unfit'; readonly paths: readonly string[] }
  | { readonly why: 'circuit' | 'budget'; readonly wait: number | null }
  | { readonly why: string; readonly wait: number | null }

const RATE = new Set(['rate_limited', 'token_rate'])
const MONEY = new Set(['quota', 'quota_exhausted'])
/** Every timer that can end an attempt. */
const TIME = new Set(['timeout', 'no_first_content', 'connect_timeout', 'stalled', 'deadline'])
const KEY_REJECTED = new Set(['auth', 'permission', 'suspended', 'disabled', 'model_denied'])
const MISSING = new Set(['model_missing'])
/** The target does not take this request; another may. For the verdict it is as if the target had been unfit. */
const REFUSED = new Set(['incompatible', 'incapable'])

/**
 * The one failure that stands for all. The request's own fault is returned as it is. Otherwise what was tried decides, and
 * where nothing was tried, what kept it from being tried; a mixture is a bad gateway with the last failure's kind.
 * A target that refused the request counts as unfit. The first refusal is returned where every target was unfit or refused.
 */
export const finalError = (met: readonly Failure[], leftOut: readonly SkippedReason[]): Failure => {
  const own = met.find((failure) => rowOf(failure).excludes === 'request')
  if (own) return own
  const failures = met.filter(({ kind }) => !REFUSED.has(kind))
  const [refusal] = failures.length < met.length ? met.filter(({ kind }) => REFUSED.has(kind)) : []
  if (refusal && failures.length === 0 && leftOut.every(({ why }) => why === 'unfit')) return asOwnFault(refusal)
  const last = failures.at(-1)
  const soonest = shortestWait(failures, leftOut)
  const more = soonest === null ? {} : { retryAfter: soonest }
  const kinds = [
    ...failures.map(({ kind }) => kind as string),
    ...leftOut.map(({ why }) => why).filter((why) => why !== 'unfit' && (!last || RATE.has(why) || MONEY.has(why))),
  ]
  const only = (...sets: ReadonlySet<string>[]) =>
    kinds.length > 0 && kinds.every((kind) => sets.some((set) => set.has(kind)))

  if (only(MONEY))
    return { ...fail('quota', `No key has credit or quota left.${quoted(last)}`), ...origin(last), ...more }
  if (only(RATE, MONEY)) {
    const rest = leftOut.some(({ why }) => why === 'budget')
      ? ' asked is at its limit for now; others were not asked, as the retry budget is spent (retry.budgetPercent).'
      : ' is at its limit for now.'
    return { ...fail('rate_limited', `Every upstream${rest}${quoted(last)}`), ...origin(last), ...more }
  }
  if (last) {
    if (only(MISSING))
      return fail('model_missing', `No provider has this model.${quoted(last)}`, { param: 'model', ...origin(last) })
    if (only(TIME)) return fail('timeout', `No upstream answered in time.${quoted(last)}`, more)
    if (last.kind === 'context_length') return last
    const text = met.length === 1 ? 'The upstream could not answer.' : `${counted(met.length)} attempts failed.`
    // A missing model among other failures is not the client's fault: another target might have had it.
    const kind = last.kind === 'model_missing' ? 'status' : last.kind
    const mixed = kinds.some((one) => one !== last.kind)
    return { ...last, kind, message: `${text}${quoted(last)}`, ...more, ...(mixed && { mixed }) }
  }
  const unfit = leftOut.flatMap((left) => ('paths' in left ? left.paths : []))
  if (leftOut.every(({ why }) => why === 'unfit') && unfit[0] !== undefined)
    return fail(
      'unsupported',
      `No configured provider can carry ${named(unfit)}. Leave it out, or add a provider that speaks this style.`,
      { param: unfit[0] },
    )
  if (only(MISSING))
    return fail('model_missing', 'No provider has this model; it was asked for a short while ago.', { param: 'model' })
  if (only(KEY_REJECTED))
    return fail('auth', 'No key of the configured providers is accepted at the moment. Check the keys.', more)
  // Neither is helped by the wait for the other.
  if (only(KEY_REJECTED, MONEY))
    return fail(
      'auth',
      'No key of the configured providers is accepted or has quota left at the moment. Check the keys and their accounts.',
      more,
    )
  return fail(
    'no_target',
    'No upstream may be tried at the moment: circuits are open or keys are resting. See /providers/status.',
    more,
  )
}

/** What every vendor refuses is the fault of the request. */
const asOwnFault = (refusal: Failure): Failure =>
  refusal.kind === 'incompatible' ? { ...refusal, kind: 'invalid_request' } : refusal

const quoted = (failure: Failure | undefined): string => (failure ? ` Last: ${failure.message}` : '')
const origin = (failure: Failure | undefined) => (failure?.upstream ? { upstream: failure.upstream } : {})
/** What an error names at most; a client may have sent ten thousand. */
const MAX_NAMED = 10

const named = (paths: readonly string[]): string => {
  const different = [...new Set(paths)]
  return different.slice(0, MAX_NAMED).join(', ') + (different.length > MAX_NAMED ? ' and more' : '')
}

/** In words, so that no number in an error's text can be read as a status. */
const counted = (n: number): string =>
  ['No', 'One', 'Two', 'Three', 'Four', 'Five', 'Six', 'Seven', 'Eight', 'Nine'][n] ?? 'Many'

/** ms until the first of them could work again; null: nobody knows. */
const shortestWait = (failures: readonly Failure[], leftOut: readonly SkippedReason[]): number | null => {
  const waits = [
    ...failures.map(({ retryAfter }) => retryAfter ?? null),
    ...leftOut.map((left) => ('wait' in left ? left.wait : null)),
  ].filter((wait) => wait !== null)
  return waits.length === 0 ? null : Math.max(0, Math.min(...waits))
}

/** The status a client is given: the row's, save where the upstream's own says more exactly what is wrong with the request. */
export const statusOf = (failure: Failure): number => {
  const { status } = failure
  return failure.kind === 'invalid_request' &&
    status !== undefined &&
    status >= 400 &&
    status < 500 &&
    status !== 401 &&
    status !== 403
    ? status
    : rowOf(failure).status
}

/** Longest `retry-after` (s) that the official SDKs obey. With a longer one they retry at once, so it forbids the retry. */
const MAX_WAIT = 60

/**
 * The same limit (s) when no target may be tried. An outage has no known end, and agents that obey `retry-after` print
 * nothing while they wait: 45 to 100 s in five coding agents (measured 2026-11).
 */
const MAX_OUTAGE_WAIT = 5

/**
 * Whether the client should retry, and the `retry-after` to send (whole s, at least 1; null: none). `soonest`: ms until
 * some target may be tried, 0 if one may be now, null if none ever will as things stand.
 */
export const retryAdvice = (
  failure: Failure,
  soonest: number | null,
): { readonly retry: boolean; readonly after: number | null } => {
  const status = statusOf(failure)
  const { kind } = failure
  const heeded = status === 429 || status === 503 || kind === 'idempotency_key_in_use'
  // What has begun to rest meanwhile, for another request or by our own guess, may rest for longer than this one was told.
  const longest = Math.max(failure.retryAfter ?? 0, soonest ?? 0)
  const wait = failure.retryAfter !== undefined || (heeded && longest > 0) ? longest : undefined
  const after = wait === undefined ? null : Math.max(1, Math.ceil(wait / 1000))
  // Every target exceeded the size limit: the same answer would be generated and paid for again.
  const tooLarge = kind === 'too_large' && failure.mixed !== true
  const never = kind === 'quota' || kind === 'auth' || kind === 'permission' || kind === 'unconfigured' || tooLarge
  const worth = status === 408 || status === 409 || status === 429 || status >= 500
  if (never || !worth) return { retry: false, after: heeded ? after : null }
  const most = kind === 'no_target' ? MAX_OUTAGE_WAIT : MAX_WAIT
  if (after !== null) return { retry: after <= most, after: heeded ? after : null }
  return {
    retry: soonest !== null && soonest <= most * 1000,
    after: heeded ? 1 : null,
  }
}
