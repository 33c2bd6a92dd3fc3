/** 260 keys, more than a page of the API: each is found by its name, in the palette, in menus of filters and in chips. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { type Started, start } from '../e2e/support/process.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { withDashboard } from './support/dashboard.ts'

const KEYS = 260
/** The last in the order of names. */
const LAST = 'service-259'
const ADMIN = 'operator-token-0123456789'

describe('many keys', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let gateway: Started
  let id = ''
  before(async () => {
    const keys = Object.fromEntries(
      Array.from({ length: KEYS }, (_, at) => [
        `service-${String(at).padStart(3, '0')}`,
        { secret: `secret-of-service-${String(at).padStart(8, '0')}` },
      ]),
    )
    ;[browser, gateway] = await Promise.all([
      startBrowser(),
      start({ env: { AUTH_ADMIN: ADMIN }, files: { 'headgate.yaml': JSON.stringify({ keys }) } }),
    ])
    const answer = await fetch(`${gateway.base}/chat/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer secret-of-service-${String(KEYS - 1).padStart(8, '0')}`,
      },
      body: JSON.stringify({ model: 'demo/echo', messages: [{ role: 'user', content: 'Hello' }] }),
    })
    assert.equal(answer.status, 200)
    await answer.arrayBuffer()
    const listed = await fetch(`${gateway.url}/admin/api/v1/keys?q=${LAST}`, {
      headers: { authorization: `Bearer ${ADMIN}` },
    })
    const page: { readonly data: readonly { readonly id: string }[] } = await listed.json()
    id = page.data[0]?.id ?? ''
    assert.notEqual(id, '')
  })
  after(() => Promise.all([browser?.close(), gateway?.stop()]))

  const session = () => ({ url: gateway.url, token: ADMIN })

  test('the usage page names a chosen key that has no usage in the range', () =>
    withDashboard(browser, session(), async ({ page, open }) => {
      await open(`/dashboard/usage?group=model&key=${id}&from=2026-01-01&to=2026-01-02`)
      await page.locator('.chip', { hasText: LAST }).waitFor()
    }))

  test('the menu of requests finds a key by its name, and its chip has the name', () =>
    withDashboard(browser, session(), async ({ page, open }) => {
      await open('/dashboard/requests?from=-24h')
      await page.getByRole('button', { name: 'Key', exact: true }).click()
      await page.getByRole('searchbox', { name: 'Find: Key' }).fill('service-130')
      await page.getByText('service-130', { exact: true }).click()
      await page.locator('.chip', { hasText: 'service-130' }).waitFor()
    }))

  test('the palette finds a key beyond the first page', () =>
    withDashboard(browser, session(), async ({ page, open }) => {
      await open('/dashboard/')
      await page.keyboard.press('Control+k')
      await page.getByRole('combobox').fill(LAST)
      await page.getByRole('option', { name: LAST }).first().waitFor()
    }))
})
