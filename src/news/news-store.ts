/**
 * Messages between the gateways that share a store, in its order. They are kept for some minutes, so that a gateway whose
 * connection was lost reads what it has missed. Nothing that must not be lost is a message only.
 */

/** A message to all other gateways, or to one. */
export type OutgoingNews = {
  /** The name of the gateway; null: all others. */
  readonly to: string | null
  readonly body: string
  /** Whether the receivers read it at once; otherwise with their next look, a second later at most. */
  readonly isUrgent: boolean
}

/** A message of another gateway. `age`: ms since it was stored, by the clock of the store. */
export type News = { readonly from: string; readonly body: string; readonly age: number }

export type NewsStoreOptions = {
  /** The name of this gateway. */
  readonly node: string
  readonly onNews: (news: readonly News[]) => void
  /** Why the store cannot be used; null: it can. Called at each change. */
  readonly onState: (problem: string | null) => void
}

/** Methods reject while the store cannot be used. */
export type NewsStore = {
  /** Resolves when the messages are stored. Those of one call have one order for all. */
  send(messages: readonly OutgoingNews[]): Promise<void>
  /** Takes a role for `ms`, or keeps it. False: another gateway has it. */
  claim(role: string, ms: number): Promise<boolean>
  /** Gives a role back. */
  release(role: string): Promise<void>
  /** What a role has saved; null: nothing. */
  load(role: string): Promise<string | null>
  save(role: string, body: string): Promise<void>
  close(): Promise<void>
}

/**
 * ms. `look`: between two looks for messages. `keep`: for which messages are kept. `first`, `late`: whose messages are read at
 * the start, and after a lost connection.
 */
export const NEWS_TIMES = { look: 1_000, keep: 600_000, first: 60_000, late: 600_000 }
