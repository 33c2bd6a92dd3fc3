/**
 * Serves `/{instance}/…`: a provider's own API with the credentials of the gateway. The bytes of request and answer are passed on; the
 * gateway's access, limits, budgets, guards and circuits apply.
 */
import type { ClientProtocolName } from '../../core/chat.ts'
import { textOf } from '../../core/encoded-text.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { IncomingRequest, RequestBody, ResponseWriter } from '../../core/http-exchange.ts'
import { isObject, type JsonObject, readJson, text } from '../../core/json.ts'
import type { BatchWatch } from '../../core/pass-batches.ts'
import type { PassObjects } from '../../core/pass-objects.ts'
import { type HttpMethod, PASS } from '../../core/pass-through.ts'
import type { Instance } from '../../core/provider.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { lackOf, lackText } from '../../policy/accounts/data-policy.ts'
import { tokensOfBytes } from '../../policy/accounts/estimate.ts'
import { passRefusal } from '../../policy/pass/access.ts'
import { passAddress, rootsOf } from '../../policy/pass/address.ts'
import { passedRequestHeaders } from '../../policy/pass/headers.ts'
import { pathTemplate } from '../../policy/pass/template.ts'
import { protocols } from '../../protocols/index.ts'
import { type CallDemand, endUsersOf } from '../accounts/demand.ts'
import { type OngoingAnswer, type RunningCall, runCall } from '../call/call-lifecycle.ts'
import { writeAndRecordError } from '../call/recorder.ts'
import { guardsFor } from '../guards/choose-guards.ts'
import { type ModelCallDeps, requireOf } from '../routing/planner.ts'
import { formatAt, type KnownFormat } from './answer-usage.ts'
import { callProvider } from './call-provider.ts'
import { batchCall, type PassCall } from './pass-call.ts'
import { objectsOf } from './pass-objects.ts'
import { sendAnswer } from './send-answer.ts'

/** A call for the provider. `path`: that at the gateway, as it was sent. */
export type ReceivedPass = {
  readonly received: IncomingRequest<RequestBody>
  readonly responseWriter: ResponseWriter
}

/** The name of the instance, and the path at the provider. */
export const splitPath = (path: string): readonly [instance: string, rest: string] => {
  const slash = path.indexOf('/', 1)
  return slash === -1 ? [path.slice(1), ''] : [path.slice(1, slash), path.slice(slash)]
}

type PassingDeps = ModelCallDeps & { readonly passObjects?: PassObjects; readonly batches?: BatchWatch }

/** Serves one call. */
export const servePass = (deps: PassingDeps, { received, responseWriter }: ReceivedPass): Promise<void> => {
  const [name] = splitPath(received.path)
  const instance = deps.config().instances.find(({ id }) => id === name)
  const protocol = protocols[protocolNameOf(instance)]
  // Bodies are not kept: they are files, and are not read.
  const { bodies: _, ...gateway } = deps
  return runCall({ gateway, protocol, style: PASS, received, responseWriter }, async (call) => {
    const prepared = instance ? prepare(gateway, { instance, received }, call) : UNKNOWN_INSTANCE
    return 'kind' in prepared ? refuse(call, received, prepared) : serve(gateway, prepared, call)
  })
}

/** Answers with an error; what is left of the body is not read. */
const refuse = (call: RunningCall, { upload }: IncomingRequest<RequestBody>, failure: Failure): void => {
  upload?.drop()
  writeAndRecordError(call, failure, null)
}

const UNKNOWN_INSTANCE = fail('unknown_url', 'No provider of this name has a pass-through.')

/** Errors of the gateway have the format that the clients of this provider read. */
const protocolNameOf = (instance: Instance | undefined): ClientProtocolName => {
  const spoken = instance?.speaks.find(({ protocol }) => Object.hasOwn(protocols, protocol))?.protocol
  // The cast: it is one of the names of `protocols`.
  return (spoken as ClientProtocolName | undefined) ?? 'openai-chat'
}

/** Checks a call and describes it to its account. A failure: why it may not be made. */
const prepare = (
  gateway: ModelCallDeps,
  { instance, received }: { readonly instance: Instance; readonly received: IncomingRequest<RequestBody> },
  { recorder }: RunningCall,
): PassCall | Failure => {
  const { client, headers } = received
  const path = splitPath(received.path)[1]
  const address = passAddress(instance, { path, query: received.query })
  const members = membersOf(received.body)
  const asked = `${received.method} ${address.ok ? pathTemplate(path) : '{path}'}`.slice(0, MAX_ASKED)
  const blocked = recorder.received({ model: asked, stream: false, members: members ?? {}, headers })
  if (!address.ok) return address.failure
  if (members === null) return fail('invalid_json', 'The body is not valid JSON.')
  const refused = blocked ?? passRefusal({ instance, method: received.method, path, client })
  if (refused) return refused
  const format = received.method === 'POST' ? formatOf(instance, path) : null
  const model = format && (format.model ?? text(members.model) ?? null)
  const known = model === null ? null : format
  const candidate = { instance, model: model ?? PASS, because: 'the pass-through', weight: 1 }
  const plan: Plan = { by: 'provider', candidates: [candidate], skipped: [] }
  recorder.account.describe(demandOf({ plan, model, members, bytes: bytesOf(received.body) }))
  const why = policyLack(gateway, received, candidate) ?? guardRefusal(gateway, { received, plan, instance }, recorder)
  if (why) return why
  const passed = passedRequestHeaders(headers)
  // A body of JSON has been inflated.
  const { 'content-encoding': __, ...plain } = passed
  return {
    instance,
    // The cast: `passRefusal` has compared it with the methods that are allowed.
    method: received.method as HttpMethod,
    address: address.value,
    candidate,
    received,
    format: known,
    members,
    headers: received.body instanceof Uint8Array ? plain : passed,
  }
}

/** Characters of a call's name in the ledger. */
const MAX_ASKED = 200

/** The members of a JSON body; empty where it is none; null: it cannot be read. */
const membersOf = (body: RequestBody): JsonObject | null => {
  if (!(body instanceof Uint8Array) || body.length === 0) return {}
  const value = readJson(textOf(body))
  if (value === undefined) return null
  return isObject(value) ? value : {}
}

const bytesOf = (body: RequestBody): number => (body instanceof Uint8Array ? body.length : 0)

const formatOf = (instance: Instance, path: string): KnownFormat | null => {
  const root = rootsOf(instance).find((one) => path.startsWith(`${one}/`))
  return root === undefined ? null : formatAt(instance, path.slice(root.length))
}

type Demanded = {
  readonly plan: Plan
  /** The model whose tokens the answer counts; null: its usage is not known. */
  readonly model: string | null
  readonly members: JsonObject
  readonly bytes: number
}

const demandOf = ({ plan, model, members, bytes }: Demanded): CallDemand => {
  const common = { asked: model ?? PASS, route: null, plan, ...endUsersOf(members) }
  if (model === null) return { ...common, input: 0, output: 'none', units: { unit: 'calls', count: 1, most: 1 } }
  const { max_tokens: most, max_completion_tokens: completion, max_output_tokens: output } = members
  const requested = [most, completion, output].find((value) => typeof value === 'number')
  // The cast: `find` has taken a number or nothing.
  return { ...common, input: tokensOfBytes(bytes), requested: requested as number | undefined, output: 'text' }
}

/** What the data policy of the client lacks at the provider. */
const policyLack = (
  gateway: ModelCallDeps,
  { client, headers }: IncomingRequest<RequestBody>,
  candidate: Candidate,
): Failure | null => {
  const required = requireOf(gateway.config(), { client, headers, members: {} })
  if (!required.ok) return required.failure
  const lack = required.value && lackOf(required.value, candidate)
  return lack && fail('data_policy', `${candidate.instance.id} does not satisfy what is required: ${lackText(lack)}.`)
}

/** A guard cannot look into what is passed on. */
const guardRefusal = (
  gateway: ModelCallDeps,
  { received, plan, instance }: { received: IncomingRequest<RequestBody>; plan: Plan; instance: Instance },
  recorder: RunningCall['recorder'],
): Failure | null => {
  if (instance.passThrough?.guarded === 'allow') return null
  const guards = guardsFor(gateway, { received, plan, style: PASS, recorder })
  if (guards.length === 0) return null
  return fail(
    'pass_through_denied',
    `Rules of the operator check the texts of this client, and cannot look into passed calls (providers.${instance.id}.passThrough.guarded).`,
  )
}

const serve = async (
  gateway: PassingDeps,
  prepared: PassCall,
  call: RunningCall,
  // biome-ignore lint/suspicious/noConfusingVoidType: a call that has ended returns nothing
): Promise<OngoingAnswer | void> => {
  const { settings } = gateway.config()
  gateway.activeCalls.startDeadline(gateway.world, call.cancellation, settings.timeout.request)
  let isOngoing = false
  try {
    const { received } = prepared
    const objects = objectsOf({ store: gateway.passObjects, batches: gateway.batches }, prepared)
    if ('kind' in objects) return refuse(call, received, objects)
    const foreign = await objects.refusal()
    if (foreign) return refuse(call, received, foreign)
    if (prepared.method === 'DELETE') await gateway.batches?.settleDeleted(batchCall(prepared))
    const answered = await callProvider(gateway, { prepared, objects }, call)
    if (!answered.ok) return refuse(call, received, answered.failure)
    const ongoing = await sendAnswer(gateway, { prepared, call, objects, ...answered })
    isOngoing = ongoing !== undefined
    return ongoing
  } finally {
    if (!isOngoing) call.cancellation.clearDeadline()
  }
}
