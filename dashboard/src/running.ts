/** Reads the requests in progress. */
import type { OngoingAttempt } from '../../src/usage/reading/queries.ts'
import { type Resource, read, useResource } from './api.ts'
import { everyUnlessHeld, useReloadOn } from './live.ts'

/** A request in progress. */
export type RunningRequest = OngoingAttempt & { readonly output_tokens: number | null }

/** ms between two reads of a list that is shown, which events make sooner, and of its number alone. */
const EVERY = { list: 2_000, number: 10_000 }

/** The latest attempt of each request, the longest first; undefined: not read yet. `isShown`: not only their number. */
export const useRunning = (
  isShown = true,
): Pick<Resource<unknown>, 'problem'> & {
  readonly running: readonly RunningRequest[] | undefined
  /** Requests in progress; the list has the first hundred attempts. */
  readonly total: number
} => {
  const { value, problem, reload } = useResource(
    'running',
    () =>
      read<{ readonly data: readonly RunningRequest[]; readonly total: number }>('/requests/running', { shared: true }),
    { every: everyUnlessHeld(isShown ? EVERY.list : EVERY.number) },
  )
  useReloadOn(isShown ? ['requests'] : [], reload, 1_000)
  const running = value && [...new Map(value.data.map((one) => [one.request, one])).values()]
  return { running, total: value?.total ?? 0, problem }
}
