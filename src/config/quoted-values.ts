/**
 * Values in quotation marks. Shells and `.env` files remove the marks; `docker run --env-file`, systemd units and Kubernetes
 * manifests pass them on (moby/moby#46773, joemccann/radon#184).
 */
import type { Providers } from '../core/provider.ts'
import { envPrefix } from '../records/entities/ids.ts'
import type { Env } from './env.ts'
import { launchRows, settingRows } from './rows.ts'
import { withoutQuotes } from './without-quotes.ts'

/** The environment of the process without quotation marks. */
export const unquoted = (env: Env): Env =>
  Object.fromEntries(
    Object.entries(env).map(([name, value]) => [name, value === undefined ? undefined : withoutQuotes(value)]),
  )

/** Warnings for variables whose value was in quotation marks. `text`: the configuration file. */
export const quoteWarnings = (env: Env, text: string, providers: Providers): readonly string[] =>
  Object.entries(env).flatMap(([name, value = '']) =>
    withoutQuotes(value) !== value && isRead(name, text, providers)
      ? [
          `${name}: the quotation marks around the value are not part of it, and were removed. Remove them where it is set.`,
        ]
      : [],
  )

/** Variables of any provider, of proxies, and those that the libraries of clouds read. */
const PROVIDER_VARIABLE = /_(?:API_KEY(?:_[0-9]+)?|BASE_URL|API_BASE|MODELS|STYLES|AGGREGATE)(?:_FILE)?$/
const OTHERS = /^(?:(?:https?|all|no)_proxy|(?:AWS|AZURE|GOOGLE|GCE|CLOUDSDK|IDENTITY)_[A-Z0-9_]+)$/i

/** Whether the gateway reads a variable. Warnings about those of other programs would be wrong. */
const isRead = (name: string, text: string, providers: Providers): boolean =>
  OTHERS.test(name) ||
  PROVIDER_VARIABLE.test(name) ||
  text.includes(`\${${name}`) ||
  [...settingRows, ...launchRows].some(({ env }) => name === env || name === `${env}_FILE`) ||
  [...providers.values()].some(({ name: own, aliases = [], variables = {}, variableAliases = {} }) =>
    Object.keys(variables).some(
      (suffix) =>
        [own, ...aliases].some((one) => name === `${envPrefix(one)}_${suffix}`) ||
        variableAliases[suffix]?.includes(name),
    ),
  )
