/** Connect: settings of a client with the address of this gateway, and what arrives from it, right or wrong. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { post, type Started, start } from '../e2e/support/process.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'

const KEY = 'client-key-0123456789abcdef'
const CHAT = { model: 'demo/echo', messages: [{ role: 'user', content: 'Hello' }] }
const HOSTILE = '<img src=x onerror=alert(1)></script>**b** \u202eabc'

describe('connect', { skip: skipBrowser }, () => {
  let browser: Browser
  let open: Started
  let keyed: Started
  before(async () => {
    ;[browser, open, keyed] = await Promise.all([startBrowser(), start(), start({ env: { AUTH_KEYS: KEY } })])
  })
  after(async () => {
    await Promise.all([browser?.close(), open?.stop(), keyed?.stop()])
  })

  test('question 6: the settings of a client are one action from the overview', () =>
    withDashboard(browser, { url: open.url }, async ({ page, open: show }) => {
      await show()
      await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Connect' }).click()
      const code = page.locator('.connect-code', { hasText: 'ANTHROPIC_BASE_URL' }).first()
      await code.waitFor()
      assert.match((await code.textContent()) ?? '', new RegExp(`"ANTHROPIC_BASE_URL": "${open.url}"`))
      const box = await code.boundingBox()
      assert.ok(box && box.y + box.height <= 800, 'visible without scrolling')
    }))

  test('a page whose file arrives late does not replace the one that was chosen after it', () =>
    withDashboard(browser, { url: open.url }, async ({ page, open: show }) => {
      const { promise: released, resolve: release } = Promise.withResolvers<void>()
      await page.route('**/assets/overview-*.js', async (route) => {
        await released
        await route.continue()
      })
      await show()
      await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Connect' }).click()
      await page.locator('.connect-code').first().waitFor()
      const late = page.waitForResponse('**/assets/overview-*.js')
      release()
      await (await late).finished()
      await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 200)))
      assert.ok(await page.locator('.connect-code').first().isVisible())
    }))

  test('lines follow the shell and the model, and the choice stays', () =>
    withDashboard(browser, { url: open.url }, async ({ page, open: show }) => {
      await show('/dashboard/connect/openai-sdk')
      const shown = (text: string) => page.locator('.connect-code', { hasText: text }).first().waitFor()
      await shown(`export OPENAI_BASE_URL=${open.url}/v1`)
      await page.getByRole('button', { name: 'fish' }).click()
      await shown(`set -gx OPENAI_BASE_URL ${open.url}/v1`)
      await page.getByRole('button', { name: 'PowerShell' }).click()
      await shown(`$env:OPENAI_BASE_URL = '${open.url}/v1'`)
      await page.getByLabel('Model or route').fill(HOSTILE)
      await page.keyboard.press('Enter')
      await page.waitForURL('**use=**')
      await shown(JSON.stringify(HOSTILE))
      await page.reload()
      await shown('$env:OPENAI_BASE_URL')
      await shown(JSON.stringify(HOSTILE))
    }))

  test('waits for the first request, then shows what answered it', () =>
    withDashboard(browser, { url: open.url }, async ({ page, open: show, shot }) => {
      await show('/dashboard/connect/curl')
      await page.getByText('Waiting for the first request from curl').waitFor()
      await shot('connect-waiting')
      await post(`${open.base}/chat/completions`, CHAT, { 'user-agent': 'curl/8.5.0' })
      await page.getByText(/by demo\/echo in/).waitFor()
      assert.match((await page.locator('.connect-live').textContent()) ?? '', /Answered.*POST \/v1\/chat\/completions/)
      await shot('connect-answered')
      await page.getByRole('link', { name: 'Open the request' }).click()
      await page.waitForURL('**/dashboard/requests/req_*')
    }))

  test('shows what answered a request also when its record is stored later', () =>
    withDashboard(browser, { url: open.url }, async ({ page, open: show }) => {
      let readings = 0
      await page.route('**/admin/api/v1/requests?q=*', async (route) => {
        readings++
        if (readings <= 2) return route.fulfill({ json: { object: 'list', data: [], has_more: false, next: null } })
        return route.continue()
      })
      await show('/dashboard/connect/zed')
      await post(`${open.base}/chat/completions`, CHAT, { 'user-agent': 'Zed/1.2.0' })
      await page.getByText(/by demo\/echo in/).waitFor()
    }))

  test('says what is odd about requests that were refused', () =>
    withDashboard(browser, { url: keyed.url }, async ({ page, open: show, shot }) => {
      const live = page.locator('.connect-live')
      const says = (text: RegExp) => live.filter({ hasText: text }).waitFor()
      const authorization = `Bearer ${KEY}`
      await show('/dashboard/connect/claude')
      await page.getByText('YOUR_HEADGATE_KEY').first().waitFor()
      const claude = { 'user-agent': 'claude-cli/2.1.0' }
      await post(`${keyed.base}/messages`, {}, claude)
      await says(/had no key/)
      await post(`${keyed.base}/messages`, {}, { ...claude, 'x-api-key': 'sk-wrong-0123456789wxyz' })
      await says(/header x-api-key, which ends in wxyz, is not valid/)
      await shot('connect-wrong-key')
      await show('/dashboard/connect/codex')
      await post(`${keyed.base}/v1/responses`, {}, { 'user-agent': 'codex_exec/0.169.0', authorization })
      await says(/adds \/v1 itself/)
      await show('/dashboard/connect/opencode')
      const unknown = { ...CHAT, model: `demo/${HOSTILE}` }
      await post(`${keyed.base}/chat/completions`, unknown, { 'user-agent': 'opencode/1.18', authorization })
      await says(/Refused with status 404/)
      await live.getByText('<img src=x onerror').first().waitFor()
      await shot('connect-hostile')
      await page.locator('.connect-others', { hasText: 'claude-code' }).waitFor()
    }))

  test('works without a mouse', () =>
    withDashboard(browser, { url: open.url }, async ({ page, open: show }) => {
      await show()
      await page.keyboard.press('g')
      await page.keyboard.press('n')
      await page.waitForURL('**/dashboard/connect')
      await page.getByRole('link', { name: 'Codex CLI' }).focus()
      await page.keyboard.press('Enter')
      await page.waitForURL('**/dashboard/connect/codex')
      await page.locator('.connect-code', { hasText: 'model_providers.headgate' }).waitFor()
    }))

  for (const { width, theme } of LOOKS)
    test(`is accessible ${width} and ${theme}`, () =>
      withDashboard(browser, { url: keyed.url, width, theme }, async ({ page, open: show, check, shot }) => {
        for (const client of ['claude', 'openai-sdk']) {
          await show(`/dashboard/connect/${client}`)
          await page.locator('.connect-live').waitFor()
          await check()
          await shot(`connect-${client}`)
        }
      }))
})
