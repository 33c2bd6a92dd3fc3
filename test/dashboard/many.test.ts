/** 50,000 requests and two workers: the list has only the rows near the window, and shows what every worker does. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { family } from '../../bench/proc.ts'
import { skipWithoutProc } from '../e2e/support/gauges.ts'
import { type Started, start } from '../e2e/support/process.ts'
import { untilStored } from '../e2e/support/stored-usage.ts'
import { until } from '../support/upstream.ts'
import { fillLedger } from '../support/usage-ledger.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { withDashboard } from './support/dashboard.ts'
import { listLength } from './support/pages.ts'

const COUNT = 50_000
const LIST = '/dashboard/requests?from=-24h'
/** Rows and elements of the document, however many requests there are. */
const MOST = { rows: 80, elements: 3_000 }
/** Rows that are read before the test stops scrolling: twenty pages. */
const READ = 4_000

/** Sends a request on a connection of its own, so that every worker gets some. */
const ask = async (gateway: Started): Promise<void> => {
  const answer = await fetch(`${gateway.base}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify({ model: 'demo/echo', messages: [{ role: 'user', content: 'Hello' }] }),
  })
  assert.equal(answer.status, 200)
  await answer.arrayBuffer()
}

describe('many requests', { skip: skipBrowser || skipWithoutProc, concurrency: false }, () => {
  let browser: Browser
  let gateway: Started
  let data = ''
  before(async () => {
    data = await mkdtemp(join(tmpdir(), 'headgate-many-'))
    ;[browser, gateway] = await Promise.all([startBrowser(), start({ env: { DATA_DIR: data, WORKERS: '2' } })])
    await ask(gateway)
    await untilStored(data, 'the first request', ({ requests }) => requests.length === 1)
    assert.ok(existsSync(join(data, 'usage.db')))
    fillLedger(data, { count: COUNT, end: Date.now() - 60_000, days: 0.9 })
  })
  after(async () => {
    await Promise.all([browser?.close(), gateway?.stop()])
    await rm(data, { recursive: true, force: true })
  })
  const sizes = (page: Page) =>
    page.evaluate(() => ({
      rows: document.querySelectorAll('table.table tbody tr:not(.spacer)').length,
      elements: document.querySelectorAll('*').length,
      last: Math.max(
        ...[...document.querySelectorAll('[aria-rowindex]')].map((row) => Number(row.getAttribute('aria-rowindex'))),
      ),
    }))
  const isSmall = ({ rows, elements }: { readonly rows: number; readonly elements: number }) => {
    assert.ok(rows <= MOST.rows, `${rows} rows`)
    assert.ok(elements <= MOST.elements, `${elements} elements`)
  }

  test('are read page by page, and leave the document small', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check, shot }) => {
      const pages: string[] = []
      page.on('request', (request) => {
        const { pathname, searchParams } = new URL(request.url())
        if (pathname === '/admin/api/v1/requests' && searchParams.get('limit') === '200')
          pages.push(searchParams.get('after') ?? 'first')
      })
      await open(LIST)
      await page
        .getByText(/50,001 requests/)
        .first()
        .waitFor()
      await page.locator('.outcome').first().waitFor()
      // On a busy machine the stream connects again, and the list is read again from its beginning.
      assert.deepEqual([...new Set(pages)], ['first'])
      isSmall(await sizes(page))
      await check()
      await shot('many')
      for (let { last } = await sizes(page); last < READ; ) {
        await page.keyboard.press('End')
        await page.waitForFunction(
          (known) =>
            [...document.querySelectorAll('[aria-rowindex]')].some(
              (row) => Number(row.getAttribute('aria-rowindex')) > known,
            ),
          last,
        )
        const now = await sizes(page)
        isSmall(now)
        last = now.last
      }
      const later = pages.filter((after) => after !== 'first')
      assert.equal(new Set(later).size, later.length, 'no page is read twice')
      await page.keyboard.press('Home')
      await page.waitForFunction(() => document.querySelector('[aria-rowindex="2"]') !== null)
      isSmall(await sizes(page))
    }))

  test('of both workers are in the list as they end, and when a worker has been replaced', () =>
    withDashboard(
      browser,
      // The stream of a worker that is killed ends.
      { url: gateway.url, expected: /ERR_|^error: $/ },
      async ({ page, open }) => {
        await open(`${LIST}&model=echo`)
        await page.waitForSelector('.live-live')
        await page.locator('.outcome').first().waitFor()
        const isLonger = async (least: number) => {
          for (const end = performance.now() + 120_000; (await listLength(page)) < least; await page.waitForTimeout(50))
            assert.ok(performance.now() < end, `${await listLength(page)} rows of ${least}`)
        }
        const before = await listLength(page)
        const workersOf = () =>
          new Set(gateway.lines().flatMap(({ event, worker }) => (event === 'request' ? [worker] : [])))
        let sent = 0
        for (; sent < 40 && (workersOf().size < 2 || sent < 4); sent++) {
          await ask(gateway)
          await gateway.logged()
        }
        assert.equal(workersOf().size, 2)
        await isLonger(before + sent)
        const workers = () => family(gateway.child.pid ?? 0).slice(1)
        const known = workers()
        assert.equal(known.length, 2)
        process.kill(known[0] ?? 0, 'SIGKILL')
        await until('the worker is replaced', () => workers().filter((pid) => !known.includes(pid)).length === 1)
        await page.waitForSelector('.live-live')
        const rows = await listLength(page)
        await ask(gateway)
        await isLonger(rows + 1)
      },
    ))
})
