/** Objects that clients have made at providers by passed calls: files, batches. Their IDs belong to the account of the gateway. */
import type { Failure, Outcome } from './failure.ts'

/** Who has made an object. `key`: the ID of the client; empty: none. */
export type PassOwner = { readonly team: string; readonly key: string }

export type PassObjects = {
  /** Stores objects as made by an owner. The first owner of an ID stays. */
  keep(instance: string, ids: readonly string[], owner: PassOwner): Promise<Failure | null>
  /** The owners of those of these objects that are known. */
  owners(instance: string, ids: readonly string[]): Promise<Outcome<ReadonlyMap<string, PassOwner>>>
  close(): Promise<void>
}
