/** What the whole page shares: the address, the session, the theme, the clock, toasts and notices. */
import { computed, signal } from '@preact/signals'
import { type Place, parsePlace, placePath, rangeAt, toPage } from './address.ts'
import type { PageName } from './page-table.ts'

// ── Address ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const here = (): Place | null => parsePlace(location.pathname, location.search)

/** Null: no page has this address. */
export const place = signal<Place | null>(here())

const OVERVIEW: Place = { page: 'overview', id: null, from: null, to: null, params: {} }

/** The present view; the overview where the address belongs to no page. */
export const current = computed<Place>(() => place.value ?? OVERVIEW)

/** Shows another view. `replace`: without an entry in the history, as while typing. */
export const go = (next: Place, how: 'push' | 'replace' = 'push'): void => {
  const path = placePath(next)
  if (path === `${location.pathname}${location.search}`) return
  history[how === 'push' ? 'pushState' : 'replaceState'](null, '', path)
  const isOtherPage = next.page !== place.value?.page
  place.value = next
  if (isOtherPage) window.scrollTo(0, 0)
}

/** Opens a page with the present range and filters. */
export const goToPage = (page: PageName, id: string | null = null): void => go(toPage(current.value, page, id))

/** Opens the details of an object of the page, whose list stays as it is. */
export const goToDetails = (id: string): void => go({ ...current.value, id })

/** The address of a page with the present range and filters. */
export const pageHref = (page: PageName, id: string | null = null): string => placePath(toPage(current.value, page, id))

/** Follows links inside the dashboard without loading the page. */
const followLinks = (event: MouseEvent): void => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return
  const link = event.target instanceof Element ? event.target.closest('a') : null
  if (link?.target !== '' || link.hasAttribute('download') || link.origin !== location.origin) return
  const found = parsePlace(link.pathname, link.search)
  if (!found || link.hash !== '') return
  event.preventDefault()
  // A link of the navigation keeps the range and the filters.
  go(link.dataset.page === undefined ? found : toPage(current.value, found.page))
}

/** Begins to follow links and the history. */
export const startRouting = (): void => {
  document.addEventListener('click', followLinks)
  window.addEventListener('popstate', () => {
    place.value = here()
  })
}

// ── Clock ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** ms by which the clock of the gateway is ahead of this one. */
export const clockOffset = signal(0)
/** The time of the gateway in ms since 1970, updated each second while the page is visible. */
export const now = signal(Date.now())
/** The exact time of the gateway. */
export const gatewayNow = (): number => Date.now() + clockOffset.value

setInterval(() => {
  if (!document.hidden) now.value = gatewayNow()
}, 1_000)

/** The range of the address at present. */
export const currentRange = () => rangeAt(current.value, gatewayNow())

// ── Preferences ──────────────────────────────────────────────────────────────────────────────────────────────────────

const THEMES = ['system', 'light', 'dark'] as const
export type Theme = (typeof THEMES)[number]
export type Density = 'comfortable' | 'compact'

/** A value of the browser's storage; undefined where it has none or is blocked. */
export const stored = (name: string): string | undefined => {
  try {
    return localStorage.getItem(name) ?? undefined
  } catch {
    return undefined
  }
}

/** Keeps a value; null removes it. */
export const store = (name: string, value: string | null): void => {
  try {
    if (value === null) localStorage.removeItem(name)
    else localStorage.setItem(name, value)
  } catch {
    // Storage is blocked: the value lasts as long as the page.
  }
}

export const theme = signal<Theme>(THEMES.find((one) => one === stored('theme')) ?? 'system')
export const density = signal<Density>(stored('density') === 'compact' ? 'compact' : 'comfortable')
/** Whether single letters are shortcuts. */
export const hasLetters = signal(stored('letters') !== 'off')

export const setTheme = (next: Theme): void => {
  theme.value = next
  store('theme', next === 'system' ? null : next)
  if (next === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = next
}
/** system → light → dark. */
export const nextTheme = (): void => setTheme(THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? 'system')

export const setDensity = (next: Density): void => {
  density.value = next
  store('density', next === 'compact' ? next : null)
  if (next === 'compact') document.documentElement.dataset.density = next
  else delete document.documentElement.dataset.density
}

export const setLetters = (on: boolean): void => {
  hasLetters.value = on
  store('letters', on ? null : 'off')
}

const whether = (query: string) => {
  const found = window.matchMedia(query)
  const is = signal(found.matches)
  found.addEventListener('change', () => {
    is.value = found.matches
  })
  return is
}
/** Whether tables are cards. */
export const isNarrow = whether('(max-width: 39.99em)')
/** Whether tables have room for their most important columns only. */
export const isTight = whether('(max-width: 63.99em)')
/** Whether the page is printed: charts are tables then. */
export const isPrinted = whether('print')

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A message of a page's own action. `undo`: a second call that reverses it. */
export type Toast = {
  readonly id: number
  readonly text: string
  readonly tone: 'plain' | 'bad'
  readonly undo: (() => void) | null
}
export const toasts = signal<readonly Toast[]>([])
let lastToast = 0
/** ms a toast stays; longer with a button. */
const TOAST_TIME = { plain: 4_000, undo: 10_000 }

export const dismissToast = (id: number): void => {
  toasts.value = toasts.value.filter((one) => one.id !== id)
}

/** Shows a message. */
export const toast = (
  text: string,
  { undo = null, tone = 'plain' }: Partial<Pick<Toast, 'undo' | 'tone'>> = {},
): void => {
  const id = ++lastToast
  toasts.value = [...toasts.value.slice(-2), { id, text, tone, undo }]
  setTimeout(dismissToast, undo ? TOAST_TIME.undo : TOAST_TIME.plain, id)
}

/** A line below the frame. `rank`: higher is worse. A later one with the same ID replaces it. */
export type Notice = {
  readonly id: string
  readonly rank: number
  readonly tone: 'bad' | 'warn' | 'plain'
  readonly text: string
  readonly link?: { readonly text: string; readonly href: string }
  readonly action?: { readonly text: string; readonly run: () => void }
  readonly dismissible?: boolean
}
const notices = signal<readonly Notice[]>([])
/** At most three, the worst first. */
export const shownNotices = computed(() => notices.value.toSorted((a, b) => b.rank - a.rank).slice(0, 3))

export const notice = (next: Notice): void => {
  notices.value = [...notices.value.filter(({ id }) => id !== next.id), next]
}
export const removeNotice = (id: string): void => {
  if (notices.value.some((one) => one.id === id)) notices.value = notices.value.filter((one) => one.id !== id)
}

/** The text of the polite live region, for screen readers; at most one message in 5 s. */
export const announcement = signal('')
let announced = 0
export const announce = (text: string): void => {
  const at = Date.now()
  if (at - announced < 5_000) return
  announced = at
  announcement.value = text
}
