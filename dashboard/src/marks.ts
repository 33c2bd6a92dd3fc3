/** Changes that charts mark on their time axis. */
import { boundsOf, rangeAt } from './address.ts'
import { read, useResource } from './api.ts'
import { changeTitle, isMarked } from './change-text.ts'
import { everyUnlessHeld } from './live.ts'
import type { ListedChange } from './provider-row.ts'
import { current, gatewayNow } from './store.ts'

/** A change that is drawn over a chart. */
export type ChartMark = { readonly at: number; readonly text: string }

/** ms between two readings. */
const EVERY = 30_000
/** Changes that are read. */
const MOST = 200

/** The configurations and starts in the range of the address. */
export const useMarks = (): readonly ChartMark[] => {
  const { from, to } = boundsOf(current.value)
  const { value } = useResource(
    `marks ${from} ${to}`,
    () => {
      const range = rangeAt(current.value, gatewayNow())
      const query = { from: new Date(range.from).toISOString(), to: new Date(range.to).toISOString(), limit: MOST }
      return read<{ readonly data: readonly ListedChange[] }>('/changes', query)
    },
    { every: everyUnlessHeld(EVERY) },
  )
  return (value?.data ?? [])
    .filter(isMarked)
    .map((change) => ({ at: Date.parse(change.at), text: changeTitle(change) }))
}
