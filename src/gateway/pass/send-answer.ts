/** Turns the answer of a provider into the one of the client: headers, addresses, errors. */
import { textOf } from '../../core/encoded-text.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { ownLocation } from '../../policy/pass/address.ts'
import { LOCATIONS, passedAnswerHeaders } from '../../policy/pass/headers.ts'
import type { OngoingAnswer, RunningCall } from '../call/call-lifecycle.ts'
import { writeAndRecordError } from '../call/recorder.ts'
import type { ModelCallDeps } from '../routing/planner.ts'
import { redactKey, redactSecrets } from '../upstream/redact.ts'
import type { AnsweredPass } from './call-provider.ts'
import { PassedAnswer } from './pass-answer.ts'
import type { PassCall } from './pass-call.ts'
import type { CallObjects } from './pass-objects.ts'

type AnswerToSend = AnsweredPass & {
  readonly prepared: PassCall
  readonly call: RunningCall
  readonly objects: CallObjects
}

/** Sends it, or begins to. Undefined: it has been sent. */
export const sendAnswer = async (gateway: ModelCallDeps, answer: AnswerToSend): Promise<OngoingAnswer | undefined> => {
  const { prepared, call, attempt, usage, number, target, permit, outcome } = answer
  const { recorder } = call
  const { settings } = gateway.config()
  const { status, headers } = outcome.head
  const made = answerHeaders(prepared, outcome.head.headers, {
    status,
    basePath: settings.basePath,
    isTls: settings.tls.cert.length > 0,
  })
  const problem = made.ok ? refusalOf(status) : made.failure
  if (problem && (!made.ok || problem.kind === 'auth')) {
    attempt.abort()
    settleFailed(gateway, answer, problem)
    return void writeAndRecordError(call, problem, null)
  }
  recorder.answeredBy({ target, prepared: { dropped: [] } })
  const own = made.ok ? made.value : {}
  if (problem) {
    settleFailed(gateway, answer, problem)
    recorder.responseStarted = true
    const text = outcome.whole ? textOf(outcome.whole) : ''
    call.responseWriter.writeHead(status, { ...recorder.headers(), ...own })
    call.responseWriter.end(redacted(text, answer))
    return void recorder.end('refused', status, problem)
  }
  const checked = outcome.whole && (await answer.objects.checked(outcome.whole))
  const unkept = checked && !checked.ok ? checked.failure : await answer.objects.keepAddressed(outcome.head)
  if (unkept) {
    // It may have made an object, which no client reaches then.
    attempt.abort()
    settleFailed(gateway, answer, unkept)
    return void writeAndRecordError(call, unkept, null)
  }
  recorder.note({ type: 'committed', at: gateway.world.now(), attempt: number, status })
  const passed = new PassedAnswer({
    call,
    world: gateway.world,
    attempt,
    usage,
    target,
    permit,
    status,
    headers: { ...recorder.headers(), ...own, ...streamHeaders(headers) },
    clientWrite: settings.timeout.clientWrite,
    whole: checked?.ok ? checked.value : null,
  })
  passed.begin()
  return passed
}

/** Proxies must not collect a stream before they pass it on. */
const streamHeaders = (headers: HeaderLookup): Readonly<Record<string, string>> =>
  headers('content-type')?.startsWith('text/event-stream') ? { 'x-accel-buffering': 'no' } : {}

/** The attempt has failed by its status. */
const settleFailed = (gateway: ModelCallDeps, { call, permit, number }: AnswerToSend, failure: Failure): void => {
  // A refusal of one of these calls says nothing about calls of models with the same key, unless the key itself is refused.
  if (failure.kind === 'auth' || failure.kind === 'status') permit.failed(failure, call.recorder.id)
  else permit.release()
  call.recorder.note({ type: 'failed', at: gateway.world.now(), attempt: number, failure })
}

/** What a status means for the record; null: the call has succeeded. */
const refusalOf = (status: number): Failure | null => {
  if (status < 400) return null
  // The client's key is valid: it must not be led to think otherwise.
  if (status === 401) return fail('auth', "The provider refuses the gateway's key.", { status })
  if (status === 404) return fail('not_found', 'The provider has no such object or path.', { status })
  if (status === 429) return fail('rate_limited', 'The provider limits these calls.', { status })
  if (status < 500) return fail('invalid_request', `The provider refuses the call (status ${status}).`, { status })
  return fail('status', `The provider answered with status ${status}.`, { status })
}

/** An error of a provider without the credentials that it may quote. */
const redacted = (text: string, { target, prepared }: AnswerToSend): string => {
  const { headers } = prepared.instance
  const clean = redactKey(fail('status', text), target.key)
  return redactSecrets(clean, headers ? Object.values(headers) : []).message
}

type AnswerPlace = { readonly status: number; readonly basePath: string; readonly isTls: boolean }

const answerHeaders = (
  { instance, address, received }: PassCall,
  headers: HeaderLookup,
  { status, basePath, isTls }: AnswerPlace,
): Outcome<Readonly<Record<string, string>>> => {
  const made: Record<string, string> = { ...passedAnswerHeaders(headers) }
  for (const name of LOCATIONS) {
    const to = headers(name)
    if (to === undefined) continue
    const path = ownLocation(instance, { to, from: address.url })
    if (path !== null) {
      const scheme = isTls || received.headers('x-forwarded-proto') === 'https' ? 'https' : 'http'
      made[name] = `${scheme}://${received.headers('host') ?? 'localhost'}${basePath}/${instance.id}${path}`
    } else if (instance.passThrough?.redirects === 'pass' && /^https?:[\x21-\x7e]{1,4000}$/.test(to)) made[name] = to
    else return bad(foreignRedirect(instance.id, status))
  }
  return good(made)
}

const foreignRedirect = (id: string, status: number): Failure =>
  fail(
    'redirect_refused',
    `The provider ${id} leads to an address that is not its own (status ${status}). providers.${id}.passThrough.redirects: pass hands it on.`,
    { status },
  )
