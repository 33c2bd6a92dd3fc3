/** `headgate guards`: the guards of a running gateway, and what they find in a text. */
import { GUARD_PHASES } from '../../core/guard-verdict.ts'
import type { Shown } from '../../records/entities/shown.ts'
import { type GUARD, GUARD_TEST, GUARDS } from '../../server/answers/guards.ts'
import { choice } from '../arguments.ts'
import { type Cli, type DefineVerb, EXIT } from '../cli.ts'
import { gatewayOf } from '../gateway-client.ts'
import { readGiven } from '../given-file.ts'
import { answerList, type ListingOptions, withListing } from '../listing.ts'
import type { Cell } from '../table.ts'

type ListedGuard = Shown<typeof GUARD>

const HEADINGS = ['NAME', 'ON', 'ACTION', 'FINDS', 'APPLIES TO', 'REQUESTS', 'FOUND']

const findsOf = ({ find, patterns, words, media, service }: ListedGuard): string =>
  [
    ...find,
    ...(media ? ['media'] : []),
    ...(patterns > 0 ? [`patterns: ${patterns}`] : []),
    ...(words > 0 ? [`words: ${words}`] : []),
    ...(service === null ? [] : [`service: ${service}`]),
  ].join(', ')

const scopeOf = ({ except_teams, only_teams, only_routes }: ListedGuard): string => {
  const parts = [
    ...(only_teams === null
      ? []
      : [only_teams.length === 0 ? 'requests that add it' : `teams ${only_teams.join(', ')}`]),
    ...(only_routes === null ? [] : [`routes ${only_routes.join(', ')}`]),
    ...(except_teams.length === 0 ? [] : [`not ${except_teams.join(', ')}`]),
  ]
  return parts.length === 0 ? 'all' : parts.join('; ')
}

const cells = (guard: ListedGuard): readonly Cell[] => {
  const sum = (of: 'requests' | 'found') => String(guard.hits.reduce((total, hit) => total + hit[of], 0))
  return [guard.name, guard.on.join(', '), guard.action, findsOf(guard), scopeOf(guard), sum('requests'), sum('found')]
}

const list = async (cli: Cli, options: ListingOptions): Promise<void> => {
  const page = await (await gatewayOf(cli)).read(GUARDS, '/admin/api/v1/guards')
  const listing = { headings: HEADINGS, rows: page.data, cells, none: 'The configuration has no guards.' }
  answerList(cli, options, listing, (data) => ({ ...page, data }))
}

type TestOptions = { readonly guard?: string; readonly team?: string; readonly phase: string }

const test = async (cli: Cli, file: string, { guard, team, phase }: TestOptions): Promise<void> => {
  const text = await readGiven(cli, file)
  const body = { text, phase, ...(guard !== undefined && { guard }), ...(team !== undefined && { team }) }
  const found = await (await gatewayOf(cli)).read(GUARD_TEST, '/admin/api/v1/guards/test', { method: 'POST', body })
  cli.answer(found, () => [
    ...found.verdicts.map(({ guard: name, action, counts }) => {
      const labels = Object.entries(counts).map(([label, count]) => `${count} ${label}`)
      return `${name}: ${action} (${labels.join(', ')})`
    }),
    ...(found.verdicts.length === 0 ? ['Nothing was found.'] : []),
    ...found.not_asked.map((name) => `${name}: its service was not called`),
    ...(found.refused === null ? [] : [cli.paint.bad(`refused: ${found.refused}`)]),
    ...(found.refused === null && found.text !== text ? ['', found.text] : []),
  ])
  if (found.refused !== null) cli.exit(EXIT.failed)
}

export const define: DefineVerb = (command, cli) => {
  withListing(command)
    .addHelpText('after', '\nREQUESTS and FOUND are of the last 24 hours.\n\nExample: headgate guards')
    .action((options: ListingOptions) => list(cli(), options))
  command
    .command('test <file>')
    .description(
      'Show what guards find in a text; the file `-` is the standard input. Nothing is stored, and services are not called.',
    )
    .option('-g, --guard <name>', 'only this guard; default: those that apply to the team')
    .option('--team <name>', 'name of the team; default: default')
    .addOption(choice('--phase <phase>', 'as a request or as an answer', GUARD_PHASES).default('request'))
    .addHelpText('after', '\nExits with 1 if the text is refused.\n\nExample: headgate guards test -g pii prompt.txt')
    .action((file: string, options: TestOptions) => test(cli(), file, options))
}
