/** A person signs in with a company account in a real browser, at a real OpenID provider, and out again. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { post, type Started, start } from '../e2e/support/process.ts'
import { signInProgram } from '../support/device-flow.ts'
import { type IdentityProviderFixture, startIdentityProvider, TestBrowser } from '../support/identity-provider.ts'
import { type Issuer, startIssuer } from '../support/issuer.ts'
import { freePorts } from '../support/ports.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'

const TOKEN = 'admin-token-0123456789abcdef'
const BODY = { model: 'demo/echo', messages: [{ role: 'user', content: 'hi' }] }

describe('the sign-in with a company account', { skip: skipBrowser }, () => {
  let browser: Browser
  let gateway: Started
  let idp: IdentityProviderFixture
  let tokens: Issuer
  let url = ''
  before(async () => {
    const [port = 0, own = 0] = await freePorts(2)
    url = `http://127.0.0.1:${port}`
    idp = await startIdentityProvider(url, own)
    idp.people.set('ann', { email: 'ann@corp.example', groups: ['ai-admins'] })
    idp.signedIn = 'ann'
    tokens = await startIssuer()
    browser = await startBrowser()
    gateway = await start({
      env: { AUTH_ADMIN: TOKEN, PORT: String(port) },
      files: {
        'headgate.yaml': `sso:
  publicUrl: ${url}
  secret: a-secret-of-more-than-32-characters-0123
  providers: { corp: { issuer: "${idp.issuer}", clientId: headgate, clientSecret: ${idp.clientSecret}, scopes: [ openid, email, groups ] } }
  roles: [ { group: ai-admins, role: admin } ]
teams: { search: {} }
auth: { jwt: [ { name: people, issuer: "${tokens.url}", audience: [ headgate ], team: { value: search } } ] }
`,
      },
    })
    const made = await fetch(`${url}/admin/api/v1/teams`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      body: '{"name":"ops"}',
    })
    assert.equal(made.status, 201)
  })
  after(async () => {
    await Promise.all([browser?.close(), gateway?.stop(), idp?.stop(), tokens?.close()])
  })

  for (const look of LOOKS)
    test(`the buttons of the identity providers are above the token, ${look.width} ${look.theme}`, () =>
      withDashboard(browser, { url, expected: /status of 401/, ...look }, async ({ page, open, check, shot }) => {
        await open('/dashboard/config')
        const link = page.getByRole('link', { name: 'Sign in with corp' })
        await link.waitFor()
        const href = await link.getAttribute('href')
        assert.equal(href, `${url}/admin/api/v1/login?provider=corp&return=%2Fdashboard%2Fconfig`)
        await page.getByLabel('Admin token').waitFor()
        await check()
        await shot('sign-in-sso')
      }))

  for (const look of LOOKS)
    test(`an administrator sees people, blocks one and admits them again, ${look.width} ${look.theme}`, () =>
      withDashboard(browser, { url, token: TOKEN, ...look }, async ({ page, open, check, shot }) => {
        await new TestBrowser().open(`${url}/admin/api/v1/login?provider=corp`, { until: /\/dashboard\// })
        await open('/dashboard/config/people')
        await page.getByText('by the group ai-admins').waitFor()
        await check()
        await shot('people')
        await page.getByRole('button', { name: 'Block: ann@corp.example' }).click()
        await page.getByRole('button', { name: 'Admit again: ann@corp.example' }).waitFor()
        await page.getByText('0 sessions').waitFor()
        await check()
        await page.getByRole('button', { name: 'Admit again: ann@corp.example' }).click()
        await page.getByRole('button', { name: 'Block: ann@corp.example' }).waitFor()
      }))

  for (const look of LOOKS)
    test(`an administrator gives a role for a team, takes it, and ends a program, ${look.width} ${look.theme}`, () =>
      withDashboard(browser, { url, token: TOKEN, ...look }, async ({ page, open, check, shot }) => {
        await signInProgram(url)
        await open('/dashboard/config/people')
        const form = page.getByRole('form', { name: 'Give a role to ann@corp.example' })
        await form.getByLabel('Role').selectOption('operator')
        await form.getByLabel('For').selectOption({ label: 'for the team search' })
        await form.getByRole('button', { name: 'Give this role' }).click()
        await page.getByText('operator of search').waitFor()
        await page.getByText('given by hand').waitFor()
        await page.getByText('Programs', { exact: true }).click()
        await page.getByText('test_program').waitFor()
        await check()
        await shot('people-parts')
        await page.getByRole('button', { name: /^End the sign-in of test_program at 127/ }).click()
        await page.getByText('No program is signed in.').waitFor()
        await page.getByRole('button', { name: 'Take the role operator of search from ann@corp.example' }).click()
        await page.getByText('given by hand').waitFor({ state: 'detached' })
        await page.getByText('by the group ai-admins').waitFor()
      }))

  for (const look of LOOKS)
    test(`an administrator changes what a team requires, ${look.width} ${look.theme}`, () =>
      withDashboard(browser, { url, token: TOKEN, ...look }, async ({ page, open, check, shot }) => {
        await open('/dashboard/config/policy')
        const line = page.getByRole('listitem').filter({ hasText: 'ops' })
        await line.getByText('nothing').waitFor()
        await page.getByRole('button', { name: 'Change what ops requires' }).click()
        const dialog = page.getByRole('dialog')
        await dialog.getByLabel('Only in regions').fill('eu, local')
        await dialog.getByLabel('Most days of retention').fill('0')
        await check()
        await shot('team-policy')
        await dialog.getByRole('button', { name: 'Save' }).click()
        await line.getByText('region eu or local, no retention').waitFor()
        await page.getByRole('button', { name: 'Undo' }).click()
        await line.getByText('nothing').waitFor()
      }))

  for (const look of LOOKS)
    test(`an operator sees the subjects of tokens, and blocks one, ${look.width} ${look.theme}`, () =>
      withDashboard(browser, { url, token: TOKEN, ...look }, async ({ page, open, check, shot }) => {
        const asked = await post(`${url}/v1/chat/completions`, BODY, { authorization: `Bearer ${tokens.token()}` })
        assert.equal(asked.status, 200, asked.text)
        await open('/dashboard/keys')
        await page.getByRole('button', { name: 'Identities 1' }).click()
        await page.getByText('alice').waitFor()
        await check()
        await shot('identities')
        await page.getByRole('button', { name: 'Block: alice' }).click()
        await page.getByText('✗ blocked').waitFor()
        await page.getByRole('button', { name: 'Admit again: alice' }).click()
        await page.getByRole('button', { name: 'Block: alice' }).waitFor()
      }))

  test('a browser goes to the provider, comes back to the page, and signs out at both', async () => {
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.goto(`${url}/dashboard/config`)
    await page.getByRole('link', { name: 'Sign in with corp' }).click()
    await page.waitForURL(`${url}/dashboard/config`)
    const session = await page.evaluate(async () => (await fetch('/admin/api/v1/session')).json())
    assert.deepEqual([session.actor.kind, session.actor.name], ['person', 'ann@corp.example'])
    const cookies = await context.cookies(`${url}/admin/api/v1/session`)
    assert.deepEqual(
      cookies
        .filter(({ name }) => name.startsWith('headgate-') && !name.startsWith('headgate-login'))
        .map(({ httpOnly, sameSite }) => [httpOnly, sameSite]),
      [[true, 'Lax']],
    )
    const left = await page.evaluate(async (csrf) => {
      const response = await fetch('/admin/api/v1/session/logout', {
        method: 'POST',
        headers: { 'x-headgate-csrf': csrf },
      })
      return { end: (await response.json()).end_session, after: (await fetch('/admin/api/v1/session')).status }
    }, session.csrf)
    assert.equal(new URL(left.end).origin, idp.issuer)
    assert.equal(left.after, 401)
    await context.close()
  })
})
