/**
 * Records the bodies of calls until the thread of `bodies.db` has stored them. Memory is limited: beyond `BUFFER`, bodies
 * are lost and counted. The thread's client is loaded with the first recorded call.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { bytesOrText, type TextOrBytes, wholeBody } from '../../core/encoded-text.ts'
import type { Failure } from '../../core/failure.ts'
import { SpooledBody } from '../../core/form.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { IncomingRequest, RequestBody, ResponseWriter } from '../../core/http-exchange.ts'
import type { BodyKeeper, CallBodies, KeptAttempt } from '../../core/kept-bodies.ts'
import type { Settings } from '../../core/settings.ts'
import type { UpstreamListener } from '../../core/world.ts'
import type { OnStoreTime } from '../../storage/thread/on-store-time.ts'
import type { BodiesClient, BodiesResult } from './bodies-client.ts'
import { EventTimes } from './event-times.ts'
import { BODIES_FILE } from './file.ts'
import { headersFrom, headersOf, type KeptHeaders, sizeOfHeaders } from './kept-headers.ts'
import type {
  BodiesQuery,
  FoundTexts,
  KeptIds,
  KeptResponse,
  MarkedQuery,
  RawAttempt,
  RawBody,
  RawCall,
  TextQuery,
} from './recorded-calls.ts'

export type BodyKeeperOptions = {
  readonly folder: string
  readonly settings: () => Settings['bodies']
  /** ms since 1970. */
  readonly date: () => number
  /** Bytes in memory; by default `BUFFER`. */
  readonly buffer?: number
  readonly onTime?: OnStoreTime
}

/** Bytes of bodies in memory: of calls in progress, and those that are not stored yet. */
const BUFFER = 16 * 1_048_576
/** ms after the start at which an existing file is opened, to delete what is too old. */
const OPENED_AFTER = 5_000

export class RequestBodies implements BodyKeeper {
  readonly #options: BodyKeeperOptions
  readonly #limit: number
  #bytes = 0
  #lost = 0
  #client: Promise<BodiesClient> | null = null

  constructor(options: BodyKeeperOptions) {
    this.#options = options
    this.#limit = options.buffer ?? BUFFER
    setTimeout(() => {
      if (this.#hasFile) void this.#load().then((client) => client.start())
    }, OPENED_AFTER).unref()
  }

  /** Calls whose bodies were lost: the buffer was full, or they could not be stored. */
  get lost(): number {
    return this.#lost
  }

  /** Bytes in memory. */
  get bytes(): number {
    return this.#bytes
  }

  open(received: IncomingRequest<RequestBody>): CallBodies | null {
    const { sample, maxBytes } = this.#options.settings()
    const { client, id, ownId = id } = received
    if (client.logBodies !== true && (sample === 0 || shareOf(ownId) >= sample)) return null
    if (received.headers('x-headgate-no-log')?.trim() === '1') return null
    return new RecordedCall(this, received, { at: this.#options.date(), maxBytes })
  }

  /** The stored bodies of a request; null: there are none. */
  async read(query: BodiesQuery): Promise<BodiesResult> {
    if (!this.#client && !this.#hasFile) return { value: null }
    return (await this.#load()).read(query)
  }

  /** Which requests have stored bodies. */
  async kept(query: MarkedQuery): Promise<BodiesResult<KeptIds>> {
    if (!this.#client && !this.#hasFile) return { value: { ids: [], last: null } }
    return (await this.#load()).kept(query)
  }

  /** Which requests have a text in their stored bodies: of those that could be searched in a tenth of a second. */
  async search(query: TextQuery): Promise<BodiesResult<FoundTexts>> {
    if (!this.#client && !this.#hasFile) return { value: { ids: [], until: null, searched: 0 } }
    return (await this.#load()).search(query)
  }

  /** Reserves memory. Returns false if there is none. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#limit) return false
    this.#bytes += bytes
    return true
  }

  /** Releases memory. */
  give(bytes: number): void {
    this.#bytes -= bytes
  }

  /** The bodies of a call are not kept. */
  lose(): void {
    this.#lost++
  }

  /** Stores a call. `bytes`: what it has reserved. */
  async store(call: RawCall, bytes: number): Promise<void> {
    try {
      const client = await this.#load()
      if ('problem' in (await client.put(call))) this.lose()
    } catch {
      this.lose()
    } finally {
      this.give(bytes)
    }
  }

  /** The settings have changed. */
  settingsChanged(): void {
    void this.#client?.then((client) => client.rulesChanged())
  }

  /** Stores the rest, within 2 s. */
  async close(): Promise<void> {
    await (await this.#client)?.close()
  }

  get #hasFile(): boolean {
    return existsSync(join(this.#options.folder, BODIES_FILE))
  }

  #load(): Promise<BodiesClient> {
    const { folder, settings, onTime } = this.#options
    this.#client ??= import('./bodies-client.ts').then(
      (loaded) => new loaded.BodiesClient({ folder, rules: settings, onTime }),
    )
    return this.#client
  }
}

/** A form that is in a file is not kept. */
const bytesOfRequest = (body: RequestBody): TextOrBytes =>
  'parts' in body ? (body.bytes.whole ?? notKept(body.bytes)) : bytesOrText(body)

const notKept = ({ length }: { readonly length: number }): string => `[a form of ${length} bytes]`

/** A number in [0, 1) that is the same for an ID in every process (FNV-1a). */
const shareOf = (id: string): number => {
  let hash = 0x811c9dc5
  for (let at = 0; at < id.length; at++) hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193)
  // The last step of MurmurHash3: without it similar IDs have similar numbers.
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32
}

const encoder = new TextEncoder()

/** The beginning of a body that arrives in parts. */
class BodyStart {
  #bytes = new Uint8Array(0)
  #used = 0
  #length = 0

  /** Adds a part; returns false if there is no memory for it. `take` reserves memory. */
  add(part: TextOrBytes, maxBytes: number, take: (bytes: number) => boolean): boolean {
    this.#length += typeof part === 'string' ? Buffer.byteLength(part) : part.length
    // A character has at least one byte.
    const start = typeof part === 'string' ? encoder.encode(part.slice(0, maxBytes)) : part
    const added = start.subarray(0, maxBytes - this.#used)
    const needed = this.#used + added.length
    if (needed > this.#bytes.length) {
      const size = Math.min(maxBytes, Math.max(needed, 2 * this.#bytes.length))
      if (!take(size - this.#bytes.length)) return false
      const larger = new Uint8Array(size)
      larger.set(this.#bytes.subarray(0, this.#used))
      this.#bytes = larger
    }
    this.#bytes.set(added, this.#used)
    this.#used = needed
    return true
  }

  raw(): RawBody {
    return { bytes: this.#bytes.subarray(0, this.#used), length: this.#length }
  }
}

/** The bodies of one call in progress. */
class RecordedCall implements CallBodies {
  readonly #keeper: RequestBodies
  readonly #maxBytes: number
  readonly #call: Omit<RawCall, 'headers' | 'request' | 'response' | 'attempts'>
  readonly #headers: KeptHeaders
  readonly #request = new BodyStart()
  /** Monotonic ms at which the request was received. */
  readonly #startedAt = performance.now()
  #response: RecordedResponse | null = null
  #attempts: RecordedAttempt[] = []
  #bytes = 0
  #isOver = false

  constructor(
    keeper: RequestBodies,
    { id, ownId = id, client, path, headers, body }: IncomingRequest<RequestBody>,
    { at, maxBytes }: { readonly at: number; readonly maxBytes: number },
  ) {
    this.#keeper = keeper
    this.#maxBytes = maxBytes
    this.#call = { id: ownId, received: at, team: client.team.id, key: client.id, path }
    this.#headers = this.fitting(headersFrom(headers))
    this.add(this.#request, bytesOfRequest(body))
  }

  attempt(call: KeptAttempt, listener: UpstreamListener): UpstreamListener {
    if (this.#isOver) return listener
    const attempt = new RecordedAttempt(this, call, listener)
    this.#attempts.push(attempt)
    this.add(attempt.request, call.body instanceof SpooledBody ? notKept(call.body) : wholeBody(call.body ?? ''))
    return attempt
  }

  response(writer: ResponseWriter): ResponseWriter {
    this.#response = new RecordedResponse(this, writer)
    return this.#response
  }

  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    const call = {
      ...this.#call,
      headers: this.#headers,
      request: this.#request.raw(),
      response: this.#response?.kept() ?? null,
      attempts: this.#attempts.map((one) => one.raw()),
    }
    this.#attempts = []
    void this.#keeper.store(call, this.#bytes)
  }

  /** Adds a part to a body. Without memory for it the bodies of this call are lost. */
  add(body: BodyStart, part: TextOrBytes): void {
    if (this.#isOver) return
    if (body.add(part, this.#maxBytes, (more) => this.take(more))) return
    this.#isOver = true
    this.#attempts = []
    this.#keeper.give(this.#bytes)
    this.#keeper.lose()
  }

  /** Headers for which there is memory; otherwise none. */
  fitting(headers: KeptHeaders): KeptHeaders {
    return this.take(sizeOfHeaders(headers)) ? headers : {}
  }

  /** ms since the request was received. */
  get age(): number {
    return performance.now() - this.#startedAt
  }

  /** Reserves memory for the call. */
  take(bytes: number): boolean {
    if (this.#isOver || !this.#keeper.take(bytes)) return false
    this.#bytes += bytes
    return true
  }
}

/** Writes the response to the client, and records its headers and events. */
class RecordedResponse implements ResponseWriter {
  readonly #call: RecordedCall
  readonly #writer: ResponseWriter
  #head: Omit<KeptResponse, 'events'> | null = null
  #events: EventTimes | null = null

  constructor(call: RecordedCall, writer: ResponseWriter) {
    this.#call = call
    this.#writer = writer
  }

  /** Null: nothing was written. */
  kept(): KeptResponse | null {
    return this.#head && { ...this.#head, events: this.#events?.result() ?? null }
  }

  writeHead(status: number, headers: Readonly<Record<string, string>>): void {
    this.#head = { status, headers: this.#call.fitting(headersOf(headers)) }
    if (headers['content-type']?.startsWith('text/event-stream'))
      this.#events = new EventTimes((bytes) => this.#call.take(bytes))
    this.#writer.writeHead(status, headers)
  }

  write(piece: TextOrBytes): boolean {
    this.#events?.add(piece, this.#call.age)
    return this.#writer.write(piece)
  }

  end(text?: string): void {
    if (text !== undefined) this.#events?.add(text, this.#call.age)
    this.#writer.end(text)
  }

  abort(): void {
    this.#writer.abort()
  }

  onDrain(run: () => void): void {
    this.#writer.onDrain(run)
  }

  onDisconnect(run: () => void): void {
    this.#writer.onDisconnect(run)
  }
}

/** Passes an upstream response on, and records it. */
class RecordedAttempt implements UpstreamListener {
  readonly request = new BodyStart()
  readonly #call: RecordedCall
  readonly #url: string
  readonly #secret: string | null
  readonly #sent: KeptHeaders
  #received: KeptHeaders = {}
  readonly #listener: UpstreamListener
  readonly #answer = new BodyStart()
  #status: number | null = null
  #isComplete = false

  constructor(call: RecordedCall, { url, headers, secret }: KeptAttempt, listener: UpstreamListener) {
    this.#call = call
    this.#url = url.split('?', 1)[0] ?? ''
    this.#secret = secret?.reveal() ?? null
    this.#sent = call.fitting(headersOf(headers))
    this.#listener = listener
  }

  raw(): RawAttempt {
    return {
      url: this.#url,
      secret: this.#secret,
      sent: this.#sent,
      received: this.#received,
      request: this.request.raw(),
      status: this.#status,
      answer: this.#answer.raw(),
      complete: this.#isComplete,
    }
  }

  onHeaders(status: number, headers: HeaderLookup): void {
    this.#status = status
    this.#received = this.#call.fitting(headersFrom(headers))
    this.#listener.onHeaders(status, headers)
  }

  onBody(chunk: Uint8Array): boolean {
    this.#call.add(this.#answer, chunk)
    return this.#listener.onBody(chunk)
  }

  onEnd(): void {
    this.#isComplete = true
    this.#listener.onEnd()
  }

  onFailure(failure: Failure): void {
    this.#listener.onFailure(failure)
  }

  onPaused(stopped: boolean): void {
    this.#listener.onPaused?.(stopped)
  }
}
