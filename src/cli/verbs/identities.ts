/** `headgate identities`: subjects of signed tokens that have called, and blocks of them. */
import type { Shown } from '../../records/entities/shown.ts'
import { IDENTITIES, type IDENTITY, IDENTITY_DECISION } from '../../server/answers/identities.ts'
import { timeOf } from '../arguments.ts'
import type { Cli, DefineVerb } from '../cli.ts'
import { gatewayOf } from '../gateway-client.ts'
import { answerList, type ListingOptions, secondOf, withListing } from '../listing.ts'
import type { Cell } from '../table.ts'

const API = '/admin/api/v1/identities'

type SubjectOptions = { readonly until?: string; readonly reason?: string }

const cells = ({ rule, subject, team, user, last, blocked }: Shown<typeof IDENTITY>): readonly Cell[] => [
  rule ?? '',
  subject,
  team ?? '',
  user ?? '',
  secondOf(last) ?? '',
  blocked === null ? '' : (secondOf(blocked.until) ?? 'blocked'),
]

const listSeen = async (cli: Cli, options: ListingOptions): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const { data: rows } = await gateway.read(IDENTITIES, API)
  const headings = ['RULE', 'SUBJECT', 'TEAM', 'USER', 'LAST USE', 'BLOCKED UNTIL']
  answerList(cli, options, { headings, rows, cells, none: 'No token was used since the start.' })
}

const send = async (
  cli: Cli,
  action: 'block' | 'unblock',
  named: { readonly rule: string; readonly subject: string },
  { until, reason }: SubjectOptions,
): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const body = {
    ...named,
    ...(until !== undefined && { until: timeOf('--until', until, 1) }),
    ...(reason !== undefined && { reason }),
  }
  const decision = await gateway.read(IDENTITY_DECISION, `${API}/${action}`, { method: 'POST', body })
  cli.answer(decision, () => [`${named.subject} is ${action === 'block' ? 'blocked' : 'no longer blocked'}`])
}

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate identities block people eve@corp.example --until 7d')
  withListing(command.command('list'))
    .description('List the subjects of signed tokens that have called since the start, and those that are blocked.')
    .addHelpText('after', '\nExample: headgate identities list')
    .action((options: ListingOptions) => listSeen(cli(), options))
  command
    .command('block <rule> <subject>')
    .description('Refuse all tokens of a subject. The rule of auth.jwt names its issuer.')
    .option('--until <time>', 'end: 7d, or 2026-12-01; default: until it is unblocked')
    .option('--reason <text>', 'for the list and the audit log')
    .addHelpText('after', '\nExample: headgate identities block cluster system:serviceaccount:search:indexer')
    .action((rule: string, subject: string, options: SubjectOptions) =>
      send(cli(), 'block', { rule, subject }, options),
    )
  command
    .command('unblock <rule> <subject>')
    .description('Accept the tokens of a subject again.')
    .addHelpText('after', '\nExample: headgate identities unblock people eve@corp.example')
    .action((rule: string, subject: string) => send(cli(), 'unblock', { rule, subject }, {}))
}
