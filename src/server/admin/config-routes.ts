/** What a configuration changes in routing: the targets of each route, in order, with the running one and with the other. */
import { ANONYMOUS } from '../../core/accounts.ts'
import type { Config } from '../../core/config.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import { isObject, list } from '../../core/json.ts'
import { ownTurn } from '../../core/steps.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { explain } from '../../gateway/handlers/explain.ts'
import { AUTO } from '../../policy/routing/plan.ts'

/** `before` and `after`: names such as `openai/gpt-5`; null: there is no such route. */
export type ChangedRoute = {
  readonly model: string
  readonly before: readonly string[] | null
  readonly after: readonly string[] | null
}

const QUESTION = { messages: [{ role: 'user', content: 'Hello' }] }

const requestFor = (model: string): IncomingRequest => ({
  id: '',
  method: 'POST',
  path: '/v1/route',
  query: 'style=chat',
  headers: () => undefined,
  body: { text: JSON.stringify({ ...QUESTION, model }) },
  client: ANONYMOUS,
})

const targetsOf = (gateway: Gateway, config: Config, model: string): readonly string[] | null => {
  if (model !== AUTO && !config.routes.has(model)) return null
  // The same order each time, also where weights decide.
  const world = { ...gateway.world, random: () => 0 }
  const explained = explain({ ...gateway, world, config: () => config }, requestFor(model))
  if (!explained.ok) return []
  return list(explained.value.targets)
    .filter(isObject)
    .filter(({ fit }) => fit !== false)
    .map(({ provider, model: name }) => `${provider}/${name}`)
}

/** The routes whose targets another configuration changes. */
export const changedRoutes = async (gateway: Gateway, next: Config): Promise<readonly ChangedRoute[]> => {
  const running = gateway.config()
  const changed: ChangedRoute[] = []
  for (const model of new Set([...running.routes.keys(), ...next.routes.keys(), AUTO])) {
    await ownTurn(gateway.world.turn)
    const before = targetsOf(gateway, running, model)
    const after = targetsOf(gateway, next, model)
    if (before?.join('\n') !== after?.join('\n')) changed.push({ model, before, after })
  }
  return changed
}
