/** Checks the text of a configuration file against the environment of this process, without applying it. */

import { type CheckedParts, NAME } from '../../config/checking/check-task.ts'
import { pathIn } from '../../config/checking/check-text.ts'
import { ConfigChecks } from '../../config/checking/config-checks.ts'
import { configure, type Loaded } from '../../config/configure.ts'
import { describeChange } from '../../config/describe.ts'
import { fileReader } from '../../config/file-reader.ts'
import { type ConfigSources, withClaims } from '../../config/load.ts'
import type { Problem } from '../../config/problem.ts'
import { readPlaces } from '../../config/tree.ts'
import type { Config } from '../../core/config.ts'
import { good, type Outcome } from '../../core/failure.ts'
import type { Configuration } from './deps.ts'

type ConfigCheck = {
  readonly ok: boolean
  readonly problems: readonly Problem[]
  readonly warnings: readonly string[]
  /** Paths. */
  readonly changes: readonly string[]
  /** Null: it has problems, or is too large to be made here. */
  readonly config: Config | null
}

/** The checks of this process. */
const checks = new ConfigChecks()

const TOO_LARGE = 'The file has more than 2000 values: its routes are not compared with those that run.'
const NOT_COMPARED = 'The file on disk has problems, and this one has more than 2000 values: they are not compared.'

/** The text is parsed in a thread; this process only makes small configurations that have no problem. */
export const checkConfig = async (
  text: string,
  { sources, running, reloads }: Configuration,
): Promise<Outcome<ConfigCheck>> => {
  const { env, folder, stored } = sources
  const task = { text, env: { ...env }, folder, stored: stored?.(running().settings) ?? null }
  const parsed = await checks.check(task)
  if (!parsed.ok) return parsed
  const { value } = parsed
  if (!value.ok) return good({ ...value, changes: [], config: null })
  const made = value.parts && madeOf(text, value.parts, sources)
  const checked = made && (await withClaims(made, sources))
  if (checked?.ok === false)
    return good({ ok: false, problems: checked.problems, warnings: checked.warnings, changes: [], config: null })
  const config = checked?.config ?? null
  const claimWarnings = checked?.warnings.filter((one) => !made?.warnings.includes(one)) ?? []
  // After a reload that was refused, the file on disk does not run.
  const isRunning = value.changes !== null && reloads()[0]?.outcome !== 'refused'
  const changes = isRunning ? value.changes : config && describeChange(running(), config).map(pathIn)
  const lacks = config ? [] : [changes ? TOO_LARGE : NOT_COMPARED]
  return good({
    ok: true,
    problems: [],
    warnings: [...value.warnings, ...claimWarnings, ...lacks],
    changes: [...new Set(changes ?? [])],
    config,
  })
}

/** The configuration of a text that the thread has parsed; null: it cannot be made, because the database has changed. */
const madeOf = (
  text: string,
  { tree, env, files }: CheckedParts,
  { providers, stored }: ConfigSources,
): Extract<Loaded, { readonly ok: true }> | null => {
  const reader = { ...fileReader, readTree: () => ({ ...tree, placeOf: readPlaces(tree.places) }) }
  const loaded = configure({ env, file: { name: NAME, text, reader }, files, providers, stored })
  return loaded.ok ? loaded : null
}
