/** Checks of settings that a schema cannot express. */

import { parseIpRange } from '../policy/accounts/ip-range.ts'
import { isTimezone } from '../policy/accounts/period.ts'
import { allowedBy, settingAt } from './definition.ts'
import { type Problem, quote } from './problem.ts'
import { settingRows } from './rows.ts'

/** Whether a text, or an entry of a list, is allowed. By setting. */
const CHECKS: { readonly [name: string]: (text: string) => boolean } = {
  'usage.timezone': isTimezone,
  trustedProxies: (range) => parseIpRange(range) !== undefined,
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
