/**
 * One answer for requests that are one: tries of the same call (`Idempotency-Key`), and, where the operator wants it,
 * calls of one client that say the same at the same time (`coalesce`). The first is answered on the road as ever, only
 * into a `SharedAnswer`; the others read that. Nobody further in knows of it.
 *
 * Nothing passes from one client to another: whoever asks is a part of every name here.
 */

import type { Config } from '../../core/config.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import { type JsonObject, parseObject, text } from '../../core/json.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import type { Settings } from '../../core/settings.ts'
import type { GatewayEvent, TraceEvent } from '../../core/trace.ts'
import type { Cancel } from '../../core/world.ts'
import { canonical, givesTwice, isRepeatable, keyProblem, storesAnswer } from '../../policy/idempotency-key.ts'
import { statusOf } from '../../policy/reply/final-error.ts'
import type { ExtentLimits } from '../../policy/request-size.ts'
import { Recorder, writeAndRecordError } from '../call/recorder.ts'
import { parseEmbeddings } from '../endpoints/embeddings.ts'
import type { Gateway } from '../gateway.ts'
import { FORWARDED_HEADERS } from '../upstream/outbound-request.ts'
import { parseRequest } from '../upstream/parse-request.ts'
import { BroadcastResponse, type Leaving, type MemoryQuota } from './broadcast-response.ts'

export type ShareableCall = {
  /** The client's format. */
  readonly protocol: ClientProtocol
  /** The kind of call, as the log calls it. */
  readonly style: string
  readonly received: IncomingRequest
  readonly reply: ResponseWriter
  /** The body, if the answer of another request that says the same is as good; null: never. */
  readonly repeatable: (received: IncomingRequest, limits: ExtentLimits) => JsonObject | null
}

/** The road, with the gateway and the reply it is to use. */
type Serve = (gateway: Gateway, reply: ResponseWriter) => Promise<void>

export type Share = (call: ShareableCall, serve: Serve) => Promise<void>

type Ended = TraceEvent & { type: 'ended' }

/** An answer under way, or kept. */
type Entry = {
  /** The request it was made for. */
  readonly id: string
  readonly answer: BroadcastResponse
  readonly config: Config
  readonly names: Set<string>
  /** Tries of the same call may come back for it. */
  keyed: boolean
  /** Ends it, where everybody has left, unless somebody comes back. */
  grace: Cancel | null
  /** How the road ended; undefined where it did not say. */
  ended: Ended | undefined
  /** When it is forgotten, in ms of the monotonic clock. */
  until: number
  /** It is over for the road too. Resolves once. */
  readonly settled: Promise<void>
  readonly settle: () => void
}

/** By a name, the answer, and the question it was an answer to. */
type Named = { readonly entry: Entry; readonly print: string }

/** What an answer costs beside its text, in bytes: names, prints, headers. */
const BASE = 2_048

/** Characters of a body beyond which nobody looks whether another says the same: 17 million took 3 s to bring into one spelling. */
const LONGEST_TWIN = 1_000_000

/** How the names of calls that say the same begin; those of keys begin otherwise. */
const TWIN = 'twin '

/** No answer may take more of what all may take than this part, so that one does not push out all others. */
const PART = 4

/** ms after which it is worth asking again under a key whose answer cannot be joined. */
const LATER = 5_000

/** `fingerprint`: a digest of any text, of a fixed length; two texts never have the same. */
export const shareResponses = (gateway: Gateway, fingerprint: (text: string) => string): Share => {
  const { world } = gateway
  const shelf = new SharedResponses(gateway)

  const lead = async (
    call: ShareableCall,
    serve: Serve,
    names: ReadonlyMap<string, string>,
    keyed: boolean,
  ): Promise<void> => {
    const { received } = call
    const config = gateway.config()
    const { settings } = config
    const served = Promise.withResolvers<void>()
    const over = Promise.withResolvers<void>()
    const settled = Promise.withResolvers<void>()
    const abandon = () => {
      // Who comes back now has to ask anew.
      shelf.unlist(entry)
      over.resolve()
      entry.answer.abandon()
    }
    const entry: Entry = {
      id: received.id,
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
        room: shelf,
        most: mostOf(settings) / PART,
        patience: settings.timeout.clientWrite,
        over: () => over.resolve(),
        deserted: () => {
          entry.grace?.()
          const { finish } = settings.idempotency
          if (!entry.keyed || finish === 0 || !entry.answer.whole || !shelf.mayGoOn(entry, settings)) return abandon()
          entry.grace = world.later(finish, abandon)
        },
      }),
    }
    for (const [name, print] of names) shelf.name(name, entry, print)
    let left = false
    let finished = false
    const tell = (news: GatewayEvent) => {
      if (news.event !== 'request' || finished) return gateway.emit(news)
      entry.ended ??= endOf(news.exchange, received.id)
      // Its own client had left; those for whom it went on have lines of their own.
      const alone: readonly TraceEvent[] = left ? [{ type: 'shared', how: 'left', with: received.id }] : []
      gateway.emit({ event: 'request', exchange: [...news.exchange, ...alone] })
    }
    shelf.take(BASE)
    entry.answer.read(call.reply, {}, (how) => {
      left = how === 'left'
    })
    void Promise.all([served.promise, over.promise]).then(() => {
      finished = true
      entry.grace?.()
      shelf.finish(entry)
      entry.settle()
    })
    try {
      await serve({ ...gateway, emit: tell }, entry.answer)
    } catch (error) {
      entry.answer.cut()
      throw error
    } finally {
      served.resolve()
    }
  }

  const join = (call: ShareableCall, entry: Entry, how: 'joined' | 'stored' | 'coalesced'): Promise<void> => {
    const { received, reply } = call
    const record = recorderOf(call)
    record.note({ type: 'shared', how, with: entry.id })
    shelf.cameBack(entry)
    entry.grace?.()
    entry.grace = null
    const own = {
      'x-request-id': received.id,
      ...(how === 'coalesced' ? { 'x-headgate-coalesced': 'true' } : { 'x-headgate-idempotent': how }),
    }
    return new Promise((resolve) => {
      const done = async (leaving: Leaving): Promise<void> => {
        if (leaving === 'left') {
          const gone = fail('client_gone', 'the client left before the end')
          record.end('client_gone', statusOf(gone), gone)
          return resolve()
        }
        await entry.settled
        const { ended, answer } = entry
        if (leaving === 'cut') record.end('interrupted', ended?.status ?? 200, ended?.failure)
        else record.end(ended?.how ?? 'answered', ended?.status ?? answer.status ?? 200, ended?.failure)
        resolve()
      }
      entry.answer.read(reply, own, done)
    })
  }

  const recorderOf = ({ received, style }: ShareableCall): Recorder => {
    const record = new Recorder(gateway, received, style)
    const body = parseObject(received.body)
    record.received(text(body?.model) ?? '', body?.stream === true)
    return record
  }

  const refuse = (call: ShareableCall, failure: Failure): void =>
    writeAndRecordError({ protocol: call.protocol, reply: call.reply, record: recorderOf(call) }, failure, null)

  /** What a request is that says the same in other words: the order of members, blanks. Null: each is one of its own. */
  const twinOf = (call: ShareableCall): string | null => {
    const { received, style } = call
    if (received.body.length > LONGEST_TWIN || storesAnswer(received.headers('cache-control'))) return null
    const body = call.repeatable(received, gateway.config().settings.limit)
    if (!body) return null
    const passed = FORWARDED_HEADERS.map(([name]) => received.headers(name) ?? null)
    return fingerprint(`${JSON.stringify([style, received.query, passed])}\n${canonical(body)}`)
  }

  const share = async (call: ShareableCall, serve: Serve, key: string | undefined, config: Config): Promise<void> => {
    const { received, reply, style } = call
    const problem = key === undefined ? null : keyProblem(key)
    if (problem) return refuse(call, problem)

    const names = new Map<string, string>()
    if (key !== undefined) {
      const name = `key ${received.client} ${key}`
      const print = fingerprint(`${JSON.stringify([style, received.query])}\n${received.body}`)
      const found = shelf.find(name)
      if (found && found.print !== print) return refuse(call, reused)
      if (found?.entry.answer.whole)
        return join(call, found.entry, found.entry.answer.status === null ? 'joined' : 'stored')
      if (found) return refuse(call, inUse)
      names.set(name, print)
    }
    const twin = config.settings.coalesce ? twinOf(call) : null
    if (twin !== null) {
      const name = `${TWIN}${received.client} ${twin}`
      const found = shelf.find(name)?.entry
      if (found?.answer.whole && found.config === config) {
        for (const [other, print] of names) shelf.name(other, found, print)
        if (key !== undefined) found.keyed = true
        return join(call, found, 'coalesced')
      }
      names.set(name, '')
    }
    if (names.size === 0) return serve(gateway, reply)
    return lead(call, serve, names, key !== undefined)
  }

  return (call, serve) => {
    const config = gateway.config()
    const { idempotency, coalesce } = config.settings
    const key = idempotency.keep > 0 ? call.received.headers('idempotency-key') : undefined
    return key === undefined && !coalesce ? serve(gateway, call.reply) : share(call, serve, key, config)
  }
}

/** The body of a call that another may stand in for; `stored`: whether its format stores answers unless told otherwise. */
export const repeatableChat =
  (protocol: ClientProtocol, stored: boolean): ShareableCall['repeatable'] =>
  ({ body, headers }, limits) => {
    const asked = parseRequest(protocol, body, headers, limits)
    if (!asked.ok || givesTwice(body, asked.value.body)) return null
    return isRepeatable(asked.value.request, { body: asked.value.body, stored }) ? asked.value.body : null
  }

/** An embedding is the same each time. */
export const repeatableEmbeddings: ShareableCall['repeatable'] = ({ body }, limits) => {
  const asked = parseEmbeddings(body, limits)
  return asked.ok && !givesTwice(body, asked.value.body) ? asked.value.body : null
}

const mostOf = ({ idempotency }: Settings): number => idempotency.maxMegabytes * 1024 * 1024

const endOf = (exchange: readonly TraceEvent[], id: string): Ended | undefined =>
  exchange.some((fact) => fact.type === 'received' && fact.id === id)
    ? exchange.find((fact): fact is Ended => fact.type === 'ended')
    : undefined

const reused = fail(
  'idempotency_key_reused',
  'This Idempotency-Key was sent before with another body, or to another path. Send what was sent first to get its answer, or a new key with a new request.',
  { param: 'Idempotency-Key' },
)

const inUse = fail(
  'idempotency_key_in_use',
  'The request of this Idempotency-Key is being answered at this moment, and its answer is longer than may be kept (idempotency.maxMegabytes), so that it cannot be given twice. Wait for it to end, or ask with a new key.',
  { param: 'Idempotency-Key', retryAfter: LATER },
)

/** The answers that others may read, by name: under way, or over and kept for a while. */
class SharedResponses implements MemoryQuota {
  readonly #gateway: Gateway
  readonly #named = new Map<string, Named>()
  /** Under way, with nobody waiting for them. */
  readonly #alone = new Set<Entry>()
  /** Over; the oldest first. */
  readonly #kept = new Set<Entry>()
  #taken = 0
  #timer: Cancel | null = null

  constructor(gateway: Gateway) {
    this.#gateway = gateway
  }

  find(name: string): Named | undefined {
    const found = this.#named.get(name)
    if (found && found.entry.until <= this.#gateway.world.now()) {
      this.#forget(found.entry)
      return undefined
    }
    return found
  }

  name(name: string, entry: Entry, print: string): void {
    this.#named.set(name, { entry, print })
    entry.names.add(name)
  }

  /** Nobody waits for it any more: whether it may go on all the same. */
  mayGoOn(entry: Entry, { limit }: Settings): boolean {
    this.#alone.add(entry)
    return this.#alone.size <= limit.concurrent
  }

  cameBack(entry: Entry): void {
    this.#alone.delete(entry)
  }

  /** Kept for tries that come later, if it is the answer to the call; forgotten otherwise. */
  finish(entry: Entry): void {
    const { world, config } = this.#gateway
    const { keep } = config().settings.idempotency
    const { answer, ended } = entry
    this.#alone.delete(entry)
    // What is kept is kept for tries of the same call; a call like it is answered anew.
    for (const name of [...entry.names]) if (name.startsWith(TWIN)) this.#unname(name, entry)
    const answered = (ended === undefined || ended.how === 'answered') && answer.status === 200
    if (!entry.keyed || keep === 0 || !answer.whole || !answered) return this.#forget(entry)
    entry.until = world.now() + keep
    this.#kept.add(entry)
    this.#sweepLater()
  }

  take(bytes: number): boolean {
    const most = mostOf(this.#gateway.config().settings)
    this.#taken += bytes
    for (const oldest of this.#kept) {
      if (this.#taken <= most) break
      this.#forget(oldest)
    }
    return this.#taken <= most
  }

  give(bytes: number): void {
    this.#taken -= bytes
  }

  /** Nobody finds it any more. */
  unlist(entry: Entry): void {
    this.#alone.delete(entry)
    for (const name of [...entry.names]) this.#unname(name, entry)
  }

  #forget(entry: Entry): void {
    this.unlist(entry)
    this.#kept.delete(entry)
    this.give(BASE)
    entry.answer.release()
  }

  /** The name may by now be another's. */
  #unname(name: string, entry: Entry): void {
    entry.names.delete(name)
    if (this.#named.get(name)?.entry === entry) this.#named.delete(name)
  }

  /** What nobody asks for again is let go of in its time all the same. */
  #sweepLater(): void {
    const [oldest] = this.#kept
    if (this.#timer || !oldest) return
    const { world } = this.#gateway
    this.#timer = world.later(Math.max(0, oldest.until - world.now()), () => {
      this.#timer = null
      for (const entry of [...this.#kept]) if (entry.until <= world.now()) this.#forget(entry)
      this.#sweepLater()
    })
  }
}
