/** Columns as wide as their content: times in every locale, long names, widths that a user chose, and columns without room. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { post, type Started, start } from '../e2e/support/process.ts'
import { answerWith, failWith } from '../support/answers.ts'
import { startUpstream } from '../support/upstream.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { withDashboard } from './support/dashboard.ts'

const LIST = '/dashboard/requests'
const KEYS = ['customer-success-prod', 'customer-success-staging'] as const
const CONFIG = JSON.stringify({
  teams: { 'customer-success': {} },
  keys: Object.fromEntries(
    KEYS.map((name) => [name, { secret: `secret-of-${name}-0123456789`, team: 'customer-success' }]),
  ),
})

/** Cells of a column, whose content is wider than they are. */
const cutCells = (page: Page, head: string) =>
  page.evaluate((name) => {
    const heads = [...document.querySelectorAll('table.table th')]
    const at = heads.findIndex((one) => one.textContent?.startsWith(name))
    return [...document.querySelectorAll('table.table tbody tr:not(.spacer)')].flatMap((row) => {
      const cell = row.children[at]
      return cell && cell.scrollWidth > cell.clientWidth ? [cell.textContent] : []
    })
  }, head)

const rowsOf = (page: Page) => page.locator('table.table tbody tr:not(.spacer)')

describe('columns', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let gateway: Started
  before(async () => {
    ;[browser, gateway] = await Promise.all([startBrowser(), start({ files: { 'headgate.yaml': CONFIG } })])
    for (const name of [...KEYS, ...KEYS]) {
      const body = { model: 'demo/echo', messages: [{ role: 'user', content: 'Hello' }] }
      const headers = { authorization: `Bearer secret-of-${name}-0123456789` }
      assert.equal((await post(`${gateway.base}/chat/completions`, body, headers)).status, 200)
    }
  })
  after(() => Promise.all([browser?.close(), gateway?.stop()]))

  for (const locale of ['en-US', 'de-DE', 'ar-EG', 'hi-IN', 'ko-KR', 'ta-IN'])
    for (const width of [1280, 768])
      test(`the time is whole in ${locale} at ${width} px`, () =>
        withDashboard(browser, { url: gateway.url, locale }, async ({ page, open, fits }) => {
          await page.setViewportSize({ width, height: 800 })
          await open(LIST)
          await rowsOf(page).nth(3).waitFor()
          assert.deepEqual(await cutCells(page, 'Time'), [])
          // Every time of a day has room, not only the present one.
          const spare = await page.evaluate((language) => {
            const cell = document.querySelector('table.table tbody td')
            const time = cell?.querySelector('time')
            if (!cell || !time) return null
            const format = new Intl.DateTimeFormat(language, { hour: '2-digit', minute: '2-digit', second: '2-digit' })
            return Array.from({ length: 24 }, (_, hour) => {
              time.textContent = format.format(new Date(2026, 5, 9, hour, 58, 59))
              return cell.clientWidth - cell.scrollWidth
            })
          }, locale)
          assert.deepEqual(
            spare?.filter((room) => room < 0),
            [],
          )
          await fits()
        }))

  test('names are whole with room, and keep their ends without', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check }) => {
      await open(LIST)
      const name = page.locator('td .middle', { hasText: KEYS[1] }).first()
      await name.waitFor()
      const cut = () =>
        name.evaluate((element) => {
          // The start is generated: its room against that of a copy without a limit.
          const copy = document.createElement('span')
          copy.textContent = element.getAttribute('title')
          element.parentElement?.append(copy)
          const needed = copy.getBoundingClientRect().width
          copy.remove()
          return needed - element.getBoundingClientRect().width > 1
        })
      assert.equal(await cut(), false)
      await page.setViewportSize({ width: 768, height: 800 })
      await page.getByRole('button', { name: 'columns are hidden' }).waitFor()
      assert.equal(await name.getAttribute('title'), KEYS[1])
      const shown = await name.evaluate((element) => {
        const copy = document.createElement('span')
        copy.textContent = element.getAttribute('data-shown')
        element.parentElement?.append(copy)
        const width = copy.getBoundingClientRect().width
        copy.remove()
        return { text: copy.textContent ?? '', spare: element.getBoundingClientRect().width - width }
      })
      // The end follows the cut at once, and one more letter would have no room.
      assert.match(shown.text, /^[^…]+…-staging$/)
      assert.ok(shown.spare > -1 && shown.spare < 16, `${shown.spare} px beside ${shown.text}`)
      assert.equal(await name.textContent(), KEYS[1])
      await check()
    }))

  test('a list says how many columns have no room, and shows them', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, fits, check }) => {
      await page.setViewportSize({ width: 768, height: 800 })
      await open(LIST)
      const heads = () => page.locator('table.table th').allTextContents()
      const menu = page.getByRole('button', { name: /^\d columns are hidden/ })
      await menu.waitFor()
      const before = await heads()
      assert.ok(!before.some((head) => head.startsWith('Client')))
      const stated = Number(/\d/.exec((await menu.textContent()) ?? '')?.[0])
      assert.equal(before.length + stated, 11)
      await menu.click()
      await page.getByRole('button', { name: 'Show all columns' }).click()
      await page.waitForURL(/cols=/)
      assert.equal((await heads()).length, 11)
      assert.deepEqual(await cutCells(page, 'Time'), [])
      await fits()
      await check()
    }))

  test('a column is resized with the keyboard and the pointer, and keeps its width', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check }) => {
      await open(LIST)
      const separator = page.getByRole('separator', { name: 'Width of Key' })
      const width = async () =>
        Math.round((await page.getByRole('columnheader', { name: 'Key' }).boundingBox())?.width ?? 0)
      await separator.focus()
      const own = await width()
      assert.equal(await separator.getAttribute('aria-valuenow'), String(own))
      await separator.press('ArrowRight')
      await page.waitForFunction(
        (before) => document.activeElement?.getAttribute('aria-valuenow') === `${before}`,
        own + 16,
      )
      assert.equal(await width(), own + 16)
      const box = await separator.boundingBox()
      assert.ok(box)
      await page.mouse.move(box.x + 12, box.y + 16)
      await page.mouse.down()
      await page.mouse.move(box.x - 28, box.y + 16, { steps: 4 })
      await page.mouse.up()
      assert.equal(await width(), own - 24)
      await check()
      await page.reload()
      await rowsOf(page).first().waitFor()
      assert.equal(await width(), own - 24)
      await separator.focus()
      await separator.press('Enter')
      await page.waitForFunction(() => localStorage.getItem('widths.requests') === null)
      assert.equal(await width(), own)
    }))

  test('a team is a filter, by its name in the address too, and a name of no team says so', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check }) => {
      await open(LIST)
      await page.getByRole('button', { name: 'Team', exact: true }).click()
      await page.getByRole('checkbox', { name: 'customer-success' }).check()
      await page.waitForURL(/team=team_/)
      await page.locator('.chip', { hasText: 'Team: customer-success' }).waitFor()
      await page.locator('table[aria-rowcount="5"]').waitFor()
      await open(`${LIST}?team=customer-success`)
      await page.locator('.chip', { hasText: 'Team: customer-success' }).waitFor()
      await page.locator('table[aria-rowcount="5"]').waitFor()
      await open(`${LIST}?team=customer-sucess`)
      await page.locator('.chip', { hasText: 'No team is named customer-sucess' }).waitFor()
      await check()
      await page.getByRole('button', { name: 'Did you mean customer-success?' }).click()
      await page.locator('table[aria-rowcount="5"]').waitFor()
    }))

  test('end user, error code and tag are filters and columns, and errors of attempts are searched', async () => {
    await using upstreams = new AsyncDisposableStack()
    const upstream = async (act: Parameters<typeof startUpstream>[0]) =>
      upstreams.adopt(await startUpstream(act), (one) => one.close())
    const down = await upstream((request) =>
      failWith(request, 503, { type: 'api_error', message: 'cluster eu-2 is down' }),
    )
    const up = await upstream((request) => answerWith(request, { text: 'Hello' }))
    const provider = (url: string) => ({
      kind: 'openai',
      baseUrl: `${url}/v1`,
      keys: ['sk-test-0123'],
      models: ['small'],
    })
    await using failing = await start({
      files: {
        'headgate.yaml': JSON.stringify({
          providers: { alpha: provider(down.url), beta: provider(up.url) },
          keys: { app: { secret: 'secret-of-app-0123456789', tags: { feature: 'chat' } } },
          usage: { endUser: true },
          unknownModel: 'reject',
          routes: { fast: { targets: ['alpha/small'], fallback: ['beta/small'] } },
        }),
      },
    })
    const ask = async (model: string, user: string) => {
      const body = { model, user, messages: [{ role: 'user', content: 'Hello' }] }
      const { status } = await post(`${failing.base}/chat/completions`, body, {
        authorization: 'Bearer secret-of-app-0123456789',
      })
      return status
    }
    assert.deepEqual([await ask('fast', 'alice'), await ask('nonsense', 'bob')], [200, 404])
    await withDashboard(browser, { url: failing.url }, async ({ page, open, shot }) => {
      const finds = async (filter: string, text: string) => {
        await open(`${LIST}?cols=time,asked,outcome,end_user,code,tags&${filter}`)
        await page.locator('table[aria-rowcount="2"]').waitFor()
        await rowsOf(page).filter({ hasText: text }).waitFor()
      }
      await finds('q=cluster+eu-2', 'fell back')
      await finds('end_user=alice', 'alice')
      await finds('code=model_not_found', 'refused 404')
      await finds('end_user=bob&tag=feature:chat', 'feature:chat')
      await shot('filtered')
    })
  })

  test('a request that was refused before its key was known is in the list, and its ID opens it', async () => {
    const admin = 'operator-token-0123456789'
    await using closed = await start({
      env: { AUTH_ADMIN: admin },
      files: { 'headgate.yaml': CONFIG },
    })
    const body = { model: 'demo/echo', messages: [{ role: 'user', content: 'Hello' }] }
    const refused = await fetch(`${closed.base}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer not-a-key-of-this-gateway-0123' },
      body: JSON.stringify(body),
    })
    assert.equal(refused.status, 401)
    const id = refused.headers.get('x-request-id') ?? ''
    await withDashboard(browser, { url: closed.url, token: admin }, async ({ page, open, check, shot }) => {
      await open(LIST)
      await page.locator('.outcome.tone-refused', { hasText: 'refused 401' }).waitFor()
      await page.keyboard.press('Control+k')
      await page.getByRole('combobox').fill(id)
      await page.keyboard.press('Enter')
      const sheet = page.getByRole('complementary', { name: 'Request' })
      await sheet.getByText('refused 401').waitFor()
      await check()
      await shot('refused-401')
    })
  })

  test('a view is saved, opened, renamed and deleted, with the keyboard', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check, shot }) => {
      await open(`${LIST}?from=-24h&status=answered&team=customer-success&cols=time,key`)
      const views = page.getByRole('button', { name: 'Views' })
      await views.focus()
      await page.keyboard.press('Enter')
      await page.getByRole('textbox', { name: 'Name of this view' }).focus()
      await page.keyboard.type('Success <b>')
      await page.keyboard.press('Enter')
      await page.getByRole('link', { name: 'Success <b>' }).waitFor()
      await check()
      await shot('saved-views')
      await open(LIST)
      await views.click()
      const link = page.getByRole('link', { name: 'Success <b>' })
      await link.focus()
      await page.keyboard.press('Enter')
      await page.waitForURL(/from=-24h&status=answered&team=customer-success&cols=time,key$/)
      await page.locator('.chip', { hasText: 'Team: customer-success' }).waitFor()
      await views.click()
      await page.getByRole('button', { name: 'Rename Success <b>' }).focus()
      await page.keyboard.press('Enter')
      await page.getByRole('textbox', { name: 'New name of Success <b>' }).fill('Another')
      await page.keyboard.press('Enter')
      await page.reload()
      await views.click()
      await page.getByRole('link', { name: 'Another' }).waitFor()
      await page.getByRole('button', { name: 'Delete Another' }).focus()
      await page.keyboard.press('Enter')
      await page.waitForFunction(() => localStorage.getItem('views') === null)
    }))

  test('a card has the key of its request', () =>
    withDashboard(browser, { url: gateway.url, width: 'narrow' }, async ({ page, open, check }) => {
      await open(LIST)
      await page.locator('.request-card', { hasText: KEYS[0] }).first().waitFor()
      const heights = await page
        .locator('.request-card')
        .evaluateAll((cards) => cards.map((card) => [card.scrollHeight, card.closest('tr')?.offsetHeight]))
      for (const [card = 0, row = 0] of heights) assert.ok(card <= row, `${card} px in a row of ${row} px`)
      await check()
    }))
})
