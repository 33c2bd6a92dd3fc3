/** Problems of a configuration, each with its place in the file. */
import { Copy } from '../../parts/states.tsx'
import { config as texts } from '../../words/config.ts'
import type { ShownProblem } from './shapes.ts'

const problemText = ({ where, what, found, allowed }: ShownProblem): string =>
  `${where}${what === null ? '' : ` ${what}`}: ${texts.problems.found(found)}, ${texts.problems.allowed(allowed)}`

export const ProblemList = ({ problems }: { readonly problems: readonly ShownProblem[] }) => (
  <ul class="config-problems">
    {problems.map((problem) => (
      <li key={problemText(problem)}>
        <span class="config-where mono">{problem.where}</span>
        {problem.what !== null && <strong class="mono">{problem.what}</strong>}
        <span>{texts.problems.found(problem.found)}</span>
        <span>{texts.problems.allowed(problem.allowed)}</span>
      </li>
    ))}
  </ul>
)

export const CopyProblems = ({ problems }: { readonly problems: readonly ShownProblem[] }) => (
  <Copy text={problems.map(problemText).join('\n')} label={texts.problems.copyAll} />
)

export const WarningList = ({ warnings }: { readonly warnings: readonly string[] }) =>
  warnings.length === 0 ? null : (
    <section class="panel config-warnings">
      <h2>
        <span class="warn" aria-hidden="true">
          ▲
        </span>{' '}
        {texts.problems.warnings}
      </h2>
      <ul class="config-problems">
        {warnings.map((warning) => (
          <li key={warning}>{warning}</li>
        ))}
      </ul>
    </section>
  )
