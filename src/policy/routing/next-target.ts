/**
 * Which target comes next: a pure function of the plan and of what this request has already met. Whether the target
 * may be tried now (circuits, cool-downs) is the board's to say; here is only what makes sense to try.
 */
import { type Failure, rowOf } from '../../core/failure.ts'
import type { ProviderKey } from '../../core/provider.ts'
import { type Candidate, deploymentId, endpointId, keyId, modelId, type Plan, type Target } from '../../core/target.ts'

/** What one request has met so far. */
export type History = {
  /** Ids of deployments, models, keys and endpoints this request need not try again. */
  readonly excluded: ReadonlySet<string>
  /** Models at providers whose other keys come only after everything else. */
  readonly demoted: ReadonlySet<string>
  /** A failure was met after which no other target may be tried. */
  readonly final: boolean
  /** Only a window larger than this (tokens) is worth trying. */
  readonly largerThan: number | null
}

export const emptyHistory: History = { excluded: new Set(), demoted: new Set(), final: false, largerThan: null }

/** The history after this target failed in this way. `window` is the target's context window, if known. */
export const recordFailure = (history: History, target: Target, failure: Failure, window?: number): History => {
  const row = rowOf(failure)
  const { candidate, key } = target
  const condemned = new Set(history.excluded).add(deploymentId(target))
  if (row.excludes === 'key') condemned.add(keyId(candidate.instance, key))
  if (row.excludes === 'model') condemned.add(modelId(candidate))
  if (row.excludes === 'endpoint') condemned.add(endpointId(candidate.instance))
  const tooLong = failure.kind === 'context_length'
  return {
    excluded: condemned,
    demoted: row.prefer === 'provider' ? new Set(history.demoted).add(modelId(candidate)) : history.demoted,
    final: history.final || row.excludes === 'request' || (tooLong && window === undefined),
    largerThan: tooLong && window !== undefined ? Math.max(window, history.largerThan ?? 0) : history.largerThan,
  }
}

/**
 * Everything still worth trying, best first: candidates in the plan's order, each with its keys in the order given, and
 * the other keys of what has just failed at the end where the failure suggests another provider. Found one by one as it
 * is gone through: nearly always the first may be tried, and there may be hundreds.
 */
export function* remainingTargets(
  plan: Plan,
  history: History,
  keysOf: (candidate: Candidate) => Iterable<ProviderKey>,
): Generator<Target, void, undefined> {
  if (history.final) return
  const { excluded: condemned, demoted } = history
  const later: Candidate[] = []
  for (const candidate of plan.candidates) {
    if (demoted.size > 0 && demoted.has(modelId(candidate))) later.push(candidate)
    else yield* targetsOf(candidate, condemned, keysOf)
  }
  for (const candidate of later) yield* targetsOf(candidate, condemned, keysOf)
}

function* targetsOf(
  candidate: Candidate,
  condemned: History['excluded'],
  keysOf: (candidate: Candidate) => Iterable<ProviderKey>,
): Generator<Target, void, undefined> {
  const { instance } = candidate
  // Before anything has failed no name is made to look for.
  const none = condemned.size === 0
  if (!none && (condemned.has(endpointId(instance)) || condemned.has(modelId(candidate)))) return
  for (const key of keysOf(candidate)) {
    const target = { candidate, key }
    if (none || !(condemned.has(keyId(instance, key)) || condemned.has(deploymentId(target)))) yield target
  }
}

/** Whether a model with this context window (tokens) cannot take what a model with a known window refused as too long. */
export const isTooSmall = ({ largerThan }: History, window: number | undefined): boolean =>
  largerThan !== null && (window ?? 0) <= largerThan

/** Whether a limit that is over after `wait` is worth waiting for (ms). */
export const isShortWait = (wait: number, timeLeft: number): boolean => wait <= 2_000 && wait <= timeLeft / 4

/** Whether the same target may be asked once more, and after which wait (ms), when nothing else is left. */
export const sameTargetRetry = (
  failure: Failure,
  timeLeft: number,
  random: () => number,
): { readonly wait: number } | null => {
  const fits = (wait: number) => (wait <= timeLeft / 4 ? { wait } : null)
  switch (failure.kind) {
    case 'rate_limited':
      return failure.retryAfter !== undefined && isShortWait(failure.retryAfter, timeLeft)
        ? { wait: failure.retryAfter }
        : null
    case 'status':
    case 'conflict':
    case 'sign_in':
      return fits(250 + random() * 750)
    case 'dns':
      return failure.upstream?.code === 'EAI_AGAIN' ? fits(100 + random() * 100) : null
    default:
      return null
  }
}
