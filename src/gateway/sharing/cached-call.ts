/** The response cache in one call, as a member of the list of guards: answers from the cache, or stores the answer of the call. */

import type { CacheRules } from '../../core/cache-rules.ts'
import type { ChatEvent } from '../../core/chat.ts'
import type { Config } from '../../core/config.ts'
import { type TextOrBytes, textOf } from '../../core/encoded-text.ts'
import { fail } from '../../core/failure.ts'
import type { AnswerFollower, CompleteAnswer, Guard, GuardVerdict, WrittenAnswer } from '../../core/guard.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import { formatDollars } from '../../core/money.ts'
import type { Instance } from '../../core/provider.ts'
import type { Candidate, Plan } from '../../core/target.ts'
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
import { printable, type RecordedReply, type Recorder, writeAndRecordError } from '../call/recorder.ts'
import { forwardedValues } from '../upstream/client-headers.ts'
import { type CachedAnswer, type CacheHit, mayFit, type ResponseCache } from './response-cache.ts'

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
  /** Where an answer from the cache is sent. */
  readonly reply: RecordedReply
  /** The client's own request. */
  readonly request: CacheableBody
  /** The revisions of the guards that an answer has passed. */
  readonly revisions: readonly string[]
  /** Why the request may not use the cache; null: it may. */
  readonly bypass: (rules: CacheRules) => BypassReason | null
}

/** The cache as a member of the list; null: it is off for the client and its route. */
export const cacheGuard = (gateway: CacheDeps, call: CacheableCall): Guard | null => {
  const rules = rulesFor(call.received, call.config, call.plan)
  return rules && rules.ttl !== 0 ? new CacheGuard(gateway, call, rules) : null
}

class CacheGuard implements Guard {
  readonly #gateway: CacheDeps
  readonly #call: CacheableCall
  readonly #rules: CacheRules
  /** Where the answer of the call is stored; null: nowhere. */
  #storing: AnswerStoring | null = null

  constructor(gateway: CacheDeps, call: CacheableCall, rules: CacheRules) {
    this.#gateway = gateway
    this.#call = call
    this.#rules = rules
  }

  /** Looks the request up, and adds the headers of the cache to the response. */
  readonly request = (): GuardVerdict | null | Promise<GuardVerdict | null> => {
    const { cache } = this.#gateway
    const { received, plan } = this.#call
    const rules = this.#rules
    const control = requestControl(rules.requestControl ? received.headers('cache-control') : undefined)
    const metadata = received.headers('x-headgate-metadata') === undefined ? null : 'metadata'
    const why = control.read || control.write ? (metadata ?? this.#call.bypass(rules)) : 'no-store'
    const [first] = plan.candidates
    const name = why === null && first ? cache.nameOf(keyOf(this.#call, rules, first)) : null
    const maxAge = 1_000 * Math.min(rules.ttl, control.maxAge ?? rules.ttl)
    const lookup = { name, first, why, control }
    if (name === null || !control.read) return this.#decide(lookup, null)
    const hit = cache.find(name, maxAge)
    return hit === null && cache.isShared
      ? cache.findShared(name, maxAge).then((found) => this.#decide(lookup, found))
      : this.#decide(lookup, hit)
  }

  #decide({ name, first, why, control }: CacheLookup, hit: CacheHit | null): GuardVerdict | null {
    const { cache } = this.#gateway
    const { received, recorder, reply } = this.#call
    const rules = this.#rules
    const result = hit ? 'hit' : why === null ? 'miss' : 'bypass'
    recorder.note({ type: 'cache', result, ...(why !== null && { why }) })
    const age = hit ? Math.floor(hit.age / 1_000) : 0
    recorder.addHeaders({
      'x-headgate-cache': hit ? `hit; age=${age}` : why === null ? 'miss' : `bypass; why=${why}`,
      'cache-control': 'private, no-store',
      ...(hit && { age: String(age) }),
    })
    if (hit && first) {
      const found = { answer: hit.answer, instance: first.instance }
      return { answer: () => sendCached(this.#gateway, reply, found) }
    }
    if (control.onlyIfCached) return { refuse: NOT_CACHED }
    if (name !== null && first && control.write)
      this.#storing = new AnswerStoring(cache, { name, rules, first, received })
    return null
  }

  readonly written = ({ candidate, stream }: WrittenAnswer): AnswerFollower | null => {
    // The beginning of an answer that keep-alives have begun is not in what would be stored.
    const isWhole = stream?.begun === undefined
    return isWhole && this.#storing?.accepts(candidate) ? new RecordedAnswer(this.#storing) : null
  }
}

/** What a request asks of the cache. `name`: null: it does not use it. */
type CacheLookup = {
  readonly name: string | null
  readonly first: Candidate | undefined
  readonly why: BypassReason | null
  readonly control: ReturnType<typeof requestControl>
}

/** A stored answer, and the instance that gave it. */
type FoundAnswer = { readonly answer: CachedAnswer; readonly instance: Instance }

/** The rules of the key or its team, otherwise those of the route. */
const rulesFor = ({ client }: IncomingRequest, { routes }: Config, { route }: Plan): CacheRules | null =>
  client.cache ?? (route === undefined ? undefined : routes.get(route)?.cache) ?? null

const keyOf = (
  { received, config, style, facts, request, revisions }: CacheableCall,
  rules: CacheRules,
  { instance, model, override }: Candidate,
): string =>
  cacheKeyText(
    {
      scope: scopeOf(received, rules),
      style,
      facts,
      path: received.path,
      query: received.query,
      forwarded: forwardedValues(config, received.headers),
      target: { provider: instance.id, model, baseUrl: instance.baseUrl, override },
      revisions,
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
const sendCached = async (
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

/** Stores the answer of one call under the name of its request. */
class AnswerStoring {
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
  store(body: string, { headers, used, trace }: CompleteAnswer): void {
    if (isChanged(trace)) return
    const { instance, model } = this.#first
    const answer = { ...this.#owner, body, headers, used, provider: instance.id, model }
    this.cache.put(this.#name, answer, this.#ttl)
  }
}

/** Keeps an answer as it is written, to store it at its end. */
class RecordedAnswer implements AnswerFollower {
  readonly #storing: AnswerStoring
  /** Null: the answer has no events. */
  #check: AnswerCheck | null = null
  /** Null: the answer is not stored. */
  #pieces: string[] | null = []
  #size = 0

  constructor(storing: AnswerStoring) {
    this.#storing = storing
  }

  events(events: readonly ChatEvent[]): void {
    this.#check ??= new AnswerCheck()
    this.#check.add(events)
  }

  piece(piece: TextOrBytes): TextOrBytes {
    if (!this.#pieces) return piece
    // Bytes are valid only during this call.
    const text = textOf(piece)
    this.#pieces.push(text)
    this.#size += text.length
    const isWithinLimits = this.#storing.cache.take(text.length) && mayFit(this.#size)
    if (!isWithinLimits) this.discard()
    return piece
  }

  complete(answer: CompleteAnswer): void {
    const isStorable = this.#check === null || this.#check.problem === null
    if (this.#pieces && isStorable) this.#storing.store(this.#pieces.join(''), answer)
  }

  discard(): void {
    this.#pieces = null
    this.#storing.cache.give(this.#size)
    this.#size = 0
  }
}
