/** The table of shortcuts, from which the handler, the sheet of `?` and the hints are made. */
import { signal } from '@preact/signals'
import { NAV_PAGES, type NavName } from './page-table.ts'
import { goToPage, hasLetters, nextTheme } from './store.ts'
import { en } from './words/en.ts'

/** Where a shortcut acts. Pages bind those of lists and requests. */
type ShortcutGroup = 'everywhere' | 'list' | 'request'

export type Shortcut = {
  readonly id: string
  /** Values of `KeyboardEvent.key`; the first is shown. `g o`: one after the other. `Ctrl-k`: also with ⌘. */
  readonly keys: readonly string[]
  readonly about: string
  readonly group: ShortcutGroup
}

export const SHORTCUTS: readonly Shortcut[] = [
  ...NAV_PAGES.map(
    ({ name, letter }): Shortcut => ({
      id: `page-${name}`,
      keys: [`g ${letter}`],
      about: en.keys.page(en.pages[name]),
      group: 'everywhere',
    }),
  ),
  { id: 'filter', keys: ['/'], about: en.keys.filter, group: 'everywhere' },
  { id: 'palette', keys: ['Ctrl-k'], about: en.keys.palette, group: 'everywhere' },
  { id: 'hold', keys: ['Space'], about: en.keys.hold, group: 'everywhere' },
  { id: 'theme', keys: ['t'], about: en.keys.theme, group: 'everywhere' },
  { id: 'help', keys: ['?'], about: en.keys.help, group: 'everywhere' },
  { id: 'next', keys: ['j', 'ArrowDown'], about: en.keys.next, group: 'list' },
  { id: 'previous', keys: ['k', 'ArrowUp'], about: en.keys.previous, group: 'list' },
  { id: 'open', keys: ['Enter'], about: en.keys.open, group: 'list' },
  { id: 'close', keys: ['Escape'], about: en.keys.close, group: 'list' },
  { id: 'tick', keys: ['x'], about: en.keys.tick, group: 'list' },
  { id: 'older', keys: [']'], about: en.keys.older, group: 'request' },
  { id: 'newer', keys: ['['], about: en.keys.newer, group: 'request' },
  { id: 'replay', keys: ['r'], about: en.keys.replay, group: 'request' },
  { id: 'edit', keys: ['e'], about: en.keys.edit, group: 'request' },
  { id: 'link', keys: ['c'], about: en.keys.link, group: 'request' },
  { id: 'curl', keys: ['.'], about: en.keys.curl, group: 'request' },
]

export type ShortcutId =
  | `page-${NavName}`
  | 'filter'
  | 'palette'
  | 'hold'
  | 'theme'
  | 'help'
  | 'next'
  | 'previous'
  | 'open'
  | 'close'
  | 'tick'
  | 'older'
  | 'newer'
  | 'replay'
  | 'edit'
  | 'link'
  | 'curl'

/** Runs an action. Returns false if it does not apply now, and the next binding is tried. */
type ShortcutAction = (event: KeyboardEvent) => unknown

/** The latest binding of an ID is tried first. */
const bindings: { readonly id: string; readonly run: ShortcutAction }[] = []

/** Binds an action to a shortcut; returns how to unbind it. */
export const bind = (id: ShortcutId, run: ShortcutAction): (() => void) => {
  const binding = { id, run }
  bindings.unshift(binding)
  return () => {
    const at = bindings.indexOf(binding)
    if (at !== -1) bindings.splice(at, 1)
  }
}

/** Whether the sheet of shortcuts is open, and the palette. */
export const isHelpOpen = signal(false)
export const isPaletteOpen = signal(false)
export const openPalette = (): void => {
  isPaletteOpen.value = true
}

const FIELDS = 'input, textarea, select, [contenteditable]'
/** Controls that have their own use of Enter, Space and arrows. */
const CONTROLS = 'a, button, summary, input, textarea, select, [role="option"], [role="menuitem"]'
/** ms for the second letter after `g`. */
const PREFIX_TIME = 1_200

const nameOf = ({ key, ctrlKey, metaKey }: KeyboardEvent): string => {
  const plain =
    key === ' ' ? 'Space' : key.length === 1 && !/[A-Z]/.test(key) ? key : key.length === 1 ? key.toLowerCase() : key
  return ctrlKey || metaKey ? `Ctrl-${plain}` : plain
}

const run = (id: string, event: KeyboardEvent): boolean => {
  const done = bindings.filter((one) => one.id === id).some((one) => one.run(event) !== false)
  if (done) event.preventDefault()
  return done
}

/** Begins to handle keys. */
export const startShortcuts = (): void => {
  let prefixed = 0
  for (const { name } of NAV_PAGES) bind(`page-${name}`, () => goToPage(name))
  bind('theme', nextTheme)
  bind('palette', openPalette)
  bind('help', () => {
    isHelpOpen.value = !isHelpOpen.value
  })
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing || event.altKey) return
    const target = event.target instanceof Element ? event.target : null
    const name = nameOf(event)
    const isLetter = name.length === 1 || name === 'Space'
    const inField = target?.closest(FIELDS) != null
    if (isLetter && (inField || !hasLetters.value)) return
    if (/^(?:Arrow|Enter|Space)/.test(name) && target?.closest(CONTROLS)) return
    // A modal dialog has its own keys.
    if (document.querySelector('dialog[open]')) return
    const wanted = event.timeStamp - prefixed < PREFIX_TIME && prefixed > 0 ? `g ${name}` : name
    prefixed = 0
    if (name === 'g' && wanted === 'g') {
      prefixed = event.timeStamp
      return
    }
    for (const { id, keys } of SHORTCUTS) if (keys.includes(wanted) && run(id, event)) return
  })
}

/** How a key is shown. */
export const keyLabel = (key: string): string =>
  key
    .replace('Ctrl-k', /Mac|iP/.test(navigator.platform) ? '⌘K' : 'Ctrl-K')
    .replace('ArrowDown', '↓')
    .replace('ArrowUp', '↑')
    .replace('Escape', 'Esc')
