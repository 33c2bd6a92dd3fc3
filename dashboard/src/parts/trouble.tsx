/** Providers that cannot be used now, as lines below the frame of every page. */
import { useEffect, useRef } from 'preact/hooks'
import { read, session, useResource } from '../api.ts'
import { everyUnlessHeld, follow, useThrottled } from '../live.ts'
import { type ListedProvider, type ProviderRow, rowsOf } from '../provider-row.ts'
import { notice, pageHref, removeNotice } from '../store.ts'
import { kindText, providerWords as words } from '../words/providers.ts'
import { countdown, nextText } from './provider-parts.tsx'

/** ms between two readings, and between two that events cause. */
const EVERY = 10_000
const PAUSE = 1_000
/** Lines; the last one is of all others. */
const MOST = 2
/** Above the notices about the data, below the one that the gateway does not answer. */
const RANK = 50

const isInTrouble = ({ state }: ProviderRow): boolean => state === 'open' || state === 'keyless'

/** `groq: circuit open · overloaded · next attempt 10:42:10 (41 s)`. */
const textOf = (row: ProviderRow): string => {
  const { id, state, until, lastError } = row
  const left = countdown(until)
  const next = nextText(row)
  return [
    words.trouble(id, state === 'open' ? words.fills.open : words.states[state]),
    ...(lastError ? [kindText(lastError.kind, lastError.status)] : []),
    ...(next === '' ? [] : [left === '' || state !== 'open' ? next : `${next} (${left})`]),
  ].join(' · ')
}

export const Trouble = () => {
  const { value, reload } = useResource(
    session.value === null ? null : 'trouble',
    () => read<{ readonly data: readonly ListedProvider[] }>('/providers'),
    { every: everyUnlessHeld(EVERY) },
  )
  const soon = useThrottled(reload, PAUSE)
  // The page decides when the stream is opened.
  useEffect(() => follow(['circuits'], soon), [soon])
  const rows = rowsOf(value?.data ?? [], []).filter(isInTrouble)
  const [others, one] = rows.length > MOST ? [rows.slice(MOST - 1), rows.slice(0, MOST - 1)] : [[], rows]
  const lines = [
    ...one.map((row) => ({ id: `trouble-${row.id}`, text: textOf(row), href: pageHref('providers', row.id) })),
    ...(others.length === 0
      ? []
      : [
          {
            id: 'trouble',
            text: words.troubleOthers(others.map(({ id }) => id).join(', ')),
            href: pageHref('providers'),
          },
        ]),
  ]
  const shown = useRef<readonly string[]>([])
  useEffect(() => {
    for (const id of shown.current) if (!lines.some((line) => line.id === id)) removeNotice(id)
    shown.current = lines.map(({ id }) => id)
    for (const { id, text, href } of lines)
      notice({ id, rank: RANK, tone: 'bad', text, link: { text: words.seeWhy, href } })
  }, [lines.map(({ text, href }) => `${text} ${href}`).join('\n')])
  return null
}
