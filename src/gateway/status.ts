/** What `/providers/status` and `/health` say: sums over the board, nothing of their own. */
import type { Config } from '../core/config.ts'
import { rowOf } from '../core/failure.ts'
import type { JsonObject } from '../core/json.ts'
import type { Instance, ProviderKey } from '../core/provider.ts'
import type { Settings } from '../core/settings.ts'
import { type Candidate, deploymentId, endpointId, keyId, modelId } from '../core/target.ts'
import type { Board } from './board.ts'
import { identityOf } from './prepare.ts'

type State = 'closed' | 'open' | 'half_open'

export const providersStatus = (
  board: Board,
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
  board: Board,
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
  board: Board,
  settings: Settings,
  instance: Instance,
  models: readonly string[],
): JsonObject => {
  const circuit = circuitOf(board, settings, instance, models)
  const keys = instance.keys.map((key) => keyStatus(board, instance, key, models))
  const each = models.map((model) => modelStatus(board, settings, candidate(instance, model)))
  const out = circuit.state !== 'closed' || keys.every(({ status }) => status !== 'active')
  const somethingOut =
    keys.some(({ status }) => status !== 'active') || each.some(({ status }) => status !== 'available')
  const [p50 = null, p95 = null] = board.firstContent(instance)
  const last = board.lastError(instance)
  return {
    id: instance.id,
    kind: instance.provider.name,
    status: out ? 'unavailable' : somethingOut ? 'degraded' : 'available',
    circuit: { ...circuit },
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

/** A provider's circuit: open when its endpoint's is or every model's is; counted over the deployments. */
const circuitOf = (board: Board, settings: Settings, instance: Instance, models: readonly string[]) => {
  const endpoint = board.phase(endpointId(instance), settings)
  // A model nobody has asked for is no sign of health, unless that is so of all.
  const asked = models.filter((model) => board.models(instance).includes(model))
  const each = (asked.length > 0 ? asked : models).map((model) =>
    modelCircuit(board, settings, candidate(instance, model)),
  )
  const inner = sum(each)
  const state: State = endpoint.at !== 'closed' ? endpoint.at : inner.state
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
    retry_at: state === 'closed' ? null : board.iso(endpoint.retryAt ?? inner.retryAt),
  }
}

/** A model's circuit: its own at the provider, or open on every key. */
const modelCircuit = (
  board: Board,
  settings: Settings,
  target: Candidate,
): { state: State; retryAt: number | null } => {
  const own = board.phase(modelId(target), settings)
  if (own.at !== 'closed') return { state: own.at, retryAt: own.retryAt }
  const phases = deployments(target.instance, target.model).map((id) => {
    const { at, retryAt } = board.phase(id, settings)
    return { state: at, retryAt }
  })
  return sum(phases)
}

/** Closed while anything is; else half open if anything is; else open. */
const sum = (phases: readonly { state: State; retryAt: number | null }[]): { state: State; retryAt: number | null } => {
  if (phases.length === 0 || phases.some(({ state }) => state === 'closed')) return { state: 'closed', retryAt: null }
  const state = phases.some(({ state: one }) => one === 'half_open') ? 'half_open' : 'open'
  const times = phases.map(({ retryAt }) => retryAt).filter((at) => at !== null)
  return { state, retryAt: times.length === 0 ? null : Math.min(...times) }
}

const modelStatus = (board: Board, settings: Settings, target: Candidate) => {
  const circuit = modelCircuit(board, settings, target)
  const resting = board.gate(modelId(target)) !== undefined
  return {
    id: target.model,
    status:
      circuit.state === 'open' || resting ? 'unavailable' : circuit.state === 'half_open' ? 'degraded' : 'available',
    circuit: { state: circuit.state, retry_at: board.iso(circuit.retryAt) },
  }
}

const STATUSES: ReadonlySet<string> = new Set(['rate_limited', 'quota_exhausted', 'suspended', 'disabled'])

const keyStatus = (board: Board, instance: Instance, key: ProviderKey, models: readonly string[]) => {
  const own = board.gate(keyId(instance, key))
  // A limit holds for a key at a model; the key is limited when it is so at every model in use.
  const perModel = models.map((model) => board.gate(deploymentId({ candidate: candidate(instance, model), key })))
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
