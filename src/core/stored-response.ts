/**
 * Stored responses, which clients can retrieve and continue (`previous_response_id`). The gateway stores them itself, so
 * that any provider can serve the next turn.
 */
import type { Failure, Outcome } from './failure.ts'

export type StoredResponse = {
  readonly id: string
  /** Digest of the client's key; empty if none is required. Other clients cannot read the response. */
  readonly owner: string
  /** ID of the response it continues. */
  readonly previous: string | null
  readonly status: ResponseStatus
  /** Seconds since 1970. */
  readonly created: number
  /** JSON: the list of this turn's input items, each with an id. */
  readonly input: string
  /** JSON: the response object as sent to the client. */
  readonly response: string
  /** Events of a background stream, one JSON object per line. */
  readonly events: string | null
  /** IDs of input and output items, which later requests may reference (`item_reference`). */
  readonly items: readonly string[]
  readonly maker: Maker | null
  /** The names that its request gave the end user. Absent: none. */
  readonly users?: readonly string[] | undefined
}

export type ResponseStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled'

/**
 * The provider that answered; no other one can read its encrypted reasoning. `id`: its own ID of the response, if it stores
 * that too, so that the next turn can continue there.
 */
export type Maker = {
  readonly instance: string
  readonly key: string
  readonly model: string
  readonly id: string | null
}

/**
 * The durable store of responses. Every operation is asynchronous and limited in time, so that no disk delays a request;
 * it resolves with a failure (`storage`, 503) and never rejects.
 */
export type ResponseStore = {
  /** Starts the store in the background, because a `put` will follow. */
  readonly prepare: () => void
  /**
   * Adds the response, or replaces the owner's response with this id; extends the retention of the turns before it. Null:
   * it is durable across a crash of the process. A failure: it is not stored, and an earlier record of this id remains.
   */
  readonly put: (response: StoredResponse) => Promise<Failure | null>
  readonly get: (id: string, owner: string) => Promise<Outcome<StoredResponse | undefined>>
  /** The response whose input or output contains the item with this id. */
  readonly findByItem: (item: string, owner: string) => Promise<Outcome<StoredResponse | undefined>>
  /** The response and the turns before it, newest first, as many as one read returns; empty: unknown id. */
  readonly turns: (id: string, owner: string) => Promise<Outcome<readonly StoredResponse[]>>
  /** True: it was stored. */
  readonly delete: (id: string, owner: string) => Promise<Outcome<boolean>>
}

/** Responses in memory, for as long as a connection is open. */
export type MemoryStore = {
  readonly put: (response: StoredResponse) => void
  readonly get: (id: string, owner: string) => StoredResponse | undefined
  readonly findByItem: (item: string, owner: string) => StoredResponse | undefined
  /** True: it was stored. */
  readonly delete: (id: string, owner: string) => boolean
}
