/** `headgate routes`: the canaries of routes. */
import { Argument } from 'commander'
import type { Shown } from '../../records/entities/shown.ts'
import { CANARIES, CANARY, CANARY_ACTIONS } from '../../server/answers/canaries.ts'
import { CliError, type DefineVerb, EXIT } from '../cli.ts'
import { gatewayOf } from '../gateway-client.ts'

const API = '/admin/api/v1/canaries'

/** `fast  openai/gpt-6.1-sol  running, step 2 of 4, 5 % of the sessions`. */
const lineOf = ({ route, target, status, step, steps, share, reason }: Shown<typeof CANARY>): string =>
  `${route}  ${target}  ${status}, step ${step} of ${steps.length}, ${share} % of the sessions${reason === null ? '' : `: ${reason}`}`

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate routes canary fast pause')
  command
    .command('canary <route>')
    .description('Show the canary of a route, pause or resume it, or send its sessions back to the other targets.')
    .addArgument(
      new Argument('[action]', 'pause: the share stays; resume: it grows again; back: it is 0').choices(CANARY_ACTIONS),
    )
    .addHelpText('after', '\nExample: headgate routes canary fast back')
    .action(async (route: string, action: string | undefined) => {
      const gateway = await gatewayOf(cli())
      const found =
        action === undefined
          ? (await gateway.read(CANARIES, API)).data.find((one) => one.route === route)
          : await gateway.read(CANARY, API, { method: 'POST', body: { route, action } })
      if (!found) throw new CliError(EXIT.conflict, `No route ${JSON.stringify(route)} has a canary.`)
      cli().answer(found, () => [lineOf(found)])
    })
}
