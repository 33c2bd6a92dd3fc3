/** The routes that a team has made for its own requests, beside those of the configuration. */
import type { Client, Directory, Team } from '../../core/accounts.ts'
import type { Config } from '../../core/config.ts'
import type { FieldError } from '../../core/failure.ts'
import { memoizeBy } from '../../core/memoize-by.ts'
import { nearest } from '../../core/nearest.ts'
import type { Route, TeamRoute } from '../../core/route.ts'
import { allowsTarget, keyAccessRules } from '../accounts/key-access.ts'
import {
  defaultModel,
  instancesNamed,
  isOthers,
  type ModelSources,
  mayNameRoute,
  routeNamed,
  usableInstances,
} from './models.ts'

export type TeamRoutes = Directory['routes']

/** Absent: there are none. */
export type TeamRouteSource = { readonly teamRoutes?: () => TeamRoutes }

/** The configuration for the requests of a client. */
export const configFor = ({ teamRoutes }: TeamRouteSource, config: Config, { team }: Pick<Client, 'team'>): Config =>
  teamRoutes ? teamConfig(config, teamRoutes(), team.id) : config

/**
 * The configuration as requests of a team see it: with its routes. A name of the configuration stays what it is. The same object for
 * the same configuration and routes, because plans are cached by it.
 */
export const teamConfig = (config: Config, routes: TeamRoutes, team: string): Config => {
  const own = routes.size === 0 || config.team !== undefined ? undefined : byTeam(routes).get(team)
  if (!own) return config
  const made = configs.get(config) ?? new WeakMap<Own, Config>()
  const known = made.get(own)
  if (known) return known
  const joined = withRoutes(config, team, own)
  configs.set(config, made.set(own, joined))
  return joined
}

type Own = readonly TeamRoute[]
const configs = new WeakMap<Config, WeakMap<Own, Config>>()

const withRoutes = (config: Config, team: string, own: Own): Config => {
  const free = own.filter(({ name }) => !routeNamed(config, name))
  return { ...config, team, routes: new Map([...config.routes, ...free.map((route) => [route.name, route] as const)]) }
}

/** The routes of each team that has some. */
export const byTeam = memoizeBy(
  (routes: TeamRoutes): ReadonlyMap<string, Own> => Map.groupBy(routes.values(), ({ team }) => team),
)

/** Those whose name the configuration has too, so that they do not apply. */
export const shadowedRoutes = (config: Pick<Config, 'routes'>, routes: TeamRoutes): Own =>
  [...routes.values()].filter(({ name }) => routeNamed(config, name) !== undefined)

/** Why a team may not have a route, by the member of its body: its name, or a target that leads nowhere or beyond its access. */
export const routeProblems = (
  sources: ModelSources,
  { name: team, access }: Pick<Team, 'name' | 'access'>,
  route: Pick<Route, 'name' | 'targets' | 'fallback'>,
): readonly FieldError[] => {
  const rules = keyAccessRules([access])
  const instances = usableInstances(sources.config)
  const problems = (section: 'targets' | 'fallback') =>
    route[section].flatMap(({ provider, model }, at): readonly FieldError[] => {
      const path = `spec.${section}[${at}]`
      const found = instancesNamed(instances, provider)
      if (found.length === 0) {
        const names = instances.map(({ id }) => id)
        const [near] = nearest(provider, names)
        const hint = near === undefined ? `Configured are ${names.join(', ')}.` : `Did you mean "${near}"?`
        return [{ path, message: `No provider "${provider}" is configured. ${hint}` }]
      }
      const may = found.some((instance) => {
        const target = { provider: instance.id, model: model ?? defaultModel(sources, instance) ?? '' }
        const isOther = isOthers(sources.config, instance.id, target.model)
        return allowsTarget(rules, { ...target, requested: null, isOthers: isOther })
      })
      const named = model === undefined ? provider : `${provider}/${model}`
      return may ? [] : [{ path, message: `The team "${team}" may not use ${named}: its access does not allow it.` }]
    })
  const mayName = mayNameRoute(rules, { name: route.name, team })
  const reason = rules.routesOnly
    ? 'its access lists routes and no models, so it uses those of headgate.yaml only'
    : 'its access lists other routes'
  return [
    ...(mayName ? [] : [{ path: 'name', message: `The team "${team}" may not have a route of this name: ${reason}.` }]),
    ...problems('targets'),
    ...problems('fallback'),
  ]
}
