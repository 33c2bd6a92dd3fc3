/** The whole dashboard without a mouse: each step is a key, and what has the focus is always seen and never covered. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { withDashboard } from './support/dashboard.ts'
import { ADMIN, type Populated, startPopulated } from './support/populated.ts'

/** More stops of Tab than any page has. */
const MOST_STOPS = 150

/** Why the focus cannot be seen: it is outside the window, has no outline, or something covers it. Null: it can. */
const hiddenFocus = (page: Page): Promise<string | null> =>
  page.evaluate(() => {
    const element = document.activeElement
    if (!element || element === document.body || element.matches('main')) return null
    const name = `${element.tagName.toLowerCase()}.${element.className} "${(element.textContent ?? '').slice(0, 40)}"`
    const { left, top, right, bottom } = element.getBoundingClientRect()
    const x = Math.min(innerWidth - 1, (Math.max(0, left) + Math.min(innerWidth, right)) / 2)
    const y = Math.min(innerHeight - 1, (Math.max(0, top) + Math.min(innerHeight, bottom)) / 2)
    if (right <= 0 || bottom <= 0 || left >= innerWidth || top >= innerHeight) return `${name} is outside the window`
    const { outlineStyle, outlineWidth } = getComputedStyle(element)
    if (outlineStyle === 'none' || Number.parseFloat(outlineWidth) < 2) return `${name} has no outline`
    const above = document.elementFromPoint(x, y)
    if (above && !element.contains(above) && !above.contains(element)) return `${name} is covered by ${above.className}`
    return null
  })

describe('without a mouse', { skip: skipBrowser }, () => {
  let browser: Browser
  let populated: Populated
  before(async () => {
    ;[browser, populated] = await Promise.all([startBrowser(), startPopulated()])
  })
  after(async () => {
    await Promise.all([browser?.close(), populated?.close()])
  })

  const isSeen = async (page: Page) => assert.equal(await hiddenFocus(page), null)
  /** Presses Tab until the element with this role and name has the focus. */
  const tabTo = async (page: Page, role: Parameters<Page['getByRole']>[0], name: string | RegExp) => {
    const target = page.getByRole(role, { name, exact: typeof name === 'string' }).first()
    await target.waitFor()
    for (let stop = 0; stop < MOST_STOPS; stop++) {
      await page.keyboard.press('Tab')
      await isSeen(page)
      if (await target.evaluate((element) => element === document.activeElement)) return
    }
    assert.fail(`no Tab reaches ${role} ${name}`)
  }
  const go = async (page: Page, letter: string, title: string) => {
    await page.keyboard.press('g')
    await page.keyboard.press(letter)
    await page.getByRole('heading', { name: title, level: 1 }).waitFor()
  }

  test('sign in, find a request, make and rotate a key, ask a model, look at settings, sign out', () =>
    withDashboard(
      browser,
      { url: populated.gateway.url, expected: /status of 401/ },
      async ({ page, context, open, shot }) => {
        await context.grantPermissions(['clipboard-write'], { origin: populated.gateway.url })
        await page.addInitScript(() => {
          for (const kind of ['mousedown', 'pointerdown', 'touchstart'])
            document.addEventListener(kind, () => document.documentElement.setAttribute('data-mouse', kind), true)
        })
        await open()
        const signIn = page.getByRole('dialog', { name: 'Sign in' })
        await signIn.waitFor()
        await isSeen(page)
        await page.keyboard.type(ADMIN)
        await page.keyboard.press('Enter')
        await signIn.waitFor({ state: 'detached' })
        await page.locator('.overview-provider').first().waitFor()

        // Every stop of the overview is seen.
        for (let stop = 0; stop < 40; stop++) {
          await page.keyboard.press('Tab')
          await isSeen(page)
        }

        await go(page, 'r', 'Requests')
        await page.locator('.outcome').first().waitFor()
        await page.keyboard.press('j')
        await page.keyboard.press('j')
        const row = () => page.evaluate(() => document.activeElement?.getAttribute('aria-rowindex'))
        await page.waitForFunction(() => document.activeElement?.getAttribute('aria-rowindex') === '3')
        await isSeen(page)
        await page.keyboard.press('Enter')
        const sheet = page.getByRole('complementary', { name: 'Request' })
        await sheet.getByText('Why here').waitFor()
        await tabTo(page, 'button', /^Replay/)
        await shot('keyboard-sheet')
        await page.keyboard.press('Escape')
        await sheet.waitFor({ state: 'detached' })
        await page.waitForFunction(() => document.activeElement?.getAttribute('aria-rowindex') === '3')
        assert.equal(await row(), '3')

        await go(page, 'k', 'Keys & budgets')
        await tabTo(page, 'button', 'New key')
        await page.keyboard.press('Enter')
        await page.getByRole('dialog', { name: 'Create a key' }).waitFor()
        await isSeen(page)
        await page.keyboard.type('by-keyboard')
        await page.keyboard.press('Enter')
        const secret = page.getByRole('dialog', { name: 'The secret of by-keyboard' })
        await secret.waitFor()
        await isSeen(page)
        await tabTo(page, 'button', 'Copy')
        await page.keyboard.press('Enter')
        await secret.getByText('Copied.').waitFor()
        await tabTo(page, 'button', 'Done')
        await page.keyboard.press('Enter')
        await secret.waitFor({ state: 'detached' })
        assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'New key')

        await tabTo(page, 'button', 'More actions: by-keyboard')
        await page.keyboard.press('Enter')
        await tabTo(page, 'button', 'Rotate…')
        await page.keyboard.press('Enter')
        await page.getByRole('dialog', { name: 'Rotate by-keyboard' }).waitFor()
        await isSeen(page)
        await tabTo(page, 'button', 'Rotate')
        await page.keyboard.press('Enter')
        await secret.waitFor()
        await tabTo(page, 'checkbox', 'I have it')
        await page.keyboard.press('Space')
        await tabTo(page, 'button', 'Done')
        await page.keyboard.press('Enter')
        await secret.waitFor({ state: 'detached' })
        await page.getByText(/two secrets/).waitFor()
        const name = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label'))
        assert.equal(await name(), 'More actions: by-keyboard')

        await go(page, 'y', 'Playground')
        await tabTo(page, 'textbox', 'Prompt')
        await page.keyboard.type('Hello')
        await page.keyboard.press('Control+Enter')
        await page.locator('.playground-column[data-state="done"]').waitFor()
        await page.keyboard.press('Escape')
        await tabTo(page, 'link', 'Open the request')

        await go(page, 'c', 'Configuration')
        await page.locator('.config-name').first().waitFor()
        await page.keyboard.press('/')
        await page.keyboard.type('circuit.window')
        await page.getByText(/^\d of \d+ settings$/).waitFor()
        await tabTo(page, 'checkbox', 'Only what is set')
        await page.keyboard.press('Space')
        await page.getByText('No setting matches.').waitFor()

        await page.keyboard.press('Control+k')
        await page.keyboard.type('routes')
        await page.keyboard.press('Enter')
        await page.getByRole('heading', { name: 'Routes', level: 1 }).waitFor()
        await tabTo(page, 'checkbox', /^steady/)
        await page.keyboard.press('Space')
        await page.waitForURL('**down=steady')

        await tabTo(page, 'button', /auth\.admin/)
        await page.keyboard.press('Enter')
        await tabTo(page, 'button', 'Sign out')
        await page.keyboard.press('Enter')
        await signIn.waitFor()
        assert.equal(await page.evaluate(() => document.documentElement.dataset.mouse), undefined)
      },
    ))
})
