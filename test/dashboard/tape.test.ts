/** Each page of a gateway with tapes states it. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { type Started, start } from '../e2e/support/process.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'

describe('dashboard: tapes', { skip: skipBrowser }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'hg-tape-dashboard-'))
  let browser: Browser
  let gateway: Started
  before(async () => {
    gateway = await start({ env: { HEADGATE_TAPE: 'strict', HEADGATE_TAPE_DIR: folder } })
    browser = await startBrowser()
  })
  after(async () => {
    await Promise.all([browser?.close(), gateway?.stop()])
    rmSync(folder, { recursive: true, force: true })
  })

  for (const { width, theme } of LOOKS)
    test(`a strict tape is stated, ${width}, ${theme}`, () =>
      withDashboard(browser, { url: gateway.url, width, theme }, async ({ page, open, check, shot }) => {
        await open('/dashboard/providers')
        await page.getByText('This gateway answers from tapes only. No provider is called.').waitFor()
        await check()
        await shot('tape')
      }))
})
