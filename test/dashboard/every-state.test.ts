/**
 * The states of every page: it is loading, held, the gateway is silent, gone and back, a proxy before it fails, there is
 * nothing to show, and the role does not include what the page does. Faults are those of real processes. A state is checked for
 * accessibility on the pages that show it in a way of their own, and fits into every width on all of them.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { PAGES as DASHBOARD_PAGES } from '../../dashboard/src/page-table.ts'
import { type Started, start } from '../e2e/support/process.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { checkFit, checkLooks, type OpenDashboard, withDashboard } from './support/dashboard.ts'
import { isRead, listLength, type OnEachPage, PAGE_FACTS, PAGES, type PageName, withPages } from './support/pages.ts'
import { ADMIN, type Populated, startPopulated } from './support/populated.ts'

/** What Chromium writes to the console when a gateway ends in the middle of a call. */
const ENDED = /ERR_|Failed to load|status of 50[0-9]|^error: $/

/** Opens a page by its link, without loading the files of the others again. */
const goTo = async (page: Page, name: PageName): Promise<void> => {
  await page.locator(`#pages [data-page="${name}"]`).click()
  await page.locator(`#pages [data-page="${name}"][aria-current="page"]`).waitFor()
  // More than the head, which is there before the file of the page.
  await page.waitForFunction((title) => {
    const head = document.querySelector('main .page-head')
    const all = [...document.querySelectorAll('main *')]
    const isShown = all.some((one) => !one.contains(head) && !head?.contains(one))
    return head?.querySelector('h1')?.textContent === title && isShown
  }, DASHBOARD_PAGES[name].title)
}

/** A state of the frame is the same on all pages. */
const FRAME: readonly PageName[] = ['overview']
/** Cards, a list with its filters, one without, and sections: each has skeletons and failures of its own. */
const FILLED: readonly PageName[] = ['overview', 'requests', 'keys', 'config']

const look = (dashboard: OpenDashboard, state: string, name: PageName, accessible: readonly PageName[]) =>
  (accessible.includes(name) ? checkLooks : checkFit)(dashboard, `${state}-${name}`)

describe('every page shows', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  before(async () => {
    browser = await startBrowser()
  })
  after(() => browser?.close())

  describe('its data while the gateway', () => {
    let populated: Populated
    before(async () => {
      populated = await startPopulated()
    })
    after(() => populated?.close())
    /** How many records a page shows. */
    const amount = ({ page }: OpenDashboard, name: PageName, shown: string): Promise<number> =>
      name === 'requests' ? listLength(page) : page.locator(shown).count()

    /** Reads each page again through a proxy that answers late, and then fails. */
    const failBehindProxy = async (each: OnEachPage): Promise<void> => {
      await each(async (dashboard, name, shown) => {
        const { page } = dashboard
        const failing = (address: URL) => /\/admin\/api\/v1\/(?!session|live)/.test(address.pathname)
        const { promise: answered, resolve: answer } = Promise.withResolvers<void>()
        await page.route(failing, async (route) => {
          await answered
          await route.fulfill({ status: 502, contentType: 'text/html', body: '<h1>502 Bad Gateway</h1>' })
        })
        await page.reload()
        await page.locator('main h1').waitFor()
        if (PAGE_FACTS[name].needsData) await page.locator('.skeleton').first().waitFor()
        await look(dashboard, 'loading', name, FILLED)
        answer()
        const message = page
          .locator('main')
          .getByText(/status 502/)
          .first()
        if (PAGE_FACTS[name].needsData) await message.waitFor()
        await page.waitForFunction(() => document.querySelector('[aria-busy="true"], .skeleton') === null)
        await look(dashboard, 'failed', name, FILLED)
        await page.unroute(failing)
        const again = page.locator('main').getByRole('button', { name: 'Try again' })
        if ((await again.count()) > 0) for (const button of await again.all()) await button.click().catch(() => {})
        else await page.reload()
        await isRead(page, shown)
      })
    }

    test('is stopped, continued, gone, back, and behind a proxy that is slow and fails', () =>
      withPages(browser, { url: populated.gateway.url, token: ADMIN, expected: ENDED }, async (each, all) => {
        const before = new Map<PageName, number>()
        await each(async (dashboard, name, shown) => {
          const { page } = dashboard
          await isRead(page, shown)
          await page.waitForSelector('.live-live')
          before.set(name, await amount(dashboard, name, shown))
          const live = page.getByRole('button', { name: /live|held/ })
          await live.click()
          await page.waitForSelector('.live-held')
          await look(dashboard, 'held', name, FRAME)
          await live.click()
          await page.waitForSelector('.live-live')
        })
        populated.gateway.child.kill('SIGSTOP')
        await each(async (dashboard, name, shown) => {
          const { page } = dashboard
          await page.waitForSelector('.live-stale', { timeout: 60_000 })
          assert.match((await page.locator('.live-stale').textContent()) ?? '', /stale \d+ s/)
          assert.match((await page.locator('.live-stale').getAttribute('title')) ?? '', /^Figures are from \d\d:\d\d/)
          await page.waitForSelector('main[data-old]')
          assert.equal(await amount(dashboard, name, shown), before.get(name))
          await look(dashboard, 'stale', name, FRAME)
        })
        populated.gateway.child.kill('SIGCONT')
        await each(async ({ page }, name) => {
          await page.waitForSelector('.live-live', { timeout: 60_000 })
          if (name === 'playground') await page.getByLabel('Prompt', { exact: true }).fill('kept')
        })
        await populated.kill()
        await each(async (dashboard, name, shown) => {
          const { page } = dashboard
          await page.waitForSelector('.live-offline')
          await page.locator('.notice', { hasText: 'The gateway does not answer.' }).waitFor()
          await page
            .locator('[role="status"]', { hasText: 'The gateway does not answer.' })
            .waitFor({ state: 'attached' })
          assert.equal(await amount(dashboard, name, shown), before.get(name))
          assert.equal(await page.getByText('This could not be read.').count(), 0)
          const { writes } = PAGE_FACTS[name]
          if (writes !== null) {
            assert.ok(await page.getByRole('button', { name: writes }).first().isDisabled())
            await page.locator('main').getByText('Not possible while the gateway does not answer.').first().waitFor()
          }
          if (name === 'playground') assert.equal(await page.getByLabel('Prompt', { exact: true }).inputValue(), 'kept')
          await look(dashboard, 'offline', name, [...FRAME, 'keys', 'playground'])
        })
        await populated.restart()
        await each(async (dashboard, name, shown) => {
          const { page } = dashboard
          await page.getByRole('button', { name: 'Try now' }).click()
          await page.getByText('The gateway was restarted. All figures were read again.').waitFor()
          await page.waitForSelector('.live-live', { timeout: 60_000 })
          await page.locator('.notice', { hasText: 'does not answer' }).waitFor({ state: 'detached' })
          await isRead(page, shown)
          await look(dashboard, 'restarted', name, FRAME)
        })
        // The session is that of before, and so are the records; what happens now is counted.
        const list = all.get('requests')?.page
        const { count } = await populated.admin('GET', '/requests?limit=1&count=true')
        await list?.getByText(`${count.value} requests`, { exact: true }).waitFor()
        // A busy gateway may refuse some, which it does not count.
        while ((await populated.ask('steady/small')) !== 200);
        await list?.getByText(`${count.value + 1} requests`, { exact: true }).waitFor()
        await failBehindProxy(each)
      }).catch(async (error) => {
        // The other tests need a running gateway; they state why there is none.
        await populated
          .kill()
          .then(populated.restart)
          .catch(() => {})
        throw error
      }))

    /** What each role reads on a page. `team`: a viewer of one team. Any other refused call is on the console, and fails the test. */
    const ROLES: { readonly [role: string]: { readonly [name in PageName]?: RegExp } } = {
      viewer: {
        keys: /Your role is viewer\. It takes the role admin/,
        playground: /Sending requests needs the role operator/,
      },
      team: {
        connect: /Your role does not include this/,
        config: /Your role does not include this/,
        keys: /Your role is viewer\. It takes the role admin/,
        playground: /Sending requests needs the role operator/,
      },
      operator: { keys: /Your role is operator.*may block and unblock/ },
      admin: {},
    }
    for (const [role, texts] of Object.entries(ROLES))
      test(`to a ${role === 'team' ? 'viewer of one team' : role}, or why not`, async () => {
        const { data } = await populated.admin('GET', '/teams')
        const team = role === 'team' ? data.find(({ name }: { name: string }) => name !== 'default').id : null
        const bindings = [{ role: role === 'team' ? 'viewer' : role, team }]
        const { secret } = await populated.admin('POST', '/tokens', { name: `looker-${role}`, bindings })
        const expected = role === 'team' ? /403 .*\/(?:clients\/seen|config(?:\/problems)?)$/ : /^$/
        const options = { url: populated.gateway.url, token: secret, expected }
        await withDashboard(browser, options, async (dashboard) => {
          const { page } = dashboard
          await dashboard.open()
          for (const [name] of PAGES) {
            await goTo(page, name)
            await page.waitForFunction(() => document.querySelector('[aria-busy="true"], .skeleton') === null)
            assert.equal(await page.getByText('This could not be read.').count(), 0, name)
            const text = texts[name]
            if (!text) continue
            await page.locator('main').getByText(text).first().waitFor()
            await checkLooks(dashboard, `${role}-${name}`)
          }
        })
      })
  })

  describe('what would be there', () => {
    let gateway: Started
    before(async () => {
      gateway = await start()
    })
    after(() => gateway?.stop())
    const TEXTS: { readonly [name in PageName]: RegExp } = {
      overview: /First steps/,
      requests: /No request yet in this range/,
      providers: /demo/,
      teams: /default/,
      routes: /demo/,
      usage: /No request in this range/,
      keys: /There is no client key/,
      playground: /The answer appears here/,
      connect: /Waiting for the first request/,
      config: /settings/,
    }
    test('where nothing has happened yet', () =>
      withDashboard(browser, { url: gateway.url }, async (dashboard) => {
        await dashboard.open()
        for (const [name] of PAGES) {
          await goTo(dashboard.page, name)
          // Options of menus that are closed have such texts too.
          await dashboard.page.locator('main').getByText(TEXTS[name]).filter({ visible: true }).first().waitFor()
          await checkLooks(dashboard, `empty-${name}`)
        }
      }))
  })
})
