/** Sign-in: where it is needed, after a wrong token, after a session has ended, and out again. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { type Started, start } from '../e2e/support/process.ts'
import { selfSigned } from '../support/certificate.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'

const TOKEN = 'admin-token-0123456789abcdef'
/** The browser reports each refused call on the console. */
const expected = /status of 401|status of 403/

const signIn = async (page: Page, token = TOKEN): Promise<void> => {
  await page.getByLabel('Admin token').fill(token)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

describe('the sign-in', { skip: skipBrowser }, () => {
  let browser: Browser
  let gateway: Started
  before(async () => {
    const started = await Promise.all([startBrowser(), start({ env: { AUTH_ADMIN: TOKEN } })])
    browser = started[0]
    gateway = started[1]
  })
  after(async () => {
    await Promise.all([browser?.close(), gateway?.stop()])
  })

  test('a wrong token is refused, later tries wait longer, and the right one opens the page', () =>
    withDashboard(browser, { url: gateway.url, expected }, async ({ page, context, open, shot }) => {
      await open('/dashboard/config')
      const field = page.getByLabel('Admin token')
      await field.waitFor()
      assert.equal(await field.getAttribute('type'), 'password')
      assert.equal(await field.getAttribute('autocomplete'), 'current-password')
      // Each wait that is shown, and whether the button is disabled.
      await page.evaluate(() => {
        const waits: string[] = []
        Reflect.set(window, 'waits', waits)
        new MutationObserver(() => {
          const seconds = /\d+/.exec(document.querySelector('dialog .num')?.textContent ?? '')?.[0]
          const { disabled } = document.querySelector<HTMLButtonElement>('dialog button[type="submit"]') ?? {}
          const wait = `${seconds} ${disabled}`
          if (seconds !== undefined && waits.at(-1) !== wait) waits.push(wait)
        }).observe(document.body, { subtree: true, childList: true, characterData: true })
      })
      await signIn(page, 'wrong-token-0123456789')
      await page.getByText('The token was not accepted.').waitFor()
      assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('name')), 'token')
      const isOver = (count: number) =>
        page.waitForFunction((least) => {
          const waits: readonly string[] = Reflect.get(window, 'waits')
          const submit = document.querySelector<HTMLButtonElement>('dialog button[type="submit"]')
          return waits.length >= least && submit?.disabled === false
        }, count)
      await isOver(1)
      await shot('login-wrong')
      await signIn(page, 'wrong-token-0123456780')
      await isOver(3)
      assert.deepEqual(await page.evaluate(() => Reflect.get(window, 'waits')), ['1 true', '2 true', '1 true'])
      await signIn(page)
      await page.locator('.config-name').first().waitFor()
      assert.equal(await page.locator('dialog[open]').count(), 0)
      assert.ok(!(await page.content()).includes(TOKEN))
      const kept = await page.evaluate(
        () => `${location.href} ${JSON.stringify({ ...localStorage, ...sessionStorage })} ${document.cookie}`,
      )
      assert.ok(!kept.includes(TOKEN))
      const [cookie] = await context.cookies()
      assert.ok(cookie?.httpOnly)
    }))

  test('after a session has ended the page keeps its state, and the call is repeated', () =>
    withDashboard(browser, { url: gateway.url, expected }, async ({ page, open, context, shot }) => {
      await open('/dashboard/config/edit')
      await signIn(page)
      await page.locator('dialog[open]').waitFor({ state: 'detached' })
      const text = page.getByLabel('Text of headgate.yaml')
      await text.fill('circuit:\n  timeout: 12345\n')
      await context.clearCookies()
      await page.getByRole('button', { name: 'Check' }).click()
      await page.getByText('The session has ended.').waitFor()
      await shot('login-again')
      await signIn(page)
      await page.getByText('This file is valid.').waitFor()
      assert.equal(await text.inputValue(), 'circuit:\n  timeout: 12345\n')
    }))

  test('after a sign-in in another tab, the writes of this one go on', () =>
    withDashboard(browser, { url: gateway.url, expected }, async ({ page, open, context }) => {
      await open('/dashboard/config/edit')
      const other = await context.newPage()
      await other.goto(`${gateway.url}/dashboard/config`)
      await other.getByLabel('Admin token').waitFor()
      // Both ask, and each sign-in makes a session: the cookie is that of the last one.
      for (const tab of [page, other]) {
        await signIn(tab)
        await tab.locator('dialog[open]').waitFor({ state: 'detached' })
      }
      await page.getByLabel('Text of headgate.yaml').fill('circuit:\n  timeout: 12345\n')
      await page.getByRole('button', { name: 'Check' }).click()
      await page.getByText('This file is valid.').waitFor()
    }))

  test('the address of the sign-in leads to the overview; signing out asks again', () =>
    withDashboard(browser, { url: gateway.url, expected }, async ({ page, open }) => {
      await open('/dashboard/login')
      await signIn(page)
      await page.waitForURL(/\/dashboard\/$/)
      await page.getByRole('button', { name: 'auth.admin' }).click()
      await page.getByRole('button', { name: 'Sign out' }).click()
      await page.getByLabel('Admin token').waitFor()
    }))

  test('a viewer sees why the audit log and reloading are not there', () =>
    withDashboard(browser, { url: gateway.url, expected }, async ({ page, open, check, shot }) => {
      const made = await fetch(`${gateway.url}/admin/api/v1/tokens`, {
        method: 'POST',
        headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
        body: JSON.stringify({ name: 'looker', bindings: [{ role: 'viewer', team: null }] }),
      })
      const { secret: token } = await made.json()
      assert.equal(made.status, 201)
      await open('/dashboard/config/audit')
      await signIn(page, token)
      await page.getByText('The audit log needs the role admin for all teams.').waitFor()
      await check()
      await shot('login-viewer')
      await open('/dashboard/config/reloads')
      await page.getByText('This needs the role operator.').waitFor()
      assert.ok(await page.getByRole('button', { name: 'Reload now' }).isDisabled())
    }))

  test('over https, through a TLS proxy: the cookie is secure and of this host only, and writes work', async () => {
    const proxy = createServer(selfSigned(), (request, response) => {
      const headers = { ...request.headers, 'x-forwarded-proto': 'https' }
      const forwarded = httpRequest(`${gateway.url}${request.url}`, { method: request.method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(response)
      })
      forwarded.on('error', () => response.destroy())
      response.on('close', () => forwarded.destroy())
      request.pipe(forwarded)
    })
    const context = await browser.newContext({ ignoreHTTPSErrors: true })
    try {
      await once(proxy.listen(0, '127.0.0.1'), 'listening')
      // Its address is that of a TCP port.
      const { port } = proxy.address() as AddressInfo
      const page = await context.newPage()
      await page.goto(`https://127.0.0.1:${port}/dashboard/config/edit`)
      await signIn(page)
      await page.locator('dialog[open]').waitFor({ state: 'detached' })
      const [cookie] = await context.cookies()
      assert.deepEqual(
        [cookie?.name, cookie?.secure, cookie?.httpOnly, cookie?.domain],
        ['__Host-headgate', true, true, '127.0.0.1'],
      )
      await page.getByLabel('Text of headgate.yaml').fill('circuit:\n  timeout: 12345\n')
      await page.getByRole('button', { name: 'Check' }).click()
      await page.getByText('This file is valid.').waitFor()
    } finally {
      await context.close()
      proxy.closeAllConnections()
      proxy.close()
    }
  })

  test('a viewer of one team gets an overview without refused calls', () =>
    withDashboard(browser, { url: gateway.url, expected: /status of 401/ }, async ({ page, open, check, shot }) => {
      const admin = (path: string, body: object) =>
        fetch(`${gateway.url}/admin/api/v1${path}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
          body: JSON.stringify(body),
        }).then((response) => response.json())
      const { id } = await admin('/teams', { name: 'search' })
      const { secret } = await admin('/tokens', { name: 'searcher', bindings: [{ role: 'viewer', team: id }] })
      const refused: string[] = []
      page.on('response', (response) => {
        if (response.status() === 403) refused.push(response.url())
      })
      await open()
      await signIn(page, secret)
      await page.locator('.first-run-step').nth(2).waitFor()
      // All figures are of this team: the frame says so.
      await page.getByRole('button', { name: 'searcher · team search' }).waitFor()
      await page.waitForLoadState('networkidle')
      await check()
      await shot('login-team-viewer')
      assert.deepEqual(refused, [])
    }))

  for (const { width, theme } of LOOKS)
    test(`is accessible ${width} and ${theme}`, () =>
      withDashboard(browser, { url: gateway.url, width, theme, expected }, async ({ page, open, check, shot }) => {
        await open('/dashboard/login')
        await page.getByLabel('Admin token').waitFor()
        await check()
        await shot('login')
      }))
})
