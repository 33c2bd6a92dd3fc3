/** The overview answers without an action: who is up, who is near a limit, what has changed. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { post } from '../e2e/support/process.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'
import { type Fleet, startFleet } from './support/fleet.ts'

describe('overview', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let fleet: Fleet
  before(async () => {
    const started = await Promise.all([startBrowser(), startFleet()])
    browser = started[0]
    fleet = started[1]
    const admin = `${fleet.gateway.url}/admin/api/v1`
    const budget = await post(`${admin}/budgets`, { name: 'dev', amount: '0.01', period: 'day', mode: 'soft' })
    assert.equal(budget.status, 201, budget.text)
    await fleet.trouble()
    await fleet.ask('gpt-5o')
  })
  after(async () => {
    await Promise.all([browser?.close(), fleet?.stop()])
  })

  for (const { width, theme } of LOOKS)
    test(`shows all at ${width} and ${theme}`, () =>
      withDashboard(browser, { url: fleet.gateway.url, width, theme }, async ({ page, open, check, shot }) => {
        await open()
        const groq = page.locator('.overview-provider', { hasText: 'groq' })
        await groq.getByText(/open \d+ (s|min)/).waitFor()
        await page.locator('.line').first().waitFor({ state: 'attached' })
        await page.locator('.change-list li').first().waitFor()
        await check()
        await shot('overview')
        await page.locator('.change-list').scrollIntoViewIfNeeded()
        await shot('overview-below')
      }))

  test('figures, charts, who is up and what needs attention are on the first screen of 1280 × 900', () =>
    withDashboard(browser, { url: fleet.gateway.url }, async ({ page, open }) => {
      await page.setViewportSize({ width: 1280, height: 900 })
      await open()
      const inView = async (text: RegExp | string, where: string) => {
        const found = page.getByRole('region', { name: where }).getByText(text).first()
        await found.waitFor()
        const box = await found.boundingBox()
        assert.ok(box && box.y + box.height <= 900, `${text} is below the window`)
      }
      for (const title of ['Requests by outcome', 'Latency']) {
        const plot = page.getByRole('region', { name: title, exact: true }).locator('.plot')
        const box = await plot.boundingBox()
        assert.ok(box && box.y + box.height <= 500, `${title} ends at ${box && box.y + box.height} px`)
      }
      await inView(/next attempt \d/, 'Providers')
      await inView(/groq: open/, 'Outages and faults (1)')
      await inView(/Budget dev: \d+(\.\d)?% spent/, 'Warnings (2)')
      await inView(/key [0-9a-f]{4} rate limited/, 'Warnings (2)')
      await page
        .getByRole('region', { name: 'Changes' })
        .getByText(/groq · llama-3.3-70b: circuit opened/)
        .waitFor()
      await page
        .getByRole('region', { name: 'Changes' })
        .getByText(/Budget dev created/)
        .waitFor()
    }))

  test('an outage is a line with its figures, and a band of the charts', () =>
    withDashboard(browser, { url: fleet.gateway.url }, async ({ page, open }) => {
      await open()
      const { data } = await (await fetch(`${fleet.gateway.url}/admin/api/v1/incidents`)).json()
      const [incident] = data
      assert.ok(incident.rerouted > 0, JSON.stringify(data))
      const line = page.getByRole('region', { name: 'Outages', exact: true }).locator('li').first()
      await line.getByText(/groq .*now \(lasts \d/).waitFor()
      await line.getByText(`${incident.rerouted} answered elsewhere, ${incident.lost} lost`).waitFor()
      const chart = page.getByRole('region', { name: 'Requests by outcome' })
      await chart.locator('.band title', { hasText: /Outage of groq \d\d:\d\d – now/ }).waitFor({ state: 'attached' })
      assert.equal(await chart.locator('.mark title', { hasText: 'circuit' }).count(), 0)
    }))

  test('the most spent are those of the API, with links to their usage', () =>
    withDashboard(browser, { url: fleet.gateway.url }, async ({ page, open }) => {
      await open('/dashboard/?from=-30m')
      const query = `by=model&bucket=none&sort=-cost&limit=5&from=${new Date(Date.now() - 1_800_000).toISOString()}`
      const { data } = await (await fetch(`${fleet.gateway.url}/admin/api/v1/usage?${query}`)).json()
      const models = page.getByRole('region', { name: 'Models', exact: true })
      await models.locator('li').first().waitFor()
      assert.deepEqual(
        await models.locator('li a').allTextContents(),
        data.filter(({ cost }: { cost: string }) => Number(cost) > 0).map(({ model }: { model: string }) => model),
      )
      await models.getByRole('link').nth(1).click()
      await page.waitForURL(new RegExp(`/dashboard/usage\\?from=-30m&model=${data[0].model}`))
    }))

  test('figures link to the requests behind them, with the range', () =>
    withDashboard(browser, { url: fleet.gateway.url }, async ({ page, open }) => {
      await open('/dashboard/?from=-30m')
      await page.getByRole('link', { name: 'Answered', exact: true }).click()
      await page.waitForURL('**/dashboard/requests?from=-30m&status=failed,broke_off,unknown')
      await page.goBack()
      await page.locator('.overview-outcomes a', { hasText: 'fell back' }).click()
      await page.waitForURL('**/dashboard/requests?from=-30m&status=fell_back')
    }))

  test('charts share the time pointed at, with the keyboard too, and a drag zooms into a part', () =>
    withDashboard(browser, { url: fleet.gateway.url }, async ({ page, open, shot }) => {
      await open()
      const outcomes = page.getByRole('region', { name: 'Requests by outcome' })
      const latency = page.getByRole('region', { name: 'Latency', exact: true })
      await latency.locator('.line').first().waitFor({ state: 'attached' })
      await outcomes.locator('svg.bars').focus()
      await page.keyboard.press('End')
      const time = (await outcomes.locator('.plot-value').textContent())?.split(' · ')[0] ?? ''
      assert.match(time, /^\d\d:\d\d/)
      assert.ok((await latency.locator('.plot-value').textContent())?.startsWith(time))
      await shot('overview-crosshair')
      const box = await latency.locator('svg.bars').boundingBox()
      assert.ok(box)
      await page.mouse.move(box.x + box.width * 0.5, box.y + 40)
      await page.mouse.down()
      await page.mouse.move(box.x + box.width * 0.9, box.y + 40, { steps: 4 })
      await page.mouse.up()
      await page.waitForURL(/from=20\d\d-.*&to=20\d\d-/)
    }))

  test('a click zooms into an interval, and so do Shift with the arrow keys and Enter', () =>
    withDashboard(browser, { url: fleet.gateway.url }, async ({ page, open }) => {
      const seconds = async () => {
        await page.waitForURL(/from=20\d\d-.*&to=20\d\d-/)
        const [from = 0, to = 0] = ['from', 'to'].map((name) =>
          Date.parse(new URL(page.url()).searchParams.get(name) ?? ''),
        )
        return (to - from) / 1_000
      }
      const plot = page.getByRole('region', { name: 'Requests by outcome' }).locator('svg.bars')
      await open('/dashboard/?from=-60m')
      await plot.click({ position: { x: 200, y: 40 } })
      assert.equal(await seconds(), 60)
      await open('/dashboard/?from=-60m')
      await plot.focus()
      for (const key of ['Home', 'ArrowRight', 'Shift+ArrowRight', 'Shift+ArrowRight', 'Enter'])
        await page.keyboard.press(key)
      assert.equal(await seconds(), 180)
    }))

  test('a request under way appears, and leaves the list at its end', () =>
    withDashboard(browser, { url: fleet.gateway.url }, async ({ page, open, shot }) => {
      await open()
      await page.getByText('No request is in progress.').waitFor()
      const cancel = new AbortController()
      const asked = fetch(`${fleet.gateway.base}/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'anthropic/held', messages: [{ role: 'user', content: 'Wait.' }] }),
        signal: cancel.signal,
      }).catch(() => {})
      await page.getByRole('region', { name: 'Under way (1)' }).getByText('anthropic/held').waitFor()
      await shot('overview-under-way')
      cancel.abort()
      await asked
      await page.getByText('No request is in progress.').waitFor()
    }))

  test('a provider that cannot be used is a line below the frame of every page, as long as it lasts', () =>
    withDashboard(browser, { url: fleet.gateway.url }, async ({ page, open }) => {
      const line = page.locator('.notice', { hasText: /groq: circuit open · overloaded · next attempt \d/ })
      for (const path of ['', 'usage', 'config']) {
        await open(`/dashboard/${path}`)
        await line.waitFor()
      }
      // What counts down is spoken once, not each second.
      assert.equal(await page.locator('#notices [role="alert"]').count(), 0)
      await line.getByRole('link', { name: 'Why' }).click()
      await page.waitForURL('**/dashboard/providers/groq')
      await post(`${fleet.gateway.url}/admin/api/v1/providers/groq/circuit`, { action: 'open', seconds: 60 })
      await line.waitFor({ state: 'detached' })
      await post(`${fleet.gateway.url}/admin/api/v1/providers/groq/circuit`, { action: 'close' })
      for (let n = 0; n < 12; n++) await fleet.ask('chat-default')
      await line.waitFor()
    }))

  test('a circuit that closes is seen without a reload; charts are tables too', () =>
    withDashboard(browser, { url: fleet.gateway.url }, async ({ page, open, check }) => {
      await open()
      const groq = page.locator('.overview-provider', { hasText: 'groq' })
      await groq.getByText(/open/).first().waitFor()
      const charts = page.getByRole('button', { name: 'Show as table' })
      await charts.nth(1).click()
      await charts.nth(0).click()
      await page.locator('.data-table').nth(1).waitFor()
      await check()
      await post(`${fleet.gateway.url}/admin/api/v1/providers/groq/circuit`, { action: 'close' })
      await groq.getByText(/●\s*closed/).waitFor()
    }))
})
