/** The documentation in a browser: accessible, in both themes and widths, and its search. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { built } from '../e2e/support/built.ts'
import { type Started, start } from '../e2e/support/process.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'

const PAGES = ['index', 'errors', 'clients/codex', 'find'] as const

describe('the documentation', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let gateway: Started
  before(async () => {
    ;[browser, gateway] = await Promise.all([startBrowser(), start()])
    assert.equal((await built(`${gateway.url}/docs/`)).status, 200)
  })
  after(async () => {
    await browser?.close()
    await gateway?.stop()
  })

  for (const { width, theme } of LOOKS)
    test(`is accessible and fits: ${width}, ${theme}`, async () => {
      await withDashboard(browser, { url: gateway.url, width, theme }, async ({ page, check, shot }) => {
        for (const name of PAGES) {
          await page.goto(`${gateway.url}/docs/${name}`)
          await check()
          await shot(`docs-${name.replace('/', '-')}`)
        }
      })
    })

  test('leads from a page to the next, to a heading, and back', async () => {
    await withDashboard(browser, { url: gateway.url, width: 'narrow' }, async ({ page }) => {
      await page.goto(`${gateway.url}/docs/`)
      await page.getByRole('link', { name: 'Pages', exact: true }).click()
      await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Errors' }).click()
      await page.getByRole('heading', { level: 1, name: 'Errors' }).waitFor()
      await page.goto(`${gateway.url}/docs/find`)
      await page.getByRole('link', { name: 'Budgets and limits' }).click()
      assert.equal(new URL(page.url()).hash, '#budgets-and-limits')
      await page.getByRole('link', { name: /^Next: / }).click()
      await page.getByRole('link', { name: 'Headgate', exact: true }).click()
      await page.getByRole('heading', { level: 1, name: 'Headgate' }).waitFor()
    })
  })

  test('finds a text from any page, as one types, and by the address', async () => {
    await withDashboard(browser, { url: gateway.url }, async ({ page }) => {
      await page.goto(`${gateway.url}/docs/clients/codex`)
      const field = page.getByRole('searchbox', { name: 'Search the documentation' })
      await field.fill('budget_exceeded')
      await field.press('Enter')
      const results = page.locator('#results')
      await results
        .getByRole('link', { name: /^Errors/ })
        .first()
        .waitFor()
      await field.fill('no such <b>word</b> qqqq')
      await field.fill('qqqq')
      await results.getByText('No page has these words.').waitFor()
      await page.goto(`${gateway.url}/docs/find.html?q=${encodeURIComponent('behind nginx')}`)
      await results.getByRole('link').first().click()
      assert.match(page.url(), /\/docs\/deploy\//)
    })
  })
})
