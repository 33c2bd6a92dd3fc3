/**
 * A page of the dashboard in a browser, against a real gateway. Every test fails on a violation of the content security
 * policy, a message on the console, an uncaught error, or a request to another origin.
 */
import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import axe from 'axe-core'
import type { Browser, BrowserContext, Page } from 'playwright-core'

export const WIDTHS = { wide: { width: 1280, height: 800 }, narrow: { width: 360, height: 740 } } as const
export type WidthName = keyof typeof WIDTHS
export const THEMES = ['light', 'dark'] as const
export type ThemeName = (typeof THEMES)[number]
/**
 * In what a state of a page is looked at: each width and each theme once. A theme changes nothing but colours, and a width
 * nothing but places; `every-page.test.ts` has each page in all four.
 */
export const LOOKS: readonly { readonly width: WidthName; readonly theme: ThemeName }[] = [
  { width: 'wide', theme: 'light' },
  { width: 'narrow', theme: 'dark' },
]

/** ms for anything to appear; a busy machine needs half of it. */
const PATIENCE = 120_000
/** The folder of the pictures. */
export const SHOTS = join(import.meta.dirname, '..', '..', '..', '.cache', 'dashboard-shots')

export type DashboardOptions = {
  readonly url: string
  readonly width?: WidthName
  readonly theme?: ThemeName
  readonly reducedMotion?: boolean
  /** Of the browser, by default `en-GB`. */
  readonly locale?: string
  readonly timezone?: string
  /** Values of the browser's storage. */
  readonly storage?: Readonly<Record<string, string>>
  /** An admin token: the page is signed in. */
  readonly token?: string
  /** Messages of the console that the test causes on purpose, such as of a refused call. */
  readonly expected?: RegExp
}

/** An open page. */
export type OpenDashboard = {
  readonly page: Page
  readonly context: BrowserContext
  /** Opens an address below `/dashboard/`, and waits until its page is shown. */
  readonly open: (path?: string) => Promise<void>
  /** With `SHOTS=write`, saves a picture as `.cache/dashboard-shots/NAME-WIDTH-THEME.png`. */
  readonly shot: (name: string, options?: { readonly always?: boolean }) => Promise<void>
  /** Checks accessibility (WCAG 2.2 AA) and that nothing is wider than the window. */
  readonly check: () => Promise<void>
  /** Checks the accessibility of the colours alone: all that depends on the theme. */
  readonly checkColors: () => Promise<void>
  /** Checks that nothing is wider than the window. */
  readonly fits: () => Promise<void>
  /** What went wrong so far: policy, console, errors, other origins. */
  readonly problems: readonly string[]
}

/** Runs a test with the dashboard of a gateway in a window of its own. Fails if anything went wrong in it. */
export const withDashboard = async (
  browser: Browser,
  options: DashboardOptions,
  run: (dashboard: OpenDashboard) => Promise<void>,
): Promise<void> => {
  const dashboard = await openDashboard(browser, options)
  const problems = () => dashboard.problems.map((problem) => `\n  ${problem}`).join('')
  try {
    await run(dashboard)
  } catch (error) {
    await dashboard.shot('failed', { always: true }).catch(() => {})
    throw new Error(`${error instanceof Error ? error.message : error}${problems()}`, { cause: error })
  } finally {
    await dashboard.context.close()
  }
  assert.equal(problems(), '')
}

const openDashboard = async (browser: Browser, options: DashboardOptions): Promise<OpenDashboard> => {
  const { url, width = 'wide', theme = 'light', reducedMotion = true, storage = {}, token, expected } = options
  const { locale = 'en-GB', timezone = 'UTC' } = options
  const context = await browser.newContext({
    viewport: WIDTHS[width],
    colorScheme: theme,
    reducedMotion: reducedMotion ? 'reduce' : 'no-preference',
    locale,
    timezoneId: timezone,
    // For axe, which the policy of the page would refuse.
    bypassCSP: false,
    hasTouch: width === 'narrow',
  })
  context.setDefaultTimeout(PATIENCE)
  const problems: string[] = []
  const report = (problem: string) => {
    if (!expected?.test(problem)) problems.push(problem)
  }
  if (token !== undefined) {
    const answer = await context.request.post(`${url}/admin/api/v1/session`, { data: { token } })
    assert.ok(answer.ok(), await answer.text())
  }
  const page = await context.newPage()
  page.on('dialog', (dialog) => {
    report(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning')
      report(`console: ${message.text()} ${message.location().url}`.trim())
  })
  page.on('pageerror', (error) => report(`error: ${error.stack ?? error.message}`))
  page.on('request', (request) => {
    const address = request.url()
    if (!address.startsWith(`${url}/`) && !address.startsWith('data:') && !address.startsWith('blob:'))
      report(`request to another origin: ${address}`)
  })
  await page.exposeFunction('reportViolation', (text: string) => report(`content security policy: ${text}`))
  await page.addInitScript((values) => {
    for (const [name, value] of Object.entries(values)) localStorage.setItem(name, value)
    document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI, sourceFile }) => {
      // Playwright adds the function to the window.
      Reflect.get(window, 'reportViolation')(`${violatedDirective} ${blockedURI} ${sourceFile}`)
    })
  }, storage)
  const fits = async () => {
    const { inner, whole } = await page.evaluate(() => ({
      inner: document.documentElement.clientWidth,
      whole: document.documentElement.scrollWidth,
    }))
    assert.ok(whole <= inner, `the page is ${whole} px wide in a window of ${inner} px`)
  }
  return {
    page,
    context,
    problems,
    async open(path = '/dashboard/') {
      await isBuilt(url)
      await page.goto(`${url}${path}`, { waitUntil: 'load' })
      await page.waitForSelector('#tools button')
      await page.waitForSelector('main h1')
    },
    async shot(name, { always = false } = {}) {
      if (!always && process.env.SHOTS !== 'write') return
      mkdirSync(SHOTS, { recursive: true })
      await page.screenshot({ path: join(SHOTS, `${name}-${width}-${theme}.png`), fullPage: false })
    },
    async check() {
      await checkAccessibility(page)
      await fits()
    },
    checkColors: () => checkAccessibility(page, { type: 'rule', values: COLOR_RULES }),
    fits,
  }
}

/** Rules whose result depends on the theme. */
const COLOR_RULES = ['color-contrast', 'link-in-text-block']

/** Changes the window, and waits until the page has been drawn for it: cards instead of columns come a frame later. */
const resize = async (page: Page, width: WidthName): Promise<void> => {
  await page.setViewportSize(WIDTHS[width])
  await page.waitForFunction(
    (isNarrow) => !isNarrow || document.querySelector('[data-columns]') === null,
    width === 'narrow',
  )
}

/** Checks a state of the page in every look, without opening it again; at the end it is wide and light. */
export const checkLooks = async ({ page, check }: OpenDashboard, name: string): Promise<void> => {
  for (const { width, theme } of LOOKS.toReversed()) {
    await resize(page, width)
    await page.emulateMedia({ colorScheme: theme })
    try {
      await check()
    } catch (error) {
      throw new Error(`${name}, ${width}, ${theme}: ${error instanceof Error ? error.message : error}`)
    }
  }
}

/** Checks that a state of the page fits into every width, without opening it again; at the end it is wide. */
export const checkFit = async ({ page, fits }: OpenDashboard, name: string): Promise<void> => {
  for (const width of ['narrow', 'wide'] as const) {
    await resize(page, width)
    await fits().catch((error) => assert.fail(`${name}, ${width}: ${error.message}`))
  }
}

/** Waits until the pages are built: a clone does so at the first visit. */
const isBuilt = async (url: string): Promise<void> => {
  for (const end = performance.now() + 120_000; (await fetch(`${url}/dashboard/`)).status === 503; ) {
    assert.ok(performance.now() < end, 'the dashboard is not built after two minutes')
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

const ALL_RULES = { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }

const checkAccessibility = async (page: Page, rules = ALL_RULES): Promise<void> => {
  // An evaluated script is not subject to the policy of the page.
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe.source)
  const found = await page.evaluate(async (runOnly) => {
    // The bars cover what has been scrolled below them, which is no fault.
    window.scrollTo(0, 0)
    const { violations } = await Reflect.get(window, 'axe').run(document, {
      runOnly,
      resultTypes: ['violations'],
      preload: false,
    })
    return violations.map(({ id, nodes }: { id: string; nodes: { html: string; failureSummary: string }[] }) => ({
      id,
      nodes: nodes
        .slice(0, 4)
        .map(({ html, failureSummary }) => `${html.slice(0, 200)} — ${failureSummary.slice(0, 300)}`),
    }))
  }, rules)
  assert.deepEqual(found, [])
}
