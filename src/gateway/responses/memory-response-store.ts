/** Responses in memory, up to a size limit: the turns of WebSocket connections that are not stored. */
import type { MemoryStore, StoredResponse } from '../../core/stored-response.ts'

/** `most`: characters it may hold in all; the longest untouched make room. */
export const memoryResponseStore = (most: number): MemoryStore => {
  const kept = new Map<string, StoredResponse>()
  /** By an item, the answer in whose turn it is. */
  const holders = new Map<string, string>()
  let size = 0
  const name = (id: string, owner: string): string => `${owner} ${id}`
  const remove = (key: string): boolean => {
    const found = kept.get(key)
    if (!found) return false
    size -= sizeOf(found)
    for (const item of found.items) {
      const named = name(item, found.owner)
      if (holders.get(named) === key) holders.delete(named)
    }
    return kept.delete(key)
  }
  const get = (id: string, owner: string): StoredResponse | undefined => {
    const key = name(id, owner)
    const found = kept.get(key)
    if (!found) return undefined
    // The Map's order is the order of last use.
    kept.delete(key)
    kept.set(key, found)
    return found
  }
  return {
    get,
    holding: (item, owner) => kept.get(holders.get(name(item, owner)) ?? ''),
    put(response) {
      const key = name(response.id, response.owner)
      remove(key)
      kept.set(key, response)
      for (const item of response.items) holders.set(name(item, response.owner), key)
      size += sizeOf(response)
      for (const oldest of kept.keys()) {
        if (size <= most || oldest === key) break
        remove(oldest)
      }
    },
    delete: (id, owner) => remove(name(id, owner)),
  }
}

const sizeOf = ({ input, response, events }: StoredResponse): number =>
  input.length + response.length + (events?.length ?? 0)
