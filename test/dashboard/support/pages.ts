/** The pages of the dashboard, and what is measured in each of them. */
import assert from 'node:assert/strict'
import type { Browser, Page } from 'playwright-core'
import { NAV_PAGES, type NavName } from '../../../dashboard/src/page-table.ts'
import { type DashboardOptions, type OpenDashboard, withDashboard } from './dashboard.ts'

/** What the tests of every page know about one. */
type PageFacts = {
  /** What shows that its data has been read. */
  readonly shown: string
  /** It shows text of requests, of answers or of upstreams. */
  readonly hasForeignText: boolean
  /** Its figures are those of a range: a print says which. */
  readonly hasRange: boolean
  /** It has a table that becomes cards in a narrow window. */
  readonly hasTable: boolean
  /** It is of no use without data. */
  readonly needsData: boolean
  /** A button that writes: without the gateway it is disabled, and the page says why. */
  readonly writes: string | null
}

/** The test of a page that differs fails. */
const USUAL = { hasForeignText: true, hasRange: false, needsData: true }

export const PAGE_FACTS: { readonly [name in NavName]: PageFacts } = {
  overview: { ...USUAL, shown: '.overview-provider', hasTable: false, hasRange: true, writes: null },
  requests: { ...USUAL, shown: '.outcome', hasTable: true, hasRange: true, writes: null },
  providers: {
    ...USUAL,
    shown: '.provider-name',
    hasTable: true,
    hasForeignText: false,
    hasRange: true,
    writes: null,
  },
  teams: {
    ...USUAL,
    shown: 'a[href*="/teams/team_"]',
    hasTable: true,
    hasForeignText: false,
    hasRange: true,
    writes: null,
  },
  routes: { ...USUAL, shown: '.routes-targets', hasTable: true, writes: null },
  usage: { ...USUAL, shown: '.usage-table td', hasTable: false, hasRange: true, writes: null },
  keys: {
    ...USUAL,
    shown: 'a[href*="/keys/key_"]',
    hasTable: true,
    hasForeignText: false,
    hasRange: true,
    writes: 'New key',
  },
  playground: {
    ...USUAL,
    shown: '.playground-column',
    hasTable: false,
    hasForeignText: false,
    needsData: false,
    writes: 'Send',
  },
  connect: { ...USUAL, shown: '.connect-code', hasTable: false, hasForeignText: false, needsData: false, writes: null },
  config: { ...USUAL, shown: '.config-name', hasTable: true, writes: null },
}

/** Name, address, and what shows that its data has been read. */
export const PAGES = NAV_PAGES.map(
  ({ name }) => [name, `/dashboard/${name === 'overview' ? '' : name}`, PAGE_FACTS[name].shown] as const,
)

export type PageName = NavName

/** Runs a step on all open pages at the same time. */
export type OnEachPage = (
  step: (dashboard: OpenDashboard, name: PageName, shown: string) => Promise<void>,
) => Promise<unknown>

/** Opens pages, each with a browser profile of its own, and runs steps with them. */
export const withPages = async (
  browser: Browser,
  options: DashboardOptions,
  run: (each: OnEachPage, all: ReadonlyMap<PageName, OpenDashboard>) => Promise<void>,
  pages: readonly (typeof PAGES)[number][] = PAGES,
): Promise<void> => {
  const all = new Map<PageName, OpenDashboard>()
  const { promise: opened, resolve: isOpen } = Promise.withResolvers<void>()
  const { promise: finished, resolve: finish } = Promise.withResolvers<void>()
  const windows = pages.map(([name, path]) =>
    withDashboard(browser, options, async (dashboard) => {
      await dashboard.open(path)
      all.set(name, dashboard)
      if (all.size === pages.length) isOpen()
      await finished
    }),
  )
  const each: OnEachPage = (step) =>
    Promise.all(
      pages.map(([name, , shown]) =>
        step(all.get(name) ?? assert.fail(name), name, shown).catch((error) => {
          throw new Error(`${name}: ${error instanceof Error ? error.message : error}`, { cause: error })
        }),
      ),
    )
  try {
    await Promise.race([opened, Promise.all(windows)])
    await run(each, all)
  } finally {
    finish()
    await Promise.allSettled(windows)
  }
  await Promise.all(windows)
}

/** Waits until the data of a page is shown and nothing is being read. */
export const isRead = async (page: Page, shown: string): Promise<void> => {
  await page.locator(shown).first().waitFor({ state: 'attached' })
  await page.waitForFunction(() => document.querySelector('[aria-busy="true"], .skeleton') === null)
}

/** Rows of the long table, also those outside the window, which are not in the document. */
export const listLength = (page: Page): Promise<number> =>
  page.evaluate(() => {
    const body = document.querySelector<HTMLElement>('table.table tbody')
    const row = body?.querySelector<HTMLElement>('tr:not(.spacer)')
    return body && row ? Math.round(body.offsetHeight / row.offsetHeight) : 0
  })

/** Controls and headings whose text is cut off, and controls that cover each other. */
export const misplaced = (page: Page): Promise<readonly string[]> =>
  page.evaluate(() => {
    const isSeen = (element: Element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true })
    // A sheet as wide as the window covers the page.
    const sheet = document.querySelector('.sheet')
    const isCovered = (element: Element) =>
      sheet !== null && sheet.clientWidth >= window.innerWidth - 2 && !sheet.contains(element)
    const nameOf = (element: Element) =>
      `${element.tagName.toLowerCase()}.${element.className} "${(element.textContent ?? '').trim().slice(0, 40)}"`
    const found: string[] = []
    const texts = [...document.querySelectorAll('button, a.button, summary, label, legend, h1, h2, h3, .badge, dt')]
    for (const element of texts.filter(isSeen)) {
      const range = document.createRange()
      range.selectNodeContents(element)
      const text = range.getBoundingClientRect()
      if (text.width === 0 || element.closest('.sr-only, .skip')) continue
      for (let box: Element | null = element; box && box !== document.body; box = box.parentElement) {
        const { overflowX, textOverflow } = getComputedStyle(box)
        const { left, right } = box.getBoundingClientRect()
        // Data that ends in an ellipsis has its whole text elsewhere; a box that scrolls shows all of it.
        if (textOverflow === 'ellipsis' || overflowX === 'auto' || overflowX === 'scroll') break
        if (overflowX !== 'visible' && (text.left < left - 1 || text.right > right + 1))
          found.push(`cut: ${nameOf(element)}`)
      }
    }
    const controls = [
      ...document.querySelectorAll(':is(main, .sheet) :is(button, a.button, input, select, textarea, summary)'),
    ]
      .filter((element) => isSeen(element) && !element.closest('[popover], .sr-only') && !isCovered(element))
      .map((element) => ({ element, box: element.getBoundingClientRect() }))
      .filter(({ box }) => box.width > 1 && box.height > 1)
    for (const [at, one] of controls.entries())
      for (const other of controls.slice(at + 1)) {
        const width = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left)
        const height = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top)
        if (width > 1 && height > 1 && !one.element.contains(other.element) && !other.element.contains(one.element))
          found.push(`overlap: ${nameOf(one.element)} and ${nameOf(other.element)}`)
      }
    return found
  })

/** Foreign texts with a direction of their own that other text on the same line would follow. */
export const unisolated = (page: Page): Promise<readonly string[]> =>
  page.evaluate(() => {
    const found: string[] = []
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const text = node.textContent ?? ''
      const at = text.indexOf('\u202e')
      // Isolates end the override (UAX 9); so does the mark that ends it.
      if (at === -1 || /\u2068.*\u2069/s.test(text) || text.indexOf('\u202c', at) !== -1) continue
      let element = node.parentElement
      let content: Node = node
      while (element) {
        const { display, unicodeBidi } = getComputedStyle(element)
        const isAlone = element.textContent === content.textContent
        if (/isolate|plaintext/.test(unicodeBidi)) break
        if (display !== 'inline') {
          if (!isAlone)
            found.push(`${element.tagName.toLowerCase()}.${element.className}: ${element.textContent?.slice(0, 80)}`)
          break
        }
        content = element
        element = element.parentElement
      }
    }
    return [...new Set(found)]
  })

/** A region of a page: what it is, and where, in px. A width of null depends on the text. */
export type Region = readonly [name: string, x: number, y: number, width: number | null, height: number]

/** The main regions of a page, in their order. */
export const regionsOf = (page: Page): Promise<readonly Region[]> =>
  page.evaluate(() =>
    [...document.querySelectorAll('.bar, .pages, h1, h2, main section, main table, main form, main textarea')]
      .filter((element) => element.checkVisibility() && !element.closest('[popover], dialog, .sr-only'))
      .flatMap((element): [string, number, number, number | null, number][] => {
        const { x, y, width, height } = element.getBoundingClientRect()
        if (width < 2 || height < 2) return []
        const isHead = /^H[12]$/.test(element.tagName)
        const isText = isHead || element.tagName === 'NAV'
        const name = isHead
          ? element.textContent
          : (element.getAttribute('aria-label') ?? element.querySelector('h2')?.textContent)
        const text = `${element.tagName.toLowerCase()} ${(name ?? '').replaceAll(/\d+/g, '0')}`.trim()
        return [[text, Math.round(x), Math.round(y), isText ? null : Math.round(width), Math.round(height)]]
      }),
  )

/** px by which fonts of another machine may move and stretch a region. */
const TOLERANCE = { across: 16, down: 60, share: 0.2 }

const isNear = (one: number | null, other: number | null, most: number): boolean =>
  one === null || other === null ? one === other : Math.abs(one - other) <= most

/** Regions that are not where they were. */
export const moved = (before: readonly Region[], after: readonly Region[]): readonly string[] => {
  const show = (region: Region | undefined) => (region ? JSON.stringify(region) : 'nothing')
  return Array.from({ length: Math.max(before.length, after.length) }, (_, at) => [before[at], after[at]] as const)
    .filter(([was, is]) => {
      if (!was || !is || was[0] !== is[0]) return true
      const down = Math.max(TOLERANCE.down, TOLERANCE.share * was[2])
      const tall = Math.max(TOLERANCE.down, TOLERANCE.share * was[4])
      return !(
        isNear(was[1], is[1], TOLERANCE.across) &&
        isNear(was[2], is[2], down) &&
        isNear(was[3], is[3], TOLERANCE.across) &&
        isNear(was[4], is[4], tall)
      )
    })
    .map(([was, is]) => `${show(was)} is now ${show(is)}`)
}
