/**
 * The way of a newcomer without a network: a fresh clone, `npm start`, the address it prints, a demo request, a provider in the
 * environment, a client, its first real request.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, realpathSync, symlinkSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import OpenAI from 'openai'
import type { Browser } from 'playwright-core'
import { post, start } from '../e2e/support/process.ts'
import { stage } from '../e2e/support/stage.ts'
import { answerWith } from '../support/answers.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { checkLooks, withDashboard } from './support/dashboard.ts'

const ROOT = join(import.meta.dirname, '..', '..')

describe('a newcomer', { skip: skipBrowser, concurrency: false }, () => {
  const { upstream } = stage()
  let browser: Browser
  let clone: string
  before(async () => {
    ;[browser, clone] = await Promise.all([startBrowser(), mkdtemp(join(tmpdir(), 'headgate-newcomer-'))])
    execFileSync('git', ['clone', '--quiet', '--local', ROOT, clone])
    // As after an installation; npm has no network here.
    for (const packages of ['node_modules', 'dashboard/node_modules'])
      symlinkSync(join(ROOT, packages), join(clone, packages))
  })
  /** `npm start` in the clone. */
  const npmStart = (env: Readonly<Record<string, string>> = {}) =>
    start({
      program: realpathSync(execFileSync('sh', ['-c', 'command -v npm'], { encoding: 'utf8' }).trim()),
      args: ['start', '--prefix', clone],
      env: { HOME: clone, npm_config_offline: 'true', npm_config_registry: 'http://127.0.0.1:9', ...env },
    })
  after(async () => {
    await browser?.close()
    await rm(clone, { recursive: true, force: true })
  })

  test('sends a demo request, adds a provider, and sees the first request of a client', async () => {
    const alpha = await upstream((request) => answerWith(request, { text: 'A real answer.', input: 9, output: 4 }))
    let port: string
    {
      await using gateway = await npmStart()
      const ready = gateway.lines().find(({ event }) => event === 'ready')
      const address = String(ready?.dashboard)
      assert.equal(address, `${gateway.url}/dashboard/`)
      port = new URL(address).port
      const hello = { model: 'demo/echo', messages: [{ role: 'user', content: 'Hello' }] }
      assert.equal((await post(`${gateway.base}/chat/completions`, hello)).status, 200)
      assert.ok(!existsSync(join(clone, '.cache', 'dashboard')), 'the pages are built at the first visit')
      // The browser reports the status of the page that says so, which has no icon and leads to the dashboard.
      await withDashboard(browser, { url: gateway.url, expected: /status of 503|favicon/ }, async ({ page, shot }) => {
        await page.goto(address)
        await page.getByText('being built').waitFor()
        await page.getByRole('heading', { name: 'First steps' }).waitFor()
        await shot('first-run')
        await page.getByRole('button', { name: 'Send a demo request' }).click()
        await page.getByText(/Answered by demo\/echo/).waitFor()
        await page.getByRole('listitem').filter({ hasText: 'Send a demo request' }).getByLabel('done').waitFor()
        await page.getByRole('button', { name: 'Call demo/chain' }).click()
        await page
          .getByText(/Answered by demo\/(?:flaky|echo)/)
          .nth(1)
          .waitFor()
        await shot('first-run-sent')
        await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Requests' }).click()
        const row = (model: string) => page.locator('tbody tr', { hasText: model })
        await row('demo/echo').first().waitFor()
        await row('demo/chain').getByText('demo', { exact: true }).first().waitFor()
        assert.equal(await row('demo/chain').locator('.badge').textContent(), 'demo')
        await shot('first-run-requests')
      })
    }
    const env = {
      PORT: port,
      OPENAI_API_KEY: 'sk-newcomer-0123456789',
      OPENAI_BASE_URL: `${alpha.url}/v1`,
      OPENAI_STYLES: 'chat',
      OPENAI_MODELS: 'first',
    }
    await using gateway = await npmStart(env)
    await withDashboard(browser, { url: gateway.url }, async ({ page, open, shot }) => {
      await open()
      await page.getByText('Configured: openai.').waitFor()
      await page.getByRole('link', { name: 'OpenAI SDK' }).click()
      await page.getByText('Waiting for the first request from OpenAI SDK').waitFor()
      const lines = (await page.locator('.connect-code').first().textContent()) ?? ''
      const baseURL = /OPENAI_BASE_URL=(\S+)/.exec(lines)?.[1]
      const apiKey = /OPENAI_API_KEY=(\S+)/.exec(lines)?.[1]
      const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 })
      const messages = [{ role: 'user' as const, content: 'Hello' }]
      const { choices } = await client.chat.completions.create({ model: 'openai/first', messages })
      assert.equal(choices[0]?.message.content, 'A real answer.')
      await page.getByText(/by openai\/first in/).waitFor()
      await shot('first-run-connected')
      await open()
      await page.waitForFunction(() => !document.querySelector('.first-run'))
      await open('/dashboard/requests')
      await page.locator('tbody tr', { hasText: 'openai/first' }).waitFor()
      await shot('first-run-real')
    })
  })

  test('the first steps are accessible, and a failure can be tried with a model of the demo', async () => {
    await using gateway = await start()
    await withDashboard(browser, { url: gateway.url, expected: /status of 502/ }, async (dashboard) => {
      const { page, open, shot } = dashboard
      await open()
      await page.getByRole('button', { name: 'Send a demo request' }).click()
      await page.getByText(/Answered by demo\/echo/).waitFor()
      await checkLooks(dashboard, 'first-run')
      await shot('first-run')
      await open('/dashboard/playground')
      const column = page.locator('.playground-column').first()
      await column.getByRole('combobox', { name: 'Model or route' }).fill('fails each')
      await column.getByRole('option').first().click()
      assert.equal(await column.getByRole('combobox', { name: 'Model or route' }).inputValue(), 'demo/down')
      await page.getByLabel('Prompt', { exact: true }).fill('Hello')
      await page.keyboard.press('Control+Enter')
      await column
        .getByRole('list', { name: 'Attempts' })
        .getByText(/demo\/down ✗/)
        .waitFor()
    })
  })
})
