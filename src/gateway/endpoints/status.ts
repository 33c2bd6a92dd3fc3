/** The bodies of `/providers/status` and `/health`: sums over the board, without state of their own. */
import type { Config } from '../../core/config.ts'
import { rowOf } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Instance, ProviderKey } from '../../core/provider.ts'
import type { Settings } from '../../core/settings.ts'
import { type Candidate, deploymentId, endpointId, keyId, modelId } from '../../core/target.ts'
import type { UpstreamHealth } from '../health/upstream-health.ts'
import { identityOf } from '../upstream/outbound-request.ts'

type State = 'closed' | 'open' | 'half_open'

export const providersStatus = (
  board: UpstreamHealth,
  config: Config,
  modelsOf: (instance: Instance) => readonly string[],
): JsonObject => ({
  object: 'list',
  data: config.instances.map((instance) => providerStatus(board, config.settings, instance, modelsOf(instance))),
})

export type Standing = {
  /** Providers with a closed circuit. */
  readonly closed: number
  /** Those of them with a key that may be used. */
  readonly available: number
}

export const standing = (
  board: UpstreamHealth,
  config: Config,
  modelsOf: (instance: Instance) => readonly string[],
): Standing => {
  const closed = config.instances.filter(
    (instance) => circuitOf(board, config.settings, instance, modelsOf(instance)).state === 'closed',
  )
  const available = closed.filter((instance) =>
    instance.keys.some((key) => keyStatus(board, instance, key, modelsOf(instance)).status === 'active'),
  )
  return { closed: closed.length, available: available.length }
}

const providerStatus = (
  board: UpstreamHealth,
  settings: Settings,
  instance: Instance,
  models: readonly string[],
): JsonObject => {
  const circuit = circuitOf(board, settings, instance, models)
  const endpoint = endpointStatus(board, settings, instance)
  const keys = instance.keys.map((key) => keyStatus(board, instance, key, models))
  const each = models.map((model) => modelStatus(board, settings, candidate(instance, model)))
  const out =
    endpoint.status === 'unavailable' ||
    keys.every(({ status }) => status !== 'active') ||
    (each.length > 0 && each.every(({ status }) => status === 'unavailable'))
  const partlyOut =
    endpoint.status !== 'available' ||
    keys.some(({ status }) => status !== 'active') ||
    each.some((model) => model.status !== 'available' || model.keys.some(isOut))
  const [p50 = null, p95 = null] = board.firstContent(instance)
  const last = board.lastError(instance)
  return {
    id: instance.id,
    kind: instance.provider.name,
    status: out ? 'unavailable' : partlyOut ? 'degraded' : 'available',
    circuit: { ...circuit },
    endpoint,
    keys,
    models: each,
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

const isOut = ({ status, circuit }: ReturnType<typeof modelStatus>['keys'][number]): boolean =>
  status !== 'active' || circuit.state !== 'closed'

/** A circuit as the page shows it. `retryAt`: ms of the monotonic clock; null: not open. */
type Circuit = { readonly state: State; readonly retryAt: number | null }

/** The base URL: every key and model of the provider passes its circuit. */
const endpointStatus = (board: UpstreamHealth, settings: Settings, instance: Instance) => {
  const circuit = circuitAt(board, settings, endpointId(instance))
  return statusOf(board, circuit, board.cooldown(endpointId(instance)) !== undefined)
}

/**
 * A provider's circuit: open when its base URL's is, or every model's. A model that was not requested so far counts as
 * closed. The counts are sums over the deployments.
 */
const circuitOf = (board: UpstreamHealth, settings: Settings, instance: Instance, models: readonly string[]) => {
  const endpoint = circuitAt(board, settings, endpointId(instance))
  const inner = sum(models.map((model) => modelCircuit(board, settings, candidate(instance, model))))
  const { state, retryAt } = worse(endpoint, inner)
  const own = models.flatMap((model) => deployments(instance, model)).map((id) => board.counts(id, settings))
  const around = [endpointId(instance), ...models.map((model) => modelId(candidate(instance, model)))]
  const counts = [...own, ...around.map((id) => board.counts(id, settings))]
  // A success is booked to every circuit it passed (an address may be another provider's as well), a failure to the one it explains.
  const successes = own.reduce((total, one) => total + one.successes, 0)
  const failures = counts.reduce((total, one) => total + one.failures, 0)
  const opened = counts.map(({ openedAt }) => openedAt).filter((at) => at !== null)
  const outcomes = successes + failures
  return {
    state,
    failures,
    successes,
    error_rate: outcomes === 0 ? 0 : Math.round((1000 * failures) / outcomes) / 10,
    opened_at: state === 'closed' || opened.length === 0 ? null : board.iso(Math.min(...opened)),
    retry_at: board.iso(retryAt),
  }
}

const circuitAt = (board: UpstreamHealth, settings: Settings, id: string): Circuit => {
  const { at, retryAt } = board.phase(id, settings)
  return { state: at, retryAt: at === 'closed' ? null : retryAt }
}

/**
 * The circuit of one key at one model. An attempt passes the model's own circuit too (an overloaded model is out with
 * every key), so the state is that of the one which is further from closed.
 */
const deploymentCircuit = (board: UpstreamHealth, settings: Settings, target: Candidate, key: ProviderKey): Circuit =>
  worse(
    circuitAt(board, settings, modelId(target)),
    circuitAt(board, settings, deploymentId({ candidate: target, key })),
  )

/** A model's circuit: open when it is open on every key. */
const modelCircuit = (board: UpstreamHealth, settings: Settings, target: Candidate): Circuit =>
  sum(target.instance.keys.map((key) => deploymentCircuit(board, settings, target, key)))

/** Closed while any of them is; else half open if any is; else open. */
const sum = (circuits: readonly Circuit[]): Circuit => {
  if (circuits.length === 0 || circuits.some(({ state }) => state === 'closed')) return CLOSED
  const state = circuits.some(({ state: one }) => one === 'half_open') ? 'half_open' : 'open'
  const times = circuits.map(({ retryAt }) => retryAt).filter((at) => at !== null)
  return { state, retryAt: times.length === 0 ? null : Math.min(...times) }
}

const CLOSED: Circuit = { state: 'closed', retryAt: null }
const RANK = { closed: 0, half_open: 1, open: 2 } as const satisfies Record<State, number>

/** Of two circuits that an attempt passes one after the other: the one that keeps it out longer. */
const worse = (one: Circuit, other: Circuit): Circuit => {
  if (RANK[one.state] !== RANK[other.state]) return RANK[one.state] > RANK[other.state] ? one : other
  return (one.retryAt ?? 0) >= (other.retryAt ?? 0) ? one : other
}

const statusOf = (board: UpstreamHealth, { state, retryAt }: Circuit, resting: boolean) => ({
  status: state === 'open' || resting ? 'unavailable' : state === 'half_open' ? 'degraded' : 'available',
  circuit: { state, retry_at: board.iso(retryAt) },
})

/** A model, and each key at it: a deployment. */
const modelStatus = (board: UpstreamHealth, settings: Settings, target: Candidate) => ({
  id: target.model,
  ...statusOf(board, modelCircuit(board, settings, target), board.cooldown(modelId(target)) !== undefined),
  keys: target.instance.keys.map((key) => {
    const gate = board.cooldown(deploymentId({ candidate: target, key }))
    const { state, retryAt } = deploymentCircuit(board, settings, target, key)
    return {
      id: key.id,
      status: gate?.why ?? 'active',
      until: gate ? board.iso(gate.until) : null,
      circuit: { state, retry_at: board.iso(retryAt) },
    }
  }),
})

const STATUSES: ReadonlySet<string> = new Set(['rate_limited', 'quota_exhausted', 'suspended', 'disabled'])

const keyStatus = (board: UpstreamHealth, instance: Instance, key: ProviderKey, models: readonly string[]) => {
  const own = board.cooldown(keyId(instance, key))
  // A limit holds for a key at a model; the key is limited when it is so at every model in use.
  const perModel = models.map((model) => board.cooldown(deploymentId({ candidate: candidate(instance, model), key })))
  const limited =
    perModel.length > 0 && perModel.every((gate) => gate?.why === 'rate_limited') ? perModel[0] : undefined
  const gate = own ?? limited
  const identity = identityOf(instance, key)
  return {
    id: key.id,
    // No key: the identity of the machine, of this cloud.
    ...(identity && { signed_in_by: identity.cloud }),
    status: gate && STATUSES.has(gate.why) ? gate.why : 'active',
    in_flight: board.inFlight(instance, key),
    requests: board.requests(instance, key),
    until: gate ? board.iso(gate.until) : null,
  }
}

const candidate = (instance: Instance, model: string): Candidate => ({ instance, model, because: '', weight: 1 })

const deployments = (instance: Instance, model: string): string[] =>
  instance.keys.map((key) => deploymentId({ candidate: candidate(instance, model), key }))
