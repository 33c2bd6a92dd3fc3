/** Response bodies of `/providers/status`, `/health` and `/v1/models`. */
import type { ModelFacts } from '../../core/config.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Instance } from '../../core/provider.ts'
import { defaultModel, type ListedModel, listModels } from '../../policy/routing/models.ts'
import type { Gateway } from '../gateway.ts'
import { providersStatus, standing } from './status.ts'

/** The models in a provider's status: configured, default and requested ones. */
const modelsOf =
  (gateway: Gateway) =>
  (instance: Instance): readonly string[] => {
    const defaultName = defaultModel(
      { config: gateway.config(), lists: gateway.lists(), catalogue: gateway.catalogue },
      instance,
    )
    return [
      ...new Set([
        ...instance.models,
        ...(defaultName === undefined ? [] : [defaultName]),
        ...gateway.health.load.models(instance),
      ]),
    ]
  }

/** The body of `/providers/status`. */
export const statusPage = (gateway: Gateway): JsonObject =>
  providersStatus(gateway.health, gateway.config(), modelsOf(gateway))

/** The state of the process, for `/health`. */
export type HealthFacts = {
  readonly version: string
  /** ms. */
  readonly uptime: number
  readonly draining: boolean
  readonly problems: readonly HealthProblem[]
}

/** A current problem. The page is public, so `reason` contains no path and no setting value. */
export type HealthProblem = {
  readonly component: 'store' | 'config'
  readonly reason: string
  /** ms since 1970. */
  readonly since: number
}

/** The body of `/health`. `problems` is left out if there are none. */
export const healthPage = (gateway: Gateway, { version, uptime, draining, problems }: HealthFacts): JsonObject => {
  const config = gateway.config()
  const configured = config.instances.length
  const { closed, available } = standing(gateway.health, config, modelsOf(gateway))
  const degraded = closed < configured || problems.length > 0
  return {
    status: draining ? 'draining' : configured === 0 ? 'unconfigured' : degraded ? 'degraded' : 'ok',
    version,
    uptime_ms: Math.round(uptime),
    auth: config.settings.auth.keys.length > 0 ? 'keys' : 'open',
    providers: { configured, available },
    ...(problems.length > 0 && {
      problems: problems.map(({ since, ...problem }) => ({ ...problem, since: new Date(since).toISOString() })),
    }),
  }
}

/**
 * The body of `/v1/models`, for all clients: the members of OpenAI and of Anthropic, and the empty `models` that Codex
 * expects. `started`: s since 1970.
 */
export const modelsPage = (gateway: Gateway, started: number): JsonObject => {
  const data = listModels(gateway.config(), gateway.lists(), gateway.catalogue).map((model) =>
    modelEntry(model, started),
  )
  return {
    object: 'list',
    data,
    has_more: false,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    models: [],
  }
}

/** The body of `/v1/models/{id}`; undefined: unknown model. */
export const modelPage = (gateway: Gateway, id: string, started: number): JsonObject | undefined => {
  const model = listModels(gateway.config(), gateway.lists(), gateway.catalogue).find((listed) => listed.id === id)
  return model && modelEntry(model, started)
}

const modelEntry = ({ id, owner, facts }: ListedModel, started: number) => ({
  id,
  object: 'model',
  created: started,
  owned_by: owner,
  type: 'model',
  display_name: id,
  created_at: new Date(started * 1000).toISOString(),
  ...(facts && catalogueEntry(facts)),
})

/** Data of the catalogue. Prices in US dollars for a million tokens. */
const catalogueEntry = (facts: ModelFacts): JsonObject => {
  const dollarsPerMillion = (nano: number | undefined) => (nano === undefined ? undefined : nano / 1000)
  const prices = {
    input: dollarsPerMillion(facts.inputPrice),
    output: dollarsPerMillion(facts.outputPrice),
    cache_read: dollarsPerMillion(facts.cacheReadPrice),
    cache_write: dollarsPerMillion(facts.cacheWritePrice),
  }
  return {
    context_window: facts.contextWindow,
    max_output_tokens: facts.maxOutputTokens,
    capabilities: facts.capabilities,
    pricing: facts.inputPrice === undefined ? undefined : { currency: 'USD', per: '1M tokens', ...prices },
  }
}
