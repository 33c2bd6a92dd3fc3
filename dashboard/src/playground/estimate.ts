/** What a column would cost, before it is sent: by the plan of its request, as the gateway would make it now. */

import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { useResource, write } from '../api.ts'
import { type PlannedTarget, placeName, type ShownPlan, stateOf } from '../plans.ts'
import { type PlaygroundSettings, requestOf, wrongFields } from './request.ts'

/** ms after the last change of a field. */
const PAUSE = 500

/** `cost`: in US dollars; null: the price of the target is unknown. */
export type Estimate = { readonly target: string; readonly cost: string | null }

/** The estimate of a plan: of the target that would be tried first. Null: there is none. */
export const estimateOf = ({ targets }: Pick<ShownPlan, 'targets'>): Estimate | null => {
  const first: PlannedTarget | undefined = targets.find((target) => stateOf(target).is === 'ready')
  return first ? { target: placeName(first), cost: first.cost_estimate ?? null } : null
}

/** Null: not known, since fields are wrong or missing, the request has an image, or nothing can answer it. */
export const useEstimate = (settings: PlaygroundSettings, model: string): Estimate | null => {
  const isReady = model.trim() !== '' && settings.image === null && wrongFields(settings).length === 0
  const key = isReady ? JSON.stringify([settings, model]) : null
  const settled = useSignal<string | null>(null)
  useEffect(() => {
    const timer = setTimeout(() => {
      settled.value = key
    }, PAUSE)
    return () => clearTimeout(timer)
  }, [key, settled])
  const isSettled = key !== null && settled.value === key
  const { value } = useResource(isSettled ? key : null, async () => {
    const { style } = settings
    return estimateOf(
      await write<ShownPlan>('POST', '/explain', { request: requestOf(settings, model.trim()).body, style }),
    )
  })
  return isSettled ? (value ?? null) : null
}
