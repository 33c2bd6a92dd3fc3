/** A browser confirms the code of a program: policies of pages count that programs do not see. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skipBrowser, startBrowser } from '../dashboard/support/chromium.ts'
import { beginDevice, pollDevice } from '../support/device-flow.ts'
import { startIdentityProvider } from '../support/identity-provider.ts'
import { freePorts } from '../support/ports.ts'
import { BELOW, start } from './support/process.ts'

test('a browser confirms the code of a program', { skip: skipBrowser }, async () => {
  const [port = 0, own = 0] = await freePorts(2)
  const url = `http://127.0.0.1:${port}${BELOW}`
  await using corp = await startIdentityProvider(url, own)
  corp.people.set('ann', { email: 'ann@corp.example', groups: ['ai-admins'] })
  corp.signedIn = 'ann'
  const file = `
sso:
  publicUrl: ${url}
  secret: a-secret-of-more-than-32-characters-0123
  providers: { corp: { issuer: "${corp.issuer}", clientId: headgate, clientSecret: "${corp.clientSecret}", scopes: [ openid, email, groups, offline_access ], parameters: { prompt: consent } } }
  roles: [ { group: ai-admins, role: admin } ]
`
  const env = { PORT: String(port), AUTH_ADMIN: 'break-glass-token-of-the-operator' }
  await using gateway = await start({ env, files: { 'headgate.yaml': file } })
  assert.ok(gateway)
  const { device_code, verification_uri_complete, user_code } = await beginDevice(url)
  const page = await (await startBrowser()).newPage()
  const problems: string[] = []
  page.on('console', (message) => problems.push(message.text()))
  await page.goto(verification_uri_complete)
  assert.equal(await page.inputValue('input[name=user_code]'), user_code)
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByRole('link', { name: 'Sign in with corp' }).click()
  await page.getByRole('button', { name: 'Allow' }).click()
  await page.getByText('The program is signed in').waitFor()
  assert.deepEqual(problems, [])
  assert.equal((await pollDevice(url, device_code)).status, 200)
})
