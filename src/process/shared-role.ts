/** A role that one of several gateways has at a time, with the text that is saved with it. */
import type { RoleCall } from '../core/fleet.ts'
import type { AlertStorage } from '../observe/alerts/alert-storage.ts'
import { fleetOf } from './fleet/fleet-place.ts'
import type { Runtime } from './runtime.ts'

/** Null: this gateway shares no store. */
export const sharedRole = (runtime: Pick<Runtime, 'worker' | 'current'>, role: string): AlertStorage | null => {
  const roles = runtime.worker ?? runtime.current.fleet
  if (!roles || !fleetOf(runtime)) return null
  const run = (call: RoleCall) => roles.runRole(role, call)
  return {
    isShared: true,
    claim: async () => (await run({ do: 'claim' })) === true,
    release: async () => void (await run({ do: 'release' })),
    async load() {
      const found = await run({ do: 'load' })
      return typeof found === 'string' ? found : null
    },
    save: async (body) => void (await run({ do: 'save', body })),
  }
}
