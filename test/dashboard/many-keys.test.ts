/** 5,000 keys: each is found by its name, in the palette, in menus of filters and in chips, and the list reads a page at a time. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { type Started, start } from '../e2e/support/process.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { withDashboard } from './support/dashboard.ts'

const KEYS = 5_000
const TEAMS = 200
/** The last in the order of names. */
const LAST = 'service-4999'
const ADMIN = 'operator-token-0123456789'

/** What a page reads before its first row, and what shows it. Sizes are bytes as sent. */
const FIRST_ROWS = {
  keys: { row: 'a[href*="/keys/key_"]', calls: 9, bytes: 260_000 },
  teams: { row: 'a[href*="/teams/team_"]', calls: 10, bytes: 120_000 },
  requests: { row: '.outcome', calls: 9, bytes: 40_000 },
} as const
const FIRST_FILES = { files: 30, bytes: 70_000 }

/** The sizes of what the page had received when its first row was shown. */
const readBefore = async (page: Page, url: string, row: string) => {
  await page.addInitScript((selector) => {
    const observer = new MutationObserver(() => {
      if (document.querySelector(selector) === null) return
      observer.disconnect()
      performance.mark('first-row')
    })
    observer.observe(document, { childList: true, subtree: true })
  }, row)
  await page.goto(url, { waitUntil: 'commit' })
  await page.waitForFunction(() => performance.getEntriesByName('first-row').length > 0)
  return page.evaluate(() => {
    const shown = performance.getEntriesByName('first-row')[0]?.startTime ?? 0
    const read = performance
      .getEntriesByType('resource')
      .filter((entry) => entry instanceof PerformanceResourceTiming)
      .filter(({ responseEnd }) => responseEnd > 0 && responseEnd <= shown)
    const sizesOf = (part: string) =>
      read.filter(({ name }) => name.includes(part)).map(({ encodedBodySize }) => encodedBodySize)
    return { calls: sizesOf('/admin/api/'), files: sizesOf('/dashboard/assets/') }
  })
}

const sum = (sizes: readonly number[]): number => sizes.reduce((total, size) => total + size, 0)

describe('many keys', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let gateway: Started
  let id = ''
  before(async () => {
    const keys = Object.fromEntries(
      Array.from({ length: KEYS }, (_, at) => [
        `service-${String(at).padStart(4, '0')}`,
        { secret: `secret-of-service-${String(at).padStart(8, '0')}`, team: `team-${at % TEAMS}` },
      ]),
    )
    const teams = Object.fromEntries(Array.from({ length: TEAMS }, (_, at) => [`team-${at}`, {}]))
    ;[browser, gateway] = await Promise.all([
      startBrowser(),
      start({ env: { AUTH_ADMIN: ADMIN }, files: { 'headgate.yaml': JSON.stringify({ teams, keys }) } }),
    ])
    const answer = await fetch(`${gateway.base}/chat/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer secret-of-service-${String(KEYS - 1).padStart(8, '0')}`,
      },
      body: JSON.stringify({ model: 'demo/echo', messages: [{ role: 'user', content: 'Hello' }] }),
    })
    assert.equal(answer.status, 200)
    await answer.arrayBuffer()
    const listed = await fetch(`${gateway.url}/admin/api/v1/keys?q=${LAST}`, {
      headers: { authorization: `Bearer ${ADMIN}` },
    })
    const page: { readonly data: readonly { readonly id: string }[] } = await listed.json()
    id = page.data[0]?.id ?? ''
    assert.notEqual(id, '')
  })
  after(() => Promise.all([browser?.close(), gateway?.stop()]))

  const session = () => ({ url: gateway.url, token: ADMIN })

  for (const [name, { row, calls, bytes }] of Object.entries(FIRST_ROWS))
    test(`${name} reads little before its first row`, (t) =>
      withDashboard(browser, session(), async ({ page, open }) => {
        // The first visit waits for the build.
        await open('/dashboard/login')
        const read = await readBefore(page, `${gateway.url}/dashboard/${name}`, row)
        const sizes = `${read.calls.length} calls with ${sum(read.calls)} bytes, ${read.files.length} files with ${sum(read.files)}`
        t.diagnostic(sizes)
        assert.ok(read.calls.length > 2 && read.calls.length <= calls, sizes)
        assert.ok(sum(read.calls) > 1_000 && sum(read.calls) <= bytes, sizes)
        assert.ok(read.files.length <= FIRST_FILES.files && sum(read.files) <= FIRST_FILES.bytes, sizes)
      }))

  test('a menu reads nothing before it is opened, and returns the focus', () =>
    withDashboard(browser, session(), async ({ page, open }) => {
      const asked: string[] = []
      page.on('request', (request) => {
        if (/\/admin\/api\/v1\/(?:teams|keys)\?/.test(request.url())) asked.push(request.url())
      })
      await open('/dashboard/requests')
      await page.locator('.outcome').first().waitFor()
      assert.deepEqual(asked, [])
      const button = page.getByRole('button', { name: 'Team', exact: true })
      await button.focus()
      await page.keyboard.press('Enter')
      const team = page.getByRole('checkbox', { name: `team-${(KEYS - 1) % TEAMS}`, exact: true })
      await team.waitFor()
      await team.focus()
      await page.keyboard.press('Escape')
      await team.waitFor({ state: 'detached' })
      assert.ok(await button.evaluate((element) => element === document.activeElement))
    }))

  test('the usage page names a chosen key that has no usage in the range', () =>
    withDashboard(browser, session(), async ({ page, open }) => {
      await open(`/dashboard/usage?group=model&key=${id}&from=2026-01-01&to=2026-01-02`)
      await page.locator('.chip', { hasText: LAST }).waitFor()
    }))

  test('the menu of requests finds a key by its name, and its chip has the name', () =>
    withDashboard(browser, session(), async ({ page, open }) => {
      await open('/dashboard/requests?from=-24h')
      await page.getByRole('button', { name: 'Key', exact: true }).click()
      await page.getByRole('searchbox', { name: 'Find: Key' }).fill('service-1300')
      await page.getByText('service-1300', { exact: true }).click()
      await page.locator('.chip', { hasText: 'service-1300' }).waitFor()
    }))

  test('the palette finds a key beyond the first page', () =>
    withDashboard(browser, session(), async ({ page, open }) => {
      await open('/dashboard/')
      await page.keyboard.press('Control+k')
      await page.getByRole('combobox').fill(LAST)
      await page.getByRole('option', { name: LAST }).first().waitFor()
    }))

  test('the list of keys is read a page at a time, and the one that was used last is first with one call', () =>
    withDashboard(browser, session(), async ({ page, open }) => {
      const calls: string[] = []
      page.on('request', (request) => {
        if (request.url().includes('/api/v1/keys?')) calls.push(request.url())
      })
      await open('/dashboard/keys')
      await page.getByRole('link', { name: 'service-0000', exact: true }).waitFor()
      await page.getByRole('button', { name: 'Keys 200+' }).waitFor()
      assert.equal(calls.length, 1, calls.join('\n'))
      // The demo costs nothing: the key that was used is the first by its last use.
      await open('/dashboard/keys?sort=-last_used_at')
      await page.getByRole('link', { name: LAST, exact: true }).waitFor()
      assert.equal(calls.length, 2, calls.join('\n'))
      // Each time the end is near, twice as many are read: 2, 4 and 8 pages.
      const toEnd = () => page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight))
      for (const [read, more] of [
        ['400+', 2],
        ['800+', 6],
        ['1,600+', 14],
      ] as const) {
        await toEnd()
        await page.getByRole('button', { name: `Keys ${read}` }).waitFor()
        assert.equal(calls.length, 2 + more, calls.join('\n'))
      }
      await toEnd()
      const last = page.locator('.table tbody tr:not(.spacer)').last()
      assert.match((await last.textContent()) ?? '', /service-/)
    }))
})
