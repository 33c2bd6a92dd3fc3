/** Answers of the dashboard to an operator: actions are counted, and figures compared. */
import type { Locator, Page } from 'playwright-core'

/** The actions of an answer, counted. */
export type Hand = {
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

/** Actions of an answer: a click, a key, or a text that is typed or pasted. */
export const MOST = 6

export const handOf = (page: Page): { readonly hand: Hand; readonly count: () => number } => {
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
export const dollars = (nano = 0): string =>
  nano >= 1e9 ? `$${(nano / 1e9).toFixed(2)}` : `$${(nano / 1e9).toPrecision(2).replace(/(?<=\.\d\d)0+$/, '')}`
export const button = (page: Page | Locator, name: string | RegExp): Locator =>
  page.getByRole('button', { name, exact: typeof name === 'string' }).first()
export const toPage = ({ page, click }: Hand, name: string) =>
  click(page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }))
/** Waits until a text is shown. */
export const shows = async (place: Page | Locator, text: string | RegExp) =>
  // Titles of charts are text too, and hidden.
  void (await place.getByText(text).filter({ visible: true }).first().waitFor())

/** Waits until the row of the table of costs with this heading has this amount. */
export const costOf = async ({ page }: Hand, name: string, nano = 0) => {
  const row = page.getByRole('row').filter({ has: page.getByRole('rowheader', { name, exact: true }) })
  await row
    .filter({ hasText: dollars(nano) })
    .first()
    .waitFor()
}

/** Opens a request by the ID that its client has. */
export const openRequest = async (hand: Hand, id: string): Promise<Locator> => {
  await hand.press('Control+k')
  await hand.page.locator('.palette-field').waitFor()
  await hand.type(id)
  await hand.page.getByRole('option').filter({ hasText: id }).first().waitFor()
  await hand.press('Enter')
  const sheet = hand.page.getByRole('complementary', { name: 'Request' })
  await shows(sheet, 'Why here')
  return sheet
}
