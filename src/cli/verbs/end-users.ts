/** `headgate end-users`: blocks end users, as requests name them, in one team or in all. */
import type { Shown } from '../../records/entities/shown.ts'
import { type BLOCKED_END_USER, BLOCKED_END_USERS, END_USER_DECISION } from '../../server/answers/end-users.ts'
import { timeOf } from '../arguments.ts'
import type { Cli, DefineVerb } from '../cli.ts'
import { gatewayOf } from '../gateway-client.ts'
import { answerList, type ListingOptions, secondOf, withListing } from '../listing.ts'
import type { Cell } from '../table.ts'

const API = '/admin/api/v1/end-users'

type BlockOptions = { readonly team?: string; readonly until?: string; readonly reason?: string }

const send = async (cli: Cli, action: 'block' | 'unblock', end_user: string, options: BlockOptions): Promise<void> => {
  const { team, until, reason } = options
  const gateway = await gatewayOf(cli)
  const body = {
    end_user,
    ...(team !== undefined && { team }),
    ...(until !== undefined && { until: timeOf('--until', until, 1) }),
    ...(reason !== undefined && { reason }),
  }
  const decision = await gateway.read(END_USER_DECISION, `${API}/${action}`, { method: 'POST', body })
  const where = team === undefined ? 'in all teams' : `in the team ${team}`
  cli.answer(decision, () => [`${end_user} is ${action === 'block' ? 'blocked' : 'no longer blocked'} ${where}`])
}

const cells = (blocked: Shown<typeof BLOCKED_END_USER>): readonly Cell[] => [
  blocked.end_user,
  blocked.team?.name ?? blocked.team?.id ?? 'all',
  secondOf(blocked.until) ?? 'unblocked',
  blocked.reason,
  blocked.actor,
  secondOf(blocked.at) ?? '',
]

const listBlocked = async (cli: Cli, options: ListingOptions): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const { data: rows } = await gateway.read(BLOCKED_END_USERS, `${API}/blocked`)
  const headings = ['END USER', 'TEAM', 'UNTIL', 'REASON', 'BY', 'AT']
  answerList(cli, options, { headings, rows, cells, none: 'No end user is blocked.' })
}

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate end-users block user-4711 --team search --reason abuse')
  withListing(command.command('list'))
    .description('List the end users that are blocked.')
    .addHelpText('after', '\nExample: headgate end-users list')
    .action((options: ListingOptions) => listBlocked(cli(), options))
  command
    .command('block <user>')
    .description('Refuse the requests of an end user, as `user`, `safety_identifier` or `metadata.user_id` names it.')
    .option('--team <team>', 'only in this team: name or ID; default: in all teams')
    .option('--until <time>', 'end: 7d, or 2026-12-01; default: until it is unblocked')
    .option('--reason <text>', 'for the list and the audit log')
    .addHelpText('after', '\nExample: headgate end-users block user-4711 --until 7d --reason abuse')
    .action((name: string, options: BlockOptions) => send(cli(), 'block', name, options))
  command
    .command('unblock <user>')
    .description('Serve the requests of an end user again.')
    .option('--team <team>', 'the block of this team; default: the block in all teams')
    .addHelpText('after', '\nExample: headgate end-users unblock user-4711')
    .action((name: string, options: BlockOptions) => send(cli(), 'unblock', name, options))
}
