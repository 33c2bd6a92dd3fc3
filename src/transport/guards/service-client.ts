/** Asks the services of guards over the gateway's own HTTP client, and remembers what they have blocked. */
import { createHash } from 'node:crypto'
import { BoundedMap } from '../../core/bounded-map.ts'
import type { EncodedText } from '../../core/encoded-text.ts'
import type { GuardedCall, GuardRule, GuardService, RequestText } from '../../core/guard.ts'
import type { GuardPhase } from '../../core/guard-verdict.ts'
import { type JsonObject, readJson } from '../../core/json.ts'
import { writeLarge } from '../../core/large-write.ts'
import { inTurns, PIECE, type TurnScheduler } from '../../core/steps.ts'
import { withoutSlashes } from '../../core/trailing-slashes.ts'
import type { Dial, UpstreamCall } from '../../core/world.ts'
import { lackIn } from '../../policy/accounts/data-policy.ts'
import { afterAnswer, isPaused, NO_PAUSE, type Pause } from '../../policy/egress/pause.ts'
import { serviceCalls } from '../../policy/guards/services/calls.ts'
import {
  type AskedTexts,
  joined,
  type ServiceCall,
  type ServiceFinding,
  type ServiceReading,
} from '../../policy/guards/services/service-call.ts'
import {
  type AskedRule,
  actionOf,
  serviceVerdict,
  unavailable,
  unavailableVerdict,
} from '../../policy/guards/services/service-verdict.ts'
import type { ServiceVerdict } from '../../policy/guards/verdict.ts'
import { shortRequest } from '../net/short-request.ts'
import { signatureOf } from '../net/webhook-signature.ts'

export type ServiceClientOptions = {
  readonly dial: Dial
  /** ms of the monotonic clock. */
  readonly now: () => number
  /** ms since 1970, for signatures. */
  readonly date: () => number
  readonly turn: TurnScheduler
  /** A request could not be checked. `reason` has neither an address, a credential nor a text. */
  readonly onError: (error: { readonly id: string; readonly guard: string; readonly reason: string }) => void
}

/** Calls at a time for one request. */
const AT_ONCE = 4
/** ms for which a blocked text is remembered: clients repeat a refused request. */
const REMEMBERED = 60_000
/** Calls of one service that wait for an answer. */
const MAX_WAITING = 1_000

/** The texts of a call that a rule asks about. */
export type GuardQuestion = {
  readonly rule: GuardRule
  readonly call: Pick<GuardedCall, 'id' | 'client' | 'style' | 'plan'>
  readonly texts: readonly RequestText[]
  readonly phase: GuardPhase
  readonly final: boolean
}

/** One service, as long as its configuration is in use. */
export class ServiceClient {
  readonly #service: GuardService
  readonly #options: ServiceClientOptions
  #pause: Pause = NO_PAUSE
  #waiting = 0
  /** By the digest of the texts. `until`: ms of the monotonic clock. */
  readonly #blocked = new BoundedMap<{ readonly until: number; readonly finding: ServiceFinding }>()

  constructor(service: GuardService, options: ServiceClientOptions) {
    this.#service = service
    this.#options = options
  }

  /** Always resolves, within the timeout of the service. */
  async ask({ rule, call, texts: all, phase, final }: GuardQuestion): Promise<ServiceVerdict> {
    const { now, onError } = this.#options
    const texts = all.filter(({ text }) => /\S/.test(text))
    if (texts.length === 0) return { verdict: null }
    const { require } = call.plan
    const lack = require && lackIn(require, this.#service.facts ?? {})
    const started = now()
    const asked = (): AskedRule => ({ rule, phase, texts, ms: now() - started })
    if (lack) {
      const reason = `its facts do not satisfy the data policy of the request: ${lack.fact}`
      onError({ id: call.id, guard: rule.name, reason })
      // No outage: `onError: allow` is not meant for it.
      return { ...unavailableVerdict(asked(), reason), refuse: unavailable(rule, reason) }
    }
    const reading = this.#remembered(texts, phase) ?? (await this.#read({ rule, call, texts, phase, final }))
    if ('wrong' in reading) {
      onError({ id: call.id, guard: rule.name, reason: reading.wrong })
      return unavailableVerdict(asked(), reading.wrong)
    }
    const isBlocked = actionOf(rule, reading.action) === 'block'
    if (isBlocked) this.#blocked.set(digestOf(texts, phase), { until: now() + REMEMBERED, finding: reading })
    return serviceVerdict(asked(), reading)
  }

  #remembered(texts: readonly RequestText[], phase: GuardPhase): ServiceFinding | null {
    if (this.#blocked.isEmpty) return null
    const known = this.#blocked.get(digestOf(texts, phase))
    return known && this.#options.now() < known.until ? known.finding : null
  }

  async #read(question: GuardQuestion): Promise<ServiceReading> {
    const { now } = this.#options
    if (isPaused(this.#pause, now())) return { wrong: 'not asked, because it has failed five times in succession' }
    if (this.#waiting >= MAX_WAITING) return { wrong: `not asked, because ${MAX_WAITING} requests wait for it` }
    this.#waiting++
    const ending = new AbortController()
    const timer = setTimeout(() => ending.abort(), this.#service.timeout)
    try {
      const reading = await this.#send(askedTexts(question), ending)
      this.#pause = afterAnswer(this.#pause, 'wrong' in reading, now())
      return reading
    } finally {
      clearTimeout(timer)
      this.#waiting--
    }
  }

  /** Asks in several calls if the service has limits; the first answer that is wrong ends all. */
  async #send(asked: AskedTexts, ending: AbortController): Promise<ServiceReading> {
    const calls = serviceCalls(this.#service, asked)
    const readings: ServiceReading[] = []
    let next = 0
    const take = async (): Promise<void> => {
      for (let call = calls[next++]; call; call = calls[next++]) {
        const reading = await this.#post(call, asked, ending.signal)
        readings.push(reading)
        if ('wrong' in reading) {
          next = calls.length
          ending.abort()
        }
      }
    }
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, calls.length) }, take))
    return joined(readings)
  }

  async #post({ path, body, read }: ServiceCall, asked: AskedTexts, signal: AbortSignal): Promise<ServiceReading> {
    const { dial, turn } = this.#options
    const { text } = await written(body, asked, turn)
    const sent = await shortRequest(dial, this.#callOf(path, text, asked.id), signal)
    if (!sent.ok) {
      const { kind, message } = sent.failure
      if (kind === 'timeout') return { wrong: `no answer within ${this.#service.timeout} ms` }
      return {
        wrong: kind === 'auth' || kind === 'sign_in' || kind === 'proxy' ? message : `it cannot be reached (${kind})`,
      }
    }
    const { status, body: answer } = sent.value
    if (status < 200 || status > 299) return { wrong: `it answered with status ${status}` }
    if (answer === null) return { wrong: 'its answer is larger than 256 KiB' }
    const value = readJson(answer.toString())
    return value === undefined ? { wrong: 'its answer is not JSON' } : read(value)
  }

  #callOf(path: string, body: string, id: string): UpstreamCall {
    const service = this.#service
    return {
      method: 'POST',
      url: addressOf(service.url.reveal(), path),
      headers: {
        'content-type': 'application/json',
        accept: 'application/json',
        'user-agent': 'headgate',
        ...Object.fromEntries(Object.entries(service.headers).map(([name, value]) => [name, value.reveal()])),
        ...(service.kind === 'headgate' && this.#signature(id, body, service.secret?.reveal())),
      },
      body,
      ...(service.kind === 'bedrock' && {
        identity: { cloud: 'aws', service: 'bedrock', region: service.region } as const,
      }),
      connectTimeout: service.timeout,
    }
  }

  #signature(id: string, body: string, secret: string | undefined): Readonly<Record<string, string>> {
    const timestamp = Math.floor(this.#options.date() / 1_000)
    return {
      'webhook-id': id,
      'webhook-timestamp': String(timestamp),
      ...(secret !== undefined && { 'webhook-signature': signatureOf(secret, id, timestamp, body) }),
    }
  }
}

/** A body with large texts is written in turns of the event loop. */
const written = (body: JsonObject, { texts }: AskedTexts, turn: TurnScheduler): Promise<EncodedText> => {
  const length = texts.reduce((sum, { text }) => sum + text.length, 0)
  return length > PIECE ? inTurns(writeLarge(body), turn) : Promise.resolve({ text: JSON.stringify(body) })
}

/** The path before a query of the address; an address that has the path already is complete. */
const addressOf = (url: string, path: string): string => {
  const at = url.indexOf('?')
  const [base, query] = at === -1 ? [url, ''] : [url.slice(0, at), url.slice(at)]
  if (path === '') return url
  const bare = withoutSlashes(base)
  return `${bare.endsWith(path) ? bare : bare + path}${query}`
}

const askedTexts = ({ call, texts, phase, final }: GuardQuestion): AskedTexts => {
  const { id, client, style, plan } = call
  const { team, name } = client
  const [first] = plan.candidates
  const model = plan.route ?? (first ? `${first.instance.id}/${first.model}` : '')
  return { id, phase, final, team, key: { id: client.id, name }, model, style, texts }
}

const digestOf = (texts: readonly RequestText[], phase: GuardPhase): string => {
  const hash = createHash('sha256').update(phase)
  for (const { text } of texts) hash.update(`${text.length} `).update(text)
  return hash.digest('base64')
}
