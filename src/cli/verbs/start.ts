/** `headgate start`: its help. The start itself loads none of the command line (launch.ts). */
import { CliError, type DefineVerb, EXIT } from '../cli.ts'
import { START_OPTIONS } from '../start-options.ts'

export const define: DefineVerb = (command) => {
  for (const { flag, value, about } of START_OPTIONS) command.option(`${flag} ${value}`, about)
  command.addHelpText('after', '\nExample: headgate start --port 4000').action(() => {
    throw new CliError(EXIT.usage, 'start accepts its own options only: headgate start --port 4000')
  })
}
