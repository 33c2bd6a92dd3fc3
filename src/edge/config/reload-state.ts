/** Whether the configuration on the disk is the one that runs. */
import type { HealthProblem } from '../../gateway/pages.ts'
import type { Problem } from './problem.ts'
import type { Reloaded } from './watch.ts'

export type ReloadState = {
  readonly note: (reloaded: Reloaded) => void
  /** The last reload was refused; null: it was applied, or there was none. */
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

/** Names the first place without its folder, and no value: anyone may read it. The log has the rest. */
const reasonOf = (problems: readonly Problem[]): string => {
  const first = problems[0]?.where.replace(/^.*[\\/]/, '') ?? 'unknown place'
  const more = problems.length > 1 ? ` and ${problems.length - 1} more` : ''
  return `The last reload was refused, and the configuration before it runs: ${first}${more}. See config_refused in the log.`
}
