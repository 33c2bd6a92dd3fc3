/**
 * Counts the tokens of a question. Whoever would be asked first is asked to count, if the client's format is spoken there,
 * and then the others who speak it; nobody else has the tokenizer, so otherwise, or when none of them could, it is an
 * estimate, and the answer's head says so.
 *
 * What becomes of such a call says nothing about the model: circuits and the states of keys are asked, and never told.
 */
import type { Received, Reply } from '../core/call.ts'
import type { Config } from '../core/config.ts'
import { bad, type Failure, fail, good, type Outcome, rowOf } from '../core/failure.ts'
import type { Json } from '../core/json.ts'
import type { ClientProtocol, Counting, Passing, UpstreamProtocol } from '../core/protocol.ts'
import type { Candidate, Plan, Target } from '../core/target.ts'
import type { World } from '../core/world.ts'
import { estimateTokens } from '../policy/estimate.ts'
import { factsOf } from '../policy/models.ts'
import { met, nothingMet, remaining } from '../policy/next.ts'
import { statusOf } from '../policy/verdict.ts'
import { conduct } from './conduct.ts'
import type { Gateway } from './handle.ts'
import { keyOrder, planFor } from './planning.ts'
import { headersFor, identityOf, type Prepared, prepare, type Question } from './prepare.ts'
import { ask } from './question.ts'
import { type Dialect, type Reader, readerFor } from './reader.ts'
import { type Recorder, refuseAndRecord } from './record.ts'
import { redacted } from './redact.ts'
import type { Stop } from './stop.ts'

/** What the log calls it. */
const STYLE = 'count_tokens'

export const count = (gateway: Gateway, protocol: ClientProtocol, received: Received, reply: Reply): Promise<void> =>
  conduct({ gateway, protocol, style: STYLE, received, reply }, async (stop, record) => {
    const { counting } = protocol
    if (!counting) throw new Error(`${protocol.name} has no call that counts`)
    const asked = ask({ ...protocol, decodeRequest: counting.decodeRequest }, received.body, received.headers)
    if (!asked.ok) return refuseAndRecord(protocol, reply, record, asked.failure, null)
    const question = { ...asked.value, query: received.query }
    record.received(question.request.model, false)
    const config = gateway.config()
    const plan = planFor(gateway, config, question.request.model)
    if (!plan.ok) return refuseAndRecord(protocol, reply, record, plan.failure, null)

    const counted = await countUpstream(gateway, { question, counting, plan: plan.value, config, stop, record })
    if (stop.reason?.kind === 'client_gone') {
      reply.cut()
      return record.end('client_gone', statusOf(stop.reason), stop.reason)
    }
    if (counted && !counted.ok) return refuseAndRecord(protocol, reply, record, counted.failure, 0)
    const body = counted?.value ?? JSON.stringify(counting.encodeAnswer(estimateTokens(question.request)))
    record.begun = true
    reply.head(200, { 'content-type': 'application/json', ...(counted ? record.headers() : estimated(record)) })
    reply.end(body)
    record.end('answered', 200)
  })

/** Nobody upstream stands behind an estimate. */
const estimated = (record: Recorder): Readonly<{ [name: string]: string }> => {
  const { 'x-headgate-provider': _provider, 'x-headgate-model': _model, ...headers } = record.headers()
  return { ...headers, 'x-headgate-estimated': 'true' }
}

type Errand = {
  readonly question: Question
  readonly counting: Counting
  readonly plan: Plan
  readonly config: Config
  readonly stop: Stop
  readonly record: Recorder
}

/** The answer of one who counts, as it came; null: nobody could. Failed: the request's own fault, or stopped. */
const countUpstream = async (gateway: Gateway, errand: Errand): Promise<Outcome<string> | null> => {
  const { board, catalogue, world } = gateway
  const { question, config, stop, record } = errand
  const { settings } = config
  const bodies = counters(gateway, errand)
  const plan = { ...errand.plan, candidates: [...bodies.keys()] }
  const windowOf = (candidate: Candidate) => factsOf(catalogue, candidate.instance, candidate.model)?.contextWindow
  const keysOf = keyOrder(gateway, config, question)
  const { request: whole } = settings.timeout
  const deadline = whole > 0 ? world.now() + whole : Number.POSITIVE_INFINITY
  let history = nothingMet
  for (let number = 0; number < settings.retry.maxAttempts; number++) {
    const target = remaining(plan, history, keysOf, windowOf).find((one) => board.peek(one, settings) === null)
    const prepared = target && bodies.get(target.candidate)
    if (!target || !prepared) return null
    const { instance, model } = target.candidate
    record.note({ type: 'attempt', at: world.now(), provider: instance.id, model, key: target.key.id })
    const limit = Math.min(settings.circuit.timeout || Number.POSITIVE_INFINITY, deadline - world.now())
    const asked = { ...errand, target, prepared, limit, connectTimeout: settings.timeout.connect }
    const said = await askToCount(world, asked)
    if (said.ok) {
      record.answeredBy({ target, prepared })
      record.note({ type: 'committed', at: world.now(), attempt: number, status: 200 })
      return said
    }
    const { failure } = said
    record.note({ type: 'failed', at: world.now(), attempt: number, failure })
    if (stop.reason) return bad(stop.reason)
    // Compatible servers often have no such call: that says nothing about the question.
    const missing = failure.status === 404 || failure.status === 405
    if (!missing && rowOf(failure).condemns === 'request') return said
    history = met(history, target, missing ? { ...failure, kind: 'model_missing' } : failure)
  }
  return null
}

/** Who could count it, and what each would be sent: nobody, if whoever would be asked first speaks another format. */
const counters = ({ catalogue }: Gateway, { question, plan }: Errand): ReadonlyMap<Candidate, Prepared> => {
  const fit = plan.candidates.flatMap((candidate): (readonly [Candidate, Prepared])[] => {
    const prepared = prepare(question, candidate, factsOf(catalogue, candidate.instance, candidate.model))
    return prepared?.unfit.length === 0 && prepared.onlyWithout.length === 0 ? [[candidate, prepared]] : []
  })
  const speaks = ([, { protocol }]: readonly [Candidate, Prepared]) => protocol.name === question.protocol.name
  return new Map(fit[0] && speaks(fit[0]) ? fit.filter(speaks) : [])
}

type Asking = Errand & {
  readonly target: Target
  readonly prepared: Prepared
  /** ms it may take, in all and to be connected. */
  readonly limit: number
  readonly connectTimeout: number
}

/** One call upstream, and its answer as it came. */
const askToCount = (world: World, asking: Asking): Promise<Outcome<string>> =>
  new Promise((resolve) => {
    const { question, counting, target, prepared, limit, connectTimeout, stop } = asking
    const { instance } = target.candidate
    let reader: Reader | null = null
    let over = false
    const end = (said: Outcome<string>) => {
      if (over) return
      over = true
      cancel()
      call.abort()
      resolve(said.ok ? said : bad(redacted(said.failure, target.key)))
    }
    const read = (steps: readonly Passing[]) => {
      for (const { whole, events } of steps) {
        const broke = events.find((event) => event.type === 'failure')
        if (broke) end(bad(broke.failure))
        else if (whole !== undefined) end(good(whole))
      }
    }
    const late = () => end(bad(fail('timeout', `no count within ${limit} ms`)))
    const cancel = Number.isFinite(limit) ? world.later(Math.max(0, limit), late) : () => {}
    const identity = identityOf(instance, target.key, prepared.auth)
    const call = world.dial(
      {
        ...(identity && { identity }),
        method: 'POST',
        url: behind(prepared.url, counting.suffix),
        headers: headersFor(instance, target.key, question, prepared),
        body: prepared.body,
        connectTimeout,
      },
      {
        head: (status, headers) => {
          reader = readerFor({ status, headers }, dialectFor(asking, world.date()))
        },
        bytes: (chunk) => {
          read(reader?.push(chunk) ?? [])
          return true
        },
        end: () => {
          read(reader?.end() ?? [])
          end(bad(fail('malformed', 'the upstream answered with nothing that is a count')))
        },
        failed: (failure) => end(bad(failure)),
      },
    )
    stop.means((reason) => end(bad(reason)))
  })

/** The format's own errors, and a count in place of an answer. */
const dialectFor = ({ counting, prepared, target }: Asking, date: number): Dialect => ({
  protocol: {
    ...prepared.protocol,
    decodeAnswer: (body) =>
      counting.decodeAnswer(body) === undefined
        ? [{ type: 'failure', failure: notACount(prepared.protocol, body) }]
        : [],
  },
  quirks: target.candidate.instance.provider.quirks,
  translated: null,
  stream: false,
  date,
})

/** An error behind a 200 is told as what it is. */
const notACount = (protocol: UpstreamProtocol, body: Json): Failure => {
  const said = protocol.decodeAnswer(body).find((event) => event.type === 'failure')
  return said?.failure ?? fail('malformed', 'the upstream answered with something that is no count')
}

/** A suffix to the path of a URL that may have a query. */
const behind = (url: string, suffix: string): string => {
  const [path = '', ...query] = url.split('?')
  return [path + suffix, ...query].join('?')
}
