/** The right side of the frame: search, range, state of the data, theme and session. */

import { useEffect } from 'preact/hooks'
import { hasRole, read, session, signOut, useResource } from '../api.ts'
import { age, clock } from '../format.ts'
import { heldCount, isHeld, liveState, toggleHold } from '../live.ts'
import { PAGES } from '../page-table.ts'
import { ROOT } from '../root.ts'
import { bind, keyLabel, openPalette } from '../shortcuts.ts'
import { current, density, isNarrow, nextTheme, now, setDensity, setTheme, theme } from '../store.ts'
import { en } from '../words/en.ts'
import { RangePicker } from './range.tsx'

const MARKS = {
  connecting: '○',
  live: '●',
  held: '‖',
  stale: '◌',
  offline: '✗',
  polling: '◍',
  restarted: '↻',
} as const

const LiveWord = () => {
  const { word, age: ms } = liveState.value
  useEffect(
    () =>
      bind('hold', () => {
        toggleHold()
      }),
    [],
  )
  const text =
    word === 'stale'
      ? en.live.stale(age(ms))
      : word === 'held' && heldCount.value > 0
        ? en.live.heldNew(heldCount.value)
        : en.live[word]
  const isBad = word === 'offline' || word === 'stale'
  return (
    <button
      type="button"
      class={`live live-${word}`}
      aria-pressed={isHeld.value}
      title={isBad ? en.live.since(clock(now.value - ms)) : isHeld.value ? en.live.resume : en.live.hold}
      onClick={toggleHold}
    >
      <span aria-hidden="true">{MARKS[word]}</span> <span class="live-text">{text}</span>
    </button>
  )
}

const ThemeButton = () => (
  <button
    type="button"
    class="icon wide-only"
    aria-label={`${en.theme.label}: ${en.theme[theme.value]}`}
    title={`${en.theme.label}: ${en.theme[theme.value]} (t)`}
    onClick={nextTheme}
  >
    <span aria-hidden="true">{theme.value === 'system' ? '◐' : theme.value === 'light' ? '○' : '●'}</span>
  </button>
)

const roleText = (): string => {
  for (const role of ['admin', 'operator', 'viewer'] as const) if (hasRole(role)) return role
  return 'viewer'
}

/** `team search` for each team that the roles are of: all figures are of these. Empty: of all teams. */
const useTeams = (): readonly string[] => {
  const roles = session.value?.roles ?? []
  const ids = roles.some(({ team }) => team === null) ? [] : [...new Set(roles.flatMap(({ team }) => team ?? []))]
  const { value } = useResource(ids.length === 0 ? null : 'teams of the session', () =>
    read<{ readonly data: readonly { readonly id: string; readonly name: string }[] }>('/teams', { limit: 200 }),
  )
  return ids.map((id) => en.session.team(value?.data.find((one) => one.id === id)?.name ?? id))
}

/** Who is signed in, and what the browser remembers. */
export const SessionControls = () => {
  const known = session.value
  const teams = useTeams()
  if (!known) return null
  const { actor, csrf } = known
  return (
    <>
      <p>{actor.kind === 'local' ? en.session.openAbout : en.session.signedInAs(actor.name)}</p>
      <p class="dim">{en.session.role(roleText())}</p>
      {teams.length > 0 && <p class="dim">{teams.join(', ')}</p>}
      <fieldset class="segments">
        <legend>{en.theme.label}</legend>
        {(['system', 'light', 'dark'] as const).map((one) => (
          <button key={one} type="button" aria-pressed={theme.value === one} onClick={() => setTheme(one)}>
            {en.theme[one]}
          </button>
        ))}
      </fieldset>
      <fieldset class="segments">
        <legend>{en.density.label}</legend>
        {(['comfortable', 'compact'] as const).map((one) => (
          <button key={one} type="button" aria-pressed={density.value === one} onClick={() => setDensity(one)}>
            {en.density[one]}
          </button>
        ))}
      </fieldset>
      <p>
        <a href={`${ROOT}docs/`}>{en.session.docs}</a>
      </p>
      {csrf !== null && (
        <button type="button" class="button" onClick={() => void signOut()}>
          {en.session.signOut}
        </button>
      )}
    </>
  )
}

const SessionMenu = () => {
  const known = session.value
  const teams = useTeams()
  if (!known || isNarrow.value) return null
  return (
    <>
      <button type="button" class="session wide-only" popovertarget="session-menu">
        <span class="session-name">
          {[known.actor.kind === 'local' ? en.session.open : known.actor.name, ...teams].join(' · ')}
        </span>
        <span aria-hidden="true">▾</span>
      </button>
      <div id="session-menu" popover="auto" class="menu">
        <SessionControls />
      </div>
    </>
  )
}

export const Tools = () => (
  <>
    <button type="button" class="search" title={`${en.palette.label} (${keyLabel('Ctrl-k')})`} onClick={openPalette}>
      <span aria-hidden="true">⌕</span>
      <span class="search-text">{en.palette.hint}</span>
      <span class="key" aria-hidden="true">
        {keyLabel('Ctrl-k')}
      </span>
    </button>
    {PAGES[current.value.page].from !== null && <RangePicker />}
    <LiveWord />
    <ThemeButton />
    <SessionMenu />
  </>
)
