/** `headgate tokens`: admin tokens with their roles, in a running gateway or in its files. */
import { ROLES, TOKEN } from '../../records/entities/token.ts'
import { idOf, listAll, namesOf, type Stored, withRecords } from '../accounts/record-store.ts'
import { choice, repeated, timeOf } from '../arguments.ts'
import type { Cli, DefineVerb } from '../cli.ts'
import { answerList, dayOf, type ListingOptions, withListing } from '../listing.ts'
import type { Cell } from '../table.ts'

const HEADINGS = ['NAME', 'ID', 'ROLES', 'STATUS', 'SECRET', 'EXPIRES', 'LAST USED', 'CREATED BY']

const cells = (token: Stored<'token'>, teams: ReadonlyMap<string, string>, { paint }: Cli): readonly Cell[] => {
  const { status } = token
  const roles = token.bindings.map(({ role, team }) => (team === null ? role : `${role} of ${teams.get(team) ?? team}`))
  return [
    token.name,
    token.id,
    roles.join(', '),
    { text: status, paint: status === 'active' ? paint.good : paint.bad },
    `…${token.last4 ?? ''}`,
    dayOf(token.expires_at),
    dayOf(token.last_used_at),
    token.created_by,
  ]
}

/** A token with its secret, which is shown once: a gateway that states less about the token must not lose it. */
const MADE_TOKEN = TOKEN.partial().extend(TOKEN.pick({ id: true }).shape)

type TokenOptions = { readonly role: string; readonly team?: readonly string[]; readonly expires?: string }

/** The secret is alone on stdout; the rest is a note on stderr. */
const create = (cli: Cli, name: string, { role, team = [], expires }: TokenOptions): Promise<void> => {
  const end = expires === undefined ? null : timeOf('--expires', expires, 1)
  return withRecords(cli, async (store) => {
    const teams = await Promise.all(team.map((one) => idOf(store, 'team', one)))
    const bindings = teams.length === 0 ? [{ role, team: null }] : teams.map((one) => ({ role, team: one }))
    const token = await store.run(MADE_TOKEN, {
      do: 'create',
      kind: 'token',
      body: { name, bindings, expires_at: end },
    })
    if (cli.options.json) return cli.print(JSON.stringify(token))
    cli.print(token.secret ?? '')
    const scope = team.length === 0 ? 'of everything' : `of ${team.join(', ')}`
    cli.note(`  ${token.id}  ${name}  ${role} ${scope}${end === null ? '' : `  expires ${dayOf(end)}`}`)
    cli.note('  The token is shown once. Keep it now.')
  })
}

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate tokens list')
  withListing(command.command('list'))
    .description('List admin tokens with their roles, without their secrets.')
    .addHelpText('after', '\nExample: headgate tokens list --sort expires')
    .action((options: ListingOptions) =>
      withRecords(cli(), async (store) => {
        const rows = await listAll(store, 'token')
        const teams = await namesOf(store, 'team')
        answerList(cli(), options, {
          headings: HEADINGS,
          rows,
          cells: (token) => cells(token, teams, cli()),
          none: 'There is no admin token.',
        })
      }),
    )
  command
    .command('create <name>')
    .description('Create an admin token. It is shown once, alone on stdout.')
    .addOption(
      choice(
        '--role <role>',
        'viewer: reads; operator: also acts and checks; admin: everything',
        ROLES,
      ).makeOptionMandatory(),
    )
    .option('--team <team>', 'only for this team; may be repeated. Otherwise for everything', repeated)
    .option('--expires <time>', 'end of its validity: 90d, or 2026-12-31')
    .addHelpText('after', '\nExample: headgate tokens create ci --role viewer --team search --expires 90d')
    .action((name: string, options: TokenOptions) => create(cli(), name, options))
  command
    .command('revoke <token>')
    .description('Revoke an admin token for ever. Its sessions end.')
    .addHelpText('after', '\nExample: headgate tokens revoke ci')
    .action((name: string) =>
      withRecords(cli(), async (store) => {
        const id = await idOf(store, 'token', name)
        const token = await store.run(TOKEN, { do: 'delete', kind: 'token', id, rev: null })
        cli().answer(token, () => [`${token.name} is ${token.status}`])
      }),
    )
}
