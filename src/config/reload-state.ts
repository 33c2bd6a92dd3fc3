/** Whether the running configuration is the one on disk. */
import type { HealthProblem } from '../gateway/handlers/pages.ts'
import type { Problem } from './problem.ts'
import type { Reloaded } from './watch.ts'

export type ReloadState = {
  readonly note: (reloaded: Reloaded) => void
  /** The last reloads, newest first. */
  readonly history: () => readonly ReloadEntry[]
  /** The problem if the last reload was refused; null if it was applied, or there was none. */
  readonly problem: () => HealthProblem | null
}

/** A reload, as it was logged. `at`: ms since 1970. */
export type ReloadEntry = {
  readonly at: number
  readonly outcome: Reloaded['kind']
  readonly changes: readonly string[]
  readonly warnings: readonly string[]
  readonly problems: readonly Problem[]
}

/** Reloads that are kept. */
const KEPT = 50

/** `date`: ms since 1970. */
export const reloadState = (date: () => number): ReloadState => {
  let problem: HealthProblem | null = null
  let history: readonly ReloadEntry[] = []
  return {
    note(reloaded) {
      history = [entryOf(reloaded, date()), ...history].slice(0, KEPT)
      problem =
        reloaded.kind === 'refused'
          ? { component: 'config', reason: reasonOf(reloaded.problems), since: problem?.since ?? date() }
          : null
    },
    history: () => history,
    problem: () => problem,
  }
}

const entryOf = (reloaded: Reloaded, at: number): ReloadEntry => ({
  at,
  outcome: reloaded.kind,
  changes: reloaded.kind === 'changed' ? reloaded.changes : [],
  warnings: reloaded.kind === 'refused' ? [] : reloaded.warnings,
  problems: reloaded.kind === 'refused' ? reloaded.problems : [],
})

/** Names the first location without its folder, and no value, since `/health` is public. The log has the details. */
const reasonOf = (problems: readonly Problem[]): string => {
  const first = problems[0]?.where.replace(/^.*[\\/]/, '') ?? 'unknown location'
  const more = problems.length > 1 ? ` and ${problems.length - 1} more` : ''
  return `The last configuration reload was refused, and the previous configuration is in use: ${first}${more}. See config_refused in the log.`
}
