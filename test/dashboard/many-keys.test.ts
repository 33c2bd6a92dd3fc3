/** 5,000 keys: each is found by its name, in the palette, in menus of filters and in chips, and the list reads a page at a time. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { type Started, start } from '../e2e/support/process.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { withDashboard } from './support/dashboard.ts'

const KEYS = 5_000
/** The last in the order of names. */
const LAST = 'service-4999'
const ADMIN = 'operator-token-0123456789'

describe('many keys', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let gateway: Started
  let id = ''
  before(async () => {
    const keys = Object.fromEntries(
      Array.from({ length: KEYS }, (_, at) => [
        `service-${String(at).padStart(4, '0')}`,
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
      await page.getByRole('searchbox', { name: 'Find: Key' }).fill('service-1300')
      await page.getByText('service-1300', { exact: true }).click()
      await page.locator('.chip', { hasText: 'service-1300' }).waitFor()
    }))

  test('the palette finds a key beyond the first page', () =>
    withDashboard(browser, session(), async ({ page, open }) => {
      await open('/dashboard/')
      await page.keyboard.press('Control+k')
      await page.getByRole('combobox').fill(LAST)
      await page.getByRole('option', { name: LAST }).first().waitFor()
    }))

  test('the list of keys is read a page at a time, and the one that was used last is first with one call', () =>
    withDashboard(browser, session(), async ({ page, open }) => {
      const calls: string[] = []
      page.on('request', (request) => {
        if (request.url().includes('/api/v1/keys?')) calls.push(request.url())
      })
      await open('/dashboard/keys')
      await page.getByRole('link', { name: 'service-0000', exact: true }).waitFor()
      await page.getByRole('button', { name: 'Keys 200+' }).waitFor()
      assert.equal(calls.length, 1, calls.join('\n'))
      // The demo costs nothing: the key that was used is the first by its last use.
      await open('/dashboard/keys?sort=-last_used_at')
      await page.getByRole('link', { name: LAST, exact: true }).waitFor()
      assert.equal(calls.length, 2, calls.join('\n'))
      // Each time the end is near, twice as many are read: 2, 4 and 8 pages.
      const toEnd = () => page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight))
      for (const [read, more] of [
        ['400+', 2],
        ['800+', 6],
        ['1,600+', 14],
      ] as const) {
        await toEnd()
        await page.getByRole('button', { name: `Keys ${read}` }).waitFor()
        assert.equal(calls.length, 2 + more, calls.join('\n'))
      }
      await toEnd()
      const last = page.locator('.table tbody tr:not(.spacer)').last()
      assert.match((await last.textContent()) ?? '', /service-/)
    }))
})
