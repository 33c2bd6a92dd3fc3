/** Responses in memory, up to a size limit: the turns of WebSocket connections that are not stored durably. */
import type { MemoryStore, StoredResponse } from '../../core/stored-response.ts'

/** `limit`: characters of all responses. Above it the least recently used responses are evicted. */
export const memoryResponseStore = (limit: number): MemoryStore => {
  // The Map's order is the order of last use.
  const responses = new Map<string, StoredResponse>()
  /** The key of the response that contains an item, by the item's key. */
  const holders = new Map<string, string>()
  let size = 0
  const keyOf = (id: string, owner: string): string => `${owner} ${id}`
  const remove = (key: string): boolean => {
    const response = responses.get(key)
    if (!response) return false
    size -= sizeOf(response)
    for (const item of response.items) {
      const itemKey = keyOf(item, response.owner)
      if (holders.get(itemKey) === key) holders.delete(itemKey)
    }
    return responses.delete(key)
  }
  const get = (id: string, owner: string): StoredResponse | undefined => {
    const key = keyOf(id, owner)
    const response = responses.get(key)
    if (!response) return undefined
    responses.delete(key)
    responses.set(key, response)
    return response
  }
  return {
    get,
    findByItem: (item, owner) => responses.get(holders.get(keyOf(item, owner)) ?? ''),
    put(response) {
      const key = keyOf(response.id, response.owner)
      remove(key)
      responses.set(key, response)
      for (const item of response.items) holders.set(keyOf(item, response.owner), key)
      size += sizeOf(response)
      for (const oldest of responses.keys()) {
        if (size <= limit || oldest === key) break
        remove(oldest)
      }
    },
    delete: (id, owner) => remove(keyOf(id, owner)),
  }
}

const sizeOf = ({ input, response, events }: StoredResponse): number =>
  input.length + response.length + (events?.length ?? 0)
