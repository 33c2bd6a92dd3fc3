/** Calls as they are recorded, and as they are stored in `bodies.db`. Their bytes are moved to its thread. */

import type { FinderKind } from '../../core/finder-kinds.ts'
import type { KeptHeaders } from './kept-headers.ts'

/** The beginning of a body. `length`: of the whole body, in bytes. */
export type RawBody = { readonly bytes: Uint8Array<ArrayBuffer>; readonly length: number }

/** A body as it is stored and shown. */
export type StoredBody = {
  /** Null: the body is no text. */
  readonly text: string | null
  /** Length of the whole body. */
  readonly bytes: number
  /** `text` is only its beginning. */
  readonly truncated: boolean
  /** Number of redacted texts, and of replaced media. */
  readonly redacted: number
  readonly media: number
  /** SHA-256 of a body that is no text. */
  readonly sha256?: string
}

/** The events of a stream. */
export type KeptEvents = {
  readonly types: readonly string[]
  /** Of each event: ms since the request was received, bytes, and the index of its type. */
  readonly list: readonly (readonly [ms: number, bytes: number, type: number])[]
  /** Number of events that are not in the list. */
  readonly omitted: number
}

/** The response to the client. `events`: null, if it was no stream. */
export type KeptResponse = {
  readonly status: number
  readonly headers: KeptHeaders
  readonly events: KeptEvents | null
}

/** An attempt as it was recorded. */
export type RawAttempt = {
  /** Without its query, which may contain a key. */
  readonly url: string
  /** The credential that was used. It is never stored, and removed from both bodies. */
  readonly secret: string | null
  /** Headers that were sent, without those of the connection and of a signature, and headers that were received. */
  readonly sent: KeptHeaders
  readonly received: KeptHeaders
  readonly request: RawBody
  /** Null: no header block was received. */
  readonly status: number | null
  readonly answer: RawBody
  /** Whether the answer was received to its end. */
  readonly complete: boolean
}

/** A call as it was recorded. `received`: ms since 1970. */
export type RawCall = {
  readonly id: string
  readonly received: number
  readonly team: string
  /** ID of the client; '' without a key. */
  readonly key: string
  readonly path: string
  readonly headers: KeptHeaders
  readonly request: RawBody
  /** Null: no response was written. */
  readonly response: KeptResponse | null
  readonly attempts: readonly RawAttempt[]
}

/** Which requests have kept bodies: among some IDs, or the newest, or oldest, that were received in a range, in ms since 1970. */
export type MarkedQuery =
  | { readonly ids: readonly string[] }
  | { readonly from: number; readonly to: number; readonly limit: number; readonly isOldestFirst?: boolean }

/** `last`: when the last of them was received; null: there is none. */
export type KeptIds = { readonly ids: readonly string[]; readonly last: number | null }

/** A text in the bodies of requests of a range, of some teams or all. */
export type TextQuery = {
  readonly text: string
  readonly from: number
  readonly to: number
  readonly teams: readonly string[] | null
  /** IDs that are returned, about. */
  readonly limit: number
}

/** `until`: when the oldest was received that was searched, if there may be more; null: all were. `searched`: how many. */
export type FoundTexts = { readonly ids: readonly string[]; readonly until: number | null; readonly searched: number }

/** The bodies of a call as they are stored. */
export type StoredBodies = {
  readonly path: string
  readonly headers: KeptHeaders
  readonly request: StoredBody
  readonly response: KeptResponse | null
  readonly attempts: readonly StoredAttempt[]
}

export type StoredAttempt = {
  readonly url: string
  readonly sent: KeptHeaders
  readonly received: KeptHeaders
  readonly request: StoredBody
  readonly status: number | null
  readonly answer: StoredBody
  readonly complete: boolean
}

/** Which request is read. `team`: the team that it belongs to. */
export type BodiesQuery = { readonly id: string; readonly team: string }

export type BodiesLimits = { readonly keepDays: number; readonly maxMegabytes: number }
/** `redact`, `patterns`, `words`: what is removed before a body is stored. */
export type BodiesRules = BodiesLimits & {
  readonly redact: readonly FinderKind[]
  readonly patterns: readonly string[]
  readonly words: readonly string[]
}

export type BodiesThreadOptions = { readonly folder: string; readonly rules: BodiesRules }
