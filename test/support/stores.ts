/** A store of responses in memory, for tests that need no disk. */
import { type Failure, good } from '../../src/core/failure.ts'
import type { MemoryStore, ResponseStore, StoredResponse } from '../../src/core/stored.ts'
import { memoryStore } from '../../src/gateway/shelf.ts'

export type TestStore = ResponseStore & {
  /** What is stored, at once. */
  readonly memory: MemoryStore
  /** Every write fails so, while it is set. */
  failure: Failure | null
  /** Writes wait for this. */
  gate: Promise<void> | null
}

/** `most`: characters. */
export const testStore = (most = 1_000_000): TestStore => {
  const memory = memoryStore(most)
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
    holding: async (item, owner) => good(memory.holding(item, owner)),
    turns: async (id, owner) => {
      const found = memory.get(id, owner)
      return good(found ? [found] : [])
    },
    delete: async (id, owner) => good(memory.delete(id, owner)),
  }
}
