/** Configuration: values with origins, a refused file with its line, reloads, the audit log, and the check of a copy. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { type Started, start } from '../e2e/support/process.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'

const PAGE = '/dashboard/config'
const PEPPER = 'canary-pepper-0123456789'
const FILE = `circuit:
  timeout: 20000
auth:
  pepper: "\${OWN_PEPPER}"
providers:
  own:
    kind: openai-compatible
    baseUrl: http://127.0.0.1:9/own
    models: [small]
routes:
  quick:
    strategy: weighted
    targets: [openai/gpt-5-mini]
    fallback: [own/small]
  local:
    targets: [own/small]
claims: ['all: region in eu']
`
/** Parts of the page, and what shows that they are read. */
const SECTIONS = [
  ['', '.config-name'],
  ['/reloads', '.state, .config-cards li'],
  ['/audit', '.state, .lines li'],
  ['/policy', '.config-problems li'],
  ['/edit', 'textarea'],
] as const

describe('the Configuration page', { skip: skipBrowser }, () => {
  let browser: Browser
  let gateway: Started
  const put = (text: string) => writeFile(join(gateway.folder, 'headgate.yaml'), text)
  before(async () => {
    const started = await Promise.all([
      startBrowser(),
      start({
        env: {
          RETRY_MAX_ATTEMPTS: '4',
          OPENAI_API_KEY: 'sk-test-0123456789',
          OPENAI_BASE_URL: 'http://127.0.0.1:9/v1',
          OWN_PEPPER: PEPPER,
        },
        files: { 'headgate.yaml': FILE },
      }),
    ])
    browser = started[0]
    gateway = started[1]
    for (const kind of ['teams', 'keys'])
      await fetch(`${gateway.url}/admin/api/v1/${kind}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ name: 'search' }),
      })
  })
  after(async () => {
    await Promise.all([browser?.close(), gateway?.stop()])
  })

  test('shows the data policy: a claim that fails, facts that are missing, and a proof', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open }) => {
      await open(`${PAGE}/policy`)
      await page.locator('.config-problems li', { hasText: 'all: region=eu' }).getByText('fails').waitFor()
      await page.getByRole('row', { name: /^own .*not declared/ }).waitFor()
      await page.getByRole('textbox', { name: 'Claim' }).fill('route=local: retention=0')
      await page.getByRole('button', { name: 'Prove', exact: true }).click()
      await page.getByText(/^Key search asks local \(chat\).*retention not declared/).waitFor()
    }))

  test('shows every value with its origin, filters, and masks secrets', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, shot }) => {
      await open()
      await page.keyboard.press('g')
      await page.keyboard.press('c')
      await page.waitForURL(`**${PAGE}`)
      const row = (name: string) => page.locator('.config-table tbody tr', { hasText: name })
      await row('circuit.timeout').getByText('headgate.yaml:2').waitFor()
      await row('retry.maxAttempts').locator('.badge', { hasText: 'RETRY_MAX_ATTEMPTS' }).waitFor()
      await row('auth.pepper').getByText('set', { exact: true }).waitFor()
      assert.ok(!(await page.content()).includes(PEPPER))
      await page.getByLabel('Only what is set').check()
      await page.waitForURL('**set=yes')
      await page.waitForFunction(() => document.querySelectorAll('.config-table tbody tr').length < 8)
      await shot('config-set')
      await page.keyboard.press('Escape')
      await page.locator('h1').click()
      await page.keyboard.press('/')
      await page.keyboard.type('pepper')
      await page.waitForURL('**q=pepper')
      await page.getByText(/^1 of \d+ settings$/).waitFor()
      await open(`${PAGE}?q=nothing-like-it`)
      await page.getByText('No setting matches.').waitFor()
    }))

  test('a refused configuration shows file and line, and the next reload what changed', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check, shot }) => {
      await put(FILE.replace('20000', '20s'))
      try {
        await open(`${PAGE}/reloads`)
        await page.getByRole('button', { name: 'Reload now' }).click()
        await page.getByText('The configuration was refused.').waitFor()
        const refused = page.locator('.config-refused')
        await refused.getByText('headgate.yaml:2:12').waitFor()
        assert.match((await refused.textContent()) ?? '', /circuit\.timeout.*found "20s".*write 20000/)
        await check()
        await shot('config-refused')
      } finally {
        await put(FILE.replace('20000', '21000'))
      }
      await page.getByRole('button', { name: 'Reload now' }).click()
      await page.getByText('circuit.timeout: 20000 → 21000').waitFor()
      await page.waitForFunction(() => document.querySelector('.config-refused') === null)
      await shot('config-reloads')
    }))

  test('checks a copy, shows what it changes, and writes no file', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check, shot }) => {
      const before = await readFile(join(gateway.folder, 'headgate.yaml'), 'utf8')
      await open(`${PAGE}/edit`)
      await page.getByRole('button', { name: 'Start from what runs' }).click()
      const text = page.getByLabel('Text of headgate.yaml')
      await page.waitForFunction(() => document.querySelector('textarea')?.value.includes('routes:'))
      const begun = await text.inputValue()
      assert.match(
        begun,
        /circuit:\n {2}timeout: 2\d000\n[\s\S]*routes:\n {2}quick:\n {4}strategy: weighted\n {4}targets:\n {6}- openai\/gpt-5-mini\n {4}fallback:\n {6}- own\/small/,
      )
      assert.ok(!begun.includes(PEPPER))
      await page.getByRole('button', { name: 'Check' }).click()
      await page.getByText('This file is valid.').waitFor()
      await page.getByText('It changes nothing of the running configuration.').waitFor()
      await text.fill(begun.replace(/timeout: \d+/, 'timeout: 30s'))
      await page.getByRole('button', { name: 'Check' }).click()
      await page.getByText('This file has 1 problem.').waitFor()
      await page.locator('.config-where', { hasText: /headgate\.yaml:\d+:12/ }).waitFor()
      await check()
      await shot('config-edit-problem')
      await text.fill(
        `${begun.replace('- openai/gpt-5-mini', '- openai/gpt-5')}\n  added:\n    targets: [openai/gpt-5-mini]\n`,
      )
      await page.getByRole('button', { name: 'Check' }).click()
      const route = (name: string) => page.locator('.config-problems li', { hasText: name })
      await route('quick').getByText('now openai/gpt-5-mini').waitFor()
      await route('quick')
        .getByText(/^then openai\/gpt-5(?!-)/)
        .waitFor()
      await route('added').getByText('now no such route').waitFor()
      await check()
      await shot('config-edit-routes')
      await text.fill(begun.replace(/timeout: \d+/, 'timeout: 12345'))
      await page.getByText('The text has changed since this check.').waitFor()
      await page.getByRole('button', { name: 'Check' }).click()
      await page.getByText('This file is valid.').waitFor()
      await page.locator('.config-problems', { hasText: 'circuit.timeout' }).waitFor()
      await page.getByText('Every route has the same targets in the same order.').waitFor()
      await page.locator('.line-added', { hasText: 'timeout: 12345' }).waitFor()
      await page.locator('.line-removed').first().waitFor()
      await check()
      await shot('config-edit')
      const [file] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: 'Download' }).click(),
      ])
      assert.equal(file.suggestedFilename(), 'headgate.yaml')
      assert.match(await readFile(await file.path(), 'utf8'), /timeout: 12345/)
      // The copy stays while another page is shown, and is stored nowhere.
      await page.keyboard.press('Escape')
      await page.locator('h1').click()
      await page.keyboard.press('g')
      await page.keyboard.press('t')
      await page.waitForURL('**/routes')
      await page.goBack()
      assert.match(await text.inputValue(), /timeout: 12345/)
      assert.ok(!(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }))).includes('12345'))
      assert.equal(await readFile(join(gateway.folder, 'headgate.yaml'), 'utf8'), before)
    }))

  test('keeps the versions of the file: what each changed, and a command that goes back to one', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check, shot }) => {
      const reload = () => fetch(`${gateway.url}/admin/api/v1/system/reload`, { method: 'POST' })
      const timeout = async () => {
        const { settings } = await (await fetch(`${gateway.url}/admin/api/v1/config`)).json()
        return settings.find(({ name }: { readonly name: string }) => name === 'circuit.timeout').value
      }
      for (const value of ['22000', '23000']) {
        await put(FILE.replace('20000', value))
        await reload()
      }
      await open(`${PAGE}/reloads`)
      const versions = page.getByRole('list', { name: 'Versions of headgate.yaml' }).getByRole('listitem')
      await versions.first().getByText('newest').waitFor()
      await versions.nth(1).locator('summary').click()
      await versions.nth(1).locator('.line-added', { hasText: 'timeout: 22000' }).first().waitFor()
      await versions.nth(1).locator('.line-removed', { hasText: 'timeout: 23000' }).waitFor()
      await check()
      await shot('config-history')
      const command = (await versions.nth(1).locator('pre').textContent()) ?? ''
      assert.equal(await timeout(), 23_000)
      execFileSync('sh', ['-c', command])
      await reload()
      assert.equal(await timeout(), 22_000)
      await versions.nth(1).getByRole('button', { name: 'Edit this version' }).click()
      await page.waitForURL('**/config/edit')
      assert.equal(await page.getByLabel('Text of headgate.yaml').inputValue(), FILE.replace('20000', '22000'))
      await put(FILE)
      await reload()
    }))

  test('completes names and values of the text from the schema', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check, shot }) => {
      await open(`${PAGE}/edit`)
      const text = page.getByLabel('Text of headgate.yaml')
      const options = page.getByRole('listbox', { name: 'What can stand here' }).getByRole('option')
      await text.focus()
      await page.keyboard.type('strat')
      await page.keyboard.press('Control+Space')
      await options.first().getByText('strategy', { exact: true }).waitFor()
      await page.keyboard.press('Enter')
      await page.keyboard.press('Control+Space')
      await options.filter({ hasText: 'priority' }).waitFor()
      await page.keyboard.press('ArrowDown')
      await page.locator('.config-options [aria-selected="true"]', { hasText: 'weighted' }).waitFor()
      await check()
      await shot('config-completion')
      await page.keyboard.press('Tab')
      assert.equal(await text.inputValue(), 'strategy: weighted')
      await page.keyboard.type('\ncircuit:\n  timeo')
      await page.keyboard.press('Control+Space')
      await options.first().click()
      assert.equal(await text.inputValue(), 'strategy: weighted\ncircuit:\n  timeout: ')
      await page.keyboard.press('Control+z')
      assert.equal(await text.inputValue(), 'strategy: weighted\ncircuit:\n  timeo')
      await page.keyboard.press('Control+Space')
      await page.keyboard.press('Escape')
      assert.equal(await options.count(), 0)
      // Closed, Tab leaves the text.
      await page.keyboard.press('Tab')
      assert.ok(!(await text.evaluate((area) => area === document.activeElement)))
    }))

  for (const { width, theme } of LOOKS)
    test(`is accessible ${width} and ${theme}`, () =>
      withDashboard(browser, { url: gateway.url, width, theme }, async ({ page, open, check, shot }) => {
        for (const [section, shown] of SECTIONS) {
          await open(`${PAGE}${section}`)
          await page.locator(shown).first().waitFor()
          await check()
          await shot(`config${section.replace('/', '-')}`)
        }
      }))
})
