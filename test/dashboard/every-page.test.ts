/**
 * Every page with foreign texts in it: nothing is markup, cut off, on top of something else or turned around, also with longer
 * words; the main regions are where they were (`layout.json`); and a printed page is its data without the frame.
 */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { WIDTHS, type WidthName, withDashboard } from './support/dashboard.ts'
import { withLongerWords } from './support/longer-words.ts'
import { isRead, misplaced, moved, PAGE_FACTS, PAGES, type Region, regionsOf, unisolated } from './support/pages.ts'
import { ADMIN, type Populated, startPopulated } from './support/populated.ts'

const LAYOUT = join(import.meta.dirname, 'layout.json')
/** `LAYOUT=write` writes what is measured, to be read before it is committed. */
const isWritten = process.env.LAYOUT === 'write'
type Layout = { [page: string]: readonly Region[] }
// Written by this test.
const layout: Layout = existsSync(LAYOUT) ? (JSON.parse(readFileSync(LAYOUT, 'utf8')) as Layout) : {}
// The names are those of the table.
const widths = Object.keys(WIDTHS) as WidthName[]

const TABLES = PAGES.filter(([name]) => PAGE_FACTS[name].hasTable)

/** px between the two widths: a tablet both ways, and a small laptop. */
const BETWEEN = [768, 1024, 1180]

/** Links of the frame that cannot be seen, and columns without room. */
const squeezed = (): readonly string[] => {
  const nav = document.querySelector('.pages')
  const cut = nav && nav.scrollWidth > nav.clientWidth + 1 ? [`the pages need ${nav.scrollWidth} px`] : []
  const cells = [...document.querySelectorAll('main table th')].filter((cell) => cell.checkVisibility())
  const thin = cells.filter((cell) => cell.closest('.scroll-x, thead.sr-only') === null && cell.clientWidth < 24)
  return [...cut, ...thin.map((cell) => `the column ${cell.textContent} has ${cell.clientWidth} px`)]
}

/** A page that has become narrower is drawn again a moment later. */
const isWithin = async (page: Page): Promise<void> => {
  const measure = () => {
    const { clientWidth, scrollWidth } = document.documentElement
    return scrollWidth <= clientWidth ? true : `the page is ${scrollWidth} px wide in a window of ${clientWidth} px`
  }
  await page
    .waitForFunction(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth)
    .catch(() => {})
  assert.equal(await page.evaluate(measure), true)
}

describe('every page', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let populated: Populated
  before(async () => {
    ;[browser, populated] = await Promise.all([startBrowser(), startPopulated()])
  })
  after(async () => {
    await Promise.all([browser?.close(), populated?.close()])
    const line = (region: Region) => `    [${region.map((value) => JSON.stringify(value)).join(', ')}]`
    const lines = Object.entries(layout).map(
      ([name, regions]) => `  "${name}": [\n${regions.map(line).join(',\n')}\n  ]`,
    )
    if (isWritten) writeFileSync(LAYOUT, `{\n${lines.join(',\n')}\n}\n`)
  })
  const options = () => ({ url: populated.gateway.url, token: ADMIN })

  test('a window that becomes narrow has its header, and is not wider than itself, before its parts are drawn for it', () =>
    withDashboard(browser, options(), async ({ page, open, fits }) => {
      // A busy machine draws the parts late, such as cards; here it never does.
      await page.addInitScript(() => {
        MediaQueryList.prototype.addEventListener = () => {}
      })
      for (const [name, path] of TABLES) {
        await page.setViewportSize(WIDTHS.wide)
        await open(path)
        await page.locator('table[data-columns]').first().waitFor()
        await page.setViewportSize(WIDTHS.narrow)
        assert.ok((await page.locator('table[data-columns]').count()) > 0, name)
        await fits()
        assert.equal(await page.locator('.bar').evaluate((bar) => bar.clientHeight + 1), 48, name)
      }
    }))

  for (const [name, path, shown] of PAGES)
    test(`${name}: foreign texts, places, print, longer words`, () =>
      withDashboard(browser, options(), async ({ page, open, check, checkColors, shot }) => {
        await open(path)
        await isRead(page, shown)
        for (const width of BETWEEN) {
          await page.setViewportSize({ width, height: 800 })
          await isRead(page, shown)
          await isWithin(page)
          assert.deepEqual(await misplaced(page), [], `${width} px`)
          assert.deepEqual(await page.evaluate(squeezed), [], `${width} px`)
          await shot(`page-${name}-${width}`)
        }
        for (const width of widths) {
          await page.setViewportSize(WIDTHS[width])
          await isRead(page, shown)
          await isWithin(page)
          assert.deepEqual(await misplaced(page), [], width)
          assert.deepEqual(await unisolated(page), [], width)
          const regions = await regionsOf(page)
          if (isWritten) layout[`${name} ${width}`] = regions
          else assert.deepEqual(moved(layout[`${name} ${width}`] ?? [], regions), [], width)
          await page.emulateMedia({ colorScheme: 'light' })
          await check()
          await shot(`page-${name}-${width}-light`)
          await page.emulateMedia({ colorScheme: 'dark' })
          await checkColors()
          await shot(`page-${name}-${width}-dark`)
        }
        const text = (await page.locator('main').textContent()) ?? ''
        assert.equal(text.includes('<img src=x onerror='), PAGE_FACTS[name].hasForeignText)
        assert.equal(await page.locator('main :is(img, script, iframe, [onerror], [style*="expression"])').count(), 0)

        await page.setViewportSize(WIDTHS.wide)
        await isRead(page, shown)
        await page.emulateMedia({ media: 'print', colorScheme: 'dark' })
        for (const hidden of ['.bar', '.pages', 'main .button >> nth=0', '#notices .button >> nth=0'])
          if ((await page.locator(hidden).count()) > 0)
            assert.equal(await page.locator(hidden).isVisible(), false, hidden)
        assert.ok(await page.locator('h1').isVisible())
        const { hasRange } = PAGE_FACTS[name]
        assert.equal((await page.locator('.printed').count()) > 0, hasRange)
        if (hasRange) assert.match((await page.locator('.printed').innerText()) || '', /^last /)
        if (name !== 'playground') assert.ok(await page.locator(shown).first().isVisible())
        // Of the light theme, as its text is.
        assert.equal(await page.evaluate(() => getComputedStyle(document.body).color), 'rgb(28, 28, 26)')
        await shot(`page-${name}-print`)

        await page.emulateMedia({ media: 'screen', colorScheme: 'light' })
        await withLongerWords(page, populated.gateway.url)
        await page.reload()
        await page.locator('main h1').waitFor()
        for (const width of widths) {
          await page.setViewportSize(WIDTHS[width])
          await isRead(page, shown)
          await isWithin(page)
          assert.deepEqual(await misplaced(page), [], width)
          assert.match(await page.locator('h1').innerText(), /^\[.*[åéîøû].*~\]$/)
        }
      }))

  test('the sheet of a request: longer words', () =>
    withDashboard(browser, options(), async ({ page, open }) => {
      await withLongerWords(page, populated.gateway.url)
      await open('/dashboard/requests')
      await page.locator('.outcome').first().click()
      await page.locator('.sheet h2').first().waitFor()
      for (const width of widths) {
        await page.setViewportSize(WIDTHS[width])
        await page.locator('.sheet[aria-busy="false"] h2').first().waitFor()
        await isWithin(page)
        assert.deepEqual(await misplaced(page), [], width)
      }
    }))

  test('numbers, amounts and times are those of the locale of the browser', () =>
    withDashboard(browser, { ...options(), locale: 'de-DE' }, async ({ page, open }) => {
      await open('/dashboard/requests')
      await page.locator('.outcome').first().waitFor()
      const text = await page.locator('main').innerText()
      assert.match(text, /\$0,\d/)
      assert.doesNotMatch(text, /\$\d+\.\d/)
      assert.doesNotMatch(text, /\d\.\d+ (?:ms|s)\b/)
      const titles = await page
        .locator('time[title]')
        .evaluateAll((all) => all.map((time) => time.getAttribute('title')))
      assert.ok(titles.length > 0)
      for (const title of titles) assert.match(title ?? '', /^\d{2}\.\d{2}\.\d{4}, /)
    }))
})
