/** `headgate cache`: purges cached answers. */
import { isObject, type Json, number, object } from '../../core/json.ts'
import { idOf, throughGateway } from '../accounts/record-store.ts'
import type { DefineVerb } from '../cli.ts'
import { gatewayOf } from '../gateway-client.ts'

type PurgeOptions = { readonly team?: string; readonly key?: string; readonly model?: string }

/** The number of removed answers, and a warning if a process has not answered. */
const purgedLines = (body: Json): readonly string[] => {
  const { removed, processes } = isObject(body) ? body : {}
  const [count, answered, of] = [
    number(removed) ?? 0,
    number(object(processes)?.answered),
    number(object(processes)?.of),
  ]
  return [
    `${count} ${count === 1 ? 'answer' : 'answers'} removed`,
    ...(answered === of ? [] : [`${answered} of ${of} processes have answered; repeat the command for the others`]),
  ]
}

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
      const answer = await gateway.call('/admin/api/v1/cache/purge', { method: 'POST', body })
      cli().answer(answer.body, () => purgedLines(answer.body))
    })
}
