/**
 * Records the bodies of calls until the thread of `bodies.db` has stored them. Memory is limited: beyond `BUFFER`, bodies
 * are lost and counted. The thread's client is loaded with the first recorded call.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { TextOrBytes } from '../../../core/encoded-text.ts'
import type { Failure } from '../../../core/failure.ts'
import type { HeaderLookup } from '../../../core/headers.ts'
import type { IncomingRequest } from '../../../core/http-exchange.ts'
import type { BodyKeeper, CallBodies, KeptAttempt } from '../../../core/kept-bodies.ts'
import type { Settings } from '../../../core/settings.ts'
import type { UpstreamListener } from '../../../core/world.ts'
import type { OnStoreTime } from '../../sqlite/on-store-time.ts'
import type { BodiesClient, BodiesResult } from './client.ts'
import { BODIES_FILE } from './file.ts'
import type { BodiesQuery, RawAttempt, RawBody, RawCall } from './messages.ts'

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

  open(received: IncomingRequest): CallBodies | null {
    const { sample, maxBytes } = this.#options.settings()
    const { principal, id } = received
    if (principal.logBodies !== true && (sample === 0 || shareOf(id) >= sample)) return null
    if (received.headers('x-headgate-no-log')?.trim() === '1') return null
    return new RecordedCall(this, received, { at: this.#options.date(), maxBytes })
  }

  /** The stored bodies of a request; null: there are none. */
  async read(query: BodiesQuery): Promise<BodiesResult> {
    if (!this.#client && !this.#hasFile) return { value: null }
    return (await this.#load()).read(query)
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
    this.#client ??= import('./client.ts').then(
      (loaded) => new loaded.BodiesClient({ folder, rules: settings, onTime }),
    )
    return this.#client
  }
}

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
  readonly #call: Omit<RawCall, 'request' | 'attempts'>
  readonly #request = new BodyStart()
  #attempts: RecordedAttempt[] = []
  #bytes = 0
  #isOver = false

  constructor(
    keeper: RequestBodies,
    { id, principal, path, body }: IncomingRequest,
    { at, maxBytes }: { readonly at: number; readonly maxBytes: number },
  ) {
    this.#keeper = keeper
    this.#maxBytes = maxBytes
    this.#call = { id, received: at, team: principal.team.id, key: principal.id, path }
    this.add(this.#request, body.bytes ?? body.text)
  }

  attempt(call: KeptAttempt, listener: UpstreamListener): UpstreamListener {
    if (this.#isOver) return listener
    const attempt = new RecordedAttempt(this, call, listener)
    this.#attempts.push(attempt)
    this.add(attempt.request, call.body ?? '')
    return attempt
  }

  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    const call = { ...this.#call, request: this.#request.raw(), attempts: this.#attempts.map((one) => one.raw()) }
    this.#attempts = []
    void this.#keeper.store(call, this.#bytes)
  }

  /** Adds a part to a body. Without memory for it the bodies of this call are lost. */
  add(body: BodyStart, part: TextOrBytes): void {
    if (this.#isOver) return
    if (body.add(part, this.#maxBytes, (more) => this.#take(more))) return
    this.#isOver = true
    this.#attempts = []
    this.#keeper.give(this.#bytes)
    this.#keeper.lose()
  }

  #take(bytes: number): boolean {
    if (!this.#keeper.take(bytes)) return false
    this.#bytes += bytes
    return true
  }
}

/** Passes an upstream response on, and records it. */
class RecordedAttempt implements UpstreamListener {
  readonly request = new BodyStart()
  readonly #call: RecordedCall
  readonly #url: string
  readonly #secret: string | null
  readonly #listener: UpstreamListener
  readonly #answer = new BodyStart()
  #status: number | null = null
  #isComplete = false

  constructor(call: RecordedCall, { url, secret }: KeptAttempt, listener: UpstreamListener) {
    this.#call = call
    this.#url = url.split('?', 1)[0] ?? ''
    this.#secret = secret?.reveal() ?? null
    this.#listener = listener
  }

  raw(): RawAttempt {
    return {
      url: this.#url,
      secret: this.#secret,
      request: this.request.raw(),
      status: this.#status,
      answer: this.#answer.raw(),
      complete: this.#isComplete,
    }
  }

  onHeaders(status: number, headers: HeaderLookup): void {
    this.#status = status
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
