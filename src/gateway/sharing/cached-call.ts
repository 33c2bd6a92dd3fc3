/** The response cache in one call: finds a stored answer, or stores the answer of the call. */

import type { CacheRules } from '../../core/accounts.ts'
import type { ChatEvent } from '../../core/chat.ts'
import type { Config } from '../../core/config.ts'
import { type TextOrBytes, textOf } from '../../core/encoded-text.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import { formatDollars } from '../../core/money.ts'
import type { StreamStep, StreamWriter } from '../../core/protocol.ts'
import type { Instance } from '../../core/provider.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import type { Trace } from '../../core/trace.ts'
import type { World } from '../../core/world.ts'
import type { PriceBook } from '../../policy/accounts/price-book.ts'
import {
  AnswerCheck,
  type BypassReason,
  type CacheableBody,
  type CacheFacts,
  cacheKeyText,
  isChanged,
  requestControl,
} from '../../policy/response-cache.ts'
import type { TokenUsage } from '../accounts/token-usage.ts'
import { printable, type RecordedReply, type Recorder, writeAndRecordError } from '../call/recorder.ts'
import { forwardedValues } from '../upstream/client-headers.ts'
import { type CachedAnswer, mayFit, type ResponseCache } from './response-cache.ts'

/** The dependencies of the response cache. */
export type CacheDeps = {
  readonly world: World
  readonly cache: ResponseCache
  /** The current prices. */
  readonly prices: () => PriceBook
}

/** A call as the cache needs it. */
export type CacheableCall = {
  readonly received: IncomingRequest
  readonly config: Config
  readonly plan: Plan
  readonly style: string
  /** What the client's format says of its bodies. */
  readonly facts: CacheFacts
  readonly recorder: Recorder
  /** The client's own request. */
  readonly request: CacheableBody
  /** Why the request may not use the cache; null: it may. */
  readonly bypass: (rules: CacheRules) => BypassReason | null
}

/** The cache in one call. */
export type CacheUse = {
  /** For a header block that is sent before a target has answered. */
  readonly headers: Readonly<Record<string, string>>
  /** Sent instead of a call; null: the call is served. */
  readonly hit: FoundAnswer | null
  /** The request is refused, because it accepts an answer from the cache only. */
  readonly failure: Failure | null
  /** Stores the answer of the call; null: it is not stored. */
  readonly storing: AnswerStoring | null
}

/** A stored answer, and the instance that gave it. */
type FoundAnswer = { readonly answer: CachedAnswer; readonly instance: Instance }

/** The cache for a call; null: it is off for the client and its route. Adds the headers of the cache to the response. */
export const useCache = ({ cache }: Pick<CacheDeps, 'cache'>, call: CacheableCall): CacheUse | null => {
  const { received, config, plan, recorder } = call
  const rules = rulesFor(received, config, plan)
  if (!rules || rules.ttl === 0) return null
  const control = requestControl(rules.requestControl ? received.headers('cache-control') : undefined)
  const metadata = received.headers('x-headgate-metadata') === undefined ? null : 'metadata'
  const why = control.read || control.write ? (metadata ?? call.bypass(rules)) : 'no-store'
  const [first] = plan.candidates
  const name = why === null && first ? cache.nameOf(keyOf(call, rules, first)) : null
  const maxAge = 1_000 * Math.min(rules.ttl, control.maxAge ?? rules.ttl)
  const hit = name !== null && control.read ? cache.find(name, maxAge) : null
  const result = hit ? 'hit' : why === null ? 'miss' : 'bypass'
  recorder.note({ type: 'cache', result, ...(why !== null && { why }) })
  const age = hit ? Math.floor(hit.age / 1_000) : 0
  const headers = {
    'x-headgate-cache': hit ? `hit; age=${age}` : why === null ? 'miss' : `bypass; why=${why}`,
    'cache-control': 'private, no-store',
    ...(hit && { age: String(age) }),
  }
  recorder.addHeaders(headers)
  const stores = name !== null && first && control.write && !hit
  return {
    headers,
    hit: hit && first ? { answer: hit.answer, instance: first.instance } : null,
    failure: control.onlyIfCached && !hit ? NOT_CACHED : null,
    storing: stores ? new AnswerStoring(cache, { name, rules, first, received }) : null,
  }
}

/** The rules of the key or its team, otherwise those of the route. */
const rulesFor = ({ client }: IncomingRequest, { routes }: Config, { route }: Plan): CacheRules | null =>
  client.cache ?? (route === undefined ? undefined : routes.get(route)?.cache) ?? null

const keyOf = (
  { received, config, style, facts, request }: CacheableCall,
  rules: CacheRules,
  { instance, model }: Candidate,
): string =>
  cacheKeyText(
    {
      scope: scopeOf(received, rules),
      style,
      facts,
      path: received.path,
      query: received.query,
      forwarded: forwardedValues(config, received.headers),
      target: { provider: instance.id, model, baseUrl: instance.baseUrl },
    },
    request.body,
  )

/** The digest of the key is part of the scope, because the short ID of a configured key may be used again for another. */
const scopeOf = ({ client }: IncomingRequest, { scope }: CacheRules): string =>
  scope === 'team' ? `team ${client.team.id}` : `key ${client.id} ${client.owner}`

const NOT_CACHED = fail(
  'not_cached',
  'The request accepts only an answer from the cache (Cache-Control: only-if-cached), and there is none. Leave out only-if-cached to call the model.',
)

/** Sends an answer from the cache as the complete response, unless a limit of the client refuses the request. */
export const sendCached = async (
  { prices, world }: Pick<CacheDeps, 'prices' | 'world'>,
  call: RecordedReply,
  { answer, instance }: FoundAnswer,
): Promise<void> => {
  const { responseWriter, recorder } = call
  const refused = await recorder.account.admission.enter()
  if (refused) return writeAndRecordError(call, refused, null)
  const { id, provider, model, used } = answer
  if (used) {
    const { nano } = prices().costOfAttempt({ instance, model, at: world.date(), usage: used.usage })
    recorder.note({ type: 'shared', how: 'cache', with: id, saved: { provider, model, ...used, cost: nano } })
    recorder.account.save(nano ?? 0)
  } else recorder.note({ type: 'shared', how: 'cache', with: id })
  recorder.responseStarted = true
  const headers = {
    'x-headgate-provider': printable(provider),
    'x-headgate-model': printable(model),
    'x-headgate-cost': formatDollars(0),
    'x-headgate-usage': 'exact',
  }
  responseWriter.writeHead(200, { ...answer.headers, ...recorder.headers(), ...headers })
  responseWriter.end(answer.body)
  recorder.end('answered', 200)
}

type StoringTerms = {
  readonly name: string
  readonly rules: CacheRules
  readonly first: Candidate
  readonly received: IncomingRequest
}

/** A complete answer that may be stored. */
type FinishedAnswer = {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  readonly used: TokenUsage | null
  readonly trace: Trace
}

/** Stores the answer of one call under the name of its request. */
export class AnswerStoring {
  readonly cache: ResponseCache
  readonly #name: string
  readonly #ttl: number
  readonly #first: Candidate
  readonly #owner: Pick<CachedAnswer, 'id' | 'team' | 'key'>

  constructor(cache: ResponseCache, { name, rules, first, received }: StoringTerms) {
    this.cache = cache
    this.#name = name
    this.#ttl = 1_000 * rules.ttl
    this.#first = first
    this.#owner = { id: received.id, team: received.client.team.id, key: received.client.id }
  }

  /** Whether an answer of this target may be stored: never that of a fallback. */
  accepts(candidate: Candidate): boolean {
    return candidate === this.#first
  }

  /** Stores a complete answer of the first target, unless it was changed on its way. */
  store({ body, headers, used, trace }: FinishedAnswer): void {
    if (isChanged(trace)) return
    const { instance, model } = this.#first
    const answer = { ...this.#owner, body, headers, used, provider: instance.id, model }
    this.cache.put(this.#name, answer, this.#ttl)
  }

  /** Stores a whole chat answer if its events show that it may be stored. */
  storeChat(answer: FinishedAnswer, events: () => readonly ChatEvent[]): void {
    if (!mayFit(answer.body.length)) return
    const check = new AnswerCheck()
    check.add(events())
    if (check.problem === null) this.store(answer)
  }
}

/** The writer of a stream that also keeps what it writes, without keep-alives, to store it at the end. */
export class RecordedStream implements StreamWriter {
  readonly #writer: StreamWriter
  readonly #storing: AnswerStoring
  readonly #check = new AnswerCheck()
  /** Null: the answer is not stored. */
  #pieces: string[] | null = []
  #size = 0

  constructor(writer: StreamWriter, storing: AnswerStoring) {
    this.#writer = writer
    this.#storing = storing
  }

  push(step: StreamStep): readonly TextOrBytes[] {
    const pieces = this.#writer.push(step)
    this.#check.add(step.events)
    this.#keep(pieces)
    return pieces
  }

  end(): readonly TextOrBytes[] {
    const pieces = this.#writer.end()
    this.#keep(pieces)
    return pieces
  }

  keepAlive(): string {
    return this.#writer.keepAlive()
  }

  /** Stores the stream, which has ended without a failure. */
  store(answer: Omit<FinishedAnswer, 'body'>): void {
    if (this.#pieces && this.#check.problem === null) this.#storing.store({ ...answer, body: this.#pieces.join('') })
    this.discard()
  }

  /** Releases what was kept. */
  discard(): void {
    this.#pieces = null
    this.#storing.cache.give(this.#size)
    this.#size = 0
  }

  #keep(pieces: readonly TextOrBytes[]): void {
    for (const piece of pieces) {
      if (!this.#pieces) return
      // Bytes are valid only during this call.
      const text = textOf(piece)
      this.#pieces.push(text)
      this.#size += text.length
      const isWithinLimits = this.#storing.cache.take(text.length) && mayFit(this.#size)
      if (!isWithinLimits) this.discard()
    }
  }
}
