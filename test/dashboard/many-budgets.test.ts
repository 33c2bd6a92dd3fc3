/** Budgets and keys of a company: 210 keys, eight budgets, one of them for Opus alone and spent, and budgets per owner. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { post, type Started, start } from '../e2e/support/process.ts'
import { fileOf } from '../e2e/support/stage.ts'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { checkLooks, withDashboard } from './support/dashboard.ts'

const ADMIN = 'operator-token-0123456789'
const KEYS = 210
const nameOf = (at: number) => `service-${String(at).padStart(3, '0')}`
const secretOf = (at: number) => `secret-of-service-${String(at).padStart(8, '0')}`

describe('budgets of many keys', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let upstream: Upstream
  let gateway: Started
  before(async () => {
    // 100 tokens of input at $1000 and 100 of output at $4000 per million: 50 cents.
    upstream = await startUpstream((request) =>
      request.method === 'GET'
        ? { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
        : answerWith(request, { text: 'hello', input: 100, output: 100 }),
    )
    const keys = Object.fromEntries(
      Array.from({ length: KEYS }, (_, at) => [nameOf(at), { secret: secretOf(at), team: at < 2 ? 'search' : 'ads' }]),
    )
    const soft = { period: 'month', mode: 'soft' }
    const month = (amount: string, appliesTo: object = {}) => ({ ...soft, amount, appliesTo })
    ;[browser, gateway] = await Promise.all([
      startBrowser(),
      start({
        env: { AUTH_ADMIN: ADMIN },
        files: {
          'headgate.yaml': fileOf({
            providers: { alpha: { kind: 'openai', baseUrl: `${upstream.url}/v1`, models: ['small', 'opus'] } },
            prices: [{ provider: 'alpha', model: '*', perMillion: { input: 1_000, output: 4_000 } }],
            teams: { search: {}, ads: {} },
            keys,
            budgets: {
              'opus-cap': month('0.49', { models: ['*opus*'] }),
              'of-service-001': month('5.00', { keys: [nameOf(1)] }),
              'search-month': month('2.20', { teams: ['search'] }),
              'each-team': { ...month('20'), per: 'team' },
              'each-end-user': { ...month('0.40'), per: 'end_user' },
              'beta-only': month('9', { providers: ['beta'] }),
              tagged: month('9', { tags: { app: 'x' } }),
              'ads-opus': month('9', { teams: ['ads'], models: ['*opus*'] }),
            },
          }),
        },
      }),
    ])
    for (const [at, model, more] of [
      [0, 'small', {}],
      [1, 'small', {}],
      [1, 'small', { user: 'u-1' }],
      [209, 'opus', {}],
    ] as const) {
      const body = { model: `alpha/${model}`, messages: [{ role: 'user', content: 'x' }], max_tokens: 100, ...more }
      const answer = await post(`${gateway.base}/chat/completions`, body, { authorization: `Bearer ${secretOf(at)}` })
      assert.equal(answer.status, 200)
    }
  })
  after(async () => {
    await Promise.all([browser?.close(), gateway?.stop()])
    await upstream?.close()
  })

  const session = () => ({ url: gateway.url, token: ADMIN })
  const keyRow = (page: Page, name: string) =>
    page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) })

  test('a spent cap of some models paints no row of a key; a key shows its own budget, then that of its team', () =>
    withDashboard(browser, session(), async ({ page, open, check, shot }) => {
      await open('/dashboard/keys?sort=name')
      await keyRow(page, nameOf(0)).getByRole('img').first().waitFor()
      const barOf = (name: string) => keyRow(page, name).getByRole('img').getAttribute('aria-label')
      assert.equal(await barOf(nameOf(1)), 'Budget of-service-001: 20% spent')
      assert.equal(await barOf(nameOf(0)), 'Budget search-month: 68.2% spent')
      await check()
      await shot('many-budgets-keys')
      // To the last row: no bar of the cap, none that is full.
      for (let seen = ''; seen !== nameOf(KEYS - 1); ) {
        assert.equal(await page.getByRole('img', { name: /opus/ }).count(), 0)
        assert.equal(await page.locator('.table .tone-bad').count(), 0)
        await page.evaluate(() => window.scrollBy(0, 600))
        const rows = page.locator('.table tbody tr:not(.spacer) td:nth-child(2)')
        seen = ((await rows.last().textContent()) ?? '').trim()
      }
    }))

  test('the server sorts by spend: the dearest key is first although its name is the last of the second page', () =>
    withDashboard(browser, session(), async ({ page, open }) => {
      await open('/dashboard/keys')
      await page.getByRole('button', { name: 'Spend' }).click()
      await page.waitForURL(/sort=-spend/)
      await keyRow(page, nameOf(KEYS - 1)).waitFor()
      const rows = page.locator('.table tbody tr:not(.spacer)')
      const texts = (await rows.allTextContents()).slice(0, 4)
      assert.match(texts[0] ?? '', /service-001.*\$1\.00/)
      for (const text of texts.slice(1, 3)) assert.match(text, /service-(000|209).*\$0\.50/)
      assert.match(texts[3] ?? '', /\$0(?!\.)/)
      // Another range: nothing was spent, and the order is that of the server.
      await open('/dashboard/keys?sort=-spend&from=2026-01-01&to=2026-01-02')
      await page.locator('.table tbody tr', { hasText: '$0' }).first().waitFor()
      assert.equal(await page.locator('.table tbody', { hasText: '$1.00' }).count(), 0)
    }))

  test('the details of a key leave the filter and the place of the list as they are', () =>
    withDashboard(browser, session(), async ({ page, open }) => {
      await open('/dashboard/keys?q=service&sort=-name&managed=file')
      await keyRow(page, nameOf(KEYS - 1)).waitFor()
      await page.evaluate(() => window.scrollTo(0, 3_000))
      const link = page.getByRole('link', { name: nameOf(140), exact: true })
      await link.scrollIntoViewIfNeeded()
      const place = await page.evaluate(() => window.scrollY)
      await link.click()
      const dialog = page.getByRole('dialog', { name: nameOf(140) })
      await dialog.waitFor()
      const { pathname, search } = new URL(page.url())
      assert.match(pathname, /\/dashboard\/keys\/key_/)
      assert.equal(search, '?q=service&sort=-name&managed=file')
      await dialog.getByText('For some models or providers only:').waitFor()
      await page.keyboard.press('Escape')
      await dialog.waitFor({ state: 'detached' })
      await link.waitFor()
      assert.ok(Math.abs((await page.evaluate(() => window.scrollY)) - place) < 100)
      assert.equal(new URL(page.url()).search, '?q=service&sort=-name&managed=file')
      // Without it: a key that the list has not read is found.
      await open(`${pathname}?q=none-of-them`)
      await page.getByRole('dialog', { name: nameOf(140) }).waitFor()
    }))

  test('budgets are a table, those that are spent first, which says what is spent, since when, and by which owner', () =>
    withDashboard(browser, session(), async (dashboard) => {
      const { page, open, shot } = dashboard
      await open('/dashboard/keys?show=budgets')
      await page.getByText('2 budgets spent', { exact: false }).waitFor()
      const rows = page.locator('.table tbody tr:not(.spacer)')
      const cap = rows.filter({ hasText: 'opus-cap' })
      await cap.getByText(/^spent since about /).waitFor()
      assert.match((await rows.first().textContent()) ?? '', /each-end-user.*375%.*\$1\.50 of \$0\.40 · \(none\)/)
      assert.match((await rows.nth(1).textContent()) ?? '', /opus-cap.*102(\.0)?%.*\$0\.50 of \$0\.49/)
      const teams = (await rows.filter({ hasText: 'each-team' }).textContent()) ?? ''
      assert.match(teams, /all requests, each team.*\$1\.50 of \$20\.00 · search.*search: (ends about |\$)/)
      await page.getByRole('button', { name: 'More actions: opus-cap' }).click()
      await page
        .getByText(/Defined in headgate\.yaml:\d+: it is changed there\./)
        .locator('visible=true')
        .waitFor()
      await page.keyboard.press('Escape')
      await checkLooks(dashboard, 'the table of budgets')
      await shot('many-budgets')

      await rows.filter({ hasText: 'each-end-user' }).click()
      const sheet = page.getByRole('dialog', { name: 'each-end-user' })
      await sheet.getByText('2 of 2 spent').waitFor()
      await sheet.getByText(/^Requests without a name share this counter/).waitFor()
      await sheet.getByText('An end user is named by a request', { exact: false }).waitFor()
      await sheet.getByText('u-1 · $0.50 of $0.40').waitFor()
      await checkLooks(dashboard, 'the details of a budget')
      await page.keyboard.press('Escape')
      await sheet.waitFor({ state: 'detached' })

      await page.getByRole('searchbox').fill('each team')
      await rows.filter({ hasText: 'opus-cap' }).waitFor({ state: 'detached' })
      assert.equal(await rows.count(), 1)
      // The other tab has a search of its own.
      await page.getByRole('button', { name: /^Keys/ }).click()
      await keyRow(page, nameOf(0)).waitFor()
    }))

  test('a budget for each owner and for one of many keys is created', () =>
    withDashboard(browser, session(), async ({ page, open, check }) => {
      await open('/dashboard/keys?show=budgets')
      await page.getByRole('button', { name: 'New budget' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Name').fill('of-the-last')
      await dialog.getByLabel('Amount in dollars').fill('7')
      await dialog.getByLabel('Counts').selectOption('key')
      await dialog.getByLabel('One amount for').selectOption('key')
      const field = dialog.getByRole('combobox', { name: 'Key, by name or ID' })
      await field.fill('service-209')
      await dialog.locator('datalist option[value="service-209"]').waitFor({ state: 'attached' })
      await check()
      await dialog.getByRole('button', { name: 'Create' }).click()
      await page.getByText('Budget of-the-last created').waitFor()
      const row = page.getByRole('row').filter({ hasText: 'of-the-last' })
      await row.getByText('key service-209, each key').first().waitFor({ state: 'attached' })
    }))
})
