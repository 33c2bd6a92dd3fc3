/** Reads the earlier turns of a stored conversation, and single items that a request references by id. */

import { bad, type Failure, good, type Outcome } from '../../core/failure.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import { isItemReference } from '../../core/item-reference.ts'
import { type JsonObject, text } from '../../core/json.ts'
import { sizeUpTo } from '../../core/large-write.ts'
import type { MemoryStore, ResponseStore, StoredResponse } from '../../core/stored-response.ts'
import type { Accounts } from '../accounts/accounts.ts'
import { type ItemReading, itemsIn, portableItem } from './conversation-items.ts'

/** Most turns of a conversation, and most characters of their stored JSON. Few providers accept as much. */
export const MAX_TURNS = 10_000
export const MAX_CHARACTERS = 32 * 1024 * 1024

/** Most items of a turn that a later request may reference, and most it may reference: each costs a store lookup. */
export const MAX_REFERENCED = 10_000

/** Where the responses of a conversation are stored. */
export type ResponseStores = {
  /** Outlives the process. Null: disabled by configuration. */
  readonly durable: ResponseStore | null
  /** The turns of one WebSocket connection that are not to be stored (`store: false`). */
  readonly connection?: MemoryStore
  /** Why a stored response may not be used now; null: it may. Absent: all may. */
  readonly refusalOf?: EndUserRefusal
}

type EndUserRefusal = (stored: Pick<StoredResponse, 'users'>) => Failure | null

/** Refuses what is stored for an end user that is blocked now, also where the request names none. */
export const storedRefusal =
  (
    { accounts }: { readonly accounts: Pick<Accounts, 'blockOf'> },
    { client }: Pick<IncomingRequest, 'client'>,
  ): EndUserRefusal =>
  ({ users = [] }) =>
    accounts.blockOf(client, users)

/** The turns of a conversation. */
export type ConversationHistory = {
  /** Oldest first. */
  readonly turns: readonly StoredResponse[]
  /** The id that the oldest turn continues, which is not stored here. Null: the conversation is complete. */
  readonly root: string | null
  /** Above a limit: only the latest turns were read. */
  readonly tooLong: boolean
}

/** A conversation without turns. */
export const NO_HISTORY: ConversationHistory = { turns: [], root: null, tooLong: false }

/** Reads the turn with this id, and as many of those before it as one read returns, newest first. */
export type FindTurns = (id: string) => Promise<Outcome<readonly StoredResponse[]>>

/** Reads the connection's store first, then the durable store. */
export const findTurnsIn =
  ({ durable, connection, refusalOf }: ResponseStores, owner: string): FindTurns =>
  async (id) => {
    const inMemory = connection?.get(id, owner)
    const found = inMemory || !durable ? good(inMemory ? [inMemory] : []) : await durable.turns(id, owner)
    const refused = found.ok && refusalOf ? found.value.map(refusalOf).find((failure) => failure !== null) : null
    return refused ? bad(refused) : found
  }

/** The turns of a conversation up to and including this one. */
export const readHistory = async (findTurns: FindTurns, id: string): Promise<Outcome<ConversationHistory>> => {
  const turns: StoredResponse[] = []
  let next: string | null = id
  let size = 0
  while (next !== null) {
    const found = await findTurns(next)
    if (!found.ok) return found
    if (found.value.length === 0) break
    for (const turn of found.value) {
      size += sizeOf(turn)
      if (size > MAX_CHARACTERS || turns.length === MAX_TURNS)
        return good({ turns: turns.reverse(), root: turn.id, tooLong: true })
      turns.push(turn)
      next = turn.previous
    }
  }
  return good({ turns: turns.reverse(), root: next, tooLong: false })
}

/** Characters of a turn's stored JSON. */
export const sizeOf = ({ input, response }: StoredResponse): number => input.length + response.length

/** An item that a request references, and the turn that contains it. */
export type ReferencedItem = { readonly item: JsonObject; readonly turn: StoredResponse }

/** The items that a request references by id, by that id. Unknown ids are left out. */
export const readReferences = async (
  { durable, connection, refusalOf }: ResponseStores,
  reading: ItemReading & { readonly owner: string },
  items: readonly JsonObject[],
): Promise<Outcome<ReadonlyMap<string, ReferencedItem>>> => {
  const { owner } = reading
  const referenced = new Map<string, ReferencedItem>()
  // A turn may have megabytes: it is parsed once, however many of its items are referenced.
  const known = new Map<string, ReferencedItem>()
  const ids = new Set(items.filter(isItemReference).map((reference) => text(reference.id) ?? ''))
  let size = 0
  for (const id of [...ids].slice(0, MAX_REFERENCED)) {
    if (!known.has(id) && size <= MAX_CHARACTERS) {
      const inMemory = connection?.findByItem(id, owner)
      const holding = inMemory || !durable ? good(inMemory) : await durable.findByItem(id, owner)
      if (!holding.ok) return holding
      const turn = holding.value
      const refused = (turn && refusalOf?.(turn)) ?? null
      if (refused) return bad(refused)
      if (turn) {
        size += sizeOf(turn)
        for (const item of await itemsIn(turn, reading))
          known.set(text(item.id) ?? '', { item: portableItem(item), turn })
      }
    }
    const found = known.get(id)
    if (found) referenced.set(id, found)
  }
  return good(referenced)
}

/** Characters of all referenced items, each counted as often as it occurs: a short request may name megabytes repeatedly. */
export const sizeOfReferenced = (
  items: readonly JsonObject[],
  references: ReadonlyMap<string, ReferencedItem>,
): number => {
  const sizes = new Map([...references].map(([id, { item }]) => [id, sizeUpTo(item, MAX_CHARACTERS)]))
  return items.reduce((sum, { id }) => sum + (sizes.get(text(id) ?? '') ?? 0), 0)
}
