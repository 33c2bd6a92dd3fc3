/**
 * The table of pages: addresses, navigation, shortcuts, titles, the palette and the tests are made from it. `pages.ts` has the
 * file of each. Pure, and without imports, because the build reads it too.
 */

type PageRow = {
  readonly title: string
  /** Absent: no link, no shortcut and no line in the palette. */
  readonly nav?: {
    /** The text of its link, shorter than the title where that is long. */
    readonly text: string
    /** The letter after `g`. */
    readonly letter: string
    /** On a narrow screen: in the bar at the bottom, or in its menu "More". */
    readonly narrow: 'bar' | 'more'
  }
  /** The start of its range without one in the address. Absent: `USUAL_FROM`; null: it shows nothing of a range. */
  readonly from?: string | null
}

/** The default start of a range. */
export const USUAL_FROM = '-15m'

/** In the order of the navigation. The first has the address of the dashboard itself. */
const TABLE = {
  overview: { title: 'Overview', nav: { text: 'Overview', letter: 'o', narrow: 'bar' } },
  requests: { title: 'Requests', nav: { text: 'Requests', letter: 'r', narrow: 'bar' } },
  providers: { title: 'Providers', nav: { text: 'Providers', letter: 'p', narrow: 'bar' }, from: '-60m' },
  teams: { title: 'Teams', nav: { text: 'Teams', letter: 'm', narrow: 'more' }, from: '-30d' },
  routes: { title: 'Routes', nav: { text: 'Routes', letter: 't', narrow: 'more' }, from: null },
  usage: { title: 'Usage & cost', nav: { text: 'Usage', letter: 'u', narrow: 'more' }, from: '-30d' },
  keys: { title: 'Keys & budgets', nav: { text: 'Keys', letter: 'k', narrow: 'bar' }, from: '-30d' },
  playground: { title: 'Playground', nav: { text: 'Playground', letter: 'y', narrow: 'more' }, from: null },
  connect: { title: 'Connect', nav: { text: 'Connect', letter: 'n', narrow: 'more' }, from: null },
  config: { title: 'Configuration', nav: { text: 'Config', letter: 'c', narrow: 'more' }, from: null },
  login: { title: 'Sign in' },
} as const satisfies { readonly [name: string]: PageRow }

export type PageName = keyof typeof TABLE
/** A page of the navigation. */
export type NavName = { [Name in PageName]: (typeof TABLE)[Name] extends { nav: object } ? Name : never }[PageName]

export const PAGES: { readonly [name in PageName]: PageRow } = TABLE
// The keys are those of the table.
export const PAGE_NAMES = Object.keys(TABLE) as readonly PageName[]

/** The pages of the navigation, in its order. */
export const NAV_PAGES: readonly ({ readonly name: NavName } & NonNullable<PageRow['nav']>)[] = PAGE_NAMES.flatMap(
  (name) => {
    const { nav } = PAGES[name]
    // A page with a row for the navigation has a name of it.
    return nav ? [{ name: name as NavName, ...nav }] : []
  },
)

export const isPageName = (text: string): text is PageName => Object.hasOwn(TABLE, text)

/** A value of each page, such as its title. */
export const ofPages = <Value>(value: (row: PageRow) => Value): { readonly [name in PageName]: Value } =>
  // Every page is in the list.
  Object.fromEntries(PAGE_NAMES.map((name) => [name, value(PAGES[name])])) as { [name in PageName]: Value }
