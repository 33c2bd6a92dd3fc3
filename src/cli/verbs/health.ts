/** `headgate health`: the readiness check for containers. */
import { isObject, text } from '../../core/json.ts'
import { type DefineVerb, EXIT } from '../cli.ts'
import { bodyOf, gatewayOf } from '../gateway-client.ts'

/** Time limit in ms, shorter than the usual one of container checks. */
const TIMEOUT = 5_000

export const define: DefineVerb = (command, cli) => {
  command
    .addHelpText(
      'after',
      '\nExits with 0 if the gateway accepts requests, 1 if not, 4 if it cannot be reached.\n\nExample: HEALTHCHECK CMD ["headgate", "health", "-q"]',
    )
    .action(async () => {
      const { answer, exit, options } = cli()
      const gateway = await gatewayOf(cli())
      const response = await gateway.send('/health/ready', { timeout: TIMEOUT })
      const body = await bodyOf(response)
      const status = (isObject(body) ? text(body.status) : undefined) ?? (response.ok ? 'ready' : 'not ready')
      if (!response.ok) exit(EXIT.failed)
      if (!options.quiet) answer({ ready: response.ok, status, url: gateway.url }, () => [status])
    })
}
