/** Checks a request after its end: its record, and the response that its client received. */
import type { Config } from '../../src/core/config.ts'
import { KINDS } from '../../src/core/failure.ts'
import { keyId, modelId, type Target } from '../../src/core/target.ts'
import type { TraceEvent } from '../../src/core/trace.ts'
import { attemptsIn } from '../../src/core/trace-summary.ts'
import type { UpstreamHealth } from '../../src/gateway/health/upstream-health.ts'
import { BODY_END_GRACE } from '../../src/gateway/upstream/attempt-timeouts.ts'
import type { Call } from './client.ts'
import type { Dialed } from './dialed.ts'
import { CANARY } from './setup.ts'
import { cooldownIds, scopesOf, type Watch } from './watch.ts'
import { readStream, readWhole, type Words, wordsIn } from './wires.ts'

/** Maximum total lateness of timers in ms. */
const LATE = 1_000

type Ended = Extract<TraceEvent, { type: 'ended' }>

/** What the checks of one ended request use. */
type Judged = {
  readonly call: Call
  /** The request whose response this one received; undefined if it was its own. */
  readonly leader: Call | undefined
  readonly config: Config
  readonly health: UpstreamHealth
  readonly watch: Watch
  readonly dials: readonly Dialed[]
  readonly now: number
}

/** With its end, and its name in messages. */
type Verdict = Judged & { readonly ended: Ended; readonly name: string }

/** Checks one request after its end. */
export const judge = (judged: Judged): void => {
  const { call, leader, watch } = judged
  const { exchange, request, reply } = call
  const name = `request ${call.number}`
  const ended = exchange?.find((fact) => fact.type === 'ended')
  if (!exchange || ended?.type !== 'ended') return watch.breach(15, `${name} was recorded without an end`)
  const verdict: Verdict = { ...judged, ended, name }
  watch.seen(`ends: ${ended.how}`)
  if (ended.failure) watch.seen(`client error: ${ended.failure.kind}`)
  checkRecord(verdict)
  // The time limit of a shared response is that of its first request. A stored one is sent as fast as its client reads.
  const isStored = exchange.some((fact) => fact.type === 'shared' && fact.how === 'stored')
  const { at, settings } = leader ?? call
  const limit = settings.timeout.request
  // After a complete answer without its client, the gateway waits for the end of the body.
  const grace = ended.how === 'answered' && reply.gone ? BODY_END_GRACE : 0
  // A whole answer that a hard budget pays for is read on after its client has left.
  const isReadOn = reply.gone && !call.request.stream
  if (!isStored && !isReadOn && !(leader && reply.slow) && limit > 0 && ended.at - at > limit + grace + LATE)
    watch.breach(19, `${name} took ${ended.at - at} ms of ${limit}`)
  // A client that disconnected after the terminator receives nothing more.
  if (!reply.over && !reply.gone) return watch.breach(2, `${name} has ended (${ended.how}), but its response has not`)
  if (reply.text.includes(CANARY) || JSON.stringify(reply.headers).includes(CANARY))
    watch.breach(16, `${name} received a key`)
  checkResponse(verdict)
  if (leader) return checkShared(verdict, leader)
  if (ended.how === 'refused') {
    checkUntried(verdict)
    checkRoute(verdict)
    // After a shutdown another process takes over, so the state known here does not apply.
    if (ended.failure && !OTHERS.has(ended.failure.kind)) checkRetryAfter(verdict)
  }
  if (request.broken && call.dials.length > 0) watch.breach(5, `${name} is not a valid request, but was sent upstream`)
}

/** Refusals that are not about upstreams. */
const OTHERS = new Set([
  'shutdown',
  'idempotency_key_in_use',
  'idempotency_key_reused',
  'budget_exceeded',
  'client_limit',
])

/** A shared response belongs to the same client and request, and is complete. */
const checkShared = ({ call, ended, watch, name }: Verdict, leader: Call): void => {
  const [own, first] = [call.request, leader.request]
  if (own.client !== first.client) watch.breach(17, `${name} of ${own.client} received a response for ${first.client}`)
  if (own.body !== first.body || own.style !== first.style)
    watch.breach(17, `${name} received the response to a different request, ${leader.number}`)
  if (call.dials.length > 0) watch.breach(17, `${name} joined request ${leader.number} but made upstream calls too`)
  const stored = call.exchange?.some((fact) => fact.type === 'shared' && fact.how === 'stored')
  if (stored && ended.how !== 'answered' && ended.how !== 'client_gone')
    watch.breach(17, `${name} received the stored response of request ${leader.number}, which was ${ended.how}`)
}

/** The recorded attempts match the calls. */
const checkRecord = ({ call, ended, watch, name }: Verdict): void => {
  const attempts = attemptsIn(call.exchange ?? [])
  const made = call.dials.map(({ provider, key, model }) => `${provider} ${key} ${model}`)
  const noted = attempts.map(({ provider, key, model }) => `${provider} ${key} ${model}`)
  if (made.join() !== noted.join())
    watch.breach(15, `${name} made attempts at [${made.join()}], but [${noted.join()}] are recorded`)
  if ((call.exchange ?? []).filter(({ type }) => type === 'continued').length > 1)
    watch.breach(3, `${name} was continued twice`)
  for (const { failure } of attempts) {
    if (!failure) continue
    watch.seen(`attempt: ${failure.kind}`)
    if (failure.message.includes(CANARY) || failure.upstream?.message?.includes(CANARY))
      watch.breach(16, `${name}: the failure of an attempt contains a key`)
  }
  for (const fact of call.exchange ?? [])
    if (fact.type === 'skipped') for (const { why } of fact.targets) watch.seen(`skipped: ${why}`)
  // A request with a shared response refers to the request that has the skipped targets.
  const isExplained = call.exchange?.some(({ type }) => type === 'skipped' || type === 'shared')
  if (ended.failure?.kind === 'no_target' && attempts.length === 0 && !isExplained)
    watch.breach(15, `${name} had no target, but no skipped target is recorded`)
  const pending = attempts.filter(({ end }) => end === 'pending').length
  if (pending > 0 && ended.how !== 'client_gone')
    watch.breach(15, `${name} (${ended.how}) has ${pending} attempts without an end`)
}

/** The response as its client reads it. */
const checkResponse = (verdict: Verdict): void => {
  const { call, leader, ended, watch, dials, name } = verdict
  const origin = leader ?? call
  const { reply, request } = call
  const { text, status } = reply
  // A client that does not read is disconnected from a shared response.
  const left = reply.gone || ended.how === 'client_gone' || (call.shareable && reply.full)
  if (status === null) {
    if (!left) watch.breach(2, `${name} never received a status`)
    return
  }
  const streamed = (reply.headers['content-type'] ?? '').startsWith('text/event-stream')
  if (!streamed && left && reply.over !== 'ended') return
  const reading = streamed ? readStream(request.style, text) : readWhole(request.style, text)
  if (left && !streamed && text === '') return
  if (reading.problem !== null) watch.breach(28, `${name}: ${reading.problem}`)
  const { terminators, errors } = reading

  const parts = inParts(origin, reading.text, text)
  let words: Words = wordsIn(parts.last, false)
  const from = words.tag === null ? undefined : dials[Number.parseInt(words.tag, 36)]
  if (words.problem !== null && from?.script.gaps) words = wordsIn(parts.last, true)
  if (parts.first !== null) {
    watch.seen('continued')
    const beginning = wordsIn(parts.first, true)
    const before = dials[Number.parseInt(beginning.tag ?? '', 36)]
    if (beginning.problem !== null) watch.breach(3, `${name}: ${beginning.problem}`)
    if (!before || !origin.dials.includes(before)) watch.breach(3, `${name} begins with text of no attempt of its own`)
  }
  if (words.problem !== null) watch.breach(3, `${name}: ${words.problem}`)
  if (from && !origin.dials.includes(from))
    watch.breach(3, `${name} received text that ${from.tag} sent to another request`)

  switch (ended.how) {
    case 'answered': {
      if (left && reply.over !== 'ended') return
      if (status !== 200) watch.breach(2, `${name} was answered with ${status}`)
      if (!reply.gone && (terminators !== 1 || errors.length > 0))
        watch.breach(2, `${name} was answered with ${terminators} terminators and ${errors.length} errors`)
      if (reply.gone && terminators > 1) watch.breach(2, `${name} has ${terminators} terminators`)
      if (terminators === 1) checkComplete(verdict, origin, words, from)
      return
    }
    case 'refused': {
      const inside = streamed && status === 200
      if (!inside && status !== ended.status)
        watch.breach(2, `${name} received ${status}, but ${ended.status} is recorded`)
      if (!left && (errors.length !== 1 || terminators > 0 || words.count > 0))
        watch.breach(
          2,
          `${name} was refused with ${errors.length} errors, ${terminators} terminators, ${words.count} words`,
        )
      return
    }
    case 'interrupted':
      if (!left && (errors.length !== 1 || terminators > 0))
        watch.breach(2, `${name} was interrupted with ${errors.length} errors and ${terminators} terminators`)
      if (
        !left &&
        ended.failure?.kind === 'shutdown' &&
        request.style !== 'messages' &&
        errors[0] !== 'server_shutdown'
      )
        watch.breach(24, `${name} was interrupted by the shutdown, but received ${errors[0]}`)
      return
    case 'client_gone':
      if (!reply.gone && !reply.full)
        watch.breach(2, `${name} was abandoned although its client was connected and reading`)
      if (terminators > 0 && errors.length > 0) watch.breach(2, `${name} has an end and an error`)
      return
    default:
      throw new Error(`unknown end ${JSON.stringify(ended.how satisfies never)}`)
  }
}

/** Splits a text into the interrupted attempt's part and the continuation's; `first` is null without a continuation. */
const inParts = (call: Call, text: string, raw: string): { readonly first: string | null; readonly last: string } => {
  // A client that disconnected before the first word has neither part. A joined request may end before the first one's
  // trace is recorded; then the comment at the seam shows the continuation.
  const isContinued = call.exchange?.some(({ type }) => type === 'continued') ?? raw.includes('\n: headgate continued ')
  if (text === '' || !isContinued) return { first: null, last: text }
  const tag = text.slice(0, 3)
  const seam = Array.from(text.matchAll(/([0-9a-z]{3})[0-9a-z]ü/g)).find(([, of]) => of !== tag)?.index ?? text.length
  return { first: text.slice(0, seam), last: text.slice(seam) }
}

/** A response marked as complete is complete. */
const checkComplete = ({ watch, name }: Verdict, call: Call, words: Words, from: Dialed | undefined): void => {
  if (words.tag === null) {
    if (!call.dials.some(({ script }) => script.meaning === 'empty'))
      watch.breach(3, `${name} received an empty response`)
    return
  }
  if (!from) return
  const { script, mode } = from
  const enough = script.gaps ? words.count > 0 : words.count === script.words
  if (!script.complete || !enough)
    watch.breach(
      3,
      `${name} received ${words.count} of ${script.words} words as complete (${mode}, ${script.complete ? 'complete' : 'cut'})`,
    )
}

/** Failures after which no other target is tried. */
const isFinal = (kind: keyof typeof KINDS): boolean =>
  KINDS[kind].side !== 'upstream' &&
  kind !== 'model_missing' &&
  kind !== 'context_length' &&
  kind !== 'incapable' &&
  kind !== 'incompatible'

/** No untried target was available throughout the request. */
const checkUntried = ({ call, ended: { failure }, config: { instances }, watch, name }: Verdict): void => {
  if (!failure || isFinal(failure.kind) || call.request.poison !== null || call.request.broken) return
  const { settings, dials } = call
  const counted = dials.filter(
    ({ script, sent }) => !(sent && (script.meaning === 'auth' || script.meaning === 'quota')),
  )
  if (counted.length >= settings.retry.maxAttempts) return
  const { model } = call.request
  for (const instance of instances) {
    const named = model.startsWith(`${instance.id}/`)
    if (settings.fallback !== 'any' && !named) continue
    const there = dials.filter(({ provider }) => provider === instance.id)
    // Rejected keys do not affect the other keys, and do not count as attempts.
    if (there.some(({ script, sent }) => !sent || (script.meaning !== 'auth' && script.meaning !== 'quota'))) continue
    const requested = named ? model.slice(instance.id.length + 1) : undefined
    const models = requested === undefined ? instance.models : [requested]
    const untried = instance.keys.filter((key) => !there.some((dial) => dial.key === key.id))
    if (untried.length === 0) continue
    const targets = models.flatMap((one) =>
      untried.map((key): Target => ({ candidate: { instance, model: one, because: '', weight: 1 }, key })),
    )
    if (targets.every((target) => isFree(target, call, watch)))
      watch.breach(
        13,
        `${name} was refused (${failure.kind}) though ${modelId({ instance, model: models[0] ?? '', because: '', weight: 1 })} was free with ${keyId(instance, untried[0] ?? { id: '', secret: null, weight: 1 })}`,
      )
  }
}

/** Each model of a route was tried if it was available throughout: no retry budget limits a failover. */
const checkRoute = ({ call, ended: { failure }, config, watch, name }: Verdict): void => {
  const { settings, dials, request } = call
  const attempts = attemptsIn(call.exchange ?? [])
  const route = config.routes.get(request.model)
  if (!route || !failure || isFinal(failure.kind) || request.poison !== null || request.broken) return
  if (settings.fallback === 'none' || dials.length >= settings.retry.maxAttempts) return
  for (const { provider, model } of [...route.targets, ...route.fallback]) {
    const instance = config.instances.find(({ id }) => id === provider)
    if (!instance || model === undefined) continue
    // A failure at another model of the provider may have excluded its endpoint or key for this request.
    const excluded = attempts.some((attempt) => {
      if (attempt.provider !== provider) return false
      const excludes = attempt.failure && KINDS[attempt.failure.kind].excludes
      return attempt.model === model || (excludes !== 'deployment' && excludes !== 'model')
    })
    if (excluded) continue
    const candidate = { instance, model, because: '', weight: 1 }
    if (instance.keys.every((key) => isFree({ candidate, key }, call, watch)))
      watch.breach(13, `${name} was refused (${failure.kind}) though ${modelId(candidate)} of its route was free`)
  }
}

/** Nothing has excluded it since the request arrived, and the client's budget had room for it. */
const isFree = (target: Target, call: Call, watch: Watch): boolean =>
  !isUnaffordable(target, call) && isAvailable(target, call, watch)

const isUnaffordable = ({ candidate: { instance, model } }: Target, { exchange }: Call): boolean =>
  (exchange ?? []).some(
    (fact) =>
      fact.type === 'skipped' &&
      fact.targets.some(
        // A list that is cut may have had it.
        (one) => one.why === 'budget' && (fact.more > 0 || (one.provider === instance.id && one.model === model)),
      ),
  )

const isAvailable = (target: Target, { at, settings }: Call, watch: Watch): boolean =>
  cooldownIds(target).every((id) => !watch.troubled.has(id)) &&
  scopesOf(target).every((id) => {
    const circuit = watch.circuit(id, settings)
    return circuit.at === 'closed' && circuit.changed < at
  })

/** Retry-After is neither too soon nor too late. */
const checkRetryAfter = ({ call, health, config: { instances }, watch, name, now }: Verdict): void => {
  const { headers } = call.reply
  const after = headers['retry-after']
  if (after === undefined) return
  const seconds = Number(after)
  watch.seen('sent: retry-after')
  const outage = call.exchange?.some((fact) => fact.type === 'ended' && fact.failure?.kind === 'no_target')
  if (seconds > (outage ? 5 : 60) && headers['x-should-retry'] !== 'false')
    watch.breach(27, `${name} received Retry-After ${after}`)
  let soonest = Number.POSITIVE_INFINITY
  for (const instance of instances)
    for (const model of new Set([...instance.models, ...call.dials.map((dial) => dial.model)]))
      for (const key of instance.keys) {
        const refusal = health.peek({ candidate: { instance, model, because: '', weight: 1 }, key }, call.settings)
        soonest = Math.min(soonest, refusal ? (refusal.until ?? Number.POSITIVE_INFINITY) - now : 0)
      }
  if (seconds * 1_000 + LATE < soonest && Number.isFinite(soonest))
    watch.breach(27, `${name} received Retry-After ${after}, but nothing can be tried for ${Math.round(soonest)} ms`)
}
