/** The page "Usage & cost": what it costs and by whom, with real requests. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { post, type Started } from '../e2e/support/process.ts'
import { startWith } from '../e2e/support/stage.ts'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'

const began = Date.now()
const ANSWER = { text: 'hello', input: 100, output: 100 }

describe('usage and cost', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let upstream: Upstream
  let gateway: Started
  before(async () => {
    upstream = await startUpstream((request) =>
      request.method === 'GET'
        ? { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
        : answerWith(request, ANSWER),
    )
    browser = await startBrowser()
    gateway = await startWith({
      providers: { alpha: { kind: 'openai', baseUrl: `${upstream.url}/v1`, models: ['small', 'odd'] } },
      prices: [{ provider: 'alpha', model: 'small', perMillion: { input: 1_000, output: 4_000 } }],
    })
    const secrets: string[] = []
    for (const name of ['ci', 'batch']) {
      const made = await post(`${gateway.url}/admin/api/v1/keys`, { name })
      const { secret } = await made.json()
      secrets.push(secret)
    }
    for (const [secret, model] of [
      [secrets[0], 'small'],
      [secrets[0], 'small'],
      [secrets[1], 'small'],
      [secrets[1], 'odd'],
    ]) {
      const body = { model: `alpha/${model}`, messages: [{ role: 'user', content: 'hello' }], max_tokens: 100 }
      assert.equal((await post(`${gateway.base}/chat/completions`, body, authorization(secret))).status, 200)
    }
  })
  after(async () => {
    await Promise.all([browser?.close(), gateway?.stop()])
    await upstream?.close()
  })
  const authorization = (secret: string | undefined): Record<string, string> =>
    secret === undefined ? {} : { authorization: `Bearer ${secret}` }

  test('the last hour has bars of five minutes, and the sentence says when the greatest was', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open }) => {
      await open('/dashboard/usage?from=-60m')
      const chart = page.getByRole('region', { name: 'Cost per five minutes by key' })
      const text = (await chart.locator('.plot-value').textContent()) ?? ''
      assert.match(text, /^\$[\d.]+ in all; the most was \$[\d.]+ from \d\d:\d[05] to \d\d:\d[05]\.$/)
      const most = /most was (\$[\d.]+)/.exec(text)?.[1]
      assert.equal(await chart.locator('.plot-peak').textContent(), most)
      await chart.getByRole('button', { name: 'Show as table' }).click()
      assert.ok([12, 13].includes(await chart.locator('tbody tr').count()))
    }))

  test('days are the dates of the gateway, also in a browser west of UTC', () =>
    withDashboard(browser, { url: gateway.url, timezone: 'Pacific/Honolulu' }, async ({ page, open }) => {
      await open('/dashboard/usage?from=-7d')
      const chart = page.getByRole('region', { name: 'Cost per day by key' })
      // The requests were made a moment ago; Honolulu has the date of yesterday for ten hours of each day.
      const utc = new Intl.DateTimeFormat('en-GB', { month: 'short', day: 'numeric', timeZone: 'UTC' })
      const on = [began, Date.now()].map((at) => ` on ${utc.format(at)}.`)
      const text = (await chart.locator('.plot-value').textContent()) ?? ''
      assert.ok(
        on.some((date) => text.includes(date)),
        text,
      )
    }))

  for (const { width, theme } of LOOKS)
    test(`question 3, ${width} and ${theme}: what it costs, by whom, one action from the overview`, () =>
      withDashboard(browser, { url: gateway.url, width, theme }, async ({ page, open, check, shot }) => {
        await open()
        if (width === 'wide') await page.getByRole('link', { name: 'Usage', exact: true }).click()
        else await open('/dashboard/usage')
        const row = page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: 'ci' }) })
        await row.waitFor()
        assert.match((await row.textContent()) ?? '', /66\.7\s?%/)
        await page.getByText('had no known price', { exact: false }).waitFor()
        await page.getByText(/^Prices: catalogue of 20\d\d-\d\d-\d\d · 1 price is overridden$/).waitFor()
        await check()
        await shot('usage')
        if (width === 'narrow') await page.getByLabel('Group by').selectOption('model')
        else await page.getByRole('button', { name: 'Model', exact: true }).first().click()
        await page.getByRole('rowheader', { name: 'odd' }).waitFor()
        const odd = (await page.getByRole('row').filter({ hasText: 'odd' }).first().textContent()) ?? ''
        assert.match(odd, /unknown/)
        assert.doesNotMatch(odd, /\$0/)
        await check()
        await shot('usage-model')
        if (width === 'narrow') return
        await page.emulateMedia({ media: 'print' })
        // Printed: the filters in words, and charts as tables.
        await page.getByText('last 30 days · Group by model').waitFor()
        await page.locator('.chart .data-table').waitFor()
        assert.equal(await page.locator('.plot').count(), 0)
        await shot('usage-print')
        await page.emulateMedia({ media: 'screen' })
        await page.getByRole('link', { name: '3 requests of small' }).click()
        await page.waitForURL(/\/dashboard\/requests\?.*model=/)
      }))

  test('a row narrows the page; yesterday is three actions away, without a forecast, which is not of the past', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open }) => {
      await open('/dashboard/usage')
      await page.getByRole('link', { name: 'ci', exact: true }).click()
      await page.waitForURL(/key=key_.*group=model/)
      await page.getByRole('rowheader', { name: 'small' }).waitFor()
      await page.locator('.figures').getByText('$1.00').first().waitFor()
      assert.equal(await page.getByRole('rowheader', { name: 'odd' }).count(), 0)
      await page.getByText('Forecast for this month').waitFor()
      await open('/dashboard/')
      await page.keyboard.press('g')
      await page.keyboard.press('u')
      await page.getByRole('button', { name: /^Time range/ }).click()
      await page.getByRole('button', { name: 'yesterday', exact: true }).click()
      await page.waitForURL(/\/usage\?from=yesterday&to=today/)
      await page.getByText('Forecast for this month').waitFor({ state: 'detached' })
      await open('/dashboard/usage?from=today')
      await page.getByText('Forecast for this month').waitFor()
      await page.getByRole('rowheader', { name: 'ci' }).waitFor()
    }))

  test('a report that is added up in parts shows its total so far, and is read to its end', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check, shot }) => {
      const searched_until = '2026-11-20T10:00:00.000Z'
      const { promise: isSeen, resolve: seen } = Promise.withResolvers<void>()
      await page.route('**/admin/api/v1/usage?*by=key*bucket=day*', async (route) => {
        if (route.request().url().includes('after=')) await isSeen
        const response = await route.fetch()
        const report = await response.json()
        const part = { ...report, data: [], has_more: true, next: 'W10', searched_until }
        await route.fulfill({ response, json: route.request().url().includes('after=') ? report : part })
      })
      await open('/dashboard/usage')
      await page.getByText('Added up back to').waitFor()
      await page.locator('.figures').getByText('$1.50').first().waitFor()
      assert.equal(await page.getByRole('rowheader').count(), 0)
      await check()
      await shot('usage-part')
      seen()
      await page.getByRole('rowheader', { name: 'ci' }).waitFor()
      await page.getByText('Added up back to').waitFor({ state: 'detached' })
    }))

  test('the table is copied as CSV, and its days are downloaded with the same filter', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check, shot }) => {
      // The policy of the page allows writing to the clipboard, and no reading.
      await page.addInitScript(() => {
        navigator.clipboard.writeText = async (text) => {
          document.documentElement.dataset.copied = text
        }
      })
      await open('/dashboard/usage?group=model&model=small')
      await page.getByRole('rowheader', { name: 'small' }).waitFor()
      await page.getByRole('button', { name: 'Export' }).click()
      await check()
      await shot('usage-export')
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name: 'Download days as CSV' }).click(),
      ])
      const rows = readFileSync(await download.path(), 'utf8')
        .trim()
        .split(/\r?\n/)
      assert.match(rows[0] ?? '', /^day,/)
      assert.ok(rows.length >= 3 && rows.slice(1).every((row) => row.includes('small')), rows.join('\n'))
      await page.getByRole('button', { name: 'Copy this table as CSV' }).click()
      await page.getByText('Copied').first().waitFor()
      assert.equal(
        await page.evaluate(() => document.documentElement.dataset.copied),
        '"model","requests","failed","refused","input","cache_read","output","cost","saved","lost","unpriced"\n' +
          '"small",3,0,0,300,0,300,"1.500000000","0.000000000","0.000000000",0',
      )
    }))

  // The last one: its keys are used by no other.
  test('ten groups are rows and series; the others are one that opens', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check }) => {
      for (let at = 0; at < 24; at++) {
        const made = await post(`${gateway.url}/admin/api/v1/keys`, { name: `service-${at}` })
        const { secret } = await made.json()
        const body = { model: 'alpha/small', messages: [{ role: 'user', content: 'hello' }], max_tokens: 100 }
        assert.equal((await post(`${gateway.base}/chat/completions`, body, authorization(secret))).status, 200)
      }
      await open('/dashboard/usage')
      // 26 keys: one of $1.00, the others of $0.50.
      await page.getByRole('rowheader', { name: 'other (16)' }).waitFor()
      assert.equal(await page.getByRole('rowheader').count(), 11)
      await page
        .getByRole('row', { name: /other \(16\)/ })
        .getByText('$8.00')
        .waitFor()
      assert.equal(await page.locator('.legend > span').count(), 11)
      await check()
      await page.getByRole('button', { name: 'Show 16 more' }).click()
      await page.getByRole('rowheader', { name: 'other' }).waitFor({ state: 'detached' })
      assert.equal(await page.getByRole('rowheader').count(), 26)
    }))
})
