/** The admin API: loaded at the first request to it. */

import type { AdminToken } from '../../records/store/record-operations.ts'
import type { AdminApi } from '../admin-request.ts'
import { AdminTokens } from './admin-tokens.ts'
import { Authentication } from './authentication.ts'
import { dashboardClient } from './dashboard-client.ts'
import type { AdminDeps } from './deps.ts'
import { adminApi } from './dispatcher.ts'
import { Replays } from './replay.ts'
import { TABLE } from './table.ts'

/** What the serving process gives to the admin API. */
export type AdminOptions = Omit<AdminDeps, 'authentication' | 'replays' | 'dashboard'> & {
  /** The tokens of `control.db` at present. */
  readonly tokens: () => readonly AdminToken[]
}

/** Creates the admin API. */
export const openAdminApi = ({ tokens, ...deps }: AdminOptions): AdminApi => {
  const now = () => deps.gateway.world.date()
  const pepper = () => deps.gateway.config().settings.auth.pepper
  const known = new AdminTokens({ tokens, pepper, now })
  const authentication = new Authentication({
    now,
    production: deps.process.production,
    tokens: known,
    run: deps.control.run,
    isStored: deps.control.isStored,
    lookUp: deps.control.lookUp,
  })
  const { control, gateway, handlers } = deps
  const dashboard = (source: string) => dashboardClient(control.directory(), source, now())
  const replays = new Replays(
    handlers,
    () => dashboard('replay'),
    (error, id) => gateway.emit({ event: 'error', error, id }),
  )
  return adminApi(TABLE, { ...deps, authentication, replays, dashboard })
}
