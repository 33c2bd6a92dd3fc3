/** Response bodies of `/providers/status`, `/health` and `/v1/models`. */
import type { ModelFacts } from '../../core/config.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import { type JsonObject, parseObject } from '../../core/json.ts'
import type { Instance } from '../../core/provider.ts'
import { restrictionsOf } from '../../policy/accounts/key-access.ts'
import { defaultModel, type ListedModel, listModels } from '../../policy/routing/models.ts'
import { type RetiringModel, retiringModels } from '../../policy/routing/retirement.ts'
import { configFor } from '../../policy/routing/team-routes.ts'
import { type ModelCallDeps, requireOf } from '../routing/planner.ts'
import type { Asking } from './explain.ts'
import { providersStatus, standing } from './status.ts'

/** The models in a provider's status: configured, default and requested ones. */
const modelsOf =
  (gateway: ModelCallDeps) =>
  (instance: Instance): readonly string[] => {
    const defaultName = defaultModelOf(gateway, instance)
    return [
      ...new Set([
        ...instance.models,
        ...(defaultName === undefined ? [] : [defaultName]),
        ...gateway.health.load.models(instance),
      ]),
    ]
  }

/** The model of a provider for targets without one; undefined: unknown. */
export const defaultModelOf = (gateway: ModelCallDeps, instance: Instance): string | undefined =>
  defaultModel({ config: gateway.config(), lists: gateway.lists(), catalogue: gateway.catalogue }, instance)

/** The models of the configuration, and those in `used`, that end within `ms` or have ended, the earliest first. */
export const retiringIn = (
  gateway: ModelCallDeps,
  ms: number,
  used: (instance: string) => Iterable<string>,
): readonly RetiringModel[] => {
  const { catalogue, health, world } = gateway
  return retiringModels(
    { config: gateway.config(), lists: gateway.lists(), catalogue },
    { of: (place) => health.retirements.of(catalogue, place) },
    { until: world.date() + ms, used },
  )
}

/** The models of an instance that requests have used since the start. */
export const recentModels = (gateway: ModelCallDeps): ((instance: string) => readonly string[]) => {
  const byId = new Map(gateway.config().instances.map((one) => [one.id, one]))
  return (id) => {
    const instance = byId.get(id)
    return instance ? gateway.health.load.models(instance) : []
  }
}

/** The body of `/providers/status`. A client does not see the reasons that an operator has written. */
export const statusPage = (gateway: ModelCallDeps, audience: Asking['audience'] = 'operator'): JsonObject => {
  const page = providersStatus(gateway.health, gateway.config(), modelsOf(gateway))
  return audience === 'operator' ? page : withoutReasons(page)
}

const withoutReasons = (page: JsonObject): JsonObject =>
  parseObject(JSON.stringify(page, (name, value) => (name === 'reason' ? '' : value))) ?? {}

/** The state of the process, for `/health`. */
export type HealthFacts = {
  readonly version: string
  /** ms. */
  readonly uptime: number
  readonly draining: boolean
  /** Model calls need a client key. */
  readonly keyed: boolean
  readonly problems: readonly HealthProblem[]
}

/** A current problem. The page is public, so `reason` contains no path and no setting value. */
export type HealthProblem = {
  readonly component: 'store' | 'config' | 'control' | 'ledger' | 'limits' | 'budgets' | 'export'
  readonly reason: string
  /** ms since 1970. */
  readonly since: number
}

/** The body of `/health`. `problems` is left out if there are none. */
export const healthPage = (
  gateway: ModelCallDeps,
  { version, uptime, draining, keyed, problems }: HealthFacts,
): JsonObject => {
  const config = gateway.config()
  const configured = config.instances.length
  const { closed, available } = standing(gateway.health, config, modelsOf(gateway))
  const degraded = closed < configured || problems.length > 0
  return {
    status: draining ? 'draining' : configured === 0 ? 'unconfigured' : degraded ? 'degraded' : 'ok',
    version,
    uptime_ms: Math.round(uptime),
    auth: keyed ? 'keys' : 'open',
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
export const modelsPage = (gateway: ModelCallDeps, reader: ModelsReader, started: number): Outcome<JsonObject> => {
  const models = modelsFor(gateway, reader)
  if (!models.ok) return models
  const data = models.value.map((model) => modelEntry(model, started))
  return good({
    object: 'list',
    data,
    has_more: false,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    models: [],
  })
}

/** The body of `/v1/models/{id}`, or the names of the other models if it is unknown. */
export const modelPage = (
  gateway: ModelCallDeps,
  reader: ModelsReader,
  id: string,
  started: number,
): Outcome<{ readonly entry: JsonObject } | { readonly names: readonly string[] }> => {
  const models = modelsFor(gateway, reader)
  if (!models.ok) return models
  const model = models.value.find((listed) => listed.id === id)
  return good(model ? { entry: modelEntry(model, started) } : { names: models.value.map((listed) => listed.id) })
}

/** The most models in a page of Google's list, and those in one without `pageSize` (reference of models.list). */
const GEMINI_PAGE = { most: 1_000, usual: 50 }

/** The body of Google's list of models. `pageToken` is the place of the next one. */
export const geminiModelsPage = (
  gateway: ModelCallDeps,
  reader: ModelsReader & Pick<IncomingRequest, 'query'>,
): Outcome<JsonObject> => {
  const models = modelsFor(gateway, reader)
  if (!models.ok) return models
  const query = new URLSearchParams(reader.query)
  const wanted = Number(query.get('pageSize') || GEMINI_PAGE.usual)
  const from = Number(query.get('pageToken') || 0)
  for (const [param, value] of Object.entries({ pageSize: wanted, pageToken: from }))
    if (!Number.isSafeInteger(value) || value < 0)
      return bad(fail('invalid_value', `The query parameter \`${param}\` is not valid here.`, { param }))
  const end = from + Math.min(wanted || GEMINI_PAGE.usual, GEMINI_PAGE.most)
  return good({
    models: models.value.slice(from, end).map(geminiEntry),
    ...(end < models.value.length && { nextPageToken: String(end) }),
  })
}

/** The body of Google's entry of a model. */
export const geminiModelPage = (gateway: ModelCallDeps, reader: ModelsReader, id: string): Outcome<JsonObject> => {
  const models = modelsFor(gateway, reader)
  if (!models.ok) return models
  const model = models.value.find((listed) => listed.id === id)
  return model ? good(geminiEntry(model)) : bad(fail('unknown_model', UNKNOWN_MODEL, { param: 'model' }))
}

const UNKNOWN_MODEL = 'Unknown model. GET /v1beta/models lists the models.'

const geminiEntry = ({ id, facts = {} }: ListedModel): JsonObject => {
  const { contextWindow, maxOutputTokens, capabilities } = facts
  return {
    name: `models/${id}`,
    displayName: id,
    ...(contextWindow !== undefined && { inputTokenLimit: contextWindow }),
    ...(maxOutputTokens !== undefined && { outputTokenLimit: maxOutputTokens }),
    supportedGenerationMethods: ['generateContent', 'streamGenerateContent', 'countTokens'],
    ...(capabilities && { thinking: capabilities.includes('reasoning') }),
  }
}

/** Who reads the list of models. */
type ModelsReader = Pick<IncomingRequest, 'client' | 'headers'>

/** The models that this client may use, and that satisfy the data policy. Fails if what the request requires is not valid. */
const modelsFor = (gateway: ModelCallDeps, { client, headers }: ModelsReader): Outcome<readonly ListedModel[]> => {
  const config = configFor(gateway, gateway.config(), client)
  const require = requireOf(config, { client, headers, members: {} })
  if (!require.ok) return require
  const limits = { rules: restrictionsOf(client), require: require.value }
  return good(listModels(config, gateway.lists(), gateway.catalogue, limits))
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
const catalogueEntry = ({ contextWindow, maxOutputTokens, capabilities, prices }: ModelFacts): JsonObject => {
  const dollarsPerMillion = (nano: number | undefined) => (nano === undefined ? undefined : nano / 1000)
  const dollars = {
    input: dollarsPerMillion(prices?.input),
    output: dollarsPerMillion(prices?.output),
    cache_read: dollarsPerMillion(prices?.cacheRead),
    cache_write: dollarsPerMillion(prices?.cacheWrite),
  }
  return {
    context_window: contextWindow,
    max_output_tokens: maxOutputTokens,
    capabilities,
    pricing: prices?.input === undefined ? undefined : { currency: 'USD', per: '1M tokens', ...dollars },
  }
}
