/** Reads the requests in progress. */
import type { OngoingAttempt } from '../../src/edge/ledger/reading/queries.ts'
import { type Resource, read, useResource } from './api.ts'
import { everyUnlessHeld, useReloadOn } from './live.ts'

/** A request in progress. */
export type RunningRequest = OngoingAttempt & { readonly output_tokens: number | null }

/** ms between two reads; events come sooner. */
const EVERY = 2_000

/** The latest attempt of each request, the longest first; undefined: not read yet. */
export const useRunning = (
  isShown = true,
): Pick<Resource<unknown>, 'problem'> & { readonly running: readonly RunningRequest[] | undefined } => {
  const { value, problem, reload } = useResource(
    isShown ? 'running' : null,
    () => read<{ readonly data: readonly RunningRequest[] }>('/requests/running', { shared: true }),
    { every: everyUnlessHeld(EVERY) },
  )
  useReloadOn(['requests'], reload, 1_000)
  return { running: value && [...new Map(value.data.map((one) => [one.request, one])).values()], problem }
}
