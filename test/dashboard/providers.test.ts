/** The page of providers: states with reason and countdown, details, actions, and all of it by keyboard and on a telephone. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { post } from '../e2e/support/process.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'
import { type Fleet, startFleet } from './support/fleet.ts'

describe('providers', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let fleet: Fleet
  before(async () => {
    const started = await Promise.all([startBrowser(), startFleet()])
    browser = started[0]
    fleet = started[1]
    await fleet.trouble()
    await fleet.ask('anthropic/limited')
  })
  after(async () => {
    await Promise.all([browser?.close(), fleet?.stop()])
  })

  for (const { width, theme } of LOOKS)
    test(`shows all at ${width} and ${theme}`, () =>
      withDashboard(browser, { url: fleet.gateway.url, width, theme }, async ({ page, open, check, shot }) => {
        await open('/dashboard/providers')
        const row = page.locator('.table tbody tr').first()
        await row.getByText(/open \d+ (s|min)/).waitFor()
        assert.match((await row.textContent()) ?? '', /groq/)
        assert.match((await row.textContent()) ?? '', /next attempt \d/)
        await page.locator('.strip').first().waitFor()
        await check()
        await shot('providers')
        await open('/dashboard/providers/groq')
        await page.getByText(/\d+ of \d+ failed: overloaded ×\d+/).waitFor()
        await page.locator('.lane-span').first().waitFor()
        await page.locator('.change-list li').first().waitFor()
        await check()
        await shot('provider')
        await page.locator('.provider-facts').scrollIntoViewIfNeeded()
        await shot('provider-facts')
      }))

  test('says why and when, in a table too, and the cause links to its request', () =>
    withDashboard(browser, { url: fleet.gateway.url }, async ({ page, open, check }) => {
      await open('/dashboard/providers/groq')
      const detail = page.locator('.provider-detail')
      await detail.getByText(/open since \d/).waitFor()
      await detail.getByText('last error').waitFor()
      await detail.getByRole('button', { name: 'Show as table' }).click()
      await detail
        .locator('.lanes-table')
        .getByText(/open – \d/)
        .waitFor()
      await check()
      const link = detail.locator('.change-list a').first()
      assert.match((await link.getAttribute('href')) ?? '', /\/dashboard\/requests\/req_/)
    }))

  test('lanes draw failures as their share of the attempts', () =>
    withDashboard(browser, { url: fleet.gateway.url }, async ({ page, open }) => {
      await open('/dashboard/providers/groq?from=-24h')
      await page.locator('.lane-failed').first().waitFor({ state: 'attached' })
      const heights = (selector: string) =>
        page
          .locator(`.lane-bar ${selector}`)
          .evaluateAll((bars) => bars.reduce((sum, bar) => sum + Number(bar.getAttribute('height')), 0))
      const from = new Date(Date.now() - 86_400_000).toISOString()
      const address = `${fleet.gateway.url}/admin/api/v1/providers/groq/lanes?cells=120&from=${from}`
      const { data } = await (await fetch(address)).json()
      const [{ cells }] = data
      const sum = (name: string) =>
        cells.reduce((total: number, cell: Record<string, number>) => total + (cell[name] ?? 0), 0)
      const drawn = (await heights('.lane-failed')) / (await heights('rect'))
      assert.ok(Math.abs(drawn - sum('failed') / sum('attempts')) < 0.02, `${drawn} of ${JSON.stringify(cells)}`)
    }))

  test('by keyboard: open the row, rest the provider, undo it', () =>
    withDashboard(browser, { url: fleet.gateway.url }, async ({ page, open, shot }) => {
      await open('/dashboard/providers')
      await page.locator('.table tbody tr').first().waitFor()
      // The order: groq (open), anthropic or openai.
      await page.keyboard.press('j')
      await page.locator('tr[data-index="0"]:focus').waitFor()
      await page.keyboard.press('j')
      await page.locator('tr[data-index="1"]:focus').waitFor()
      const name = await page.locator('.table tbody tr:focus .provider-name').textContent()
      await page.keyboard.press('Enter')
      await page.waitForURL(`**/dashboard/providers/${name}`)
      const detail = page.getByRole('region', { name: name ?? '', exact: true })
      const menu = detail.getByRole('button', { name: /^Rest/ })
      await menu.focus()
      await page.keyboard.press('Enter')
      await page.getByRole('button', { name: 'Rest for 10 min' }).focus()
      await page.keyboard.press('Enter')
      const dialog = page.getByRole('dialog', { name: `Rest ${name} for 10 min?` })
      await dialog.getByText(/No new request is sent to/).waitFor()
      await shot('provider-rest')
      await page.keyboard.press('Enter')
      await detail.getByText(/resting 10 min/).waitFor()
      const model = name === 'openai' ? 'openai/gpt-5' : 'anthropic/claude-sonnet'
      assert.notEqual((await fleet.ask(model)).by, name)
      await page.getByRole('button', { name: 'Undo' }).focus()
      await page.keyboard.press('Enter')
      await detail.getByText(/●\s*closed/).waitFor()
      assert.equal((await fleet.ask(model)).by, name)
      await page.keyboard.press('Escape')
      await page.waitForURL('**/dashboard/providers')
    }))

  test('closing a circuit says what it does, asks once, and is seen live in another window', () =>
    withDashboard(browser, { url: fleet.gateway.url, width: 'narrow' }, async ({ page, open }) => {
      await open('/dashboard/providers')
      await page.locator('.table tbody tr').first().getByText(/open/).first().waitFor()
      const sort = page.getByLabel('Sort by')
      assert.equal(await sort.inputValue(), '')
      await sort.selectOption({ index: 1 })
      await page.waitForURL(/sort=/)
      await sort.selectOption({ label: 'as configured' })
      await page.waitForURL((address) => !address.search.includes('sort'))
      fleet.state.isDown = false
      await withDashboard(browser, { url: fleet.gateway.url }, async (other) => {
        await other.open('/dashboard/providers/groq')
        await other.page.getByRole('button', { name: 'Close circuits, end rests' }).click()
        const dialog = other.page.getByRole('dialog')
        await dialog.getByText(/Requests are sent to groq again at once/).waitFor()
        await dialog.getByRole('button', { name: 'Cancel' }).click()
        await other.page.getByRole('button', { name: 'Close circuits, end rests' }).click()
        await dialog.getByRole('button', { name: 'Close circuits, end rests' }).click()
        await other.page.getByText(/groq is used again/).waitFor()
        await other.page
          .locator('.provider-detail')
          .getByText(/●\s*closed/)
          .waitFor()
      })
      await page
        .locator('.table tbody tr', { hasText: 'groq' })
        .getByText(/●\s*closed/)
        .waitFor()
      assert.equal((await fleet.ask('groq/llama-3.3-70b')).status, 200)
    }))

  test('a viewer of one team sees the states, and why the attempts and actions are not there', async () => {
    const admin = 'operator-token-0123456789'
    const own = await startFleet({ AUTH_ADMIN: admin })
    try {
      const url = own.gateway.url
      const make = async (path: string, body: object) =>
        (await post(`${url}/admin/api/v1${path}`, body, { authorization: `Bearer ${admin}` })).json()
      const team = await make('/teams', { name: 'search' })
      const { secret } = await make('/tokens', { name: 'viewer', bindings: [{ role: 'viewer', team: team.id }] })
      await withDashboard(browser, { url }, async ({ page, context, open, check, shot }) => {
        const signed = await context.request.post(`${url}/admin/api/v1/session`, {
          data: { token: secret },
          headers: { origin: url },
        })
        assert.equal(signed.status(), 201, await signed.text())
        await open('/dashboard/providers/openai')
        const detail = page.locator('.provider-detail')
        await detail.getByText('Attempts are readable with a role for all teams.').waitFor()
        await detail.getByText('This needs the role operator for all teams.').waitFor()
        assert.ok(await detail.getByRole('button', { name: 'Rest', exact: true }).isDisabled())
        await check()
        await shot('provider-viewer')
      })
    } finally {
      await own.stop()
    }
  })
})
