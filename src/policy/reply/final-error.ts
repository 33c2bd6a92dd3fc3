/** The error for the client when no target succeeded, its status, and whether the client should retry. */
import { type Failure, type FailureKind, fail, rowOf } from '../../core/failure.ts'
import { RETRY_TRIGGERS } from '../../core/retry-triggers.ts'
import type { Target } from '../../core/target.ts'

/**
 * Why a target was not tried. `wait`: ms until it may be tried; null: unknown. `unfit`: it cannot take the request without
 * changing its meaning, because of the members at `paths`; `target`: which one; `because`: as of `Loss`.
 */
export type SkippedReason =
  | { readonly why: 'unfit'; readonly paths: readonly string[]; readonly target?: Target; readonly because?: string }
  | { readonly why: 'circuit' | 'retry_budget'; readonly wait: number | null }
  | { readonly why: string; readonly wait: number | null }

const RATE = new Set(['rate_limited', 'token_rate'])
const MONEY = new Set(['quota', 'quota_exhausted'])
/** Every timeout that can end an attempt. */
const TIME = new Set(['timeout', 'no_first_content', 'connect_timeout', 'stalled', 'deadline'])
const KEY_REJECTED = new Set(['auth', 'permission', 'suspended', 'disabled', 'model_denied'])
const MISSING = new Set(['model_missing', 'not_there'])
/** The target refused this request; another may accept it. Counts as if the target had been unfit. */
const REFUSED: ReadonlySet<FailureKind> = new Set(['incompatible', 'incapable', 'too_large_for_target'])
/** Reasons for skipping a target that end by themselves: it may accept the request later. */
const PASSING = new Set(['circuit', 'warming', 'rate_limited', 'overloaded', 'retry_budget', 'resting'])

/** Whether the target refused the request, so that its failure says nothing about the target's health. */
export const isRefusal = ({ kind }: Failure): boolean => REFUSED.has(kind)

/**
 * The failure that represents all attempts of a request. `failures`: those of the attempts, in order. `skipped`: the
 * targets that were not tried. A failure caused by the request is returned unchanged. Otherwise the attempts decide, or, if
 * there were none, the reasons for skipping. Failures of different kinds become a bad gateway with the last failure's kind.
 * If no target is left that may accept the request, the first refusal is returned.
 */
export const finalError = (failures: readonly Failure[], skipped: readonly SkippedReason[]): Failure => {
  const own = failures.find((failure) => rowOf(failure).excludes === 'request')
  if (own) return own
  const decisive = failures.filter((failure) => !isRefusal(failure))
  const refusal = decisive.length < failures.length ? failures.find(isRefusal) : undefined
  const isLast = decisive.every(({ kind }) => MISSING.has(kind)) && !skipped.some(({ why }) => PASSING.has(why))
  if (refusal && isLast) return asOwnFault(refusal)
  const last = decisive.at(-1)
  const soonest = shortestWait(decisive, skipped)
  const more = soonest === null ? {} : { retryAfter: soonest }
  const kinds = [
    ...decisive.map(({ kind }) => kind as string),
    ...skipped.map(({ why }) => why).filter((why) => why !== 'unfit' && (!last || RATE.has(why) || MONEY.has(why))),
  ]
  const only = (...sets: ReadonlySet<string>[]) =>
    kinds.length > 0 && kinds.every((kind) => sets.some((set) => set.has(kind)))

  if (only(MONEY))
    return { ...fail('quota', `No key has credit or quota left.${quoted(last)}`), ...origin(last), ...more }
  if (only(RATE, MONEY)) {
    const rest = skipped.some(({ why }) => why === 'retry_budget')
      ? ' tried is at its limit for now; others were not tried, because the retry budget is used up (retry.budgetPercent).'
      : ' is at its limit for now.'
    return {
      ...fail('rate_limited', `Every upstream${rest}${quoted(last)}${refusedBy(refusal)}`),
      ...origin(last),
      ...more,
    }
  }
  if (last) {
    if (only(MISSING))
      return fail('model_missing', `No provider has this model.${quoted(last)}`, { param: 'model', ...origin(last) })
    if (only(TIME)) return fail('timeout', `No upstream answered in time.${quoted(last)}`, more)
    if (last.kind === 'context_length') return last
    const text =
      failures.length === 1 ? 'The upstream could not answer.' : `${counted(failures.length)} attempts failed.`
    // A missing model among other failures is not the client's fault: another target might have had it.
    const kind = MISSING.has(last.kind) ? 'status' : last.kind
    const mixed = kinds.some((one) => one !== last.kind)
    return { ...last, kind, message: `${text}${quoted(last)}`, ...more, ...(mixed && { mixed }) }
  }
  const unfit = skipped.flatMap((one) => ('paths' in one ? one.paths : []))
  if (skipped.every(({ why }) => why === 'unfit') && unfit[0] !== undefined)
    return fail('unsupported', `No configured provider supports ${named(unfit)}${adviceFor(skipped)}`, {
      param: unfit[0],
    })
  if (only(MISSING))
    return fail('model_missing', 'No provider has this model, according to a check a short while ago.', {
      param: 'model',
    })
  if (only(KEY_REJECTED))
    return fail('auth', 'No key of the configured providers is accepted at the moment. Check the keys.', more)
  // Waiting for the quota does not make the rejected keys valid.
  if (only(KEY_REJECTED, MONEY))
    return fail(
      'auth',
      'No key of the configured providers is accepted or has quota left at the moment. Check the keys and their accounts.',
      more,
    )
  const budget = skipped.some(({ why }) => why === 'budget') ? ', and a budget has no room for the others' : ''
  return fail(
    'no_target',
    `No upstream may be tried at the moment: circuits are open or cooldowns are active${budget}. See /providers/status.${refusedBy(refusal)}`,
    more,
  )
}

/** Names the budget that had no room for another target, unless the request itself is at fault. */
export const withBudget = (failure: Failure, budget: Failure | null): Failure => {
  const status = statusOf(failure)
  if (budget === null || failure.limit !== undefined || (status < 500 && status !== 429)) return failure
  const { limit, message } = budget
  return { ...failure, message: `${failure.message} ${message}`, ...(limit !== undefined && { limit }) }
}

/** The first target that gave a cause, else the first; the API styles or the cause; and the remedy. */
const adviceFor = (skipped: readonly SkippedReason[]): string => {
  const targets = skipped.flatMap((one) =>
    'target' in one && one.target ? [{ ...one.target.candidate, cause: one.because }] : [],
  )
  const first = targets.find(({ cause }) => cause !== undefined) ?? targets[0]
  const name = first && `${first.instance.id}/${first.model}`
  const isNameable = name !== undefined && !RETRY_TRIGGERS.test(name)
  if (first?.cause !== undefined)
    return `: ${isNameable ? name : 'the model'} ${first.cause}. Leave one out, or add a provider that takes both.`
  if (!first || !isNameable) return '. Remove it, or add a provider that uses this API style.'
  const { provider, speaks } = first.instance
  const inUse = speaks.map(({ protocol }) => protocol)
  const further = [...provider.speaks, ...(provider.alsoSpeaks ?? [])]
    .map(({ protocol }) => protocol)
    .filter((protocol) => !inUse.includes(protocol))
  const which = `: ${name} does not take it in the API style ${inUse.map(styleOf).join(' or ')}`
  return further.length > 0
    ? `${which}. Add another style of ${provider.title} (${further.map(styleOf).join(', ')}) to the provider's \`styles\`, remove the member, or add another provider.`
    : `${which}. Remove it, or add a provider that takes it.`
}

/** The name of a protocol as in `styles`: `chat`, `responses`, `messages`, `gemini`. */
const styleOf = (protocol: string): string =>
  protocol === 'bedrock-converse' ? 'bedrock' : protocol.slice(protocol.indexOf('-') + 1)

/** What no vendor accepts is an error of the request. */
const asOwnFault = (refusal: Failure): Failure =>
  refusal.kind === 'incompatible' ? { ...refusal, kind: 'invalid_request' } : refusal

/** The refusal of one target, if the others could not be tried. */
const refusedBy = (refusal: Failure | undefined): string =>
  refusal ? ` One refused the request: ${refusal.message}` : ''
const quoted = (failure: Failure | undefined): string => (failure ? ` Last: ${failure.message}` : '')
const origin = (failure: Failure | undefined) => (failure?.upstream ? { upstream: failure.upstream } : {})
/** Maximum paths in an error message. */
const MAX_NAMED = 10

const named = (paths: readonly string[]): string => {
  const different = [...new Set(paths)]
  return different.slice(0, MAX_NAMED).join(', ') + (different.length > MAX_NAMED ? ' and more' : '')
}

/** A number in words, because clients search the text of an error for status codes. */
const counted = (n: number): string =>
  ['No', 'One', 'Two', 'Three', 'Four', 'Five', 'Six', 'Seven', 'Eight', 'Nine'][n] ?? 'Many'

/** The ms until the first target may be tried again; null: unknown. */
const shortestWait = (failures: readonly Failure[], skipped: readonly SkippedReason[]): number | null => {
  const waits = [
    ...failures.map(({ retryAfter }) => retryAfter ?? null),
    ...skipped.map((one) => ('wait' in one ? one.wait : null)),
  ].filter((wait) => wait !== null)
  return waits.length === 0 ? null : Math.max(0, Math.min(...waits))
}

/** The status of the client's response: from the failure table, except that an invalid request keeps the upstream's 4xx (not 401 and 403, which concern the gateway's key). */
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

/** A retry has the same result, although the status suggests one. */
const NEVER: ReadonlySet<string> = new Set([
  'quota',
  'budget_exceeded',
  'auth',
  'permission',
  'unconfigured',
  'record_conflict',
])

/**
 * Whether the client should retry, and the `retry-after` to send (whole s, at least 1; null: none). `availableIn`: ms until
 * some target may be tried, 0 if one may be now, null if none ever will as things stand.
 */
export const retryAdvice = (
  failure: Failure,
  availableIn: number | null,
): { readonly retry: boolean; readonly after: number | null } => {
  const status = statusOf(failure)
  const { kind } = failure
  // An overloaded provider may state its wait (headroomlabs-ai/headroom#1495); a client that retries at once is refused again.
  const states = kind === 'idempotency_key_in_use' || (kind === 'overloaded' && failure.retryAfter !== undefined)
  const heeded = status === 429 || status === 503 || states
  // Another request may have started a longer cooldown in the meantime.
  const longest = Math.max(failure.retryAfter ?? 0, availableIn ?? 0)
  const wait = failure.retryAfter !== undefined || (heeded && longest > 0) ? longest : undefined
  const after = wait === undefined ? null : Math.max(1, Math.ceil(wait / 1000))
  // Every target exceeded the size limit: the same answer would be generated and paid for again.
  const tooLarge = kind === 'too_large' && failure.mixed !== true
  const never = tooLarge || NEVER.has(kind)
  const worth = status === 408 || status === 409 || status === 429 || status >= 500
  if (never || !worth) return { retry: false, after: heeded ? after : null }
  const most = kind === 'no_target' ? MAX_OUTAGE_WAIT : MAX_WAIT
  if (after !== null) return { retry: after <= most, after: heeded ? after : null }
  return {
    retry: availableIn !== null && availableIn <= most * 1000,
    after: heeded ? 1 : null,
  }
}
