/** The interface to the Claude Code gateway protocol, which is loaded at its first request. */
import type { ClientSignal } from '../core/claude.ts'
import type { Failure, Outcome } from '../core/failure.ts'
import type { IncomingRequest } from '../core/http-exchange.ts'
import type { JsonObject } from '../core/json.ts'

export type ClaudePage = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export type ClaudePages = {
  /** The managed settings of a person. */
  readonly settings: (received: IncomingRequest) => Outcome<ClaudePage>
  /** The documentation of the protocol, in Markdown. */
  readonly protocol: () => Promise<string>
  /** What a person has spent of the fullest budget. */
  readonly usage: (received: IncomingRequest) => Promise<Outcome<JsonObject>>
  /** Accepts telemetry (OTLP), and sends it to the receivers. Returns why it is refused, or null. */
  readonly receive: (signal: ClientSignal, received: IncomingRequest<Uint8Array>) => Failure | null
}
