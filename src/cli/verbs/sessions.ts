/** `headgate sessions`: the sessions of agents, by their last request or what they cost. */
import type { Shown } from '../../records/entities/shown.ts'
import { type SESSION, SESSION_DECISION, SESSIONS_PAGE } from '../../server/answers/sessions.ts'
import { queryOf } from '../accounts/record-store.ts'
import { choice, timeOf } from '../arguments.ts'
import type { Cli, DefineVerb } from '../cli.ts'
import { gatewayOf } from '../gateway-client.ts'
import { answerList, type ListingOptions, secondOf, withListing } from '../listing.ts'
import { type Cell, moneyText } from '../table.ts'

const SESSIONS = '/admin/api/v1/sessions'

/** What `--top` orders by, as the API names it. */
const TOP = {
  cost: '-cost',
  requests: '-requests',
  failed: '-failed',
  input: '-most_input',
} as const

type SessionListOptions = ListingOptions & {
  readonly top?: keyof typeof TOP
  readonly since: string
  readonly team?: string
  readonly key?: string
  readonly name?: string
  readonly limit: string
}

const count = (value: number): string => value.toLocaleString('en')

const cells = (session: Shown<typeof SESSION>): readonly Cell[] => [
  session.id,
  { text: moneyText(session.cost), sort: Number(session.cost) },
  count(session.requests),
  count(session.agents),
  count(session.failed),
  count(session.input),
  count(session.output),
  count(session.most_input),
  session.client ?? '–',
  session.team?.name ?? session.team?.id ?? '–',
  session.key?.name ?? session.key?.id ?? '–',
  secondOf(session.last_at) ?? '',
  session.name ?? '–',
]

const HEADINGS = [
  ...['SESSION', 'COST', 'REQUESTS', 'AGENTS', 'FAILED', 'INPUT', 'OUTPUT', 'LARGEST INPUT'],
  ...['CLIENT', 'TEAM', 'KEY', 'LAST', 'NAME'],
]

const list = async (cli: Cli, options: SessionListOptions): Promise<void> => {
  const { top, since, team, key, name, limit } = options
  const gateway = await gatewayOf(cli)
  const query = { from: timeOf('--since', since, -1), team, key, name, limit, ...(top && { sort: TOP[top] }) }
  const page = await gateway.read(SESSIONS_PAGE, `${SESSIONS}${queryOf(query)}`)
  if (page.searched_until !== null) cli.note(`Searched until ${page.searched_until}.`)
  const none = 'No session has had a request since then.'
  answerList(cli, options, { headings: HEADINGS, rows: page.data, cells, none }, (data) => ({ ...page, data }))
}

const decide = async (cli: Cli, action: 'stop' | 'resume', id: string, message?: string): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const path = `${SESSIONS}/${encodeURIComponent(id)}/${action}`
  const body = action === 'stop' ? { body: { ...(message !== undefined && { message }) } } : {}
  const decision = await gateway.read(SESSION_DECISION, path, { method: 'POST', ...body })
  cli.answer(decision, () => [`${id} is ${decision.stopped ? 'stopped' : 'served again'}`])
}

export const define: DefineVerb = (command, cli) => {
  withListing(command)
    .addOption(choice('--top <figure>', 'the largest first; otherwise the newest', Object.keys(TOP)))
    .option('--since <time>', 'only with a request since then: 1d, yesterday or 2026-11-23', '1d')
    .option('--team <team>', 'only of this team: name or ID')
    .option('--key <key>', 'only of this client key: name or ID')
    .option('--name <name>', 'only those that clients name so')
    .option('--limit <count>', 'at most this many', '20')
    .addHelpText(
      'after',
      '\nExample: headgate sessions --top cost\nExample: headgate explain --session ses_kdvbwqhzmrtc',
    )
    .action((options: SessionListOptions) => list(cli(), options))
  command
    .command('stop <id>')
    .description('Refuse the requests of a session, at all gateways.')
    .option('--message <text>', 'for the client')
    .addHelpText('after', '\nExample: headgate sessions stop ses_kdvbwqhzmrtc --message "it repeats the same build"')
    .action((id: string, { message }: { readonly message?: string }) => decide(cli(), 'stop', id, message))
  command
    .command('resume <id>')
    .description('Serve the requests of a stopped session again.')
    .addHelpText('after', '\nExample: headgate sessions resume ses_kdvbwqhzmrtc')
    .action((id: string) => decide(cli(), 'resume', id))
}
