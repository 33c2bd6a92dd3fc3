/** The shadows of routes, loaded once a route has one. */
import { teamNamed } from '../policy/accounts/directory.ts'
import { SHADOW_TEAM } from '../policy/routing/shadow.ts'
import type { Runtime } from './runtime.ts'

export const startShadows = async ({ current, gateway, keys }: Runtime): Promise<void> => {
  if (current.shadows || !current.config.routes.values().some(({ shadow }) => shadow)) return
  const { Shadows } = await import('../gateway/shadow/shadows.ts')
  current.shadows ??= new Shadows({
    gateway: () => gateway,
    team: () => teamNamed(keys.directory(), SHADOW_TEAM),
  })
}
