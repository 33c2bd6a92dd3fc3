/** `headgate login`: signs in with a company account by the device flow, also on a machine without a browser. */
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { signInUrl } from '../gateway-client.ts'
import { keepTokens, sendForm } from '../signed-in.ts'

const GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
/** ms by which `slow_down` lengthens the pause (RFC 8628, 3.5). */
const SLOWER = 5_000

const DEVICE = z.looseObject({
  device_code: z.string(),
  user_code: z.string(),
  verification_uri: z.string(),
  verification_uri_complete: z.string().optional(),
  expires_in: z.number(),
  interval: z.number().optional(),
})

const login = async (cli: Cli): Promise<void> => {
  const url = await signInUrl(cli)
  const { env } = cli.host
  const begun = await sendForm(env, { url, path: '/oauth/device_authorization', fields: { surface: 'headgate_cli' } })
  if (!begun.ok)
    throw new CliError(
      EXIT.failed,
      begun.status === 404 ? `The gateway at ${url} has no single sign-on (sso in headgate.yaml).` : begun.text,
    )
  const read = DEVICE.safeParse(begun.body)
  if (!read.success) throw new CliError(EXIT.failed, `The answer of the gateway at ${url} has no code.`)
  const { device_code, user_code, verification_uri, verification_uri_complete, expires_in, interval = 5 } = read.data
  cli.note(`Open ${verification_uri_complete ?? verification_uri}`)
  cli.note(`and confirm the code ${user_code}`)
  const end = Date.now() + expires_in * 1_000
  let pause = interval * 1_000
  while (Date.now() < end) {
    await sleep(pause)
    const polled = await sendForm(env, { url, path: '/oauth/token', fields: { grant_type: GRANT, device_code } })
    if (polled.ok) {
      const { email } = await keepTokens(env, url, polled.body)
      const shown = { object: 'signed_in', url, email }
      return cli.answer(shown, () => [`signed in to ${url}${email === null ? '' : ` as ${email}`}`])
    }
    if (polled.error === 'slow_down') pause += SLOWER
    else if (polled.error !== 'authorization_pending' && polled.status < 500)
      throw new CliError(EXIT.notPermitted, polled.text)
  }
  throw new CliError(EXIT.notPermitted, 'The code was not confirmed in time. Run headgate login again.')
}

export const define: DefineVerb = (command, cli) => {
  command
    .addHelpText(
      'after',
      '\nShows an address and a code. Open the address in any browser, compare the code and sign in.\nTokens are kept in ~/.config/headgate/credentials.json.\n\nExample: headgate login --url https://ai.corp.example',
    )
    .action(() => login(cli()))
}
