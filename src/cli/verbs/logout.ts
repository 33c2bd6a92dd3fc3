/** `headgate logout`: ends the sign-in of `headgate login`. */
import type { DefineVerb } from '../cli.ts'
import { readCredentials, storeCredential } from '../credentials.ts'
import { signInUrl } from '../gateway-client.ts'
import { sendForm } from '../signed-in.ts'

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate logout').action(async () => {
    const { host, answer, note } = cli()
    const url = await signInUrl(cli())
    const known = (await readCredentials(host.env)).gateways[url]
    if (known) {
      await storeCredential(host.env, url, null)
      const form = { url, path: '/oauth/revoke', fields: { token: known.refresh_token } }
      const ended = await sendForm(host.env, form).catch((error: Error) => ({
        ok: false as const,
        text: error.message,
      }))
      if (!ended.ok) note(`The tokens were removed here, and are still valid at the gateway: ${ended.text}`)
    }
    const wasSignedIn = known !== undefined
    answer({ object: 'signed_out', url, was_signed_in: wasSignedIn }, () => [
      wasSignedIn ? `signed out of ${url}` : `not signed in to ${url}`,
    ])
  })
}
