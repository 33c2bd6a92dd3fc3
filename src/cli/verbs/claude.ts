/** `headgate claude`: the settings that people receive in Claude Code. */
import { CLAUDE_POLICY } from '../../server/answers/claude.ts'
import type { Cli, DefineVerb } from '../cli.ts'
import { gatewayOf } from '../gateway-client.ts'

const show = async (cli: Cli, person: string): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const path = `/admin/api/v1/claude/policies?as=${encodeURIComponent(person)}`
  const policy = await gateway.read(CLAUDE_POLICY, path)
  const { rules = [], settings, checksum, email } = policy
  const names = rules.map(({ index }) => `claude.policies[${index}]`).join(', ')
  cli.answer(policy, () => [
    `${email ?? person} receives ${settings ? (names === '' ? 'the settings for telemetry' : names) : 'no settings'}`,
    ...(settings ? [checksum ?? '', JSON.stringify(settings, null, 2)] : []),
  ])
}

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate claude policy usr_kdvbwqhzmrtc')
  command
    .command('policy <person>')
    .description('Show the settings that a person receives in Claude Code, and by which policies.')
    .addHelpText('after', '\nExample: headgate claude policy usr_kdvbwqhzmrtc')
    .action((person: string) => show(cli(), person))
}
