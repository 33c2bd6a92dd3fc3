/** `headgate health`: the readiness check for containers. */
import { z } from 'zod'
import { readAnswer } from '../answer.ts'
import { type DefineVerb, EXIT } from '../cli.ts'
import { bodyOf, gatewayOf } from '../gateway-client.ts'

/** `/health/ready`. */
const READINESS = z.looseObject({ status: z.string() })

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
      const body = readAnswer(READINESS, await bodyOf(response))
      const status = body.ok ? body.value.status : response.ok ? 'ready' : 'not ready'
      if (!response.ok) exit(EXIT.failed)
      if (!options.quiet) answer({ ready: response.ok, status, url: gateway.url }, () => [status])
    })
}
