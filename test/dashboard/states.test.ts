/** Many rows, silence, other ways to look at the pages: forced colours, print, longer texts, larger type. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { type Started, start } from '../e2e/support/process.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { withDashboard } from './support/dashboard.ts'
import { withLongerWords } from './support/longer-words.ts'

const LIST = '/dashboard/requests'
const REQUESTS = 650

/** Sends requests that no provider is tried for, 25 at a time. */
const flood = async (url: string, count: number): Promise<void> => {
  for (let sent = 0; sent < count; sent += 25)
    await Promise.all(
      Array.from({ length: 25 }, (_, at) =>
        fetch(`${url}/v1/chat/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ model: `none-${sent + at}`, messages: [{ role: 'user', content: 'x' }] }),
        }).then((response) => response.arrayBuffer()),
      ),
    )
}

const rowsIn = (page: Page): Promise<number> => page.locator('table.table tbody tr:not(.spacer)').count()

describe('the pages', { skip: skipBrowser }, () => {
  let browser: Browser
  let gateway: Started
  before(async () => {
    const started = await Promise.all([startBrowser(), start({ env: { UNKNOWN_MODEL: 'reject' } })])
    browser = started[0]
    gateway = started[1]
    await flood(gateway.url, REQUESTS)
  })
  after(async () => {
    await Promise.all([browser?.close(), gateway?.stop()])
  })

  test('have only the rows near the window in the document, and read more at the end', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check }) => {
      await open(LIST)
      await page.getByText(`${REQUESTS} requests`, { exact: true }).waitFor()
      assert.ok((await rowsIn(page)) < 80)
      // The last row is read after three more pages.
      for (let turn = 0; turn < 40 && !(await page.getByText('none-0', { exact: true }).isVisible()); turn++) {
        await page.keyboard.press('End')
        await page.waitForTimeout(100)
      }
      await page.getByText('none-0', { exact: true }).waitFor()
      assert.ok((await rowsIn(page)) < 80)
      const last = page.locator('table.table tbody tr:not(.spacer)').last()
      assert.equal(await last.getAttribute('aria-rowindex'), String(REQUESTS + 1))
      // A focused row stays in the document, and is shown again by the next key.
      await last.focus()
      await page.evaluate(() => window.scrollTo(0, 0))
      await page.keyboard.press('k')
      await page.waitForFunction(() => (document.activeElement?.getBoundingClientRect().top ?? -1) > 0)
      await check()
    }))

  test('have rows down to the end of the window after what is above them has become smaller', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open }) => {
      await open(LIST)
      await page.locator('.outcome').first().waitFor()
      const setHeight = (height: string) =>
        page.locator('.requests-top').evaluate((element: HTMLElement, value) => {
          element.style.height = value
        }, height)
      await setHeight('2000px')
      await page.setViewportSize({ width: 1280, height: 900 })
      await page.waitForFunction(() => document.querySelectorAll('table.table tbody tr:not(.spacer)').length < 12)
      await setHeight('')
      await page.waitForFunction(() => {
        const last = [...document.querySelectorAll('table.table tbody tr:not(.spacer)')].at(-1)
        return (last?.getBoundingClientRect().bottom ?? 0) >= window.innerHeight
      })
    }))

  test('are legible with longer texts, at 200 % zoom, and with more space between letters', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check, shot }) => {
      await withLongerWords(page, gateway.url)
      for (const width of [1280, 640, 360]) {
        await page.setViewportSize({ width, height: 800 })
        await open(LIST)
        await page.locator('.outcome').first().waitFor()
        // WCAG 1.4.12. At 200 % zoom a window of 1280 px has 640.
        await page.evaluate(() => {
          const { style } = document.documentElement
          style.letterSpacing = '0.12em'
          style.wordSpacing = '0.16em'
        })
        await check()
        await shot(`longer-${width}`)
      }
    }))

  test('have all their borders and words in forced colours', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check, shot }) => {
      await page.emulateMedia({ forcedColors: 'active' })
      await open(LIST)
      await page.locator('.outcome').first().click()
      await page.getByText('Why here').waitFor()
      await check()
      await shot('forced-colours')
    }))

  test('print the request without the frame', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open }) => {
      await open(LIST)
      await page.locator('.outcome').first().click()
      await page.getByText('Why here').waitFor()
      await page.emulateMedia({ media: 'print' })
      assert.equal(await page.locator('.bar').isVisible(), false)
      assert.equal(await page.getByText('Why here').isVisible(), true)
      assert.ok((await page.pdf()).length > 5_000)
    }))
})
