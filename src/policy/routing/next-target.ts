/**
 * Which target is next: a pure function of the plan and the failures of this request. Circuits and cooldowns are checked
 * by the caller.
 */
import { type Failure, rowOf } from '../../core/failure.ts'
import type { ProviderKey } from '../../core/provider.ts'
import {
  type Candidate,
  deploymentId,
  endpointId,
  keyId,
  modelId,
  type Plan,
  proxyId,
  type Target,
} from '../../core/target.ts'

/** The consequences of the failures of one request so far. */
export type History = {
  /** Ids of deployments, models, keys, endpoints and proxies that this request does not try again. */
  readonly excluded: ReadonlySet<string>
  /** Models at instances whose other keys are tried after all other targets. */
  readonly demoted: ReadonlySet<string>
  /** A failure occurred after which no other target may be tried. */
  readonly final: boolean
  /** The request exceeded a context window of this size, in tokens: only larger and unknown windows are tried. */
  readonly largerThan: number | null
  /** Members that targets refused. Vendors of two families that refuse the same one prove that the client is at fault. */
  readonly refused: readonly ProviderRefusal[]
}

type ProviderRefusal = { readonly member: string; readonly family: string; readonly endpoint: string }

/** The history of a request without failures. */
export const emptyHistory: History = {
  excluded: new Set(),
  demoted: new Set(),
  final: false,
  largerThan: null,
  refused: [],
}

/** What is known of a failure. `window`: the target's context window in tokens. `member`: what the target refused. */
type FailureFacts = { readonly window?: number | undefined; readonly member?: string | undefined }

/** The history after a failure of this target. */
export const recordFailure = (
  history: History,
  target: Target,
  failure: Failure,
  { window, member }: FailureFacts = {},
): History => {
  const row = rowOf(failure)
  const { candidate, key } = target
  const excluded = new Set(history.excluded).add(deploymentId(target))
  if (row.excludes === 'key') excluded.add(keyId(candidate.instance, key))
  if (row.excludes === 'model') excluded.add(modelId(candidate))
  if (row.excludes === 'endpoint') excluded.add(endpointId(candidate.instance))
  if (row.excludes === 'proxy') excluded.add(proxyId(candidate.instance) ?? endpointId(candidate.instance))
  const tooLong = failure.kind === 'context_length'
  const refusal =
    failure.kind === 'incompatible' && member !== undefined
      ? { member, family: familyOf(candidate), endpoint: endpointId(candidate.instance) }
      : undefined
  return {
    excluded,
    demoted: row.prefer === 'provider' ? new Set(history.demoted).add(modelId(candidate)) : history.demoted,
    final: history.final || row.excludes === 'request' || (refusal !== undefined && isShared(refusal, history.refused)),
    largerThan: tooLong && window !== undefined ? Math.max(window, history.largerThan ?? 0) : history.largerThan,
    refused: refusal ? [...history.refused, refusal] : history.refused,
  }
}

/** Whether a vendor of another family refused the same member. */
const isShared = ({ member, family, endpoint }: ProviderRefusal, earlier: readonly ProviderRefusal[]): boolean =>
  earlier.some((one) => one.member === member && one.family !== family && one.endpoint !== endpoint)

/**
 * The family of a target: vendors of one family check requests with the same code. Relays and unknown servers belong to that
 * of the model they name (`openai/gpt-5.4`), or else to one of the model itself.
 */
const familyOf = ({ instance: { provider }, model }: Candidate): string => {
  if (provider.family !== 'of the model') return provider.family ?? provider.name
  const maker = model.slice(0, Math.max(0, model.indexOf('/')))
  return maker === '' ? `model ${model}` : maker
}

/**
 * The targets not yet excluded, best first: candidates in the plan's order, each with its keys in the given order. After
 * a failure that suggests another provider, the model's other keys come last. A generator, because usually only the first
 * of many targets is needed.
 */
export function* remainingTargets(
  plan: Plan,
  history: History,
  keysOf: (candidate: Candidate) => Iterable<ProviderKey>,
): Generator<Target, void, undefined> {
  if (history.final) return
  const { excluded, demoted } = history
  const later: Candidate[] = []
  for (const candidate of plan.candidates) {
    if (demoted.size > 0 && demoted.has(modelId(candidate))) later.push(candidate)
    else yield* targetsOf(candidate, excluded, keysOf)
  }
  for (const candidate of later) yield* targetsOf(candidate, excluded, keysOf)
}

function* targetsOf(
  candidate: Candidate,
  excluded: History['excluded'],
  keysOf: (candidate: Candidate) => Iterable<ProviderKey>,
): Generator<Target, void, undefined> {
  const { instance } = candidate
  // Avoids building ids while nothing is excluded.
  const none = excluded.size === 0
  if (!none && [endpointId(instance), proxyId(instance) ?? '', modelId(candidate)].some((id) => excluded.has(id)))
    return
  for (const key of keysOf(candidate)) {
    const target = { candidate, key }
    if (none || !(excluded.has(keyId(instance, key)) || excluded.has(deploymentId(target)))) yield target
  }
}

/** Whether the request exceeded a context window at least as large as this one (tokens). An unknown window is tried. */
export const isTooSmall = ({ largerThan }: History, window: number | undefined): boolean =>
  largerThan !== null && window !== undefined && window <= largerThan

/** Whether to wait `wait` ms: at most `longest`, by default 2 s, and a quarter of the remaining time. */
export const isShortWait = (wait: number, timeLeft: number, longest = 2_000): boolean =>
  wait <= longest && wait <= timeLeft / 4

/**
 * Whether two candidates have the same model: providers list it with or without its maker and its date
 * (`gpt-5-mini`, `openai/gpt-5-mini-2025-08-07`, `us.anthropic.claude-sonnet-4-5-20250929-v1:0`).
 */
export const isSameModel = (one: Candidate, other: Candidate): boolean =>
  one.model === other.model || plainName(one.model) === plainName(other.model)

const plainName = (model: string): string =>
  model
    .slice(model.lastIndexOf('/') + 1)
    .toLowerCase()
    .replace(/^(?:[a-z]{1,16}\.){1,3}/, '')
    .replace(/-v\d{1,2}(?::\d{1,2})?$/, '')
    .replace(/[-@]\d{4}-?\d{2}-?\d{2}$/, '')

/**
 * Whether to try the same model again before another model, and after which wait in ms: at the end of a rate limit, or after
 * an error that is usually short. `longest`: the longest wait. Null: another model is tried at once.
 */
export const sameModelRetry = (
  { kind, status, retryAfter }: Failure,
  longest: number,
  random: () => number,
): { readonly wait: number } | null => {
  if (kind === 'rate_limited') return retryAfter !== undefined && retryAfter <= longest ? { wait: retryAfter } : null
  const isShort = kind === 'status' && (status === 500 || status === 502)
  return isShort && longest >= SHORTEST ? { wait: SHORTEST + random() * (Math.min(longest, 1_000) - SHORTEST) } : null
}
const SHORTEST = 250

/** Whether to retry the same target when no other target is left, and after which wait in ms. Null: no retry. */
export const sameTargetRetry = (
  failure: Failure,
  timeLeft: number,
  random: () => number,
): { readonly wait: number } | null => {
  const fits = (wait: number) => (wait <= timeLeft / 4 ? { wait } : null)
  switch (failure.kind) {
    // Only for token counts, which start no cooldown. Other requests wait for the cooldown of the limited target.
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
