/** The page "Teams" with 200 teams: figures, order, block with undo, limits, one team's role, and end users. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { type Started, start } from '../e2e/support/process.ts'
import { fileOf } from '../e2e/support/stage.ts'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'

const ADMIN = 'operator-token-0123456789'
/** Teams of the file, beside three of the API and the default one. */
const TEAMS = 196
/** 100 tokens of input at $1000 and 100 of output at $4000 per million: 50 cents. */
const ANSWER = { text: 'hello', input: 100, output: 100 }
const NAMES = ['customer-success-emea', 'customer-success-apac', 'api-platform-prod'] as const
type Name = (typeof NAMES)[number]

/** Waits until a check holds, for 60 s at most. */
const eventually = async (check: () => Promise<boolean>): Promise<void> => {
  const end = Date.now() + 60_000
  while (!(await check())) {
    assert.ok(Date.now() < end, `does not become true: ${check}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

describe('teams', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let upstream: Upstream
  let gateway: Started
  const teams = {} as Record<Name, { readonly id: string; readonly secret: string }>
  before(async () => {
    upstream = await startUpstream((request) =>
      request.method === 'GET'
        ? { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
        : request.json.model === 'broken'
          ? { do: 'answer', status: 500, body: { error: { message: 'the model crashed' } } }
          : answerWith(request, ANSWER),
    )
    browser = await startBrowser()
    const names = Array.from({ length: TEAMS }, (_, at) => `team-${String(at).padStart(3, '0')}`)
    gateway = await start({
      env: { AUTH_ADMIN: ADMIN },
      files: {
        'headgate.yaml': fileOf({
          providers: { alpha: { kind: 'openai', baseUrl: `${upstream.url}/v1`, models: ['small', 'broken'] } },
          routes: { fast: { targets: ['alpha/small'] }, bad: { targets: ['alpha/broken'] } },
          prices: [{ provider: 'alpha', model: '*', perMillion: { input: 1_000, output: 4_000 } }],
          usage: { endUser: true },
          teams: Object.fromEntries(names.map((name) => [name, {}])),
        }),
      },
    })
    for (const name of NAMES) {
      const { id } = await admin('POST', '/teams', { name, limits: { requestsPerMinute: 600 } })
      const { secret } = await admin('POST', '/keys', {
        name: `${name}-key`,
        team: id,
        access: { models: ['fast', 'bad'] },
      })
      teams[name] = { id, secret }
    }
    const [emea, apac, api] = NAMES
    await admin('POST', '/keys', { name: 'second', team: teams[emea].id })
    await admin('POST', '/budgets', {
      name: 'emea',
      amount: '2.00',
      period: 'month',
      appliesTo: { teams: [teams[emea].id] },
    })
    for (const user of ['ann', 'ann', 'bob']) assert.equal(await ask(emea, 'fast', user), 200)
    assert.equal(await ask(apac, 'fast'), 200)
    assert.equal(await ask(apac, 'bad'), 502)
    assert.equal(await ask(apac, 'small'), 403)
    for (let times = 0; times < 2; times++) assert.equal(await ask(api, 'fast'), 200)
    await eventually(async () => (await admin('GET', '/usage?bucket=none')).total.requests === 8)
  })
  after(async () => {
    await Promise.all([browser?.close(), gateway?.stop()])
    await upstream?.close()
  })

  /** Calls the admin API, and fails unless it succeeds. */
  const admin = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${ADMIN}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    assert.ok(response.ok, text)
    // biome-ignore lint/suspicious/noExplicitAny: the tests read bodies of every shape
    return JSON.parse(text) as any
  }
  /** The status of a model call of a team. */
  const ask = async (name: Name, model: string, user?: string): Promise<number> => {
    const response = await fetch(`${gateway.base}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${teams[name].secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }], max_tokens: 100, user }),
    })
    await response.arrayBuffer()
    return response.status
  }
  const session = { token: ADMIN }
  const row = (page: Page, name: string) =>
    page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) })
  /** The texts of a row's cells, by the head of their column. */
  const cells = async (page: Page, name: string): Promise<Record<string, string>> => {
    const heads = await page.getByRole('columnheader').allInnerTexts()
    const texts = await row(page, name).getByRole('cell').allInnerTexts()
    return Object.fromEntries(heads.map((head, at) => [head.replace(/ [▲▼]/, '').trim(), (texts[at] ?? '').trim()]))
  }
  const names = (page: Page) =>
    page.locator('tbody tr:not(.spacer) td:first-child a').evaluateAll((links) => links.map((link) => link.textContent))

  for (const { width, theme } of LOOKS)
    test(`is accessible ${width} and ${theme}`, () =>
      withDashboard(browser, { url: gateway.url, width, theme, ...session }, async ({ page, open, check, shot }) => {
        await open('/dashboard/teams')
        await page
          .getByRole('img', { name: /Budget emea: 75/ })
          .first()
          .waitFor()
        await check()
        await shot('teams')
        await open(`/dashboard/teams/${teams[NAMES[1]].id}`)
        await page.getByText('the model crashed').first().waitFor()
        await check()
        await shot('team')
        await page.getByRole('button', { name: 'Edit limits…' }).click()
        await check()
        await shot('team-limits')
        await page.keyboard.press('Escape')
        await open('/dashboard/teams?show=end-users')
        await page.getByRole('link', { name: 'ann' }).waitFor()
        await check()
        await shot('end-users')
      }))

  test('figures are those of the API and of the calls, the most expensive team first', () =>
    withDashboard(browser, { url: gateway.url, ...session }, async ({ page, open }) => {
      await open('/dashboard/teams')
      const [emea, apac, api] = NAMES
      await page
        .getByRole('img', { name: /Budget emea: 75/ })
        .first()
        .waitFor()
      assert.deepEqual((await names(page)).slice(0, 3), [emea, api, apac])
      const shown = await cells(page, emea)
      assert.match(shown.Spend ?? '', /\$1\.50/)
      assert.deepEqual([shown.Requests, shown.Failing, shown.Refused, shown.Keys], ['3', '0%', '0%', '2'])
      const failing = await cells(page, apac)
      assert.match(failing.Spend ?? '', /\$0\.50/)
      assert.deepEqual([failing.Requests, failing.Failing, failing.Refused], ['3', '33.3%', '33.3%'])
      const { data } = await admin('GET', '/usage?by=team&bucket=none')
      const found = data.find(({ team }: { readonly team: string }) => team === teams[apac].id)
      assert.deepEqual([found.requests, found.failed, found.refused, found.cost], [3, 2, 1, '0.500000000'])
    }))

  test('every column sorts, the search finds a name among 200, and a team has its address', () =>
    withDashboard(browser, { url: gateway.url, ...session }, async ({ page, open }) => {
      await open('/dashboard/teams')
      await page.getByRole('link', { name: NAMES[0] }).waitFor()
      assert.equal(await page.getByRole('table', { name: 'Teams' }).getAttribute('aria-rowcount'), String(TEAMS + 5))
      await page.getByRole('button', { name: 'Failing' }).click()
      await eventually(async () => (await names(page))[0] === NAMES[1])
      await page.getByRole('button', { name: 'Keys', exact: true }).click()
      await eventually(async () => (await names(page))[0] === NAMES[0])
      await page.locator('th').getByRole('button', { name: /^Team/ }).click()
      await page.locator('th').getByRole('button', { name: /^Team/ }).click()
      await eventually(async () => (await names(page))[0] === NAMES[2])
      await page.keyboard.press('/')
      await page.keyboard.type('TEAM-19')
      await eventually(async () => (await names(page)).length === 6)
      assert.match(page.url(), /q=TEAM-19/)
      await open('/dashboard/teams')
      await page.getByRole('link', { name: NAMES[0] }).waitFor()
      // The first row is the one with the most cost.
      await page.keyboard.press('j')
      await page.locator('tr:focus').waitFor()
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { level: 1, name: NAMES[0] }).waitFor()
      assert.match(page.url(), new RegExp(teams[NAMES[0]].id))
      await page.getByRole('link', { name: 'Requests', exact: true }).last().click()
      await page.waitForURL(new RegExp(`/dashboard/requests\\?.*team=${teams[NAMES[0]].id}`))
      await eventually(async () => (await page.locator('tbody .outcome').count()) === 3)
    }))

  test('closing the page of a team returns the focus to its row, and keeps the search and the order', () =>
    withDashboard(browser, { url: gateway.url, ...session }, async ({ page, open }) => {
      const [, apac] = NAMES
      await open('/dashboard/teams?sort=-failing&q=success')
      await row(page, apac).locator('td').last().waitFor()
      await page.keyboard.press('j')
      await row(page, apac).and(page.locator(':focus')).waitFor()
      for (const close of [() => page.getByRole('link', { name: '← All teams' }).click(), () => page.goBack()]) {
        await page.keyboard.press('Enter')
        await page.getByRole('heading', { level: 1, name: apac }).waitFor()
        await close()
        await row(page, apac).and(page.locator(':focus')).waitFor()
        assert.match(page.url(), /teams\?sort=-failing&q=success$/)
      }
    }))

  test('the filter of Usage finds a team by a part of its name', () =>
    withDashboard(browser, { url: gateway.url, ...session }, async ({ page, open }) => {
      await open('/dashboard/usage?group=team')
      await page.getByRole('rowheader', { name: NAMES[0] }).waitFor()
      await page.getByRole('button', { name: /^Filter/ }).click()
      const group = page.getByRole('group').filter({ has: page.locator('summary', { hasText: /^Team$/ }) })
      await group.locator('summary').click()
      await group.getByRole('checkbox').nth(5).waitFor()
      await group.getByRole('searchbox').fill('success-ap')
      await group.getByRole('checkbox', { name: NAMES[1] }).check()
      await page.waitForURL(new RegExp(`team=${teams[NAMES[1]].id}`))
      await page.getByRole('rowheader', { name: NAMES[0] }).waitFor({ state: 'detached' })
      await page.locator('.chip', { hasText: `Team: ${NAMES[1]}` }).waitFor()
      await page.locator('.figure', { hasText: 'Cost, ' }).filter({ hasText: '$0.50' }).waitFor()
    }))

  test('the palette finds a team by a part of its name, and its page opens', () =>
    withDashboard(browser, { url: gateway.url, ...session }, async ({ page, open }) => {
      await open('/dashboard/')
      await page.keyboard.press('Control+k')
      await page.getByRole('combobox').fill('success-apac')
      await page.getByRole('option', { name: `Team ${NAMES[1]}` }).waitFor()
      await page.getByRole('option', { name: `Key ${NAMES[1]}-key` }).waitFor()
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { level: 1, name: NAMES[1] }).waitFor()
      // A request of it leads back to it.
      await page.getByRole('link', { name: /, \d/ }).first().click()
      await page.locator('.sheet').getByRole('link', { name: NAMES[1], exact: true }).click()
      await page.getByRole('heading', { level: 1, name: NAMES[1] }).waitFor()
    }))

  test('a team is blocked, its calls are refused, and undo admits it again', () =>
    withDashboard(browser, { url: gateway.url, ...session }, async ({ page, open }) => {
      const [, , name] = NAMES
      await open('/dashboard/teams')
      await row(page, name)
        .getByRole('button', { name: /More actions/ })
        .click()
      await page.getByRole('button', { name: 'Block', exact: true }).click()
      await row(page, name).getByText('blocked').waitFor()
      assert.equal(await ask(name, 'fast'), 403)
      await page.getByRole('button', { name: 'Undo' }).click()
      await row(page, name).getByText('active').waitFor()
      assert.equal((await admin('GET', `/teams/${teams[name].id}`)).status, 'active')
      assert.equal(await ask(name, 'fast'), 200)
    }))

  test('limits of a team are edited, and undone', () =>
    withDashboard(browser, { url: gateway.url, ...session }, async ({ page, open }) => {
      const { id } = teams[NAMES[0]]
      await open(`/dashboard/teams/${id}`)
      await page.getByText('600/min').waitFor()
      await page.getByRole('button', { name: 'Edit limits…' }).click()
      await page.getByLabel('Requests per minute').fill('90')
      await page.getByRole('button', { name: 'Save' }).click()
      await page.getByText('90/min').waitFor()
      assert.equal((await admin('GET', `/teams/${id}`)).limits.requestsPerMinute, 90)
      await page.getByRole('button', { name: 'Undo' }).click()
      await page.getByText('600/min').waitFor()
    }))

  test('a viewer of one team sees this team alone, and may change nothing', async () => {
    const { id } = teams[NAMES[1]]
    const { secret } = await admin('POST', '/tokens', { name: 'apac', bindings: [{ role: 'viewer', team: id }] })
    await withDashboard(browser, { url: gateway.url, token: secret, expected: /403/ }, async ({ page, open }) => {
      await open('/dashboard/teams')
      await page.getByRole('link', { name: NAMES[1] }).waitFor()
      assert.deepEqual(await names(page), [NAMES[1]])
      await page.getByText(/It takes the role operator/).waitFor()
      await page.getByRole('link', { name: NAMES[1] }).click()
      await page.getByText('the model crashed').first().waitFor()
      assert.equal(await page.getByRole('button', { name: 'Block' }).count(), 0)
    })
  })

  test('end users: figures, their requests, block for real, and undo', () =>
    withDashboard(browser, { url: gateway.url, ...session }, async ({ page, open }) => {
      await open('/dashboard/teams?show=end-users')
      await page.getByRole('link', { name: 'ann' }).waitFor()
      assert.deepEqual(await names(page), ['ann', 'bob'])
      const shown = await cells(page, 'ann')
      assert.deepEqual([shown.Spend, shown.Requests, shown.State], ['$1.00', '2', 'active'])
      await page.getByRole('button', { name: 'Block: ann' }).click()
      await row(page, 'ann').getByText('blocked').waitFor()
      assert.equal(await ask(NAMES[2], 'fast', 'ann'), 403)
      assert.equal(await ask(NAMES[2], 'fast', 'bob'), 200)
      await page.getByRole('button', { name: 'Undo' }).click()
      await row(page, 'ann').getByText('active').waitFor()
      assert.equal(await ask(NAMES[2], 'fast', 'ann'), 200)
      await page.getByRole('link', { name: 'bob' }).click()
      await page.waitForURL(/\/dashboard\/requests\?.*end_user=bob/)
      await page.locator('.outcome').first().waitFor()
      await eventually(async () => (await page.locator('tbody tr:not(.spacer)').count()) === 2)
    }))
})
