/** What is looked at when a request is over: what was written down of it, and what its client was given. */
import type { Config } from '../../src/core/config.ts'
import { KINDS } from '../../src/core/failure.ts'
import { keyId, modelId, type Target } from '../../src/core/target.ts'
import type { TraceEvent } from '../../src/core/trace.ts'
import { attemptsIn } from '../../src/core/trace-summary.ts'
import type { UpstreamHealth } from '../../src/gateway/health/upstream-health.ts'
import type { Call } from './client.ts'
import type { Dialed } from './dialed.ts'
import { CANARY } from './setup.ts'
import { restsOf, scopesOf, type Watch } from './watch.ts'
import { readStream, readWhole, type Words, wordsIn } from './wires.ts'

/** How late timers may be in all (ms). */
const LATE = 1_000

type Ended = Extract<TraceEvent, { type: 'ended' }>

/** `leader`: whose answer it was given, where that was another's. */
export const judge = (
  call: Call,
  leader: Call | undefined,
  config: Config,
  board: UpstreamHealth,
  watch: Watch,
  dials: readonly Dialed[],
  now: number,
): void => {
  const { exchange, question, reply } = call
  const name = `request ${call.number}`
  const ended = exchange?.find((fact) => fact.type === 'ended')
  if (!exchange || ended?.type !== 'ended') return watch.breach(15, `${name} was written down without an end`)
  watch.seen(`ends: ${ended.how}`)
  if (ended.failure) watch.seen(`told: ${ended.failure.kind}`)
  written(call, ended, watch, name)
  // Whoever joins another's answer gets it in that one's time, or, once it is there, as fast as it reads.
  const isStored = exchange.some((fact) => fact.type === 'shared' && fact.how === 'stored')
  const { at, settings } = leader ?? call
  const { request } = settings.timeout
  if (!isStored && !(leader && reply.slow) && request > 0 && ended.at - at > request + LATE)
    watch.breach(19, `${name} took ${ended.at - at} ms of ${request}`)
  // To a client that left behind the terminator nothing more is said.
  if (!reply.over && !reply.gone) return watch.breach(2, `${name} is over (${ended.how}), and its reply is not`)
  if (reply.text.includes(CANARY) || JSON.stringify(reply.headers).includes(CANARY))
    watch.breach(16, `${name} was told a key`)
  read(call, leader ?? call, ended, watch, dials, name)
  if (leader) return joined(call, leader, ended, watch, name)
  if (ended.how === 'refused') {
    keptTrying(call, ended, config, watch, name)
    triedRoute(call, ended, config, watch, name)
    // When the process ends, another takes over: that has nothing to do with what is known here.
    if (ended.failure && !OTHERS.has(ended.failure.kind)) comesBack(call, board, config, watch, name, now)
  }
  if (question.broken && call.dials.length > 0) watch.breach(5, `${name} asks nothing, and was sent on`)
}

/** Refusals that are not about upstreams. */
const OTHERS = new Set(['shutdown', 'idempotency_key_in_use', 'idempotency_key_reused'])

/** Nothing of another's, and nothing that was not whole, is given a second time. */
const joined = (call: Call, leader: Call, ended: Ended, watch: Watch, name: string): void => {
  const [mine, first] = [call.question, leader.question]
  if (mine.client !== first.client) watch.breach(17, `${name} of ${mine.client} was given an answer to ${first.client}`)
  if (mine.body !== first.body || mine.style !== first.style)
    watch.breach(17, `${name} was given the answer to another question, of request ${leader.number}`)
  if (call.dials.length > 0) watch.breach(17, `${name} joined request ${leader.number} and asked upstream all the same`)
  const stored = call.exchange?.some((fact) => fact.type === 'shared' && fact.how === 'stored')
  if (stored && ended.how !== 'answered' && ended.how !== 'client_gone')
    watch.breach(17, `${name} was given what was kept of request ${leader.number}, which was ${ended.how}`)
}

/** The facts against the calls. */
const written = (call: Call, ended: Ended, watch: Watch, name: string): void => {
  const attempts = attemptsIn(call.exchange ?? [])
  const made = call.dials.map(({ provider, key, model }) => `${provider} ${key} ${model}`)
  const noted = attempts.map(({ provider, key, model }) => `${provider} ${key} ${model}`)
  if (made.join() !== noted.join())
    watch.breach(15, `${name} made attempts at [${made.join()}], and [${noted.join()}] are written down`)
  if ((call.exchange ?? []).filter(({ type }) => type === 'continued').length > 1)
    watch.breach(3, `${name} was gone on with twice`)
  for (const { failure } of attempts) {
    if (!failure) continue
    watch.seen(`attempt: ${failure.kind}`)
    if (failure.message.includes(CANARY) || failure.upstream?.message?.includes(CANARY))
      watch.breach(16, `${name}: a key stands in the failure of an attempt`)
  }
  for (const fact of call.exchange ?? [])
    if (fact.type === 'skipped') for (const { why } of fact.targets) watch.seen(`skipped: ${why}`)
  const skips = call.exchange?.some(({ type }) => type === 'skipped')
  if (ended.failure?.kind === 'no_target' && attempts.length === 0 && !skips)
    watch.breach(15, `${name} had no target, and no skipped target is noted`)
  const pending = attempts.filter(({ end }) => end === 'pending').length
  if (pending > 0 && ended.how !== 'client_gone')
    watch.breach(15, `${name} (${ended.how}) has ${pending} attempts without an end`)
}

/** The answer, as its client read it. */
const read = (call: Call, origin: Call, ended: Ended, watch: Watch, dials: readonly Dialed[], name: string): void => {
  const { reply, question } = call
  const { text, status } = reply
  // Who does not read is cut off from an answer that goes on for others.
  const left = reply.gone || ended.how === 'client_gone' || (call.shareable && reply.full)
  if (status === null) {
    if (!left) watch.breach(2, `${name} never had a head`)
    return
  }
  const streamed = (reply.headers['content-type'] ?? '').startsWith('text/event-stream')
  if (!streamed && left && reply.over !== 'ended') return
  const reading = streamed ? readStream(question.style, text) : readWhole(question.style, text)
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
    if (!before || !origin.dials.includes(before)) watch.breach(3, `${name} begins with what nobody said to it`)
  }
  if (words.problem !== null) watch.breach(3, `${name}: ${words.problem}`)
  if (from && !origin.dials.includes(from)) watch.breach(3, `${name} was given what ${from.tag} said to another`)

  switch (ended.how) {
    case 'answered': {
      if (left && reply.over !== 'ended') return
      if (status !== 200) watch.breach(2, `${name} was answered with ${status}`)
      if (!reply.gone && (terminators !== 1 || errors.length > 0))
        watch.breach(2, `${name} was answered with ${terminators} terminators and ${errors.length} errors`)
      if (reply.gone && terminators > 1) watch.breach(2, `${name} has ${terminators} terminators`)
      if (terminators === 1) whole(origin, words, from, watch, name)
      return
    }
    case 'refused': {
      const inside = streamed && status === 200
      if (!inside && status !== ended.status)
        watch.breach(2, `${name} was told ${status}, and ${ended.status} is written down`)
      if (!left && (errors.length !== 1 || terminators > 0 || words.count > 0))
        watch.breach(
          2,
          `${name} was refused with ${errors.length} errors, ${terminators} terminators, ${words.count} words`,
        )
      return
    }
    case 'interrupted':
      if (!left && (errors.length !== 1 || terminators > 0))
        watch.breach(2, `${name} was broken off with ${errors.length} errors and ${terminators} terminators`)
      if (
        !left &&
        ended.failure?.kind === 'shutdown' &&
        question.style !== 'messages' &&
        errors[0] !== 'server_shutdown'
      )
        watch.breach(24, `${name} was broken off by the shutdown, and told ${errors[0]}`)
      return
    case 'client_gone':
      if (!reply.gone && !reply.full)
        watch.breach(2, `${name} was given up as gone, and its client was there and reading`)
      if (terminators > 0 && errors.length > 0) watch.breach(2, `${name} has an end and an error`)
      return
    default:
      throw new Error(`unknown end ${JSON.stringify(ended.how satisfies never)}`)
  }
}

/** What the attempt said that was gone on with, and what the one that went on; null: nobody did. */
const inParts = (call: Call, text: string, raw: string): { readonly first: string | null; readonly last: string } => {
  // Who left before the first word read nothing of either part.
  // One who joined may be done before the first client's request is, and its exchange told: the comment at the seam tells.
  const isContinued = call.exchange?.some(({ type }) => type === 'continued') ?? raw.includes('\n: headgate continued ')
  if (text === '' || !isContinued) return { first: null, last: text }
  const tag = text.slice(0, 3)
  const seam = Array.from(text.matchAll(/([0-9a-z]{3})[0-9a-z]ü/g)).find(([, of]) => of !== tag)?.index ?? text.length
  return { first: text.slice(0, seam), last: text.slice(seam) }
}

/** Nothing is missing of what is said to be complete. */
const whole = (call: Call, words: Words, from: Dialed | undefined, watch: Watch, name: string): void => {
  if (words.tag === null) {
    if (!call.dials.some(({ script }) => script.meaning === 'empty'))
      watch.breach(3, `${name} was answered with nothing`)
    return
  }
  if (!from) return
  const { script, mode } = from
  const enough = script.gaps ? words.count > 0 : words.count === script.words
  if (!script.complete || !enough)
    watch.breach(
      3,
      `${name} was told ${words.count} of ${script.words} words are all (${mode}, ${script.complete ? 'complete' : 'cut'})`,
    )
}

/** Failures after which nothing else can be tried, whatever there is. */
const isFinal = (kind: keyof typeof KINDS): boolean =>
  KINDS[kind].side !== 'upstream' &&
  kind !== 'model_missing' &&
  kind !== 'context_length' &&
  kind !== 'incapable' &&
  kind !== 'incompatible'

/** Something that could have been tried, and would have been allowed all the time, was tried. */
const keptTrying = (call: Call, { failure }: Ended, { instances }: Config, watch: Watch, name: string): void => {
  if (!failure || isFinal(failure.kind) || call.question.poison !== null || call.question.broken) return
  const { settings, dials } = call
  const counted = dials.filter(
    ({ script, told }) => !(told && (script.meaning === 'auth' || script.meaning === 'quota')),
  )
  if (counted.length >= settings.retry.maxAttempts) return
  const { model } = call.question
  for (const instance of instances) {
    const named = model.startsWith(`${instance.id}/`)
    if (settings.fallback !== 'any' && !named) continue
    const there = dials.filter(({ provider }) => provider === instance.id)
    // Keys that are dead say nothing of the others, and cost nothing of the budget.
    if (there.some(({ script, told }) => !told || (script.meaning !== 'auth' && script.meaning !== 'quota'))) continue
    const asked = named ? model.slice(instance.id.length + 1) : undefined
    const models = asked === undefined ? instance.models : [asked]
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

/** Each model that a route declares was tried if it was free all the time: no retry budget refuses a failover. */
const triedRoute = (call: Call, { failure }: Ended, config: Config, watch: Watch, name: string): void => {
  const { settings, dials, question } = call
  const attempts = attemptsIn(call.exchange ?? [])
  const route = config.routes.get(question.model)
  if (!route || !failure || isFinal(failure.kind) || question.poison !== null || question.broken) return
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

/** Nothing has kept it from being tried since the request arrived. */
const isFree = (target: Target, { at, settings }: Call, watch: Watch): boolean =>
  restsOf(target).every((id) => !watch.troubled.has(id)) &&
  scopesOf(target).every((id) => {
    const circuit = watch.circuit(id, settings)
    return circuit.at === 'closed' && circuit.changed < at
  })

/** When it is told to come back. */
const comesBack = (
  call: Call,
  board: UpstreamHealth,
  { instances }: Config,
  watch: Watch,
  name: string,
  now: number,
): void => {
  const { headers } = call.reply
  const after = headers['retry-after']
  if (after === undefined) return
  const seconds = Number(after)
  watch.seen('told: retry-after')
  const outage = call.exchange?.some((fact) => fact.type === 'ended' && fact.failure?.kind === 'no_target')
  if (seconds > (outage ? 5 : 60) && headers['x-should-retry'] !== 'false')
    watch.breach(27, `${name} is to come back after ${after} s`)
  let soonest = Number.POSITIVE_INFINITY
  for (const instance of instances)
    for (const model of new Set([...instance.models, ...call.dials.map((dial) => dial.model)]))
      for (const key of instance.keys) {
        const refusal = board.peek({ candidate: { instance, model, because: '', weight: 1 }, key }, call.settings)
        soonest = Math.min(soonest, refusal ? (refusal.until ?? Number.POSITIVE_INFINITY) - now : 0)
      }
  if (seconds * 1_000 + LATE < soonest && Number.isFinite(soonest))
    watch.breach(27, `${name} is to come back after ${after} s, and nothing can be tried for ${Math.round(soonest)} ms`)
}
