/** Routes and models: where requests go, why, and where they would go if providers were down. */
import { useCallback, useMemo, useRef } from 'preact/hooks'
import { valuesOf } from '../address.ts'
import { type ApiList, hasRole, read, useResource, write } from '../api.ts'
import { useLive } from '../live.ts'
import { Failed, Loading, PageHead } from '../parts/states.tsx'
import type { RoutesActivity, ShownRoute } from '../plans.ts'
import { current } from '../store.ts'
import { en } from '../words/en.ts'
import type { CanaryLine } from './routes/canary.tsx'
import { Drill } from './routes/drill.tsx'
import { Explain } from './routes/explain.tsx'
import type { KnownFacts, ProviderFacts } from './routes/facts.tsx'
import { RouteList } from './routes/list.tsx'
import { Models, readModels } from './routes/models.tsx'
import { OwnRoutes } from './routes/own.tsx'
import { DOWN, WhatIf } from './routes/what-if.tsx'

/** ms between two readings: circuits close by time, too. */
const EVERY = 15_000

/** Those of the file: who has a role in some teams only does not see them. */
const readCanaries = (): Promise<ApiList<CanaryLine>> =>
  hasRole('viewer', 'all') ? read('/canaries') : Promise.resolve({ data: [] })

export const Page = () => {
  const down = valuesOf(current.value, DOWN)
  const team = valuesOf(current.value, 'team')
  const plans = useResource(
    `plans ${down.join(' ')}`,
    async () => {
      const assume = down.length > 0 && { assume: { down } }
      const { data } = await write<{ readonly data: readonly ShownRoute[] }>('POST', '/explain', {
        for: '*',
        ...assume,
      })
      return { data, down: down.join(' ') }
    },
    { every: EVERY },
  )
  const activity = useResource(
    `routes ${team}`,
    () => read<RoutesActivity>('/routes/activity', { shared: true, team }),
    { every: EVERY },
  )
  const canaries = useResource('canaries', readCanaries, { every: EVERY })
  const providers = useResource('providers', () => read<{ readonly data: readonly ProviderFacts[] }>('/providers'), {
    every: EVERY,
  })
  const models = useResource('all models', () => readModels(undefined))
  const reload = useRef(plans.reload)
  reload.current = plans.reload
  useLive(
    ['circuits'],
    useCallback(() => reload.current(), []),
  )
  // With several processes, those of the process that answers come first.
  const listed = useMemo(() => {
    const byId = new Map<string, ProviderFacts>()
    for (const one of providers.value?.data ?? []) if (!byId.has(one.id)) byId.set(one.id, one)
    return byId
  }, [providers.value])
  const facts = useMemo(
    (): KnownFacts => ({ providers: listed, models: new Map(models.value?.models.map((one) => [one.id, one])) }),
    [listed, models.value],
  )
  const names = useMemo(
    () => [...(plans.value?.data.map(({ model }) => model) ?? []), ...facts.models.keys()],
    [plans.value, facts],
  )
  // The plans of other assumptions, until those of these are read.
  const isOld = plans.value?.down !== down.join(' ')
  return (
    <div class="routes-page">
      <PageHead title={en.pages.routes} />
      {providers.problem && !providers.value ? (
        <Failed problem={providers.problem} retry={providers.reload} />
      ) : (
        providers.value && (
          <WhatIf providers={[...listed.values()]} plans={isOld ? null : (plans.value?.data ?? null)} />
        )
      )}
      {plans.problem && <Failed problem={plans.problem} retry={plans.reload} />}
      {activity.problem && <Failed problem={activity.problem} retry={activity.reload} />}
      {!activity.value && activity.isLoading && <Loading />}
      {activity.value && (
        <RouteList
          routes={activity.value.data}
          plans={isOld ? null : (plans.value?.data ?? null)}
          canaries={canaries.value?.data ?? []}
          facts={facts}
          reload={() => {
            canaries.reload()
            activity.reload()
          }}
        />
      )}
      <Drill />
      <OwnRoutes activity={activity.value} team={team} changed={activity.reload} />
      <Explain names={names} />
      <Models providers={listed} />
    </div>
  )
}
