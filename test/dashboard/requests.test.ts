/** The Requests page against a real gateway. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { post, start } from '../e2e/support/process.ts'
import { stage } from '../e2e/support/stage.ts'
import { answerWith } from '../support/answers.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'
import { HOSTILE, startTraffic, type Traffic } from './support/traffic.ts'

const LIST = '/dashboard/requests'
const JSON_FOLD = 'JSON, headers and events'
const ECHO = { model: 'demo/echo', messages: [{ role: 'user', content: 'Hello' }] }

describe('the Requests page', { skip: skipBrowser }, () => {
  let browser: Browser
  let traffic: Traffic
  let url = ''
  before(async () => {
    const started = await Promise.all([startBrowser(), startTraffic()])
    browser = started[0]
    traffic = started[1]
    url = traffic.gateway.url
    await traffic.mixed()
  })
  after(async () => {
    await Promise.all([browser?.close(), traffic?.close()])
  })

  for (const { width, theme } of LOOKS)
    test(`shows path and result of each request, ${width} and ${theme}`, () =>
      withDashboard(browser, { url, width, theme }, async ({ page, open, check, shot }) => {
        await open(LIST)
        await page.locator('.outcome', { hasText: 'fell back' }).first().waitFor()
        await page.locator('.bars').waitFor()
        await page.locator('.bars .mark').first().waitFor({ state: 'attached' })
        const rows = await page.locator('table.table tbody tr:not(.spacer)').allTextContents()
        assert.ok(rows.length >= 8, `${rows.length} rows`)
        for (const words of ['fell back', 'refused 404', 'failed 502', 'broke off', 'answered'])
          assert.ok(
            rows.some((row) => row.includes(words)),
            `no row has "${words}": ${rows.join('\n')}`,
          )
        assert.ok(rows.some((row) => /anthropic ✗ .*→ openai ✓/.test(row)))
        await check()
        await shot('list')
        await page.locator('.outcome', { hasText: 'fell back' }).first().click()
        await page.getByText('Why here').waitFor()
        await check()
        await shot('sheet')
      }))

  test('lists the requests of a session, which is stopped and served again', () =>
    withDashboard(browser, { url }, async ({ page, open, check }) => {
      const ask = async (): Promise<number> => {
        const headers = { 'content-type': 'application/json', 'x-headgate-session': 'dashboard-one' }
        const answer = await fetch(`${url}/v1/chat/completions`, {
          method: 'POST',
          headers,
          body: JSON.stringify({ ...ECHO, model: 'openai/gpt-5-mini' }),
        })
        await answer.text()
        return answer.status
      }
      for (let count = 0; count < 2; count++) assert.equal(await ask(), 200)
      const find = async () =>
        Object(await (await fetch(`${url}/admin/api/v1/sessions?name=dashboard-one`)).json()).data[0]
      let found = await find()
      for (
        const end = performance.now() + 120_000;
        found?.requests !== 2 && performance.now() < end;
        found = await find()
      )
        await page.waitForTimeout(100)
      await open(`${LIST}?session=${found.id}`)
      await page.waitForFunction(() => document.querySelectorAll('table.table tbody tr:not(.spacer)').length === 2)
      await page.locator('.outcome').first().click()
      await page.getByRole('link', { name: 'All its requests' }).waitFor()
      await check()
      await page.getByRole('button', { name: 'Stop', exact: true }).click()
      await page.getByText(`${found.id} is stopped at all gateways`).waitFor()
      assert.equal(await ask(), 402)
      await page.getByRole('button', { name: 'Undo' }).click()
      await page.getByText(`${found.id} is served again`).waitFor()
      assert.equal(await ask(), 200)
    }))

  test('is used with the keyboard alone, and the address keeps all of it', () =>
    withDashboard(browser, { url }, async ({ page, open }) => {
      await open(LIST)
      await page.locator('.outcome').first().waitFor()
      await page.keyboard.press('j')
      await page.keyboard.press('j')
      const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-rowindex'))
      await page.waitForFunction(() => document.activeElement?.getAttribute('aria-rowindex') === '3')
      await page.keyboard.press('Enter')
      await page.waitForURL(/\/requests\/req_/)
      const first = page.url()
      await page.getByRole('complementary', { name: 'Request' }).getByText('Why here').waitFor()
      await page.keyboard.press(']')
      await page.waitForURL((address) => address.href !== first)
      await page.keyboard.press('[')
      await page.waitForURL(first)
      await page.keyboard.press('Escape')
      await page.waitForURL(/\/requests$/)
      await page.waitForFunction(() => document.activeElement?.getAttribute('aria-rowindex') === '3')
      assert.equal(await focused(), '3')
      await page.keyboard.press('/')
      await page.keyboard.type('gpt-5o')
      await page.waitForURL(/q=gpt-5o/)
      await page.locator('table.table tbody tr').filter({ hasText: 'refused 404' }).waitFor()
      await page.waitForFunction(() => document.querySelectorAll('table.table tbody tr:not(.spacer)').length === 1)
    }))

  test('filters by result, shows an unknown filter, and offers to clear what finds nothing', () =>
    withDashboard(browser, { url }, async ({ page, open, check, shot }) => {
      await open(LIST)
      await page.getByRole('button', { name: 'Status' }).click()
      await page.getByRole('checkbox', { name: 'fell back' }).check()
      await page.getByRole('checkbox', { name: 'broke off' }).check()
      await page.waitForURL(/status=fell_back,broke_off/)
      await page.keyboard.press('Escape')
      await page.waitForFunction(() => document.querySelectorAll('table.table tbody tr:not(.spacer)').length === 3)
      await open(`${LIST}?colour=red&provider=nowhere`)
      await page.getByText('No request matches the filter').waitFor()
      await page.getByText('colour=red').waitFor()
      await check()
      await shot('list-empty')
      await page.getByText('No request of the last 90 days matches it.').waitFor()
      await page.getByRole('button', { name: 'Clear the filter' }).click()
      await page.locator('.outcome').first().waitFor()
      // The newest match is outside the range.
      await open(`${LIST}?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z&status=fell_back`)
      await page.getByText(/The newest match is from \d+ (?:s|min) ago/).waitFor()
      await check()
      await page.getByRole('link', { name: 'Show it' }).click()
      await page.locator('.outcome', { hasText: 'fell back' }).first().waitFor()
    }))

  test('is sorted by a column, which the address has, and lets new requests wait then', () =>
    withDashboard(browser, { url }, async ({ page, open, check, shot }) => {
      const ids = () => page.locator('table.table tbody tr:not(.spacer) td:nth-child(3)').allTextContents()
      const isSorted = async (sort: string) => {
        const { data } = await (await fetch(`${url}/admin/api/v1/requests?limit=8&sort=${sort}`)).json()
        const expected = data.map(({ id }: { id: string }) => id)
        for (const end = performance.now() + 120_000; performance.now() < end; await page.waitForTimeout(100))
          if ((await ids()).slice(0, 8).join() === expected.join()) break
        assert.deepEqual((await ids()).slice(0, 8), expected)
      }
      await open(`${LIST}?cols=time,total,id`)
      const head = page.getByRole('columnheader', { name: 'Total' })
      await head.getByRole('button').click()
      await page.waitForURL(/sort=-total$/)
      await isSorted('-total_ms')
      assert.equal(await head.getAttribute('aria-sort'), 'descending')
      await check()
      await shot('list-sorted')
      await head.getByRole('button').click()
      await page.waitForURL(/sort=total$/)
      await isSorted('total_ms')
      await page.reload()
      await isSorted('total_ms')
      await traffic.ask('gpt-5-mini')
      await page.locator('.new-rows').click()
      await page.locator('.new-rows').waitFor({ state: 'detached' })
      await isSorted('total_ms')
      await page.getByRole('columnheader', { name: 'Time' }).getByRole('button').click()
      await page.waitForURL((address) => !address.search.includes('sort'))
      await isSorted('-received_at')
    }))

  test('is sorted where rows are cards, and has no hidden control there', () =>
    withDashboard(browser, { url, width: 'narrow' }, async ({ page, open, check, shot }) => {
      await open(LIST)
      const sort = page.getByLabel('Sort by')
      assert.equal(await sort.inputValue(), '-time')
      await sort.selectOption({ label: 'Total, descending' })
      await page.waitForURL(/sort=-total$/)
      const { data } = await (await fetch(`${url}/admin/api/v1/requests?limit=1&sort=-total_ms`)).json()
      await page.locator('table.table tbody tr').first().getByText(data[0].asked, { exact: true }).waitFor()
      assert.equal(await page.locator('thead button').count(), 0)
      await check()
      await shot('list-sorted')
      await sort.selectOption({ label: 'Time, descending' })
      await page.waitForURL((address) => !address.search.includes('sort'))
    }))

  test('adds requests as they end, waits while held, and says how many are new', () =>
    withDashboard(browser, { url }, async ({ page, open, shot }) => {
      await open(`${LIST}?q=live-one`)
      await page.waitForSelector('.live-live')
      await page.getByText('No request matches').waitFor()
      await traffic.ask('live-one')
      await page.locator('.outcome', { hasText: 'refused 404' }).waitFor()
      await page.locator('h1').click()
      await page.keyboard.press('Space')
      await page.waitForSelector('.live-held')
      await traffic.ask('live-one')
      await page.getByText('held, 1 new').waitFor()
      await shot('list-held')
      assert.equal(await page.locator('.outcome').count(), 1)
      await page.keyboard.press('Space')
      await page.waitForFunction(() => document.querySelectorAll('.outcome').length === 2)
    }))

  test('counts all requests of a busy time, whose events are a sample, and reads them at a click', async () => {
    await using busy = await start()
    const ask = async () => {
      const { status } = await post(`${busy.base}/chat/completions`, ECHO)
      assert.equal(status, 200)
    }
    await ask()
    await withDashboard(browser, { url: busy.url }, async ({ page, open }) => {
      await open(LIST)
      await page.waitForSelector('.live-live')
      await page.locator('.outcome').hover()
      for (let n = 0; n < 20; n++) await Promise.all(Array.from({ length: 20 }, ask))
      // A page that was cut off on a busy machine has read some of them by itself.
      await page.waitForFunction(() => {
        const rows = Number(document.querySelector('table[aria-rowcount]')?.getAttribute('aria-rowcount'))
        const [fresh = 0] = document.querySelector('.new-rows')?.textContent?.match(/\d+/) ?? []
        return rows + Number(fresh) === 402
      })
      const news = page.getByRole('button', { name: / new$/ })
      if (await news.isVisible()) await news.click()
      await page.locator('table[aria-rowcount="402"]').waitFor()
      await page.locator('.new-rows').waitFor({ state: 'detached' })
    })
  })

  test('keeps what is under the pointer in place, and offers new rows', () =>
    withDashboard(browser, { url }, async ({ page, open }) => {
      await open(LIST)
      await page.waitForSelector('.live-live')
      const first = page.locator('table.table tbody tr').first()
      await first.hover()
      const text = await first.textContent()
      await traffic.ask('another-one')
      const button = page.getByRole('button', { name: '1 new' })
      await button.waitFor()
      assert.equal(await first.textContent(), text)
      await button.click()
      await page.locator('table.table').getByText('another-one').waitFor()
    }))

  test('treats every text as text', () =>
    withDashboard(browser, { url }, async ({ page, open, shot, check }) => {
      const id = await traffic.ask(HOSTILE, { text: HOSTILE })
      const failed = await traffic.ask('openai/gpt-5-mini', { text: `bad request ${HOSTILE}` })
      for (const one of [id, failed]) {
        await open(`${LIST}/${one}`)
        await page.getByText('Why here').waitFor()
        await page.locator('.sheet summary', { hasText: 'Conversation' }).click()
        await page.locator('.sheet-bodies summary', { hasText: JSON_FOLD }).click()
        await page.locator('.sheet-bodies details details').first().waitFor()
        for (const summary of await page.locator('.sheet-bodies details details > summary').all()) await summary.click()
        assert.equal(await page.locator('main img, main script, aside img, aside script').count(), 0)
      }
      await page.locator('.sheet pre').first().waitFor()
      assert.ok((await page.locator('.sheet').textContent())?.includes('<img src=x onerror='))
      await check()
      await shot('hostile')
      await open(`${LIST}?model=${encodeURIComponent(HOSTILE)}&q=${encodeURIComponent(HOSTILE)}`)
      await page.locator('.chip').waitFor()
      await check()
    }))

  test('opening a request reads no bodies; opening its bodies does, which is audited', () =>
    withDashboard(browser, { url }, async ({ page, open, check, shot }) => {
      const id = await traffic.ask('openai/gpt-5-mini', { text: 'read me' })
      const reads = async () => {
        const { data } = await (await fetch(`${url}/admin/api/v1/audit?action=body.read`)).json()
        return data.filter((entry: { readonly object: string }) => entry.object === id).length
      }
      await open(`${LIST}/${id}`)
      await page.getByText('Why here').waitFor()
      assert.equal(await reads(), 0)
      await page.locator('.sheet summary', { hasText: 'Conversation' }).click()
      await page.locator('.sheet-bodies summary', { hasText: JSON_FOLD }).click()
      await page.locator('.sheet-bodies summary', { hasText: 'Request /v1/chat/completions' }).click()
      await page.locator('.sheet pre', { hasText: 'read me' }).waitFor()
      assert.equal(await reads(), 1)
      await check()
      await shot('bodies')
    }))

  test('shows the headers, without credentials, and the events of a kept request', () =>
    withDashboard(browser, { url }, async ({ page, open, check, shot }) => {
      const id = await traffic.ask('openai/gpt-5-mini', { stream: true, text: 'a stream with headers' })
      await open(`${LIST}/${id}`)
      await page.getByText('Why here').waitFor()
      await page.locator('.sheet summary', { hasText: 'Conversation' }).click()
      await page.locator('.sheet-bodies summary', { hasText: JSON_FOLD }).click()
      const fold = (name: string) =>
        page.locator('.sheet-bodies details details', { has: page.getByText(name, { exact: true }) })
      // The answer is used before its body ends.
      assert.equal(await page.getByText('The answer was not received to its end.').count(), 0)
      const changed = fold('What changed for openai')
      await changed.locator('summary').click()
      await changed.locator('.line-removed', { hasText: '"model": "openai/gpt-5-mini"' }).waitFor()
      await changed.locator('.line-added', { hasText: '"model": "gpt-5-mini"' }).waitFor()
      const headers = fold('Headers')
      await headers.locator('summary').click()
      for (const title of ['Request of the client', 'Sent to openai', 'Answer of openai'])
        await headers.getByRole('heading', { name: title }).waitFor()
      await headers.getByRole('heading', { name: 'Response to the client, 200' }).waitFor()
      await headers.getByText('x-headgate-provider').first().waitFor()
      const text = (await headers.textContent()) ?? ''
      assert.match(text, /authorization\[masked\]/)
      assert.ok(!text.includes('sk-'))
      const events = fold('Events')
      await events.locator('summary').click()
      const rows = events.locator('tbody tr')
      assert.match((await rows.last().textContent()) ?? '', /\[DONE\]$/)
      assert.match((await rows.first().textContent()) ?? '', /^\d+\.\d\d+chat\.completion\.chunk$/)
      await check()
      await shot('headers-events')
    }))

  test('asks before it exports more requests than the API counts', () =>
    withDashboard(browser, { url }, async ({ page, open, check, shot }) => {
      // The API counts up to 10,000.
      await page.route(/requests\?.*count=true/, async (route) => {
        const response = await route.fetch()
        await route.fulfill({ response, json: { ...(await response.json()), count: { value: 10_000, exact: false } } })
      })
      await open(LIST)
      await page.getByText('at least 10,000 requests').first().waitFor()
      await page.getByRole('button', { name: 'Export' }).click()
      const csv = page.getByRole('button', { name: 'CSV' })
      assert.ok(await csv.isDisabled())
      await check()
      await shot('export')
      await page.getByRole('checkbox', { name: /Export all of them/ }).check()
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name: 'CSV' }).click(),
      ])
      assert.match(download.suggestedFilename(), /\.csv$/)
    }))

  test('replays a kept request and compares both', () =>
    // The new request is not in the ledger until it has ended.
    withDashboard(browser, { url, expected: /status of 404/ }, async ({ page, open, check, shot }) => {
      const id = await traffic.ask('openai/gpt-5-mini', { stream: true, text: 'count the answers' })
      await open(`${LIST}/${id}`)
      await page.getByText('Why here').waitFor()
      await page.keyboard.press('r')
      const dialog = page.getByRole('dialog', { name: 'Replay this request' })
      await dialog.waitFor()
      await check()
      await dialog.getByLabel('Model or route').fill('chat-default')
      await page.keyboard.press('Enter')
      await dialog.getByText('fell back').waitFor()
      await dialog.locator('.text-difference').waitFor()
      assert.deepEqual(await dialog.locator('del, ins').allTextContents(), ['1', '2'])
      await check()
      await shot('replay')
      await dialog.getByRole('button', { name: 'Open the new request' }).click()
      await page.waitForURL((address) => /requests\/req_/.test(address.pathname) && !address.pathname.endsWith(id))
      await page.getByText('Why here').waitFor()
    }))

  test('answers why a request was routed where it was, in two actions, or one with its ID', () =>
    withDashboard(browser, { url }, async ({ page, open }) => {
      const id = await traffic.ask('chat-default')
      const isAnswered = async () => {
        const sheet = page.getByRole('complementary', { name: 'Request' })
        for (const text of ['“chat-default” is the route', 'overloaded', 'first token', '402 out'])
          assert.ok(
            await sheet
              .getByText(text)
              .first()
              .waitFor()
              .then(() => true),
          )
        const box = await sheet.getByText('Why here').boundingBox()
        assert.ok(box && box.y < 800, 'it is visible without scrolling')
      }
      await open()
      await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Requests' }).click()
      await page.locator('.outcome', { hasText: 'fell back' }).first().click()
      await isAnswered()
      await open()
      await page.keyboard.press('Control+k')
      await page.keyboard.type(id)
      await page.keyboard.press('Enter')
      await isAnswered()
    }))

  test('copies a link with absolute times, and a curl command', () =>
    withDashboard(browser, { url }, async ({ page, open }) => {
      // The policy of the page allows writing to the clipboard, and no reading.
      await page.addInitScript(() => {
        navigator.clipboard.writeText = async (text) => {
          document.documentElement.dataset.copied = text
        }
      })
      await open(LIST)
      await page.locator('.outcome', { hasText: 'fell back' }).first().click()
      await page.getByText('Why here').waitFor()
      await page.keyboard.press('c')
      await page.getByText('Copied').first().waitFor()
      const copied = () => page.evaluate(() => document.documentElement.dataset.copied ?? '')
      assert.match(await copied(), /\/dashboard\/requests\/req_\w+\?from=2\d{3}-.*&to=2\d{3}-/)
      await page.keyboard.press('.')
      await page.waitForFunction(() => document.documentElement.dataset.copied?.startsWith('curl '))
      assert.match(await copied(), /"model":"chat-default"/)
    }))
})

describe('requests under way and hedges', { skip: skipBrowser }, () => {
  const { gateway, upstream, keep } = stage()
  const answer = { text: 'Hello', input: 10, output: 5 }
  let browser: Browser
  let url = ''
  /** Ends the answer that `slow` holds. */
  let release = () => {}
  before(async () => {
    browser = await startBrowser()
    keep(() => browser.close())
    const [slow, quick] = await Promise.all([
      upstream(async (request) => {
        await new Promise<void>((resolve) => {
          release = resolve
        })
        return answerWith(request, answer)
      }),
      upstream((request) => answerWith(request, answer, { first: 40, gap: 20 })),
    ])
    const started = await gateway({
      providers: {
        slow: { kind: 'openai', baseUrl: `${slow.url}/v1`, models: ['m', 'alone'] },
        quick: { kind: 'openai', baseUrl: `${quick.url}/v1`, models: ['m'] },
      },
      routes: { hedged: { targets: ['slow/m', 'quick/m'] } },
      fallback: 'same-model',
      hedge: { percent: 100, delay: 200 },
    })
    url = started.url
  })
  const ask = (model: string) =>
    post(`${url}/v1/chat/completions`, { model, stream: true, messages: [{ role: 'user', content: 'Hello' }] })

  test('a request under way is above the list, and its sheet becomes that of the ended one', () =>
    withDashboard(browser, { url, expected: /status of 404/ }, async ({ page, open, check, shot }) => {
      await open(LIST)
      const folded = page.locator('.requests-running')
      await folded.getByText('Under way', { exact: true }).click()
      await folded.getByText('No request is in progress.').waitFor()
      const asked = ask('slow/alone')
      await folded.getByText(/Under way \(1\), longest \d+ s/).waitFor()
      await check()
      await shot('running')
      await folded.getByRole('link', { name: 'slow/alone' }).click()
      await page.getByText(/Under way for \d+ s at slow\/alone/).waitFor()
      await shot('running-sheet')
      release()
      assert.equal((await asked).status, 200)
      await page.getByText('Why here').waitFor()
      await folded.getByText('No request is in progress.').waitFor()
    }))

  test('a hedge is drawn beside the other attempt, and is no fallback', () =>
    withDashboard(browser, { url }, async ({ page, open, check, shot }) => {
      const { headers } = await ask('hedged')
      assert.equal(headers.get('x-headgate-provider'), 'quick')
      await open(LIST)
      const row = page.locator('table.table tbody tr', { hasText: 'hedged' })
      await row.getByText('answered').waitFor()
      assert.match((await row.locator('.path-words').textContent()) ?? '', /slow\W+at the same time as\W+quick ✓/)
      await row.locator('.phase.beside').waitFor({ state: 'attached' })
      await row.click()
      await page.getByText('not needed: another attempt answered first').waitFor()
      await check()
      await shot('hedge')
      await open(`${LIST}?status=fell_back`)
      await page.getByText('No request matches the filter').waitFor()
    }))
})
