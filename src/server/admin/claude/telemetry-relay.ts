/**
 * Sends the telemetry of clients to the receivers, as it was received: once, without the headers of the client, and within limits.
 * A client is never refused for it.
 */
import type { ClaudeReceiver, ClientSignal } from '../../../core/claude.ts'
import type { HeaderLookup } from '../../../core/headers.ts'
import type { World } from '../../../core/world.ts'
import { afterAnswer, hasPaused, isPaused, NO_PAUSE, type Pause } from '../../../policy/egress/pause.ts'
import { shortRequest } from '../../../transport/net/short-request.ts'

/** Requests, and bytes of their bodies, on their way to receivers. */
const MOST = { requests: 64, bytes: 64 * 1_048_576 }
/** ms for one request. */
const PATIENCE = 10_000

/** `dropped`: a limit was reached, or the receiver is paused. `discarded`: no receiver takes the signal. */
export type RelayResult = 'sent' | 'failed' | 'dropped' | 'discarded'

export type TelemetryRelayOptions = {
  readonly world: Pick<World, 'dial' | 'later' | 'now'>
  readonly count: (signal: ClientSignal, result: RelayResult) => void
  /** For the log: a receiver is paused, with the reason of its last failure; null: it answers again. */
  readonly onState: (receiver: string, problem: string | null) => void
}

export type TelemetryPart = {
  readonly signal: ClientSignal
  readonly body: Uint8Array
  readonly headers: HeaderLookup
}

export class TelemetryRelay {
  readonly #options: TelemetryRelayOptions
  /** By address. */
  readonly #pauses = new Map<string, Pause>()
  #requests = 0
  #bytes = 0

  constructor(options: TelemetryRelayOptions) {
    this.#options = options
  }

  /** Returns at once. */
  relay(receivers: readonly ClaudeReceiver[], part: TelemetryPart): void {
    const { count } = this.#options
    const taking = receivers.filter(({ signals }) => signals.includes(part.signal))
    if (taking.length === 0) return count(part.signal, 'discarded')
    for (const receiver of taking) {
      const isFull = this.#requests >= MOST.requests || this.#bytes + part.body.length > MOST.bytes
      if (isFull || isPaused(this.#pauseOf(receiver), this.#options.world.now())) count(part.signal, 'dropped')
      else void this.#send(receiver, part)
    }
  }

  async #send(receiver: ClaudeReceiver, { signal, body, headers }: TelemetryPart): Promise<void> {
    this.#requests++
    this.#bytes += body.length
    try {
      const problem = await this.#request(receiver, `${receiver.url}/v1/${signal}`, { body, headers })
      this.#note(receiver, problem)
      this.#options.count(signal, problem === null ? 'sent' : 'failed')
    } finally {
      this.#requests--
      this.#bytes -= body.length
    }
  }

  /** Resolves with what went wrong, or null. A redirect is a failure: credentials are for the configured address. */
  async #request(
    { headers: own }: ClaudeReceiver,
    url: string,
    { body, headers }: Pick<TelemetryPart, 'body' | 'headers'>,
  ): Promise<string | null> {
    const { dial, later } = this.#options.world
    const within = new AbortController()
    const stop = later(PATIENCE, () => within.abort())
    const call = {
      method: 'POST',
      url,
      headers: {
        ...contentHeaders(headers),
        ...Object.fromEntries(Object.entries(own).map(([name, value]) => [name, value.reveal()])),
      },
      body,
      connectTimeout: PATIENCE,
    } as const
    const sent = await shortRequest(dial, call, within.signal)
    stop()
    if (within.signal.aborted) return `no answer within ${PATIENCE / 1_000} s`
    if (!sent.ok) return sent.failure.message
    const { status } = sent.value
    return status >= 200 && status < 300 ? null : `status ${status}`
  }

  #note(receiver: ClaudeReceiver, problem: string | null): void {
    const { onState, world } = this.#options
    const before = this.#pauseOf(receiver)
    const after = afterAnswer(before, problem !== null, world.now())
    this.#pauses.set(receiver.url, after)
    if (hasPaused(before) !== hasPaused(after)) onState(receiver.url, problem)
  }

  #pauseOf({ url }: ClaudeReceiver): Pause {
    return this.#pauses.get(url) ?? NO_PAUSE
  }
}

/** What describes the body. All other headers of the client stay here. */
const contentHeaders = (headers: HeaderLookup): Readonly<Record<string, string>> => {
  const encoding = headers('content-encoding')
  const isKnown = encoding !== undefined && /^(?:gzip|deflate|br|zstd)$/i.test(encoding)
  return {
    'content-type': isJsonType(headers) ? 'application/json' : 'application/x-protobuf',
    ...(isKnown && { 'content-encoding': encoding }),
  }
}

/** Whether a body is OTLP in JSON. */
export const isJsonType = (headers: HeaderLookup): boolean =>
  /^application\/json\b/i.test(headers('content-type') ?? '')
