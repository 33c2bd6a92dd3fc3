/** `headgate sign-ins`: programs in which people are signed in. */
import type { Shown } from '../../records/entities/shown.ts'
import { ENDED_SIGN_IN, type SIGN_IN, SIGN_INS } from '../../server/answers/sign-ins.ts'
import type { Cli, DefineVerb } from '../cli.ts'
import { gatewayOf } from '../gateway-client.ts'
import { answerList, type ListingOptions, secondOf, withListing } from '../listing.ts'
import type { Cell } from '../table.ts'

const API = '/admin/api/v1/sign-ins'

type SignInFilter = ListingOptions & { readonly person?: string }

const cells = ({
  id,
  person,
  email,
  name,
  client,
  address,
  used_at,
  ends_at,
}: Shown<typeof SIGN_IN>): readonly Cell[] => [
  id,
  email ?? name ?? person,
  client,
  address,
  secondOf(used_at) ?? '',
  secondOf(ends_at) ?? '',
]

const HEADINGS = ['ID', 'PERSON', 'PROGRAM', 'ADDRESS', 'LAST USE', 'ENDS']

const list = async (cli: Cli, options: SignInFilter): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const of = options.person === undefined ? '' : `&person=${encodeURIComponent(options.person)}`
  const rows: Shown<typeof SIGN_IN>[] = []
  for (let after: string | null | undefined = ''; after !== null && after !== undefined; ) {
    const path: string = `${API}?limit=200${of}${after === '' ? '' : `&after=${encodeURIComponent(after)}`}`
    const page = await gateway.read(SIGN_INS, path)
    rows.push(...page.data)
    after = page.next
  }
  answerList(cli, options, { headings: HEADINGS, rows, cells, none: 'No program is signed in.' })
}

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate sign-ins list')
  withListing(command.command('list'))
    .description('List the programs in which people are signed in, the one used last first.')
    .option('--person <id>', 'only those of a person (usr_…)')
    .addHelpText('after', '\nExample: headgate sign-ins list --sort person')
    .action((options: SignInFilter) => list(cli(), options))
  command
    .command('end <id>')
    .description('End a sign-in: the tokens of the program are refused within five seconds.')
    .addHelpText('after', '\nExample: headgate sign-ins end sgn_kdvbwqhzmrtc')
    .action(async (id: string) => {
      const gateway = await gatewayOf(cli())
      const ended = await gateway.read(ENDED_SIGN_IN, `${API}/${encodeURIComponent(id)}`, { method: 'DELETE' })
      cli().answer(ended, () => [`The sign-in ${id} has ended`])
    })
}
