/** Messages between the store's client (`client.ts`) and its thread (`thread.ts`). */
import type { StoredResponse } from '../../core/stored-response.ts'
import type { Limits } from './database.ts'

/** The thread answers each operation once, with its number. */
export type Operation = { readonly number: number } & (StoreWrite | StoreRead)

export type StoreWrite =
  | { readonly do: 'put'; readonly response: StoredResponse }
  | { readonly do: 'delete'; readonly id: string; readonly owner: string }
  /** Checks whether writing works. */
  | { readonly do: 'probe' }

export type StoreRead =
  | { readonly do: 'get' | 'turns'; readonly id: string; readonly owner: string }
  | { readonly do: 'holding'; readonly item: string; readonly owner: string }

export type ToThread =
  | Operation
  /** Removes a write from the queue unless it has been committed; either way it is answered. */
  | { readonly do: 'cancel'; readonly number: number }
  | { readonly do: 'limits'; readonly limits: Limits }
  /** Commits queued writes, closes the database and ends the thread. */
  | { readonly do: 'close' }

/** `problem`: why the operation failed, without a path. */
export type StoreAnswer = { readonly number: number } & ({ readonly value: unknown } | { readonly problem: string })

export type FromThread = {
  readonly answers: readonly StoreAnswer[]
  /** Why the next write has to wait, if it does. */
  readonly waiting?: string
  /** The files were deleted or moved, and new ones have been created. */
  readonly recreated?: true
}

/** `worker`: the process, as `PID.START@HOST`. */
export type ThreadOptions = { readonly folder: string; readonly worker: string; readonly limits: Limits }
