/** Queries, options and events of the store's thread (`store-thread.ts`). Plain data. */
import type { Limits } from './database.ts'

export type ResponseQuery = { readonly id: string; readonly owner: string }

/** The response that has an output item. */
export type HoldingQuery = { readonly item: string; readonly owner: string }

/** `worker`: the process, as `PID.START@HOST`. */
export type StoreThreadOptions = { readonly folder: string; readonly worker: string; readonly limits: Limits }

export type StoreEvents = {
  /** Why the next write has to wait; null: it need not. */
  readonly waiting: string | null
  /** The files were deleted or moved, and new ones have been created. */
  readonly recreated: null
}
