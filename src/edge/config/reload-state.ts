/** Whether the running configuration is the one on disk. */
import type { HealthProblem } from '../../gateway/endpoints/pages.ts'
import type { Problem } from './problem.ts'
import type { Reloaded } from './watch.ts'

export type ReloadState = {
  readonly note: (reloaded: Reloaded) => void
  /** The problem if the last reload was refused; null if it was applied, or there was none. */
  readonly problem: () => HealthProblem | null
}

/** `date`: ms since 1970. */
export const reloadState = (date: () => number): ReloadState => {
  let problem: HealthProblem | null = null
  return {
    note(reloaded) {
      problem =
        reloaded.kind === 'refused'
          ? { component: 'config', reason: reasonOf(reloaded.problems), since: problem?.since ?? date() }
          : null
    },
    problem: () => problem,
  }
}

/** Names the first location without its folder, and no value, since `/health` is public. The log has the details. */
const reasonOf = (problems: readonly Problem[]): string => {
  const first = problems[0]?.where.replace(/^.*[\\/]/, '') ?? 'unknown location'
  const more = problems.length > 1 ? ` and ${problems.length - 1} more` : ''
  return `The last configuration reload was refused, and the previous configuration is in use: ${first}${more}. See config_refused in the log.`
}
