/** Writes docs/cli.md from the help texts of the command line: `npm run cli-page`. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { filled, HELP_WIDTH } from '../src/cli/help-text.ts'
import { buildProgram } from '../src/cli/run.ts'

export const CLI_PAGE = join(import.meta.dirname, '..', 'docs', 'cli.md')

const INTRODUCTION = `# Command line

\`headgate\` without a verb starts the gateway. From a clone run \`npm run headgate -- VERB\` (on Windows
\`node bin/headgate.mjs VERB\`), from the package \`npx headgate VERB\`.

Verbs that need a running gateway find the one whose data folder (\`data.dir\`) belongs to the working folder, by the file
\`run.json\` in it. \`--url\` or \`HEADGATE_URL\` selects another one. Results are written to stdout, messages to stderr.

This page is generated: \`npm run cli-page\` writes it.
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
    home: new URL('..', import.meta.url),
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
