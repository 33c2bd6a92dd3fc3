/** The admin API: loaded at the first request to it. */

import { teamNamed } from '../../policy/accounts/directory.ts'
import type { AdminToken } from '../../records/store/record-operations.ts'
import type { AdminApi } from '../admin-request.ts'
import { isSignInPath } from '../sign-in-paths.ts'
import { AdminTokens } from './admin-tokens.ts'
import { Authentication } from './authentication.ts'
import { BreakGlass } from './break-glass.ts'
import { dashboardClient } from './dashboard-client.ts'
import type { AdminDeps } from './deps.ts'
import { adminApi } from './dispatcher.ts'
import { Replays } from './replay.ts'
import { Sessions } from './sessions.ts'
import { SignIn, type SignInOptions } from './sign-in/sign-in.ts'
import { TABLE } from './table.ts'

/** What the serving process gives to the admin API. */
export type AdminOptions = Omit<AdminDeps, 'authentication' | 'replays' | 'dashboard' | 'signIn'> & {
  /** The tokens of `control.db` at present. */
  readonly tokens: () => readonly AdminToken[]
  /** Problems of sign-ins, for the log. */
  readonly onSignInProblem: SignInOptions['report']
}

/** Creates the admin API. */
export const openAdminApi = ({ tokens, onSignInProblem, ...deps }: AdminOptions): AdminApi => {
  const { control, gateway, handlers, configuration } = deps
  const now = () => gateway.world.date()
  const pepper = () => gateway.config().settings.auth.pepper
  const sso = () => configuration.running().sso
  const sessions = new Sessions({
    run: control.run,
    isStored: control.isStored,
    rules: () => sso()?.session ?? null,
    now,
  })
  const signIn = new SignIn({
    settings: sso,
    claude: () => configuration.running().claude,
    sessions,
    run: control.run,
    teamOf: (name) => teamNamed(control.directory(), name)?.id,
    dial: gateway.world.dial,
    now,
    report: onSignInProblem,
  })
  const breakGlass = new BreakGlass(control.run, gateway)
  const authentication = new Authentication({
    now,
    production: deps.process.production,
    tokens: new AdminTokens({ tokens, pepper, now }),
    sessions,
    signIn: {
      isOn: () => sso() !== null,
      actorOf: (person) => signIn.actorOf(person),
      personOf: (token) => signIn.personOf(token),
      check: (digest, person, login) => signIn.check(digest, person, login),
      onBreakGlass: (request) => breakGlass.used(request),
    },
    lookUp: control.lookUp,
  })
  const dashboard = (source: string) => dashboardClient(control.directory(), source, now())
  const replays = new Replays(
    handlers,
    () => dashboard('replay'),
    (error, id) => gateway.emit({ event: 'error', error, id }),
  )
  const api = adminApi(TABLE, { ...deps, authentication, replays, dashboard, signIn })
  return {
    serve(request, reply) {
      const settings = sso()
      return settings && isSignInPath(request.path) ? signIn.serve(settings, request, reply) : api.serve(request, reply)
    },
  }
}
