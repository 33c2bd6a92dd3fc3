/** `headgate cache`: purges cached answers. */
import type { Shown } from '../../records/entities/shown.ts'
import { CACHE_PURGED } from '../../server/answers/cache.ts'
import { idOf, throughGateway } from '../accounts/record-store.ts'
import type { DefineVerb } from '../cli.ts'
import { gatewayOf } from '../gateway-client.ts'

type PurgeOptions = { readonly team?: string; readonly key?: string; readonly model?: string }

/** The number of removed answers, and a warning if a process has not answered. */
const purgedLines = ({ removed, processes: { answered, of } }: Shown<typeof CACHE_PURGED>): readonly string[] => [
  `${removed} ${removed === 1 ? 'answer' : 'answers'} removed`,
  ...(answered === of ? [] : [`${answered} of ${of} processes have answered; repeat the command for the others`]),
]

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate cache purge --team search')
  command
    .command('purge')
    .description('Remove cached answers: all of them, or those of a team, key or model.')
    .option('--team <team>', 'only answers of this team')
    .option('--key <key>', 'only answers of this key')
    .option('--model <name>', 'only answers of this model')
    .addHelpText('after', '\nExample: headgate cache purge --team search')
    .action(async ({ team, key, model }: PurgeOptions) => {
      const gateway = await gatewayOf(cli())
      const store = throughGateway(gateway)
      const body = {
        ...(team !== undefined && { team: await idOf(store, 'team', team) }),
        ...(key !== undefined && { key: await idOf(store, 'key', key) }),
        ...(model !== undefined && { model }),
      }
      const purged = await gateway.read(CACHE_PURGED, '/admin/api/v1/cache/purge', { method: 'POST', body })
      cli().answer(purged, () => purgedLines(purged))
    })
}
