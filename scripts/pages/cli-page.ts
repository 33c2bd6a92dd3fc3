/** Writes docs/cli.md from the help texts of the command line: `npm run cli-page`. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { EXIT } from '../../src/cli/cli.ts'
import { filled, HELP_WIDTH } from '../../src/cli/help-text.ts'
import { buildProgram } from '../../src/cli/run.ts'

export const CLI_PAGE = join(import.meta.dirname, '..', '..', 'docs', 'cli.md')

const INTRODUCTION = `# Command line

\`headgate\` without a verb starts the gateway. From a clone run \`npm run headgate -- VERB\` (on Windows
\`node bin/headgate.mjs VERB\`), from the package \`npx headgate VERB\`.

Verbs that need a running gateway find the one whose data folder (\`data.dir\`) belongs to the working folder, by the file
\`run.json\` in it. \`--url\` or \`HEADGATE_URL\` selects another one. Results are written to stdout, messages to stderr.

This page is generated: \`npm run cli-page\` writes it.

## Exit codes

| code | meaning | for example |
|---|---|---|
| ${EXIT.done} | done | |
| ${EXIT.failed} | failed | \`try\`: a model answered with an error; \`status\`, \`health\`: the gateway is not ok; \`what-if\`: a route has no target |
| ${EXIT.usage} | the command is wrong | an unknown verb, option or column; a value that is no number, time or name of the list |
| ${EXIT.invalidConfig} | the configuration is invalid | \`config check\`; any verb that reads it |
| ${EXIT.unreachable} | no gateway answers | none runs for this folder, or the one at \`--url\` refuses the connection |
| ${EXIT.notPermitted} | not permitted | no or a wrong admin token or client key (401), or one without the right (403); also \`status\` with a wrong \`--token\` |
| ${EXIT.conflict} | not found, or in conflict | there is no such key, team or request; a name that is taken; a restore while the gateway runs |
| ${EXIT.worse} | worse than expected | \`torture --expect\`: a cell is worse than in the earlier scorecard |

With \`--json\` an error is one line on stderr: \`{"error": {"message": …, "exit": ${EXIT.notPermitted}}}\`.
`

/** The help text of a command as it is printed. */
const helpOf = (command: Command): string => {
  let text = ''
  command.configureOutput({
    writeOut: (part) => {
      text += filled(part, HELP_WIDTH)
    },
  })
  command.configureHelp({ showGlobalOptions: false, helpWidth: HELP_WIDTH })
  command.outputHelp()
  return text.trimEnd()
}

const fullName = (command: Command): string =>
  command.parent ? `${fullName(command.parent)} ${command.name()}` : command.name()

const sectionsOf = (command: Command): readonly string[] => {
  const heading = command.parent ? `## ${fullName(command)}` : '## headgate'
  return [`${heading}\n\n\`\`\`text\n${helpOf(command)}\n\`\`\``, ...command.commands.flatMap(sectionsOf)]
}

/** The text of the page. */
export const cliPage = async (): Promise<string> => {
  const output = { write: () => true }
  const host = {
    env: {},
    folder: '.',
    home: new URL('../..', import.meta.url),
    version: '',
    stdout: output,
    stderr: output,
  }
  const program = await buildProgram(
    host,
    () => {
      throw new Error('The page runs no verb.')
    },
    () => true,
  )
  return `${INTRODUCTION}\n${sectionsOf(program).join('\n\n')}\n`
}

if (import.meta.main) writeFileSync(CLI_PAGE, await cliPage())
