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
  /**
   * A response in the background. Its later states are stored only while this process runs it: not after it was deleted, or
   * after others have ended it.
   */
  readonly isRun?: true
  /** JSON: what another process needs to run it again if this one ends. Absent: it must not run twice. */
  readonly again?: string | undefined
}

/** A response in the background whose process has ended: this process runs it again from now on. */
export type LostRun = { readonly stored: StoredResponse; readonly again: string }

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
  /** Whether other processes run again what this one leaves behind (`StoredResponse.again`). */
  readonly handsOver?: boolean
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
  /** True: it was stored. Its process stops it. */
  readonly delete: (id: string, owner: string) => Promise<Outcome<boolean>>
  /** Asks the process that runs the response, which may be another one. False: no process runs it. */
  readonly ask: (id: string, owner: string, asked: RunRequest) => Promise<Outcome<boolean>>
  /** The events of a response in progress from this index on, as far as its process has stored them. */
  readonly events: (id: string, owner: string, from: number) => Promise<Outcome<RunEvents>>
  /** Stores events of a response that this process runs, from this index on. One JSON object a line. */
  readonly addEvents: (id: string, owner: string, from: number, lines: string) => Promise<Failure | null>
}

/** `stop`: cancel it. `follow`: store its events as they come. */
export type RunRequest = 'stop' | 'follow'

/** `isRunning`: a process runs it. `lines`: JSON events. */
export type RunEvents = { readonly isRunning: boolean; readonly lines: readonly string[] }

/** What other processes ask of the responses that this one runs, a second after it at most. */
export type RunNews = {
  /** They are to be stopped, or belong to this process no longer. */
  readonly stop: readonly ResponseName[]
  /** Their events are to be stored. */
  readonly follow: readonly ResponseName[]
}

export type ResponseName = { readonly id: string; readonly owner: string }

/** Responses in memory, for as long as a connection is open. */
export type MemoryStore = {
  readonly put: (response: StoredResponse) => void
  readonly get: (id: string, owner: string) => StoredResponse | undefined
  readonly findByItem: (item: string, owner: string) => StoredResponse | undefined
  /** True: it was stored. */
  readonly delete: (id: string, owner: string) => boolean
}
