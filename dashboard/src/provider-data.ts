/** Reads providers, their attempts and their transitions, and again when something about them changes. */
import type { Activity, ProviderActivity } from '../../src/usage/reading/queries.ts'
import { boundsOf, type Range, rangeAt } from './address.ts'
import { type ApiList, type ApiProblem, hasRole, read, session, useResource } from './api.ts'
import { everyUnlessHeld, useReloadOn } from './live.ts'
import {
  type ListedChange,
  type ListedProvider,
  type ProviderRow,
  rowsOf,
  type StripCell,
  spansOf,
  stripOf,
} from './provider-row.ts'
import { current, currentRange, gatewayNow } from './store.ts'
import { en } from './words/en.ts'
import { providerWords as words } from './words/providers.ts'

/** ms between two reads of figures. */
export const EVERY = 10_000
/** Cells of a strip, and one because the range does not begin at a full minute. */
const CELLS = 61

type ChangesPage = ApiList<ListedChange> & { readonly has_more: boolean }

export type ProviderData = {
  /** Undefined: not read yet. */
  readonly rows: readonly ProviderRow[] | undefined
  readonly changes: readonly ListedChange[]
  readonly range: Range
  /** s of a cell. */
  readonly seconds: number
  readonly strip: (id: string) => readonly StripCell[]
  /** Why the providers could not be read. */
  readonly problem: ApiProblem | null
  /** Whether the role includes their attempts. */
  readonly isActivityAllowed: boolean
  /** When their attempts were read, in ms since 1970; null: they were not. */
  readonly activityAt: number | null
  /** Why their attempts could not be read. */
  readonly activityProblem: ApiProblem | null
  readonly reload: () => void
}

/** The range that a page shows, as a key of what is read for it. */
export const rangeKey = (): string => {
  const { from, to } = boundsOf(current.value)
  return `${from} ${to}`
}

export const rangeQuery = () => {
  const { from, to } = currentRange()
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() }
}

const TOPICS = ['circuits', 'keys'] as const
/** The most changes that are read for strips and lanes. */
const CHANGES = 200

export const useProviders = (): ProviderData => {
  const every = everyUnlessHeld(EVERY)
  const key = rangeKey()
  // Attempts are those of all teams.
  const isWhole = hasRole('viewer', 'all')
  const providers = useResource('providers', () => read<ApiList<ListedProvider>>('/providers'), { every: every / 2 })
  const activity = useResource(
    isWhole ? key : null,
    () => read<Activity>('/providers/activity', { ...rangeQuery(), cells: CELLS, shared: true }),
    {
      every,
    },
  )
  const changes = useResource(key, () => read<ChangesPage>('/changes', { ...rangeQuery(), limit: CHANGES }), { every })
  const reload = () => {
    providers.reload()
    activity.reload()
    changes.reload()
  }
  useReloadOn(TOPICS, reload, 1_000)
  const found: readonly ProviderActivity[] = activity.value?.data ?? []
  const rows = providers.value && rowsOf(providers.value.data, found)
  const listed = changes.value?.data ?? []
  const range = rangeAt(current.value, activity.at ?? gatewayNow())
  const seconds = activity.value?.seconds ?? 60
  return {
    rows,
    changes: listed,
    range,
    seconds,
    strip: (id) =>
      stripOf(rows?.find((row) => row.id === id)?.activity ?? null, {
        range,
        seconds,
        closedOff: spansOf(
          listed.filter(({ kind, providers: of, actor }) => kind === 'circuit' && actor === null && of.includes(id)),
          range,
        ),
      }),
    problem: providers.problem,
    activityAt: activity.at,
    isActivityAllowed: isWhole || session.value === null,
    activityProblem: activity.problem,
    reload,
  }
}

/** Why a row has no figures of its attempts. */
export const whyNoActivity = ({ isActivityAllowed, activityAt, activityProblem }: ProviderData): string => {
  if (!isActivityAllowed) return words.notReadable
  return activityAt !== null ? words.noAttempt : (activityProblem?.message ?? en.states.loading)
}
