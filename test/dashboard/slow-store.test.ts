/**
 * The usage data is read slowly, as from a disk that has no time. Pages state it, keep the figures that they have, invent none,
 * and show new ones as soon as the data can be read again.
 */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { checkFit, checkLooks, type OpenDashboard } from './support/dashboard.ts'
import { isRead, PAGES, type PageName, withPages } from './support/pages.ts'
import { ADMIN, type Populated, startPopulated } from './support/populated.ts'

/** ms that a query of a slow table takes; the limit is 5 s. Three times as long, as the machine may be busier now than later. */
const SLOW = 15_000
const TABLES = ['request', 'open_call', 'usage_day', 'usage_hour']

const counting = (rows: number): string =>
  `WITH RECURSIVE step (at) AS (SELECT 1 UNION ALL SELECT at + 1 FROM step WHERE at < ${rows}) SELECT count(*) FROM step`

/** Rows that this machine counts at its fastest, to know what takes `SLOW`. */
const SAMPLE = { rows: 500_000, runs: 4 }
const countSample = (): number => {
  const memory = new DatabaseSync(':memory:')
  const began = performance.now()
  memory.prepare(counting(SAMPLE.rows)).get()
  memory.close()
  return performance.now() - began
}

/** Makes each query of the usage data take longer than its limit, until the returned function is called. */
const slowDown = (folder: string): (() => void) => {
  const change = (statements: readonly string[]) => {
    const database = new DatabaseSync(join(folder, 'usage.db'), { timeout: 10_000 })
    database.exec(`BEGIN IMMEDIATE; ${statements.join('; ')}; COMMIT`)
    database.close()
  }
  const rows = Math.ceil((SAMPLE.rows * SLOW) / Math.min(...Array.from({ length: SAMPLE.runs }, countSample)))
  // The tables become views that count before they return their rows.
  change(
    TABLES.flatMap((table) => [
      `ALTER TABLE ${table} RENAME TO fast_${table}`,
      `CREATE VIEW ${table} AS SELECT * FROM fast_${table} WHERE (${counting(rows)}) > 0`,
    ]),
  )
  return () => change(TABLES.flatMap((table) => [`DROP VIEW ${table}`, `ALTER TABLE fast_${table} RENAME TO ${table}`]))
}

describe('usage data that is read slowly', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let populated: Populated
  before(async () => {
    const started = await Promise.all([startBrowser(), startPopulated()])
    browser = started[0]
    populated = started[1]
  })
  after(async () => {
    await Promise.all([browser?.close(), populated?.close()])
  })

  /** What the page shows of its data; of a list its first rows, because how many are in the document depends on its place. */
  const figures = async ({ page }: OpenDashboard): Promise<readonly string[]> => {
    const shown = 'main :is(.figure-value, .list-count, .usage-table td, tr:nth-child(-n + 8) .outcome)'
    const texts = await page.locator(shown).allTextContents()
    // A search that had begun before states what it had counted when its time was over.
    return texts.map((text) => text.replace(/^at least /, ''))
  }

  const NAMES: readonly PageName[] = ['overview', 'requests', 'providers', 'usage']
  /** The sentence is the same on all pages; a list has another place for it than cards. */
  const look = (dashboard: OpenDashboard, state: string, name: PageName) =>
    (name === 'overview' || name === 'requests' ? checkLooks : checkFit)(dashboard, state)
  const sentence = ({ page }: OpenDashboard) =>
    page
      .locator('main .state-bad')
      .filter({ hasText: /took longer than 5 s\. Narrow the range|cannot be read now: .*\. Retry in a few seconds/ })
      .first()

  test('is stated, changes no figure, and is read again', () =>
    withPages(
      browser,
      { url: populated.gateway.url, token: ADMIN, expected: /status of 50[34]/ },
      async (each) => {
        const before = new Map<string, readonly string[]>()
        await each(async (dashboard, name, shown) => {
          await isRead(dashboard.page, shown)
          // What today costs has no place of its own while it is read.
          await dashboard.page.waitForFunction(() => !document.body.textContent?.includes('not read yet'))
          before.set(name, await figures(dashboard))
        })
        const heal = slowDown(populated.data)
        try {
          await each(async (dashboard, name) => {
            await sentence(dashboard).waitFor({ timeout: 120_000 })
            assert.deepEqual(await figures(dashboard), before.get(name))
            await sentence(dashboard)
              .getByText(/^Figures are from \d\d:\d\d/)
              .waitFor()
            await look(dashboard, `slow-${name}`, name)
          })
          // Those of another range would be wrong, and without any there are none.
          await each(async (dashboard, name) => {
            const { page } = dashboard
            if (name === 'usage') await page.locator('.segments').getByRole('button', { name: 'Model' }).click()
            else await page.reload()
            await sentence(dashboard).waitFor({ timeout: 120_000 })
            const isGone = () => document.querySelector('.figure-value, .usage-table, .outcome') === null
            await page.waitForFunction(isGone, null, { timeout: 120_000 }).catch(async () => {
              assert.fail(`still shown: ${(await figures(dashboard)).join(' | ')}`)
            })
            await look(dashboard, `slow-${name}-first`, name)
          })
        } finally {
          heal()
        }
        await each(async (dashboard, _, shown) => {
          // Queries that were ended run on for a while.
          const again = sentence(dashboard).getByRole('button', { name: 'Try again' })
          for (const end = performance.now() + 120_000; (await again.count()) > 0 && performance.now() < end; ) {
            await again.click({ timeout: 1_000 }).catch(() => {})
            await dashboard.page.waitForTimeout(500)
          }
          assert.equal(await again.count(), 0)
          await isRead(dashboard.page, shown)
        })
      },
      PAGES.filter(([name]) => NAMES.includes(name)),
    ))
})
