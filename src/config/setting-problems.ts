/** Checks of settings that a schema cannot express. */

import type { Settings } from '../core/settings.ts'
import { UNIX_PEER } from '../policy/accounts/client-address.ts'
import { parseIpRange } from '../policy/accounts/ip-range.ts'
import { isTimezone } from '../policy/accounts/period.ts'
import { allowedBy, settingAt } from './definition.ts'
import type { Env } from './env.ts'
import { variable } from './environment.ts'
import { type Problem, quote } from './problem.ts'
import { settingRows } from './rows.ts'

/** Whether a text, or an entry of a list, is allowed. By setting. */
const CHECKS: { readonly [name: string]: (text: string) => boolean } = {
  'usage.timezone': isTimezone,
  trustedProxies: (range) => range === UNIX_PEER || parseIpRange(range) !== undefined,
}

/** `locate`: the location of a setting, or of an entry of its list, and its name unless the location is its variable. */
export const settingProblems = (
  settings: Readonly<Record<string, unknown>>,
  locate: (path: readonly string[], entry?: number) => Pick<Problem, 'where' | 'what'>,
): readonly Problem[] =>
  settingRows.flatMap(({ path, name, schema }) => {
    const isAllowed = CHECKS[name]
    const value = settingAt(settings, path)
    if (!isAllowed || value === undefined) return []
    const wrong = (text: unknown): text is string => typeof text === 'string' && !isAllowed(text)
    if (wrong(value)) return [{ ...locate(path), found: quote(value), allowed: allowedBy(schema) }]
    if (!Array.isArray(value)) return []
    return value.flatMap((entry: unknown, index) =>
      wrong(entry) ? [{ ...locate(path, index), found: quote(entry), allowed: allowedBy(schema.items ?? schema) }] : [],
    )
  })

const NO_LEDGER =
  'otel.endpoint is set, but usage.ledger (USAGE_LEDGER) is false: nothing is exported, because spans are made of its records'

/** What of telemetry is set and has no effect. Nothing if no telemetry is exported: other programs of the machine may use the same variables. */
export const otelWarnings = ({ otel, usage }: Pick<Settings, 'otel' | 'usage'>, env: Env): readonly string[] => {
  if (otel.disabled || (otel.endpoint ?? otel.traces.endpoint ?? otel.metrics.endpoint) === undefined) return []
  const known = new Set(settingRows.map((row) => row.env))
  const unused = Object.keys(env).filter((name) => name.startsWith('OTEL_') && !known.has(name))
  return [
    ...(usage.ledger ? [] : [NO_LEDGER]),
    ...unused.filter((name) => variable(env, name) !== undefined).map((name) => `${name} is set, but is not used`),
  ]
}
