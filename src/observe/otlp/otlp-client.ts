/** Sends batches by the official exporter: protocol, compression and retries are its own. Time limits and sockets are ours. */
import { Agent as PlainAgent } from 'node:http'
import { Agent as SecureAgent } from 'node:https'
import { createOtlpHttpExportDelegate } from '@opentelemetry/otlp-exporter-base/node-http'
import type { IExporterMetricsHelper, ISerializer } from '@opentelemetry/otlp-transformer'
import type { BatchResult } from './signal-queue.ts'
import type { Receiver } from './telemetry-options.ts'

/** Of a response: the items of a batch that the receiver has not taken. */
type PartialSuccess = { readonly partialSuccess?: object | null | undefined }

/** How one signal is written. */
export type SignalFormat<Batch, Response extends PartialSuccess> = {
  readonly serializers: { readonly [format in Receiver['format']]: ISerializer<Batch, Response> }
  readonly helper: IExporterMetricsHelper<Batch>
  /** The member of a partial success with the number of refused items. */
  readonly refused: string
}

/** ms after the receiver's time limit, in which the exporter gives up by itself. */
const GRACE = 500
const CONTENT_TYPES = { protobuf: 'application/x-protobuf', json: 'application/json' } as const

export class OtlpClient<Batch, Response extends PartialSuccess> {
  readonly #receiver: Receiver
  readonly #format: SignalFormat<Batch, Response>
  readonly #agent: PlainAgent
  readonly #exporter
  #refused = { count: 0, why: null as string | null }

  constructor(receiver: Receiver, format: SignalFormat<Batch, Response>) {
    const { url, headers, compression, ca, timeout } = receiver
    const serializer = format.serializers[receiver.format]
    this.#receiver = receiver
    this.#format = format
    const sockets = { keepAlive: true, maxSockets: 2 }
    this.#agent = url.startsWith('https:')
      ? new SecureAgent({ ...sockets, ...(ca !== null && { ca }) })
      : new PlainAgent(sockets)
    this.#exporter = createOtlpHttpExportDelegate(
      {
        url,
        // The exporter adds its own to the object.
        headers: async () => ({ ...headers, 'content-type': CONTENT_TYPES[receiver.format] }),
        compression,
        timeoutMillis: timeout,
        concurrencyLimit: 2,
        agentFactory: () => this.#agent,
        userAgent: 'headgate',
      },
      {
        serializeRequest: (batch) => serializer.serializeRequest(batch),
        deserializeResponse: (bytes) => this.#noteResponse(serializer.deserializeResponse(bytes)),
      },
      'otlp_http_span_exporter',
      format.helper,
      undefined,
    )
  }

  /** Sends a batch. Does not throw. */
  send(batch: Batch): Promise<BatchResult> {
    this.#refused = { count: 0, why: null }
    const { promise, resolve } = Promise.withResolvers<BatchResult>()
    // A receiver that answers slowly is never idle, so the exporter would wait for it without a limit.
    const timer = setTimeout(() => {
      this.#agent.destroy()
      resolve({ ok: false, reason: 'failed', why: 'The receiver did not answer in time.' })
    }, this.#receiver.timeout + GRACE)
    const settle = (result: BatchResult) => {
      clearTimeout(timer)
      resolve(result)
    }
    try {
      this.#exporter.export(batch, ({ code, error }) => settle(code === 0 ? this.#accepted() : failed(error)))
    } catch (error) {
      settle(failed(error))
    }
    return promise
  }

  close(): void {
    this.#agent.destroy()
  }

  #accepted(): BatchResult {
    const { count, why } = this.#refused
    return { ok: true, refused: count, why }
  }

  #noteResponse(response: Response): Response {
    const partial = Object.entries(response.partialSuccess ?? {})
    const count = Number(partial.find(([name]) => name === this.#format.refused)?.[1] ?? 0)
    if (count > 0) this.#refused = { count, why: 'The receiver refused a part of a batch.' }
    return response
  }
}

/** The words of a receiver may repeat what was sent, so only its status is stated. */
const failed = (error: unknown): BatchResult => {
  const { code } = error instanceof Error ? (error as NodeJS.ErrnoException) : { code: undefined }
  if (typeof code === 'number') return { ok: false, reason: 'refused', why: `The receiver answered ${code}.` }
  const why =
    code === undefined
      ? 'The receiver refused the batch, or answered 429 or 503 for too long.'
      : `The receiver cannot be reached (${code}).`
  return { ok: false, reason: 'failed', why }
}
