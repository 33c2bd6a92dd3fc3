/**
 * Answers of the responses style that can be asked for again and continued (`previous_response_id`). They are kept here,
 * whoever gave them, so that the next turn may be answered by anybody.
 */
import type { Failure } from './failure.ts'

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

/** Synchronous: what a client has been told to be complete is written before it is told. */
export type ResponseStore = {
  /** Adds, or replaces what the same owner has under this id; what it continues is kept as long again. A failure: it is not kept. */
  readonly put: (response: StoredResponse) => Failure | null
  readonly get: (id: string, owner: string) => StoredResponse | undefined
  /** The answer in whose turn the item of this id was asked or answered. */
  readonly holding: (item: string, owner: string) => StoredResponse | undefined
  /** Whether there was one. */
  readonly delete: (id: string, owner: string) => boolean
}
