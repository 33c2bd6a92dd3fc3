/** The effective configuration with the origin of each value, for the command line and the admin API. Secrets are masked. */

import type { DeclaredFacts } from '../core/data-policy.ts'
import { environmentOf, type Loaded } from './configure.ts'
import { settingAt } from './definition.ts'
import { parseDotenv } from './dotenv.ts'
import type { Env } from './env.ts'
import { variable } from './environment.ts'
import type { ConfigTexts } from './load.ts'
import { settingRows } from './rows.ts'

/** `origin`: `env`, `.env`, `default`, or a place in the file such as `headgate.yaml:12`. */
type ShownValue = { readonly origin: string }

export type EffectiveConfig = {
  /** `value`: null if it is not set; a secret is `set`, secrets are counted. */
  readonly settings: readonly (ShownValue & { readonly name: string; readonly value: unknown })[]
  /** `keys`: IDs. `base_url` is without credentials and query, which may contain keys. */
  readonly providers: readonly (ShownValue & {
    readonly id: string
    readonly kind: string
    readonly base_url: string
    readonly keys: readonly string[]
    readonly models: readonly string[]
    /** Null: none are declared. */
    readonly facts: DeclaredFacts | null
  })[]
  readonly routes: readonly (ShownValue & { readonly name: string })[]
  /** Teams, keys, budgets and prices of the file. */
  readonly accounts: readonly (ShownValue & { readonly kind: string; readonly id: string; readonly name: string })[]
}

/** `env`: of the process, without `.env`. `texts`: what the configuration was loaded from. */
export const effectiveConfig = (
  { config }: Pick<Extract<Loaded, { readonly ok: true }>, 'config'>,
  { dotenv, file }: ConfigTexts,
  env: Env,
): EffectiveConfig => {
  const own = environmentOf(env, undefined)
  const inDotenv = dotenv === undefined ? {} : parseDotenv(dotenv)
  const tree = file?.reader.readTree(file.text, file.name, { env: environmentOf(env, dotenv) })
  const inFile = (path: readonly PropertyKey[]): string | undefined => {
    if (!tree?.ok || settingAt(tree.value, path.map(String)) == null) return undefined
    return tree.placeOf(path).name.replace(/:\d+$/, '')
  }
  const isSet = (from: Env, name: string) =>
    variable(from, name) !== undefined || variable(from, `${name}_FILE`) !== undefined
  const originOf = (path: readonly string[], name: string): string => {
    if (isSet(own, name)) return 'env'
    if (env[name] === undefined && isSet(inDotenv, name)) return '.env'
    return inFile(path) ?? 'default'
  }
  const { accounts } = config
  const record = (kind: string, id: string, name: string) => ({
    kind,
    id,
    name,
    origin: accounts.places[id] ?? 'default',
  })
  return {
    settings: settingRows.map(({ name, path, env: variableName, secret }) => ({
      name,
      value: shownValue(settingAt(config.settings, path), secret),
      origin: originOf(path, variableName),
    })),
    providers: config.instances.map(({ id, provider, baseUrl, keys, models, facts }) => ({
      id,
      kind: provider.name,
      base_url: shownUrl(baseUrl),
      keys: keys.filter(({ secret }) => secret !== null).map((key) => key.id),
      models,
      facts: facts ?? null,
      origin: inFile(['providers', id]) ?? (provider.builtin ? 'default' : 'env'),
    })),
    routes: [...config.routes.values()].map((route) => ({
      ...route,
      origin: inFile(['routes', route.name]) ?? 'default',
    })),
    accounts: [
      ...accounts.teams.map(({ id, name }) => record('team', id, name)),
      ...accounts.keys.map(({ id, name }) => record('key', id, name)),
      ...accounts.budgets.map(({ id, name }) => record('budget', id, name)),
      ...accounts.prices.map(({ id, provider, model }) => record('price', id, `${provider}/${model}`)),
    ],
  }
}

const shownValue = (value: unknown, secret: boolean): unknown => {
  if (value === undefined) return null
  if (!secret) return value
  return Array.isArray(value) ? `${value.length} ${value.length === 1 ? 'value' : 'values'}` : 'set'
}

const shownUrl = (address: string): string => {
  if (!URL.canParse(address)) return address
  const url = new URL(address)
  return `${url.protocol}//${url.host}${url.pathname === '/' ? '' : url.pathname}`
}
