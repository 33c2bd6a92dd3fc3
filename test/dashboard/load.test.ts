/** What a visit loads: few files before the first paint, no file of a page before it is opened, and nothing twice. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { type Started, start } from '../e2e/support/process.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { withDashboard } from './support/dashboard.ts'
import { PAGES } from './support/pages.ts'

/** Files and compressed bytes that are requested before the first paint: on a slow machine those of the first page too. */
const FIRST = { files: 10, bytes: 60_000 }
/** Files, and compressed bytes, that the first paint needs: the document, the theme and the style sheet. */
const FRAME = { files: 3, bytes: 20_000 }
/** Paths of the API that the first page reads, with those of its first steps; a slow machine reads some again meanwhile. */
const CALLS = { paths: 13, all: 25 }
const ADMIN = 'operator-token-0123456789'

/** What a page shows after its file has been loaded. */
const SHOWN = { requests: 'main .filters', keys: 'main .segments', config: '.config-name' } as const

type Loaded = { readonly name: string; readonly isAsset: boolean; readonly start: number; readonly bytes: number }

/** What the present document has loaded. */
const loaded = (page: Page): Promise<readonly Loaded[]> =>
  page.evaluate(() =>
    performance
      .getEntries()
      .filter((entry) => entry instanceof PerformanceResourceTiming)
      .filter(({ name }) => name.startsWith(location.origin))
      .map(({ name, startTime, encodedBodySize }) => ({
        name: name.slice(location.origin.length),
        isAsset: name.includes('/dashboard/'),
        start: startTime,
        bytes: encodedBodySize,
      })),
  )

const firstPaint = (page: Page): Promise<number> =>
  page.evaluate(() => performance.getEntriesByName('first-paint')[0]?.startTime ?? Number.NaN)

describe('a visit', { skip: skipBrowser }, () => {
  let browser: Browser
  let gateway: Started
  /** Needs a sign-in. */
  let signed: Started
  before(async () => {
    ;[browser, gateway, signed] = await Promise.all([startBrowser(), start(), start({ env: { AUTH_ADMIN: ADMIN } })])
    // The first visit waits for the build.
    await withDashboard(browser, { url: gateway.url }, ({ open }) => open())
  })
  after(async () => {
    await Promise.all([browser?.close(), gateway?.stop(), signed?.stop()])
  })
  /** Pages whose file has been loaded. */
  const pagesIn = (files: readonly Loaded[]): readonly string[] =>
    PAGES.map(([name]) => name).filter((name) =>
      files.some((file) => new RegExp(`^/dashboard/assets/${name}-[\\w-]{6}\\.js$`).test(file.name)),
    )

  test('paints the frame with three files, whatever the others take', (t) =>
    withDashboard(browser, { url: gateway.url }, async ({ page }) => {
      const held = Promise.withResolvers<void>()
      const early: string[] = []
      page.on('response', (response) => early.push(new URL(response.url()).pathname))
      // Any module that is not there yet: the frame, the page, and what they import.
      await page.route(/\/dashboard\/assets\/(?!theme-).*\.js$/, async (route) => {
        await held.promise
        await route.continue()
      })
      try {
        await page.goto(`${gateway.url}/dashboard/`, { waitUntil: 'commit' })
        await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Overview' }).waitFor()
        await page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length === 1)
        assert.equal(early.length, FRAME.files, early.join('\n'))
        const document = await page.evaluate(
          () => (performance.getEntriesByType('navigation')[0] as PerformanceNavigationTiming).encodedBodySize,
        )
        const bytes = (await loaded(page)).reduce((sum, file) => sum + file.bytes, document)
        t.diagnostic(`${bytes} bytes for the frame`)
        assert.ok(bytes > 5_000 && bytes <= FRAME.bytes, `${bytes} bytes`)
      } finally {
        held.resolve()
      }
      await page.getByRole('heading', { name: 'First steps' }).waitFor()
    }))

  test('loads little before the first paint, each page when it is opened, and each file once', (t) =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open }) => {
      await open()
      await page.getByRole('heading', { name: 'First steps' }).waitFor()
      const paint = await firstPaint(page)
      const first = await loaded(page)
      const before = first.filter(({ isAsset, start }) => isAsset && start <= paint)
      const bytes = before.reduce((sum, file) => sum + file.bytes, 0)
      t.diagnostic(`${before.length} files, ${bytes} bytes before the first paint`)
      assert.ok(before.length > 0 && before.length <= FIRST.files, before.map(({ name }) => name).join('\n'))
      assert.ok(bytes > 1_000 && bytes <= FIRST.bytes, `${bytes} bytes`)
      assert.deepEqual(pagesIn(first), ['overview'])
      const calls = first.filter(({ name }) => name.startsWith('/admin/api/'))
      const paths = new Set(calls.map(({ name }) => name.replace(/\?.*/, '')))
      t.diagnostic(`${calls.length} calls of the API, ${paths.size} paths`)
      assert.ok(paths.size <= CALLS.paths && calls.length <= CALLS.all, calls.map(({ name }) => name).join('\n'))
      const streams = calls.filter(({ name }) => name.includes('/live?'))
      assert.ok(streams.length <= 1, 'the stream is opened once, with the topics of the page')

      const opened = ['overview']
      for (const name of ['requests', 'keys', 'config'] as const) {
        await page.getByRole('navigation', { name: 'Pages' }).locator(`[data-page="${name}"]`).click()
        await page.waitForURL(`**/dashboard/${name}`)
        await page.locator(SHOWN[name]).first().waitFor()
        opened.push(name)
        assert.deepEqual(pagesIn(await loaded(page)).toSorted(), opened.toSorted())
      }
      await page.goBack()
      await page.waitForURL('**/dashboard/keys')
      const assets = (await loaded(page)).filter(({ isAsset }) => isAsset).map(({ name }) => name)
      assert.equal(new Set(assets).size, assets.length, assets.join('\n'))
    }))

  test('writes nothing before it knows its session', () =>
    withDashboard(browser, { url: signed.url, token: ADMIN }, async ({ page, open }) => {
      const { promise: released, resolve: release } = Promise.withResolvers<void>()
      await page.route('**/admin/api/v1/session', async (route) => {
        await released
        await route.continue()
      })
      const explained = page.waitForResponse('**/admin/api/v1/explain')
      await open('/dashboard/routes')
      await page.getByText('What if a provider is down').waitFor()
      release()
      assert.equal((await explained).status(), 200)
    }))
})
