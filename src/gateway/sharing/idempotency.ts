/**
 * One response for several requests: retries with the same `Idempotency-Key`, and, if enabled (`coalesce`), identical
 * concurrent requests of one client. The first request is served as usual, but writes to a `BroadcastResponse`; the
 * others read from it.
 *
 * Responses are never shared between clients: the client is part of every name.
 */

import type { Config } from '../../core/config.ts'
import { REQUIRE_HEADER } from '../../core/data-policy.ts'
import type { EmbeddingsShape } from '../../core/embeddings.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { ReceivedForm } from '../../core/form.ts'
import { GUARDS_HEADER } from '../../core/guard.ts'
import { type IncomingRequest, isTextBody, type RequestBody, type ResponseWriter } from '../../core/http-exchange.ts'
import { type JsonObject, parseObject, text } from '../../core/json.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import type { EndedEvent, GatewayEvent, TraceEvent } from '../../core/trace.ts'
import {
  bypassesSharing,
  canonicalJson,
  hasDuplicateMembers,
  isRepeatable,
  keyProblem,
} from '../../policy/idempotency-key.ts'
import { statusOf } from '../../policy/reply/final-error.ts'
import type { ExtentLimits } from '../../policy/request-size.ts'
import { configFor } from '../../policy/routing/team-routes.ts'
import type { Eventual } from '../accounts/authority.ts'
import { Cancellation } from '../call/cancellation.ts'
import { Recorder, writeAndRecordError } from '../call/recorder.ts'
import { forwardedValues } from '../upstream/client-headers.ts'
import { parseEmbeddings } from '../upstream/parse-embeddings.ts'
import { parseRequest } from '../upstream/parse-request.ts'
import { BroadcastResponse, type ReadOutcome } from './broadcast-response.ts'
import { ClaimedAnswers, type ClaimOutcome, KEY_REUSED } from './claimed-answers.ts'
import {
  DUPLICATE,
  memoryLimit,
  OVERHEAD,
  type SharedResponse,
  SharedResponses,
  type SharingDeps,
} from './shared-responses.ts'

/** A call whose response may be shared. */
export type ShareableCall = {
  /** The client's protocol. */
  readonly protocol: ClientProtocol
  /** The kind of call, as in the log. */
  readonly style: string
  readonly received: IncomingRequest<RequestBody>
  readonly responseWriter: ResponseWriter
  /** The parsed body, if the response to an identical request may be used instead; null: it may not. */
  readonly repeatable: (received: IncomingRequest, limits: ExtentLimits) => JsonObject | null
}

/** Serves the call with this gateway and writer. */
type ServeCall<Deps> = (gateway: Deps, responseWriter: ResponseWriter) => Promise<void>

/** Answers a call from a shared response, or serves it. */
export type Share<Deps> = (call: ShareableCall, serve: ServeCall<Deps>) => Promise<void>

/** Characters of the longest body that is compared with others: making 17 million characters canonical took 3 s. */
const LONGEST_COMPARED = 1_000_000

/** One response may use this fraction of the memory for all, so that it does not evict all others. */
const MAX_FRACTION = 1 / 4

/** ms after which to retry a key whose response is in progress and cannot be joined. */
const RETRY_AFTER = 5_000

/** The values of headers by which requests of a client differ. */
const forwardedFor = (gateway: SharingDeps, { client, headers }: Pick<IncomingRequest, 'client' | 'headers'>) =>
  forwardedValues(configFor(gateway, gateway.config(), client), headers)

/** Shares responses as configured. `fingerprint`: a collision-free digest of any text, of a fixed length. */
export const shareResponses = <Deps extends SharingDeps>(
  gateway: Deps,
  fingerprint: (text: string) => string,
): Share<Deps> => {
  const sharing = new ResponseSharing(gateway, fingerprint)
  return (call, serve) => {
    const config = gateway.config()
    const { idempotency, coalesce } = config.settings
    const key = idempotency.keep > 0 ? call.received.headers('idempotency-key') : undefined
    return key === undefined && !coalesce
      ? serve(gateway, call.responseWriter)
      : sharing.share(call, serve, { key, config })
  }
}

class ResponseSharing<Deps extends SharingDeps> {
  readonly #gateway: Deps
  readonly #fingerprint: (text: string) => string
  readonly #responses: SharedResponses
  readonly #claimed: ClaimedAnswers
  /** Names for which the store is being asked. */
  readonly #asking = new Map<string, Promise<void>>()

  constructor(gateway: Deps, fingerprint: (text: string) => string) {
    this.#gateway = gateway
    this.#fingerprint = fingerprint
    this.#responses = new SharedResponses(gateway)
    this.#claimed = new ClaimedAnswers(gateway, fingerprint)
  }

  async share(
    call: ShareableCall,
    serve: ServeCall<Deps>,
    { key, config }: { readonly key: string | undefined; readonly config: Config },
  ): Promise<void> {
    const { received, responseWriter } = call
    const problem = key === undefined ? null : keyProblem(key)
    if (problem) return this.#refuse(call, problem)

    /** The names of this call, each with the fingerprint of its request. */
    const names = new Map<string, string>()
    let claimed: string | null = null
    if (key !== undefined) {
      const name = `key ${received.client.owner} ${key}`
      const printed = printedCall(call, this.#fingerprint)
      const print = this.#fingerprint(typeof printed === 'string' ? printed : await printed)
      for (let asking = this.#asking.get(name); asking; asking = this.#asking.get(name)) await asking
      const found = this.#responses.find(name)
      if (found && found.fingerprint !== print) return this.#refuse(call, KEY_REUSED)
      if (found && !found.response.answer.replayable) return this.#refuse(call, KEY_IN_USE)
      if (found) return this.#attach(call, found.response, found.response.answer.status === null ? 'joined' : 'stored')
      const asked = this.#claimed.store ? this.#claim(call, name, print) : null
      const claim = asked && (await asked.claim)
      asked?.done()
      if (claim?.state === 'refused') return this.#refuse(call, claim.failure)
      if (claim?.state === 'left') return hasLeft(this.#recorderOf(call).recorder)
      if (claim?.state === 'kept') return this.#repeat(call, claim, { name, print })
      if (claim?.isClaimed) claimed = name
      names.set(name, print)
    }
    const duplicate = config.settings.coalesce ? this.#duplicateName(call) : null
    if (duplicate !== null) {
      const found = this.#responses.find(duplicate)?.response
      if (found?.answer.replayable && found.config === config) {
        for (const [name, print] of names) this.#responses.name(name, found, print)
        if (key !== undefined) found.keyed = true
        if (claimed !== null) this.#claimed.hold(claimed, found)
        return this.#attach(call, found, 'coalesced')
      }
      names.set(duplicate, '')
    }
    if (names.size === 0) return serve(this.#gateway, responseWriter)
    return this.#start(call, serve, { names, claimed })
  }

  /**
   * Asks the store for a name. Equal requests of this process wait until `done`: it is called with the answer, in the turn in
   * which the name gets its response here.
   */
  #claim(call: ShareableCall, name: string, print: string) {
    const asking = Promise.withResolvers<void>()
    this.#asking.set(name, asking.promise)
    const { activeCalls } = this.#gateway
    const cancellation = new Cancellation(call.received.client.id)
    activeCalls.add(cancellation)
    call.responseWriter.onDisconnect(() => cancellation.cancel(CLIENT_GONE))
    const done = () => {
      activeCalls.delete(cancellation)
      this.#asking.delete(name)
      asking.resolve()
    }
    return { claim: this.#claimed.claim(name, print, cancellation), done }
  }

  /** Answers a call with an answer of another process, which is kept here too. */
  #repeat(
    call: ShareableCall,
    { answer, left }: Extract<ClaimOutcome, { state: 'kept' }>,
    { name, print }: { readonly name: string; readonly print: string },
  ): Promise<void> {
    const { id, status, headers, body, cost } = answer
    const response = this.#newResponse(id, true, () => {})
    const at = this.#gateway.world.now()
    response.ended = { type: 'ended', at, how: 'answered', status, ...(cost !== null && { cost }) }
    this.#responses.take(OVERHEAD)
    this.#responses.name(name, response, print)
    const attached = this.#attach(call, response, 'stored')
    response.answer.writeHead(status, headers)
    response.answer.write(body)
    response.answer.end()
    this.#responses.finish(response, left)
    response.settle()
    return attached
  }

  /** Serves a call into a new shared response, with the call's client as the first reader. */
  async #start(
    call: ShareableCall,
    serve: ServeCall<Deps>,
    { names, claimed }: { readonly names: ReadonlyMap<string, string>; readonly claimed: string | null },
  ): Promise<void> {
    const gateway = this.#gateway
    const responses = this.#responses
    const served = Promise.withResolvers<void>()
    const answered = Promise.withResolvers<void>()
    const keyed = [...names.keys()].some((name) => !name.startsWith(DUPLICATE))
    const response = this.#newResponse(call.received.id, keyed, answered.resolve)
    for (const [name, print] of names) responses.name(name, response, print)
    if (claimed !== null) this.#claimed.hold(claimed, response)
    let clientLeft = false
    let finished = false
    const emit = (event: GatewayEvent) => {
      if (event.event !== 'request' || finished) return gateway.emit(event)
      response.ended ??= endOf(event.trace, response.id)
      // The call's own client had left. Clients that received the response have log lines of their own.
      const left: readonly TraceEvent[] = clientLeft ? [{ type: 'shared', how: 'left', with: response.id }] : []
      gateway.emit({ event: 'request', trace: [...event.trace, ...left] })
    }
    responses.take(OVERHEAD)
    response.answer.read(call.responseWriter, {}, (outcome) => {
      clientLeft = outcome === 'left'
    })
    void Promise.all([served.promise, answered.promise]).then(() => {
      finished = true
      response.grace?.()
      const { keep } = gateway.config().settings.idempotency
      const isKept = responses.finish(response, keep)
      this.#claimed.settle(response, isKept ? keep : null)
      response.settle()
    })
    try {
      await serve({ ...gateway, emit }, response.answer)
    } catch (error) {
      response.answer.abort()
      throw error
    } finally {
      served.resolve()
    }
  }

  /** `onEnd`: called when the answer has ended, was cut or was abandoned. */
  #newResponse(id: string, keyed: boolean, onEnd: () => void): SharedResponse {
    const { world } = this.#gateway
    const config = this.#gateway.config()
    const { settings } = config
    const settled = Promise.withResolvers<void>()
    const abandon = () => {
      // A later retry starts a new call.
      this.#responses.unlist(response)
      onEnd()
      response.answer.abandon()
    }
    const response: SharedResponse = {
      id,
      config,
      names: new Set(),
      keyed,
      grace: null,
      ended: undefined,
      until: Number.POSITIVE_INFINITY,
      settled: settled.promise,
      settle: settled.resolve,
      answer: new BroadcastResponse({
        world,
        quota: this.#responses,
        limit: memoryLimit(settings) * MAX_FRACTION,
        writeTimeout: settings.timeout.clientWrite,
        onEnd,
        onNoReaders: () => {
          response.grace?.()
          const { finish } = settings.idempotency
          const mayContinue = response.keyed && finish > 0 && response.answer.replayable
          if (!mayContinue || !this.#responses.mayContinueUnread(response, settings)) return abandon()
          response.grace = world.later(finish, abandon)
        },
      }),
    }
    return response
  }

  /** Answers a call from a shared response. Resolves when its client has received it, and its end has been recorded. */
  async #attach(call: ShareableCall, response: SharedResponse, how: 'joined' | 'stored' | 'coalesced'): Promise<void> {
    const { protocol, received, responseWriter } = call
    const { recorder, blocked } = this.#recorderOf(call)
    if (blocked) return writeAndRecordError({ protocol, responseWriter, recorder }, blocked, null)
    recorder.note({ type: 'shared', how, with: response.id })
    this.#responses.markRead(response)
    response.grace?.()
    response.grace = null
    const headers = {
      'x-request-id': received.id,
      ...(how === 'coalesced' ? { 'x-headgate-coalesced': 'true' } : { 'x-headgate-idempotent': how }),
    }
    return new Promise((resolve) => {
      const done = async (outcome: ReadOutcome): Promise<void> => {
        if (outcome === 'left') {
          hasLeft(recorder)
          return resolve()
        }
        await response.settled
        const { ended, answer } = response
        recorder.account.save(ended?.cost ?? 0)
        if (outcome === 'cut') recorder.end('interrupted', ended?.status ?? 200, ended?.failure)
        else recorder.end(ended?.how ?? 'answered', ended?.status ?? answer.status ?? 200, ended?.failure)
        resolve()
      }
      response.answer.read(responseWriter, headers, done)
    })
  }

  /**
   * The name under which equal requests (except for white space and member order) are shared. Null: the request is not
   * repeatable.
   */
  #duplicateName(call: ShareableCall): string | null {
    const { received, style } = call
    const { body: source } = received
    if (!isTextBody(source) || source.text.length > LONGEST_COMPARED) return null
    if (bypassesSharing(received.headers('cache-control'))) return null
    const body = call.repeatable({ ...received, body: source }, this.#gateway.config().settings.limit)
    if (!body) return null
    const forwarded = forwardedFor(this.#gateway, received)
    const print = this.#fingerprint(
      `${JSON.stringify([...placeOf(style, received), forwarded])}\n${canonicalJson(body)}`,
    )
    return `${DUPLICATE}${received.client.owner} ${print}`
  }

  /** A recorder for a call that is not served. `blocked`: why its end user is refused. */
  #recorderOf(call: ShareableCall): { readonly recorder: Recorder; readonly blocked: Failure | null } {
    const { received } = call
    const { headers } = received
    const recorder = new Recorder(this.#gateway, received, call)
    const { body } = received
    const members = !isTextBody(body) ? {} : (parseObject(body.text) ?? {})
    const stream = members.stream === true
    const blocked = recorder.received({ model: text(members.model) ?? '', stream, members, headers })
    return { recorder, blocked }
  }

  #refuse(call: ShareableCall, failure: Failure): void {
    const { protocol, responseWriter } = call
    writeAndRecordError({ protocol, responseWriter, recorder: this.#recorderOf(call).recorder }, failure, null)
  }
}

/** What distinguishes two requests with the same body: only one that requires the same of its data and has the same guards may have the answer. */
const placeOf = (style: string, { path, query, headers }: ShareableCall['received']): readonly unknown[] => {
  const require = headers(REQUIRE_HEADER)
  const guards = headers(GUARDS_HEADER)
  if (guards !== undefined) return [style, path, query, { require, guards }]
  return require === undefined ? [style, path, query] : [style, path, query, { require }]
}

/** A character for each byte. */
const latin1 = new TextDecoder('latin1')

/** Bytes of a form that are printed at once. */
const PRINTED = 1_048_576

/** A call in a fingerprint. */
const printedCall = ({ style, received }: ShareableCall, fingerprint: (text: string) => string): Eventual<string> => {
  const { body } = received
  const place = JSON.stringify(placeOf(style, received))
  if ('parts' in body) return printedForm(body, fingerprint).then((printed) => `${place}\n${printed}`)
  return `${place}\n${'text' in body ? body.text : latin1.decode(body)}`
}

/** A form in a fingerprint. Its boundary is another one in each retry. */
const printedForm = async ({ bytes, parts }: ReceivedForm, fingerprint: (text: string) => string): Promise<string> => {
  const memory = new Uint8Array(Math.min(PRINTED, bytes.length))
  const reading = bytes.open()
  const prints: string[] = []
  try {
    for (const { name, start, end } of parts) {
      prints.push(name)
      for (let at = start; at < end; ) {
        const count = await reading.read(memory.subarray(0, Math.min(memory.length, end - at)), at)
        if (count === 0) throw new Error('The stored body is shorter than it was.')
        prints.push(fingerprint(latin1.decode(memory.subarray(0, count))))
        at += count
      }
    }
  } finally {
    reading.end()
  }
  return prints.join('\n')
}

/** For chat calls: the body of a repeatable request. `stored`: whether the protocol stores responses by default. */
export const repeatableChat =
  (protocol: ClientProtocol, stored: boolean): ShareableCall['repeatable'] =>
  (received, limits) => {
    const { body } = received
    const parsed = parseRequest(protocol, received, limits)
    if (!parsed.ok || hasDuplicateMembers(body.text, parsed.value.body)) return null
    return isRepeatable(parsed.value.request, { body: parsed.value.body, stored }) ? parsed.value.body : null
  }

/** For calls whose response may be repeated for an idempotency key only. */
export const notRepeatable: ShareableCall['repeatable'] = () => null

/** For embeddings: the body of any valid request, since embeddings are deterministic. */
export const repeatableEmbeddings =
  (shape: EmbeddingsShape): ShareableCall['repeatable'] =>
  (received, limits) => {
    const parsed = parseEmbeddings(shape, received, limits)
    return parsed.ok && !hasDuplicateMembers(received.body.text, parsed.value.body) ? parsed.value.body : null
  }

const endOf = (trace: readonly TraceEvent[], id: string): EndedEvent | undefined =>
  trace.some((event) => event.type === 'received' && event.id === id)
    ? trace.find((event): event is EndedEvent => event.type === 'ended')
    : undefined

const hasLeft = (recorder: Recorder): void => recorder.end('client_gone', statusOf(CLIENT_GONE), CLIENT_GONE)

const CLIENT_GONE = fail('client_gone', 'The client disconnected before the end.')

const KEY_IN_USE = fail(
  'idempotency_key_in_use',
  'A request with this Idempotency-Key is in progress, and its response is too large to share (idempotency.maxMegabytes). Retry when it has ended, or use a new key.',
  { param: 'Idempotency-Key', retryAfter: RETRY_AFTER },
)
