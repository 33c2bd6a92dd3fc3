/** The dashboard of a default start, in a browser: it loads, its pages open, and nothing is refused or out of place. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { type Started, start } from '../e2e/support/process.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'

describe('the dashboard', { skip: skipBrowser }, () => {
  let browser: Browser
  let gateway: Started
  before(async () => {
    const started = await Promise.all([startBrowser(), start()])
    browser = started[0]
    gateway = started[1]
  })
  after(async () => {
    await Promise.all([browser?.close(), gateway?.stop()])
  })

  for (const { width, theme } of LOOKS)
    test(`opens ${width} and ${theme}, is live, and is accessible`, () =>
      withDashboard(browser, { url: gateway.url, width, theme }, async ({ page, open, check, shot }) => {
        await open()
        await page.waitForSelector('.live-live')
        for (const name of ['overview', 'requests']) {
          await open(name === 'overview' ? '/dashboard/' : `/dashboard/${name}`)
          await check()
          await shot(name)
        }
      }))

  test('navigates by keyboard, keeps the range, and goes back', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, shot }) => {
      await open('/dashboard/?from=-24h')
      await page.keyboard.press('g')
      await page.keyboard.press('r')
      await page.waitForURL('**/dashboard/requests?from=-24h')
      await page.keyboard.press('Control+k')
      await page.keyboard.type('providers')
      // Enter that ends the input of a word, as of an input method for Japanese, is not for the list.
      await page.getByRole('combobox').evaluate((field) => {
        for (const key of ['ArrowDown', 'Enter'])
          field.dispatchEvent(new KeyboardEvent('keydown', { key, isComposing: true, bubbles: true }))
      })
      assert.match(page.url(), /\/requests\?/)
      await page.keyboard.press('Enter')
      await page.waitForURL('**/dashboard/providers?from=-24h')
      await page.keyboard.press('Control+k')
      await page.keyboard.type('provider demo')
      await page.getByRole('option', { name: 'Provider demo' }).waitFor()
      await page.keyboard.press('Enter')
      await page.waitForURL('**/dashboard/providers/demo?from=-24h')
      await page.goBack()
      await page.waitForURL('**/dashboard/providers?from=-24h')
      await page.goBack()
      await page.waitForURL('**/dashboard/requests?from=-24h')
      assert.equal(await page.locator('nav [aria-current="page"]').textContent(), 'Requests')
      await page.keyboard.press('?')
      await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor()
      await shot('shortcuts')
      await page.keyboard.press('Escape')
      await page.keyboard.press('t')
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'light')
    }))
})
