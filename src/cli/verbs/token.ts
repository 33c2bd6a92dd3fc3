/** `headgate token`: prints an access token of `headgate login`, for programs that send it. */
import { CliError, type DefineVerb, EXIT } from '../cli.ts'
import { signInUrl } from '../gateway-client.ts'
import { accessToken } from '../signed-in.ts'

export const define: DefineVerb = (command, cli) => {
  command
    .addHelpText(
      'after',
      '\nThe token is valid for at least 5 minutes: it is refreshed before that, if the gateway answers.\n\nExample: curl -H "Authorization: Bearer $(headgate token)" https://ai.corp.example/v1/models',
    )
    .action(async () => {
      const { host, answer } = cli()
      const url = await signInUrl(cli())
      const token = await accessToken(host.env, url)
      if (token === null)
        throw new CliError(EXIT.notPermitted, `You are not signed in to ${url}. Run headgate login --url ${url}.`)
      answer({ object: 'token', url, token }, () => [token])
    })
}
