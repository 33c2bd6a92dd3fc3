/** Batches that clients have made at providers by passed calls. Each is booked once, to the client that has made it. */
import type { Client } from './accounts.ts'
import type { Failure, Outcome } from './failure.ts'
import type { JsonObject } from './json.ts'
import type { PassOwner } from './pass-objects.ts'
import type { Instance } from './provider.ts'

export type PassBatch = PassOwner & {
  readonly instance: string
  readonly id: string
  /** Its path at the provider, as of the call that reads it. */
  readonly path: string
  /** The ID under which the ledger has its cost. */
  readonly request: string
  /** ms since 1970. */
  readonly made: number
}

/** `isAgain`: it was claimed before, by a process that may have booked it before it ended. */
export type ClaimedBatch = PassBatch & { readonly isAgain: boolean }

export type PassBatches = {
  /** Stores a batch that is to be booked. The first one with an ID stays. */
  add(batch: PassBatch): Promise<Failure | null>
  /** Claims a batch to book it, for a while. Null: it is not known, booked, or claimed by another process. */
  claim(instance: string, id: string): Promise<Outcome<ClaimedBatch | null>>
  /** It is booked: no process claims it again. */
  booked(instance: string, id: string): Promise<Failure | null>
  /** What it costs cannot be read at the moment. */
  postpone(instance: string, id: string): Promise<Failure | null>
  /** Some of those that were not read for a while. No other process receives them at the same time. */
  due(): Promise<Outcome<readonly PassBatch[]>>
}

/** A passed call. `path`: at the provider; `request`: its ID in the ledger. */
export type BatchCall = {
  readonly instance: Instance
  readonly method: string
  readonly path: string
  readonly client: Pick<Client, 'id' | 'team'>
  readonly request: string
}

/** What books batches. */
export type BatchWatch = {
  /** Stores batches that an answer has made, and books those that have ended. Resolves with why one cannot be stored, or null. */
  observe(call: BatchCall, answer: JsonObject): Promise<Failure | null>
  /** A batch that is deleted is booked first. */
  settleDeleted(call: BatchCall): Promise<void>
}
