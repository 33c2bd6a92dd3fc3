/** Whether the first steps are shown: until a provider has answered a request. */
import { useCallback } from 'preact/hooks'
import type { RequestEntry } from '../../src/usage/reading/queries.ts'
import { type ApiList, read, useResource } from './api.ts'
import { useLive } from './live.ts'

type KnownProvider = { readonly id: string; readonly kind: string }

/** ms between two readings; events come sooner. */
const EVERY = 10_000
/** How far back a request of a provider ends the first run, in ms. */
const PAST = 90 * 86_400_000

export type FirstRunFacts = {
  /** Whether no provider has answered a request yet. */
  readonly isFirst: boolean
  /** IDs of providers other than the demo. */
  readonly providers: readonly string[]
  readonly hasDemo: boolean
}

const readFacts = async (): Promise<FirstRunFacts> => {
  const { data } = await read<ApiList<KnownProvider>>('/providers')
  // There is an entry for each process.
  const providers = [...new Set(data.filter(({ kind }) => kind !== 'demo').map(({ id }) => id))]
  const hasDemo = data.some(({ kind }) => kind === 'demo')
  if (providers.length === 0) return { isFirst: true, providers, hasDemo }
  const from = new Date(Date.now() - PAST).toISOString()
  const query = { provider: providers, outcome: 'answered', limit: 1, from }
  const answered = await read<ApiList<RequestEntry>>('/requests', query)
  return { isFirst: answered.data.length === 0, providers, hasDemo }
}

/** What the first steps depend on; undefined: not known yet. */
export const useFirstRun = (): FirstRunFacts | undefined => {
  const { value, reload } = useResource('first-run', readFacts, { every: EVERY })
  // Once over, it stays over while the page is open.
  const isOver = value?.isFirst === false
  useLive(
    ['requests'],
    useCallback(() => {
      if (!isOver) reload()
    }, [isOver]),
  )
  return value
}
