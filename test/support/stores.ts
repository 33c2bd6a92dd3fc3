/** An in-memory response store, for tests that need no disk. */
import { type Failure, good } from '../../src/core/failure.ts'
import type { MemoryStore, ResponseStore, StoredResponse } from '../../src/core/stored-response.ts'
import { memoryResponseStore } from '../../src/gateway/responses/memory-response-store.ts'

export type TestStore = ResponseStore & {
  /** Direct access to the stored data. */
  readonly memory: MemoryStore
  /** While set, every write fails with it. */
  failure: Failure | null
  /** While set, writes wait for it. */
  gate: Promise<void> | null
}

/** `most`: limit in characters. */
export const testStore = (most = 1_000_000): TestStore => {
  const memory = memoryResponseStore(most)
  return {
    memory,
    failure: null,
    gate: null,
    prepare: () => {},
    async put(response: StoredResponse) {
      if (this.gate) await this.gate
      if (this.failure) return this.failure
      memory.put(response)
      return null
    },
    get: async (id, owner) => good(memory.get(id, owner)),
    findByItem: async (item, owner) => good(memory.findByItem(item, owner)),
    turns: async (id, owner) => {
      const found = memory.get(id, owner)
      return good(found ? [found] : [])
    },
    delete: async (id, owner) => good(memory.delete(id, owner)),
    ask: async () => good(false),
    events: async () => good({ isRunning: false, lines: [] }),
    addEvents: async () => null,
  }
}
