/**
 * Answers of the responses style that can be asked for again and continued (`previous_response_id`). They are kept here,
 * whoever gave them, so that the next turn may be answered by anybody.
 */
import type { Failure, Outcome } from './failure.ts'

export type StoredResponse = {
  readonly id: string
  /** Who asked: a digest of the client's key; empty where none is needed. Nobody else is shown it. */
  readonly owner: string
  /** The answer it continued. */
  readonly previous: string | null
  readonly status: ResponseStatus
  /** s since 1970. */
  readonly created: number
  /** JSON: the list of this turn's input items, each with an id. */
  readonly input: string
  /** JSON: the response object, as the client was given it. */
  readonly response: string
  /** The events of a background stream, the JSON of one a line. */
  readonly events: string | null
  /** Ids of the items asked and answered: a later question may name one instead of repeating it (`item_reference`). */
  readonly items: readonly string[]
  readonly maker: Maker | null
}

export type ResponseStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled'

/** Who answered, where whoever did keeps the answer too, under an id of its own: there the next turn can begin where this one ended. */
export type Maker = { readonly instance: string; readonly key: string; readonly model: string; readonly id: string }

/**
 * The durable store of responses. Every operation is asynchronous and limited in time, so that no disk delays a request;
 * it resolves with a failure (`storage`, 503) and never rejects.
 */
export type ResponseStore = {
  /** Starts what the store needs, in the background, because a `put` will follow. */
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
