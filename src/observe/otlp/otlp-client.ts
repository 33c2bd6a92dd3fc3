/**
 * Sends batches by OTLP over HTTP (https://opentelemetry.io/docs/specs/otlp/#otlphttp), over the gateway's own HTTP client, so that
 * proxies and certificates are those of other connections.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { ISerializer } from '@opentelemetry/otlp-transformer'
import { type Egress, egressFrom } from '../../core/egress.ts'
import { type Dialer, dialer } from '../../transport/client/dial.ts'
import { type ShortResponse, shortRequest } from '../../transport/net/short-request.ts'
import type { BatchResult } from './signal-queue.ts'
import type { Receiver } from './telemetry-options.ts'

/** Of a response: the items of a batch that the receiver has not taken. */
type PartialSuccess = { readonly partialSuccess?: object | null | undefined }

/** How one signal is written. */
export type SignalFormat<Batch, Response extends PartialSuccess> = {
  readonly serializers: { readonly [format in Receiver['format']]: ISerializer<Batch, Response> }
  /** The member of a partial success with the number of refused items. */
  readonly refused: string
}

const CONTENT_TYPES = { protobuf: 'application/x-protobuf', json: 'application/json' } as const
/** The receiver may take the batch later. */
const BUSY: ReadonlySet<number> = new Set([429, 502, 503, 504])
/** Pauses before a batch is sent again, in ms: the first, their growth, the longest, and their number. */
const PAUSES = { first: 1_000, growth: 1.5, longest: 5_000, count: 5 }
const LATE: BatchResult = { ok: false, reason: 'failed', why: 'The receiver did not answer in time.' }

const zip = promisify(gzip)

export class OtlpClient<Batch, Response extends PartialSuccess> {
  readonly #receiver: Receiver
  readonly #format: SignalFormat<Batch, Response>
  readonly #egress: Egress
  readonly #dialer: Dialer

  constructor(receiver: Receiver, format: SignalFormat<Batch, Response>) {
    this.#receiver = receiver
    this.#format = format
    this.#egress = egressFrom(receiver.egress)
    this.#dialer = dialer({ egress: () => this.#egress })
  }

  /** Sends a batch. Does not throw. */
  async send(batch: Batch): Promise<BatchResult> {
    const signal = AbortSignal.timeout(this.#receiver.timeout)
    try {
      const bytes = this.#format.serializers[this.#receiver.format].serializeRequest(batch)
      if (!bytes) return { ok: false, reason: 'failed', why: 'The batch cannot be written.' }
      const body = this.#receiver.compression === 'gzip' ? await zip(bytes) : bytes
      return await this.#sendUntil(body, signal)
    } catch {
      return signal.aborted ? LATE : { ok: false, reason: 'failed', why: 'The batch cannot be sent.' }
    }
  }

  close(): void {
    void this.#dialer.close()
  }

  /** Repeats it while the receiver is busy, or cannot be reached, and the time allows a pause. */
  async #sendUntil(body: Uint8Array, signal: AbortSignal): Promise<BatchResult> {
    const { timeout } = this.#receiver
    const end = performance.now() + timeout
    let pause = PAUSES.first
    for (let sent = 1; ; sent++) {
      const { result, wait } = await this.#sendOnce(body, signal)
      const ms = wait ?? Math.min(pause * (0.8 + 0.4 * Math.random()), PAUSES.longest)
      if (result.ok || result.reason === 'refused' || sent > PAUSES.count || performance.now() + ms > end) return result
      await sleep(ms, undefined, { signal })
      pause *= PAUSES.growth
    }
  }

  /** `wait`: ms that the receiver asks for; null: none are stated. */
  async #sendOnce(
    body: Uint8Array,
    signal: AbortSignal,
  ): Promise<{ readonly result: BatchResult; readonly wait: number | null }> {
    const { url, headers, format, compression, timeout } = this.#receiver
    const call = {
      method: 'POST',
      url,
      headers: {
        ...headers,
        'content-type': CONTENT_TYPES[format],
        'user-agent': 'headgate',
        ...(compression === 'gzip' && { 'content-encoding': 'gzip' }),
      },
      body,
      connectTimeout: timeout,
    } as const
    const sent = await shortRequest(this.#dialer.dial, call, signal)
    if (sent.ok) return { result: this.#resultOf(sent.value), wait: retryAfter(sent.value) }
    if (signal.aborted) return { result: LATE, wait: null }
    // The client's own words: nothing of what was sent.
    const why = `The receiver cannot be reached: ${sent.failure.message}`
    return { result: { ok: false, reason: 'failed', why }, wait: null }
  }

  /** The words of a receiver may repeat what was sent, so only its status is stated. */
  #resultOf({ status, body }: ShortResponse): BatchResult {
    if (status >= 200 && status < 300) return this.#accepted(body)
    if (BUSY.has(status))
      return { ok: false, reason: 'failed', why: `The receiver is busy, or was for too long (${status}).` }
    return { ok: false, reason: 'refused', why: `The receiver answered ${status}.` }
  }

  /** An answer that cannot be read has accepted all. */
  #accepted(body: Buffer | null): BatchResult {
    try {
      const { partialSuccess } = this.#format.serializers[this.#receiver.format].deserializeResponse(body ?? EMPTY)
      const found = Object.entries(partialSuccess ?? {}).find(([name]) => name === this.#format.refused)
      const refused = Number(found?.[1] ?? 0)
      if (refused > 0) return { ok: true, refused, why: 'The receiver refused a part of a batch.' }
    } catch {}
    return { ok: true, refused: 0, why: null }
  }
}

const EMPTY = new Uint8Array()

/** The ms of `retry-after` in seconds; null: there is none. */
const retryAfter = ({ headers }: ShortResponse): number | null => {
  const text = headers('retry-after')
  return text !== undefined && /^[0-9]{1,6}$/.test(text) ? Number(text) * 1_000 : null
}
