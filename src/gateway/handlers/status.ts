/** The health of each provider, for `/providers/status` and `/health`, computed from the present state. */
import type { Config } from '../../core/config.ts'
import { rowOf } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Instance, ProviderKey } from '../../core/provider.ts'
import type { Settings } from '../../core/settings.ts'
import { type Candidate, deploymentId, endpointId, keyId, modelId, proxyId } from '../../core/target.ts'
import type { CircuitPhase } from '../health/circuits.ts'
import type { UpstreamHealth } from '../health/upstream-health.ts'
import { identityOf } from '../upstream/outbound-request.ts'

type CircuitStateName = 'closed' | 'open' | 'half_open'

/** The body of `/providers/status`. `modelsOf`: the models to list for an instance. */
export const providersStatus = (
  health: UpstreamHealth,
  config: Config,
  modelsOf: (instance: Instance) => readonly string[],
): JsonObject => ({
  object: 'list',
  data: config.instances.map((instance) => providerStatus(health, config.settings, instance, modelsOf(instance))),
})

/** How many providers are usable. */
export type Standing = {
  /** With a closed circuit. */
  readonly closed: number
  /** With a closed circuit and an active key. */
  readonly available: number
}

/** Counts the usable providers. */
export const standing = (
  health: UpstreamHealth,
  config: Config,
  modelsOf: (instance: Instance) => readonly string[],
): Standing => {
  const closed = config.instances.filter(
    (instance) => circuitOf(health, config.settings, instance, modelsOf(instance)).state === 'closed',
  )
  const available = closed.filter(
    (instance) =>
      restingOf(health, instance) === null &&
      instance.keys.some((key) => keyStatus(health, instance, key, modelsOf(instance)).status === 'active'),
  )
  return { closed: closed.length, available: available.length }
}

const providerStatus = (
  health: UpstreamHealth,
  settings: Settings,
  instance: Instance,
  models: readonly string[],
): JsonObject => {
  const circuit = circuitOf(health, settings, instance, models)
  const endpoint = endpointStatus(health, settings, instance)
  const keys = instance.keys.map((key) => keyStatus(health, instance, key, models))
  const modelStatuses = models.map((model) => modelStatus(health, settings, candidate(instance, model)))
  const resting = restingOf(health, instance)
  const isUnavailable =
    resting !== null ||
    endpoint.status === 'unavailable' ||
    keys.every(({ status }) => status !== 'active') ||
    (modelStatuses.length > 0 && modelStatuses.every(({ status }) => status === 'unavailable'))
  const isDegraded =
    endpoint.status !== 'available' ||
    keys.some(({ status }) => status !== 'active') ||
    modelStatuses.some((model) => model.status !== 'available' || model.keys.some(isInactive))
  const [p50 = null, p95 = null] = health.load.firstContent(instance)
  const last = health.lastError(instance)
  return {
    id: instance.id,
    kind: instance.provider.name,
    status: isUnavailable ? 'unavailable' : isDegraded ? 'degraded' : 'available',
    circuit: { ...circuit },
    resting,
    endpoint,
    keys,
    models: modelStatuses,
    latency_ms: { first_content_p50: p50 && Math.round(p50), first_content_p95: p95 && Math.round(p95) },
    last_error: last
      ? {
          at: new Date(last.at).toISOString(),
          kind: last.failure.kind,
          code: rowOf(last.failure).code,
          status: last.failure.status ?? null,
          message: last.failure.message,
        }
      : null,
  }
}

/** Why and until when an operator lets the provider rest; null: it does not rest. */
export const restingOf = (health: UpstreamHealth, { id }: Instance) => {
  const cooldown = health.cooldowns.of(id)
  return cooldown ? { until: health.iso(cooldown.until), reason: cooldown.decision ?? '' } : null
}

const isInactive = ({ status, circuit }: ReturnType<typeof modelStatus>['keys'][number]): boolean =>
  status !== 'active' || circuit.state !== 'closed'

/** One or several circuits, summarised. `retryAt`: ms of the monotonic clock; null: not open. */
type CircuitSummary = { readonly state: CircuitStateName; readonly retryAt: number | null }

/** The base URL and the proxy in front of it: their circuits apply to every key and model of the provider. */
const endpointStatus = (health: UpstreamHealth, settings: Settings, instance: Instance) => {
  const circuit = wayCircuit(health, settings, instance)
  return statusOf(health, circuit, health.cooldowns.of(endpointId(instance)) !== undefined)
}

/**
 * A provider's circuit: open if the circuit of its base URL is, or those of all models. A model without requests counts
 * as closed. The counts are sums over the deployments.
 */
const circuitOf = (health: UpstreamHealth, settings: Settings, instance: Instance, models: readonly string[]) => {
  const endpoint = wayCircuit(health, settings, instance)
  const inner = sum(models.map((model) => modelCircuit(health, settings, candidate(instance, model))))
  const { state, retryAt } = worse(endpoint, inner)
  const ofDeployments = models
    .flatMap((model) => deployments(instance, model))
    .map((id) => health.circuits.counts(id, settings.circuit))
  const otherIds = [proxyId(instance) ?? [], endpointId(instance)]
    .flat()
    .concat(models.map((model) => modelId(candidate(instance, model))))
  const counts = [...ofDeployments, ...otherIds.map((id) => health.circuits.counts(id, settings.circuit))]
  // A success counts in every circuit it passed, and a base URL may have several providers. A failure counts in one.
  const successes = ofDeployments.reduce((total, circuit) => total + circuit.successes, 0)
  const failures = counts.reduce((total, circuit) => total + circuit.failures, 0)
  const opened = counts.map(({ openedAt }) => openedAt).filter((at) => at !== null)
  const outcomes = successes + failures
  return {
    state,
    failures,
    successes,
    error_rate: outcomes === 0 ? 0 : Math.round((1000 * failures) / outcomes) / 10,
    opened_at: state === 'closed' || opened.length === 0 ? null : health.iso(Math.min(...opened)),
    retry_at: health.iso(retryAt),
  }
}

const circuitAt = (health: UpstreamHealth, settings: Settings, id: string): CircuitSummary =>
  summaryOfPhase(health.circuits.phase(id, settings.circuit))

/** The circuit of the base URL, or that of the proxy in front of it. */
export const wayCircuit = (health: UpstreamHealth, settings: Settings, instance: Instance): CircuitSummary =>
  summaryOfPhase(health.circuits.wayPhase(instance, settings.circuit))

const summaryOfPhase = ({ state, retryAt }: CircuitPhase): CircuitSummary => ({
  state,
  retryAt: state === 'closed' ? null : retryAt,
})

/**
 * The circuit of one key at one model. An attempt also passes the model's circuit, so the result is the one of the two
 * that is further from closed.
 */
const deploymentCircuit = (
  health: UpstreamHealth,
  settings: Settings,
  target: Candidate,
  key: ProviderKey,
): CircuitSummary =>
  worse(
    circuitAt(health, settings, modelId(target)),
    circuitAt(health, settings, deploymentId({ candidate: target, key })),
  )

/** A model's circuit: open if it is open for every key. */
export const modelCircuit = (health: UpstreamHealth, settings: Settings, target: Candidate): CircuitSummary =>
  sum(target.instance.keys.map((key) => deploymentCircuit(health, settings, target, key)))

/** Closed if any circuit is closed, otherwise half-open if any is, otherwise open. */
const sum = (circuits: readonly CircuitSummary[]): CircuitSummary => {
  if (circuits.length === 0 || circuits.some(({ state }) => state === 'closed')) return CLOSED
  const state = circuits.some((circuit) => circuit.state === 'half_open') ? 'half_open' : 'open'
  const times = circuits.map(({ retryAt }) => retryAt).filter((at) => at !== null)
  return { state, retryAt: times.length === 0 ? null : Math.min(...times) }
}

const CLOSED: CircuitSummary = { state: 'closed', retryAt: null }
const RANK = { closed: 0, half_open: 1, open: 2 } as const satisfies Record<CircuitStateName, number>

/** Of two circuits that an attempt passes, the more restrictive one. */
const worse = (first: CircuitSummary, second: CircuitSummary): CircuitSummary => {
  if (RANK[first.state] !== RANK[second.state]) return RANK[first.state] > RANK[second.state] ? first : second
  return (first.retryAt ?? 0) >= (second.retryAt ?? 0) ? first : second
}

const statusOf = (health: UpstreamHealth, { state, retryAt }: CircuitSummary, isCoolingDown: boolean) => ({
  status: state === 'open' || isCoolingDown ? 'unavailable' : state === 'half_open' ? 'degraded' : 'available',
  circuit: { state, retry_at: health.iso(retryAt) },
})

/** A model and its deployments, one a key. */
const rounded = (ms: number | undefined): number | null => (ms === undefined ? null : Math.round(ms))

const modelStatus = (health: UpstreamHealth, settings: Settings, target: Candidate) => ({
  id: target.model,
  latency_ms: { first_content_p50: rounded(health.load.firstContentOf(target)) },
  ...statusOf(health, modelCircuit(health, settings, target), health.cooldowns.of(modelId(target)) !== undefined),
  keys: target.instance.keys.map((key) => {
    const cooldown = health.cooldowns.of(deploymentId({ candidate: target, key }))
    const { state, retryAt } = deploymentCircuit(health, settings, target, key)
    return {
      id: key.id,
      status: cooldown?.why ?? 'active',
      until: cooldown ? health.iso(cooldown.until) : null,
      circuit: { state, retry_at: health.iso(retryAt) },
    }
  }),
})

const STATUSES: ReadonlySet<string> = new Set(['rate_limited', 'quota_exhausted', 'suspended', 'disabled'])

export const keyStatus = (health: UpstreamHealth, instance: Instance, key: ProviderKey, models: readonly string[]) => {
  const ofKey = health.cooldowns.of(keyId(instance, key))
  // Rate limits apply to a key at one model. The key counts as limited if it is limited at every model in use.
  const perModel = models.map((model) =>
    health.cooldowns.of(deploymentId({ candidate: candidate(instance, model), key })),
  )
  const limited =
    perModel.length > 0 && perModel.every((cooldown) => cooldown?.why === 'rate_limited') ? perModel[0] : undefined
  const cooldown = ofKey ?? limited
  const identity = identityOf(instance, key)
  return {
    id: key.id,
    // The machine's cloud identity is used instead of a key.
    ...(identity && { signed_in_by: identity.cloud }),
    status: cooldown && STATUSES.has(cooldown.why) ? cooldown.why : 'active',
    in_flight: health.load.inFlight(instance, key),
    requests: health.load.requests(instance, key),
    until: cooldown ? health.iso(cooldown.until) : null,
    ...(cooldown?.decision !== undefined && { reason: cooldown.decision }),
  }
}

export const candidate = (instance: Instance, model: string): Candidate => ({ instance, model, because: '', weight: 1 })

export const deployments = (instance: Instance, model: string): string[] =>
  instance.keys.map((key) => deploymentId({ candidate: candidate(instance, model), key }))
