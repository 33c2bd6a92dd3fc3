/** What has happened to a provider, and which of its keys are not used now, in all processes. */
import { isObject, type JsonObject, list, text } from '../../core/json.ts'
import { endpointId, proxyId } from '../../core/target.ts'
import type { Transition } from '../../observe/live/transition-log.ts'
import type { TimeRange } from '../../usage/reading/queries.ts'
import { askProcesses, type ProcessDeps } from './processes.ts'

/** The changes of its circuits and keys, the oldest first. */
export const transitionsOf = async (deps: ProcessDeps, provider: string, range: TimeRange) => {
  const instance = deps.gateway.config().instances.find(({ id }) => id === provider)
  const shared = instance ? [endpointId(instance), proxyId(instance)] : []
  const { answers } = await askProcesses(deps, { do: 'changes', ...range })
  const found = answers.flatMap(({ name, value }) =>
    // See `answerHere`.
    (value.transitions as unknown as readonly Transition[])
      .filter((one) => one.provider === provider || (one.base_url !== null && shared.includes(one.base_url)))
      .map((one) => ({ ...one, node: name })),
  )
  return found
    .toSorted((one, other) => one.at - other.at)
    .map(({ at, what, credential, model, from, to, why, until, request, node }) => ({
      at: new Date(at).toISOString(),
      what,
      credential,
      model,
      from,
      to,
      why,
      until,
      request,
      node,
    }))
}

/** The keys that are limited, disabled or rejected now, alone or at one model. */
export const limitedKeys = async (deps: ProcessDeps, provider: string) => {
  const { answers } = await askProcesses(deps, { do: 'providers' })
  return answers.flatMap(({ name, value }) => {
    const [entry] = list(value.data).filter((one): one is JsonObject => isObject(one) && one.id === provider)
    if (!entry) return []
    const keysOf = (holder: JsonObject, model: string | null) =>
      list(holder.keys)
        .filter(isObject)
        .filter(({ status }) => status !== 'active')
        .map(({ id, status, until }) => ({
          credential: text(id) ?? '',
          model,
          status: text(status) ?? '',
          until: text(until) ?? null,
          node: name,
        }))
    const models = list(entry.models).filter(isObject)
    return [...keysOf(entry, null), ...models.flatMap((model) => keysOf(model, text(model.id) ?? ''))]
  })
}
