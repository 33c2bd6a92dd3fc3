/**
 * The questions of an operator, each answered by the dashboard in at most six actions from its first page. The figures are those that the providers counted.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { ADMIN, billedBy, type Operated, OUTAGE, startOperated, sumOf } from '../e2e/support/operated.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { withDashboard } from './support/dashboard.ts'
import { button, costOf, dollars, type Hand, handOf, MOST, openRequest, shows, toPage } from './support/hand.ts'

type Answer = readonly [question: string, answer: (hand: Hand, operated: Operated) => Promise<unknown>]

const usageBy = (group: string, member: 'team' | 'app' | 'provider', names: readonly string[]): Answer => [
  `What does each ${group.toLowerCase()} cost?`,
  async (hand, { bills }) => {
    await toPage(hand, 'Usage')
    await hand.click(button(hand.page, group))
    const billed = billedBy(bills, member)
    for (const name of names) await costOf(hand, name, billed[name])
  },
]

const refusal = (status: number, reason: string | RegExp): Answer => [
  `Why was a request refused with ${status}?`,
  async (hand) => shows(await openRequest(hand, `refused-${status}`), reason),
]

const ANSWERS: readonly Answer[] = [
  usageBy('Team', 'team', ['search', 'shop']),
  usageBy('Tag', 'app', ['web', 'batch']),
  usageBy('Provider', 'provider', ['alpha', 'beta']),
  [
    'What did it cost in all?',
    async (hand, { bills }) => {
      await toPage(hand, 'Usage')
      await shows(hand.page, dollars(sumOf(bills)))
    },
  ],
  [
    'Which budget is near its end?',
    // The first page has it.
    ({ page }) => shows(page, /shop-month/),
  ],
  [
    'Why was this request slow?',
    async (hand) => {
      const sheet = await openRequest(hand, 'slow-1')
      await shows(sheet, 'alpha')
      await shows(sheet, /200 in \+ 100 out/)
    },
  ],
  [
    'Why did another provider answer?',
    async (hand) => {
      const sheet = await openRequest(hand, 'outage-0')
      await shows(sheet, new RegExp(OUTAGE))
      await shows(sheet, dollars(30_000_000))
    },
  ],
  refusal(401, /The API key is/),
  refusal(402, /shop-month/),
  refusal(404, /The model "none" is not known/),
  refusal(429, /limited/),
  [
    'When was a provider down, why, and whom did it concern?',
    async (hand, { failed }) => {
      await toPage(hand, 'Providers')
      await hand.click(hand.page.locator('.provider-name', { hasText: 'alpha' }).first())
      await shows(hand.page, new RegExp(`overloaded, small · ${failed.length} failed`))
      await shows(hand.page, /21 /)
    },
  ],
  [
    'What if a provider fails?',
    async (hand) => {
      await toPage(hand, 'Routes')
      await hand.click(hand.page.getByRole('checkbox', { name: 'alpha' }))
      await shows(hand.page.locator('.routes-effect'), /3 of 3 routes still answer/)
    },
  ],
  [
    'How is the traffic of a route shared?',
    async (hand) => {
      await toPage(hand, 'Routes')
      for (const share of [/90 ?% first/, /10 ?% first/]) await shows(hand.page, share)
    },
  ],
  [
    'Which requests met an error with this text?',
    async (hand, { failed }) => {
      await hand.press('g')
      await hand.press('r')
      await hand.page.locator('.outcome').first().waitFor()
      await hand.press('/')
      await hand.type('eu-2')
      await hand.page.waitForURL(/q=eu-2/)
      await hand.page.locator(`table[aria-rowcount="${failed.length + 1}"]`).waitFor()
    },
  ],
  [
    'What is exported for the accounts?',
    async (hand, { bills }) => {
      await toPage(hand, 'Usage')
      await hand.click(button(hand.page, 'Export'))
      const loading = hand.page.waitForEvent('download')
      await hand.click(hand.page.getByRole('link', { name: /CSV/ }))
      const parts: Buffer[] = []
      for await (const part of await (await loading).createReadStream()) parts.push(Buffer.from(part))
      const [head = '', ...lines] = Buffer.concat(parts).toString('utf8').trim().split('\n')
      const cost = head.split(',').indexOf('cost')
      const nano = lines.reduce((sum, line) => sum + Math.round(Number(line.split(',')[cost]) * 1e9), 0)
      assert.equal(nano, sumOf(bills))
    },
  ],
]

/** These change something, so they are last and in this order. */
const CHANGES: readonly Answer[] = [
  [
    'Block an end user.',
    async (hand, { ask, keys }) => {
      const sheet = await openRequest(hand, 'search-1')
      await hand.click(sheet.getByRole('button', { name: 'Block in all teams' }))
      await shows(hand.page, 'user-1 is blocked in all teams')
      const blocked = { key: keys.search ?? '', team: 'search', user: 'user-1' }
      assert.equal(await ask('blocked', blocked), 403)
      await hand.click(button(hand.page, 'Undo'))
      await shows(hand.page, 'user-1 is served again')
      assert.equal(await ask('unblocked', blocked), 200)
    },
  ],
  [
    'Raise a budget.',
    async (hand, { ask, keys }) => {
      await toPage(hand, 'Keys')
      await hand.click(
        hand.page
          .getByRole('link', { name: /^Budgets/ })
          .or(button(hand.page, /^Budgets/))
          .first(),
      )
      await hand.click(button(hand.page, /^Edit…/))
      const amount = hand.page.getByLabel('Amount in dollars')
      await hand.click(amount)
      await amount.selectText()
      await hand.type('2.00')
      await shows(hand.page, /is left/)
      await hand.press('Enter')
      await shows(hand.page, 'Budget shop-month saved')
      assert.equal(await ask('raised', { key: keys.shop ?? '', team: 'shop' }), 200)
    },
  ],
  [
    'Rotate a key.',
    async (hand, { ask, keys }) => {
      await toPage(hand, 'Keys')
      await hand.click(button(hand.page, 'More actions: search-prod'))
      await hand.click(button(hand.page, 'Rotate…'))
      const dialog = hand.page.getByRole('dialog', { name: 'Rotate search-prod' })
      await hand.choose(dialog.getByLabel('The old secret ends'))
      await hand.click(dialog.getByRole('button', { name: 'Rotate', exact: true }))
      await hand.page.getByRole('dialog', { name: 'The secret of search-prod' }).waitFor()
      assert.equal(await ask('rotated', { key: keys.search ?? '', team: 'search' }), 401)
    },
  ],
]

describe('the dashboard answers an operator', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let operated: Operated
  before(async () => {
    ;[browser, operated] = await Promise.all([startBrowser(), startOperated()])
  })
  after(async () => {
    await Promise.all([browser?.close(), operated?.close()])
  })

  for (const [question, answer] of [...ANSWERS, ...CHANGES])
    test(question, (t) =>
      withDashboard(browser, { url: operated.gateway.url, token: ADMIN }, async ({ page, open, shot }) => {
        await open()
        await page.locator('.overview-provider').first().waitFor()
        const { hand, count } = handOf(page)
        await answer(hand, operated)
        await shot(`operator-${question.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}`)
        t.diagnostic(`${count()} actions`)
        assert.ok(count() <= MOST, `${count()} actions`)
      }),
    )
})
