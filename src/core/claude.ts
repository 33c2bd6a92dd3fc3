/** The settings of the Claude Code gateway protocol. */
import type { JsonObject } from './json.ts'
import type { Secret } from './secret.ts'

/** The people of a policy: those in any group, of any domain, and of any paying team; null: all. */
export type ClaudeMatch = {
  readonly groups: readonly string[] | null
  /** Of e-mail addresses, in lower case. */
  readonly domains: readonly string[] | null
  /** Names or IDs. */
  readonly teams: readonly string[] | null
}

/** `settings`: members of Claude Code's `managed-settings.json`. */
export type ClaudePolicy = { readonly match: ClaudeMatch; readonly settings: JsonObject }

export const SIGNALS = ['metrics', 'logs', 'traces'] as const
/** A kind of telemetry that clients send (OTLP). */
export type ClientSignal = (typeof SIGNALS)[number]

/** A receiver of the telemetry of clients. */
export type ClaudeReceiver = {
  /** Without a slash at its end; `/v1/metrics` and so on are appended. */
  readonly url: string
  readonly headers: Readonly<Record<string, Secret>>
  readonly signals: readonly ClientSignal[]
}

export type ClaudeSettings = {
  /** In the order in which they are compared. */
  readonly policies: readonly ClaudePolicy[]
  readonly receivers: readonly ClaudeReceiver[]
  /** Shown beside the code of a sign-in; null: nothing. */
  readonly loginNotice: string | null
}
