/** Calls the provider with one key, by the team: its objects belong to an account. Another key only if nothing was sent. */
import { type Failure, fail } from '../../core/failure.ts'
import type { Instance } from '../../core/provider.ts'
import type { Target } from '../../core/target.ts'
import { finalError, type SkippedReason, withBudget } from '../../policy/reply/final-error.ts'
import { orderKeys } from '../../policy/routing/order.ts'
import type { RunningCall } from '../call/call-lifecycle.ts'
import type { AttemptPermit } from '../health/upstream-health.ts'
import type { ModelCallDeps } from '../routing/planner.ts'
import { identityOf, providerHeaders } from '../upstream/outbound-request.ts'
import { redactKey } from '../upstream/redact.ts'
import { AnswerUsage } from './answer-usage.ts'
import { PassAttempt, type PassOutcome } from './pass-attempt.ts'
import type { PassCall } from './pass-call.ts'
import type { CallObjects } from './pass-objects.ts'

/** The answer of a provider, of which the header block has arrived. `number`: of the attempt. */
export type AnsweredPass = {
  readonly ok: true
  readonly attempt: PassAttempt
  readonly usage: AnswerUsage
  readonly number: number
  readonly target: Target
  readonly permit: AttemptPermit
  readonly outcome: Extract<PassOutcome, { ok: true }>
}
type Unanswered = { readonly ok: false; readonly failure: Failure }

const UNRECORDED = fail('storage', 'The usage of this request cannot be recorded at the moment. Retry later.', {
  retryAfter: 2_000,
})

export const callProvider = async (
  gateway: ModelCallDeps,
  { prepared, objects }: { readonly prepared: PassCall; readonly objects: CallObjects },
  call: RunningCall,
): Promise<AnsweredPass | Unanswered> => {
  const { health, world } = gateway
  const { settings } = gateway.config()
  const { recorder, cancellation } = call
  const { admission, attempts } = recorder.account
  const early = admission.earlyRefusal()
  if (early) return unanswered(early)
  const skipped: (SkippedReason & { readonly target: Target })[] = []
  const failures: Failure[] = []
  for (const key of keysFor(gateway, prepared.instance, prepared.received.client.team.id)) {
    const target = { candidate: prepared.candidate, key }
    const permit = health.admit(target, settings, 'normal')
    if ('why' in permit) {
      skipped.push({ why: permit.why, wait: permit.until === null ? null : permit.until - world.now(), target })
      continue
    }
    if ((await admission.reserve(target, undefined)) !== null) {
      permit.release()
      break
    }
    const isRecorded = await attempts.record(false)
    if (isRecorded === false || cancellation.reason) {
      permit.release()
      attempts.discard()
      return unanswered(cancellation.reason ?? UNRECORDED)
    }
    const tried = await tryTarget(gateway, { prepared, objects, target, permit, number: failures.length }, call)
    if (tried.ok) return tried
    failures.push(tried.failure)
    if (tried.failure.unsent !== true || cancellation.reason) return unanswered(tried.failure)
  }
  const own = failures.length === 0 ? admission.ownFailure(skipped) : null
  return unanswered(own ?? withBudget(finalError(failures, skipped), admission.budgetRefusal))
}

const unanswered = (failure: Failure): Unanswered => ({ ok: false, failure })

/** The keys of an instance in the order of a team: the same each time. */
export const keysFor = ({ world }: Pick<ModelCallDeps, 'world'>, instance: Instance, team: string) =>
  orderKeys(
    instance.keys,
    'sticky',
    {
      inFlight: () => 0,
      totalInFlight: () => 0,
      quotaLeft: () => undefined,
      requestNumber: 0,
      affinity: team,
    },
    world.random,
  )

type Trying = {
  readonly prepared: PassCall
  readonly objects: CallObjects
  readonly target: Target
  readonly permit: AttemptPermit
  readonly number: number
}

const tryTarget = async (
  gateway: ModelCallDeps,
  { prepared, objects, target, permit, number }: Trying,
  { recorder, cancellation }: RunningCall,
): Promise<AnsweredPass | Unanswered> => {
  const { world } = gateway
  const { settings } = gateway.config()
  const { instance, method, address, received, format, headers } = prepared
  const { model } = target.candidate
  const { attempts } = recorder.account
  recorder.note({ type: 'attempt', at: world.now(), provider: instance.id, model, key: target.key.id })
  const { body, upload } = received
  const traced = attempts.traceHeaders()
  const usage = new AnswerUsage(format, world.date())
  const attempt = new PassAttempt(gateway, {
    call: {
      method,
      url: address.url,
      headers: { ...headers, ...providerHeaders(instance, target.key), ...traced },
      ...(body instanceof Uint8Array ? { body } : upload && hasBody(received) && { upload }),
      identity: identityOf(instance, target.key),
      egress: instance.egress,
      client: received.memoryOwner,
      ...(method === 'POST' && { once: true }),
    },
    timeout: settings.timeout,
    // Errors may quote a key.
    keep: (head) => (head.status >= 400 ? 'whole' : objects.kept(head)),
    usage,
  })
  attempts.sent(usage)
  const startedAt = world.now()
  cancellation.onCancel((reason) => attempt.failWith(reason))
  const outcome = await attempt.opened
  if (outcome.ok) {
    permit.commit(world.now() - startedAt)
    return { ok: true, attempt, usage, number, target, permit, outcome }
  }
  const failure = redactKey(outcome.failure, target.key)
  if (cancellation.reason) permit.release()
  else permit.failed(failure, recorder.id)
  recorder.note({ type: 'failed', at: world.now(), attempt: number, failure })
  return unanswered(failure)
}

/** A request without a body states none. */
const hasBody = ({ upload, method }: PassCall['received']): boolean =>
  upload !== undefined && (upload.length !== 0 || (method !== 'GET' && method !== 'HEAD' && method !== 'DELETE'))
