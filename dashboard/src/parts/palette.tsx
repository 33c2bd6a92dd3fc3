/** The palette of Ctrl-K: pages, actions, providers, models, teams, keys, and a pasted request ID. */
import { useSignal } from '@preact/signals'
import { type ApiQuery, read, useResource } from '../api.ts'
import { toggleHold } from '../live.ts'
import { NAV_PAGES, type PageName } from '../page-table.ts'
import { isHelpOpen, isPaletteOpen } from '../shortcuts.ts'
import { goToPage, nextTheme } from '../store.ts'
import { en } from '../words/en.ts'
import { Dialog } from './dialog.tsx'
import { OptionList, optionId } from './option-list.tsx'

/** One line of the palette. */
export type PaletteEntry = { readonly id: string; readonly text: string; readonly run: () => void }

const close = (): void => {
  isPaletteOpen.value = false
}

const FIXED: readonly PaletteEntry[] = [
  ...NAV_PAGES.map(({ name }) => ({
    id: name,
    text: en.palette.goTo(en.pages[name]),
    run: () => goToPage(name),
  })),
  { id: 'theme', text: en.keys.theme, run: nextTheme },
  { id: 'hold', text: en.keys.hold, run: toggleHold },
  {
    id: 'help',
    text: en.keys.help,
    run: () => {
      isHelpOpen.value = true
    },
  },
]

/** A page of the API. */
const FIRST = { limit: 200 }

type Named = { readonly id: string; readonly name?: string }

const useNamed = (path: string, query: ApiQuery = {}): readonly Named[] =>
  useResource(`palette ${path} ${JSON.stringify(query)}`, () => read<{ readonly data: readonly Named[] }>(path, query))
    .value?.data ?? []

const named = (page: PageName, text: (name: string) => string, found: readonly Named[]): readonly PaletteEntry[] =>
  // There is an entry of a provider for each process.
  [...new Map(found.map((one) => [one.id, one])).values()].map(({ id, name = id }, at) => ({
    id: `${page}-${at}`,
    text: text(name),
    run: () => goToPage(page, id),
  }))

/** The first ones, or those whose name contains a text. */
const found = (text: string): ApiQuery => ({ ...FIRST, ...(text !== '' && { q: text }) })

/** What is configured, read when the palette opens; teams and keys, of which there may be thousands, when a text is typed. */
const useConfigured = (text: string): readonly PaletteEntry[] => [
  ...named('providers', en.palette.provider, useNamed('/providers')),
  ...named('routes', en.palette.model, useNamed('/models', FIRST)),
  ...named('teams', en.palette.team, useNamed('/teams', found(text))),
  ...named('keys', en.palette.key, useNamed('/keys', found(text))),
]

/** The most entries that are shown. */
const MOST = 20

/** The entries that contain all words of a text. A request ID comes first. */
const entriesFor = (text: string, configured: readonly PaletteEntry[]): readonly PaletteEntry[] => {
  const words = text.trim().toLowerCase().split(/\s+/)
  const all = text.trim() === '' ? FIXED : [...FIXED, ...configured]
  const found = all.filter((entry) => words.every((word) => entry.text.toLowerCase().includes(word))).slice(0, MOST)
  const id = text.trim()
  const isId = /^[A-Za-z0-9._:-]{6,200}$/.test(id) && /[0-9_]/.test(id)
  const request = { id: `request-${id}`, text: en.palette.request(id), run: () => goToPage('requests', id) }
  return isId ? [request, ...found] : found
}

const LIST = 'palette-list'

const Search = () => {
  const text = useSignal('')
  const chosen = useSignal(0)
  const entries = entriesFor(text.value, useConfigured(text.value.trim()))
  const at = Math.min(chosen.value, entries.length - 1)
  const run = (entry: PaletteEntry | undefined) => {
    if (!entry) return
    close()
    entry.run()
  }
  const move = (event: KeyboardEvent) => {
    if (event.isComposing) return
    if (event.key === 'ArrowDown') chosen.value = Math.min(entries.length - 1, at + 1)
    else if (event.key === 'ArrowUp') chosen.value = Math.max(0, at - 1)
    else if (event.key === 'Enter') run(entries[at])
    else return
    event.preventDefault()
  }
  return (
    <>
      <input
        data-focus
        class="palette-field"
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls={LIST}
        aria-activedescendant={entries[at] ? optionId(LIST, at) : undefined}
        aria-label={en.palette.label}
        placeholder={en.palette.placeholder}
        autocomplete="off"
        spellcheck={false}
        value={text.value}
        onInput={({ currentTarget }) => {
          text.value = currentTarget.value
          chosen.value = 0
        }}
        onKeyDown={move}
      />
      <OptionList
        id={LIST}
        class="palette-list"
        label={en.palette.label}
        options={entries}
        active={at}
        keyOf={({ id }) => id}
        show={({ text: shown }) => shown}
        choose={run}
      />
      <p class="dim" role="status">
        {entries.length === 0 ? en.palette.empty : <span class="sr-only">{en.palette.results(entries.length)}</span>}
      </p>
    </>
  )
}

export const Palette = () => {
  if (!isPaletteOpen.value) return null
  return (
    <Dialog title={en.palette.hint} onClose={close}>
      <Search />
    </Dialog>
  )
}
