/** The set-up parts of Configuration: alerts with a real receiver. */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { type Started, start } from '../e2e/support/process.ts'
import { fileOf } from '../e2e/support/stage.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, type OpenDashboard, withDashboard } from './support/dashboard.ts'

const ADMIN = 'admin-token-of-the-setup-tests'
const HOOK_SECRET = 'hook-path-that-is-a-credential'
const PAGE = '/dashboard/config'
/** Parts of the page, and what shows that they are read. */
const SECTIONS = [['/alerts', '.plain-table td, .plain-cards li']] as const

/** A receiver of alerts that answers with `status`. */
const startReceiver = async () => {
  const received: { readonly type: string; readonly path: string | undefined }[] = []
  const receiver = { received, status: 204, url: '', close: () => {} }
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request.setEncoding('utf8')) text += chunk
    received.push({ type: JSON.parse(text).type, path: request.url })
    response.writeHead(receiver.status).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // A server on a port has an address object.
  receiver.url = `http://127.0.0.1:${port}`
  receiver.close = () => {
    server.closeAllConnections()
    server.close()
  }
  return receiver
}

describe('the set-up parts of Configuration', { skip: skipBrowser }, () => {
  let browser: Browser
  let gateway: Started
  let receiver: Awaited<ReturnType<typeof startReceiver>>
  /** Calls the admin API, and fails unless it succeeds. */
  // biome-ignore lint/suspicious/noExplicitAny: the tests read bodies of every shape
  const admin = async (method: string, path: string, body?: unknown): Promise<any> => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
    return JSON.parse(text)
  }
  /** A token for a role, and the page opened with it. */
  const openAs = async ({ page, context, open }: OpenDashboard, path: string, token = ADMIN) => {
    const response = await context.request.post(`${gateway.url}/admin/api/v1/session`, { data: { token } })
    assert.equal(response.status(), 201)
    await open(path)
    return page
  }
  const tokenFor = async (role: string): Promise<string> => {
    const { secret } = await admin('POST', '/tokens', { name: `${role}-${Date.now()}`, bindings: [{ role }] })
    return secret
  }
  before(async () => {
    receiver = await startReceiver()
    const started = await Promise.all([
      startBrowser(),
      start({
        env: { AUTH_ADMIN: ADMIN },
        files: {
          'headgate.yaml': fileOf({
            providers: { own: { baseUrl: 'http://127.0.0.1:9/v1', models: ['small'] } },
            budgets: { month: { amount: '10.00', period: 'month', alerts: [80] } },
            alerts: { url: `${receiver.url}/${HOOK_SECRET}`, rules: { storeDown: 0, budget: [80, 100] } },
          }),
        },
      }),
    ])
    browser = started[0]
    gateway = started[1]
  })
  after(async () => {
    receiver?.close()
    await Promise.all([browser?.close(), gateway?.stop()])
  })

  test('alerts: shows the receiver, sends a test, and lists an alert while it lasts and after', () =>
    withDashboard(browser, { url: gateway.url }, async (dashboard) => {
      const page = await openAs(dashboard, `${PAGE}/alerts`)
      await page.getByText(`${receiver.url}/…`).waitFor()
      await page.getByRole('button', { name: 'Send a test' }).click()
      await page.getByText('The receiver accepted the test.').waitFor()
      assert.deepEqual(receiver.received.at(-1), { type: 'test', path: `/${HOOK_SECRET}` })
      receiver.status = 404
      await page.getByRole('button', { name: 'Send a test' }).click()
      await page.getByText('The test was not delivered: the receiver responded with status 404.').waitFor()
      receiver.status = 204
      const off = page.getByRole('row', { name: /^Store down off none/ })
      await off.getByText('Lines for headgate.yaml').click()
      await off.getByText('storeDown: 60000').waitFor()
      await page.getByRole('row', { name: /^Budget 80%, 100% none/ }).waitFor()
      await page.getByRole('row', { name: /^Failed requests 20% of at least 20 requests in 5 min/ }).waitFor()
      const { data } = await admin('GET', '/budgets')
      await admin('POST', `/budgets/${encodeURIComponent(data[0].id)}/adjust`, { amount: '9.00', reason: 'test' })
      await page.getByRole('list', { name: 'Open alerts' }).getByText('budget.threshold').waitFor()
      assert.equal(receiver.received.at(-1)?.type, 'budget.threshold')
      await dashboard.shot('config-alerts-open')
      assert.ok(!(await page.content()).includes(HOOK_SECRET))
      const alerts = await admin('GET', '/alerts')
      assert.deepEqual([alerts.data.length, alerts.past, alerts.receiver.signed], [1, [], false])
      const rule = alerts.rules.find((one: { readonly rule: string }) => one.rule === 'budget')
      assert.equal(rule.last_at, alerts.data[0].sent_at)
      await page.locator(`time[datetime="${rule.last_at}"]`).first().waitFor()
      await admin('POST', `/budgets/${encodeURIComponent(data[0].id)}/adjust`, { amount: '-9.00', reason: 'test' })
      // An alert is over after a minute.
      await page
        .getByRole('list', { name: 'Past alerts' })
        .getByText(/lasted \d/)
        .waitFor()
      await page.getByText('No alert is open.').waitFor()
    }))

  test('alerts: a viewer sees which role they need', () =>
    withDashboard(browser, { url: gateway.url }, async (dashboard) => {
      const page = await openAs(dashboard, `${PAGE}/alerts`, await tokenFor('viewer'))
      await page.getByText('Alerts need the role operator for all teams.').waitFor()
    }))

  for (const { width, theme } of LOOKS)
    test(`are accessible ${width} and ${theme}`, () =>
      withDashboard(browser, { url: gateway.url, width, theme }, async (dashboard) => {
        for (const [section, shown] of SECTIONS) {
          const page = await openAs(dashboard, `${PAGE}${section}`)
          await page.locator(shown).first().waitFor()
          await dashboard.check()
          await dashboard.shot(`config${section.replace('/', '-')}`)
        }
      }))
})
