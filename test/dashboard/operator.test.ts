/**
 * The questions of an operator, each answered by the dashboard in at most six actions from its first page: a click, a key, or a
 * text that is typed or pasted. The figures are those that the providers counted.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser, Locator, Page } from 'playwright-core'
import { ADMIN, billedBy, type Operated, OUTAGE, startOperated, sumOf } from '../e2e/support/operated.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { withDashboard } from './support/dashboard.ts'

/** The actions of an answer, counted. */
type Hand = {
  readonly page: Page
  readonly click: (target: Locator) => Promise<void>
  /** Selects the text of a field. */
  readonly triple: (target: Locator) => Promise<void>
  /** The last of a list. */
  readonly choose: (target: Locator) => Promise<void>
  readonly press: (key: string) => Promise<void>
  /** Types into what has the focus. */
  readonly type: (text: string) => Promise<void>
}

const MOST = 6

const handOf = (page: Page): { readonly hand: Hand; readonly count: () => number } => {
  let actions = 0
  const acted =
    <T>(act: (input: T) => Promise<void>) =>
    async (input: T) => {
      actions++
      await act(input)
    }
  return {
    count: () => actions,
    hand: {
      page,
      click: acted((target) => target.click()),
      triple: acted((target) => target.click({ clickCount: 3 })),
      choose: acted(async (target) => {
        const last = await target.getByRole('option').last().getAttribute('value')
        await target.selectOption(last)
      }),
      press: acted((key) => page.keyboard.press(key)),
      type: acted((text) => page.keyboard.insertText(text)),
    },
  }
}

/** As the dashboard writes an amount of nano-dollars. */
const dollars = (nano = 0): string => `$${(nano / 1e9).toFixed(nano < 1e9 ? 4 : 2).replace(/(\.\d\d)00$/, '$1')}`
const button = (page: Page, name: string | RegExp): Locator =>
  page.getByRole('button', { name, exact: typeof name === 'string' }).first()
const toPage = ({ page, click }: Hand, name: string) =>
  click(page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }))
/** Waits until a text is shown. */
const shows = async (place: Page | Locator, text: string | RegExp) =>
  // Titles of charts are text too, and hidden.
  void (await place.getByText(text).filter({ visible: true }).first().waitFor())

/** The row of the table of costs whose heading this is. */
const costOf = async ({ page }: Hand, name: string, nano = 0) => {
  const row = page.getByRole('row').filter({ has: page.getByRole('rowheader', { name, exact: true }) })
  await row.first().waitFor()
  const text = (await row.first().textContent()) ?? ''
  assert.ok(text.includes(dollars(nano)), `${name}: ${text} instead of ${dollars(nano)}`)
}

/** Opens a request by the ID that its client has. */
const openRequest = async (hand: Hand, id: string): Promise<Locator> => {
  await hand.press('Control+k')
  await hand.page.locator('.palette-field').waitFor()
  await hand.type(id)
  await hand.page.getByRole('option').filter({ hasText: id }).first().waitFor()
  await hand.press('Enter')
  const sheet = hand.page.getByRole('complementary', { name: 'Request' })
  await shows(sheet, 'Why here')
  return sheet
}

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
      const row = hand.page.getByRole('row', { name: /^trial/ })
      await row.waitFor()
      assert.match((await row.textContent()) ?? '', /90\s?%.+10\s?%/)
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
