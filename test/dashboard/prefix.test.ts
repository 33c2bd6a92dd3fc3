/** The dashboard below a path, which a proxy removes or which is the gateway's own: every call and link stays below it. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { type Started, start } from '../e2e/support/process.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { withDashboard } from './support/dashboard.ts'
import { PAGES } from './support/pages.ts'

const TOKEN = 'admin-token-0123456789abcdef'
/** `outer`: the path that the proxy removes. `inner`: `basePath`. */
const CASES = [
  { name: 'that a proxy removes', outer: '/team/llm', inner: '' },
  { name: 'that a proxy keeps', outer: '', inner: '/team/llm' },
  { name: 'of which a proxy removes a part', outer: '/team', inner: '/llm' },
] as const

/** Removes the outer path, and decodes `%2F` in paths as nginx does. Everything else is 404. */
const proxyTo = (target: string, outer: string): Server =>
  createServer((incoming, outgoing) => {
    const [path = '', query] = (incoming.url ?? '').split('?')
    if (!path.startsWith(`${outer}/`)) return void outgoing.writeHead(404).end()
    const below = path.slice(outer.length).replaceAll('%2F', '/') + (query === undefined ? '' : `?${query}`)
    const { method, headers } = incoming
    const upstream = request(target + below, { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 0, answer.headers)
      answer.pipe(outgoing)
    })
    upstream.on('error', () => outgoing.destroy())
    outgoing.on('close', () => upstream.destroy())
    incoming.pipe(upstream)
  })

for (const { name, outer, inner } of CASES)
  describe(`the dashboard below a path ${name}`, { skip: skipBrowser, concurrency: false }, () => {
    let browser: Browser
    let gateway: Started
    let proxy: Server
    let url: string
    before(async () => {
      ;[browser, gateway] = await Promise.all([startBrowser(), start({ env: { AUTH_ADMIN: TOKEN, BASE_PATH: inner } })])
      proxy = proxyTo(new URL(gateway.url).origin, outer)
      await once(proxy.listen(0, '127.0.0.1'), 'listening')
      // A server that listens on TCP has an address and a port.
      url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}${outer}${inner}`
    })
    after(async () => {
      proxy?.closeAllConnections()
      proxy?.close()
      await Promise.all([browser?.close(), gateway?.stop()])
    })

    test('opens every page from the navigation, with its data, and receives events', () =>
      withDashboard(browser, { url, token: TOKEN }, async ({ page, open }) => {
        const live = page.waitForResponse((response) => response.url().includes('/admin/api/v1/live'))
        await open()
        assert.equal((await live).status(), 200)
        for (const [name] of PAGES) {
          await page.locator(`#pages a[data-page="${name}"]`).click()
          await page.waitForFunction(() => document.querySelector('main')?.getAttribute('aria-busy') !== 'true')
          assert.ok(page.url().startsWith(`${url}/dashboard/`), page.url())
        }
        await page.goto(`${url}/dashboard/connect`)
        await page.getByText(`${url}/v1`).first().waitFor()
      }))

    test('opens the address of an object, also with a slash in its name, and redirects', () =>
      withDashboard(browser, { url, token: TOKEN }, async ({ page, open }) => {
        await open('/dashboard/routes/demo/echo')
        await page.goto(`${url}/dashboard`)
        assert.equal(page.url(), `${url}/dashboard/`)
        await page.goto(`${url}/`)
        assert.equal(page.url(), `${url}/dashboard/`)
        const { headers } = await fetch(`${url}/docs`, { redirect: 'manual' })
        assert.equal(new URL(headers.get('location') ?? '', `${url}/docs`).href, `${url}/docs/`)
      }))
  })
