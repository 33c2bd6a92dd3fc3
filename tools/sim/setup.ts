/** The configuration of one seed: providers, keys, models, settings, routes. */
import type { Catalogue, Config } from '../../src/core/config.ts'
import type { Instance } from '../../src/core/provider.ts'
import type { Route } from '../../src/core/route.ts'
import { Secret } from '../../src/core/secret.ts'
import { type Settings, settingsSchema } from '../../src/core/settings.ts'
import { type Chance, drawing, integer, pick } from './chance.ts'
import type { Style } from './wires.ts'

const WIRES = { chat: 'openai-chat', responses: 'openai-responses', messages: 'anthropic-messages' } as const

export const MODELS = ['m0', 'm1'] as const

/** `fresh`: a separate random stream for later additions, so that existing seeds keep their configuration. */
const instance = (chance: Chance, fresh: Chance, n: number): Instance => {
  const id = `p${n}`
  const styles = pick<readonly [Style, ...Style[]]>(chance, [
    ['chat'],
    ['chat'],
    ['responses'],
    ['messages'],
    ['chat', 'responses'],
  ])
  const speaks = styles.map((style) => ({ protocol: WIRES[style] }))
  const header = styles.includes('messages') ? 'x-api-key' : 'authorization'
  const equal = chance() < 0.7
  return {
    id,
    provider: {
      name: id,
      title: id,
      order: n,
      speaks,
      auth: header === 'authorization' ? { header, prefix: 'Bearer ' } : { header },
      ...(fresh() < 0.6 && { supportsPrefill: { protocol: WIRES[styles[0]] } }),
    },
    baseUrl: `http://${id}.test/v1`,
    keys: Array.from({ length: integer(chance, 1, 3) }, (_, at) => ({
      id: `k${at}`,
      secret: new Secret(secretOf(id, `k${at}`)),
      weight: equal ? 1 : integer(chance, 1, 3),
    })),
    models: chance() < 0.6 ? MODELS : [pick(chance, MODELS)],
    speaks,
    variables: {},
    ...(fresh() < 0.25 && { aggregate: true }),
  }
}

/** A recognisable key. */
export const secretOf = (provider: string, key: string): string => `sk-canary-${provider}${key}-4f3c2b1a9d8e7f60`
export const CANARY = 'sk-canary-'

const strategies = drawing<Settings['strategy']>([
  ['priority', 5],
  ['weighted', 2],
  ['latency', 2],
  ['cost', 1],
])
const keyStrategies = drawing<Settings['keyStrategy']>([
  ['spread', 4],
  ['sticky', 1],
  ['round-robin', 2],
])
const allOpen = drawing<Settings['circuit']['whenAllOpen']>([
  ['probe', 4],
  ['fail', 1],
  ['try', 1],
])

const settings = (chance: Chance, fresh: Chance): Settings => {
  const drawn = settingsSchema.parse({
    circuit: {
      timeout: pick(chance, [2_000, 5_000, 5_000, 30_000, 0]),
      errorThreshold: pick(chance, [20, 50, 50, 100]),
      resetTimeout: pick(chance, [1_000, 5_000, 12_000, 30_000, 150_000]),
      window: pick(chance, [1_000, 10_000, 60_000, 60_000]),
      minRequests: pick(chance, [1, 2, 3, 5]),
      consecutiveFailures: pick(chance, [0, 1, 3, 5]),
      probes: pick(chance, [1, 1, 2, 3]),
      slowStart: pick(chance, [0, 1_000, 10_000, 60_000]),
      whenAllOpen: allOpen(chance),
    },
    retry: {
      maxAttempts: pick(chance, [1, 2, 3, 6, 6, 12]),
      budgetPercent: pick(chance, [0, 20, 20, 100]),
      budgetFloor: pick(chance, [0, 1, 3, 3, 50]),
    },
    timeout: {
      connect: pick(chance, [500, 5_000, 5_000]),
      firstContent: pick(chance, [3_000, 20_000, 120_000]),
      idle: pick(chance, [2_000, 10_000, 60_000]),
      contentIdle: pick(chance, [5_000, 30_000, 180_000]),
      request: pick(chance, [4_000, 20_000, 60_000, 600_000]),
      clientWrite: pick(chance, [1_000, 10_000, 120_000]),
    },
    keepAlive: { interval: pick(chance, [0, 1_000, 15_000]) },
    fallback: pick(chance, ['any', 'any', 'any', 'same-model', 'none']),
    unknownModel: pick(chance, ['route', 'route', 'reject']),
    strategy: strategies(chance),
    keyStrategy: keyStrategies(chance),
    hedge: { percent: pick(fresh, [0, 0, 20, 100]), delay: pick(fresh, [100, 1_000, 5_000]) },
    stream: { holdback: pick(fresh, [0, 0, 100, 2_000]), continue: fresh() < 0.4 },
    idempotency: { keep: pick(fresh, [0, 5_000, 600_000]), finish: pick(fresh, [0, 2_000, 60_000]) },
    coalesce: fresh() < 0.3,
  })
  return {
    ...drawn,
    circuit: { ...drawn.circuit, firstProbe: pick(fresh, [1_000, 10_000, 0]) },
    retry: { ...drawn.retry, sameModelWait: pick(fresh, [0, 500, 2_000, 2_000]) },
  }
}

export type Setup = {
  readonly config: Config
  readonly catalogue: Catalogue
  /** The configuration after a reload in the middle of the run, with the same circuits. */
  readonly swapped: Config
}

const routes = (chance: Chance, instances: readonly Instance[]): Config['routes'] => {
  const route = (name: string): Route => ({
    name,
    targets: instances.slice(0, 2).map(({ id }) => ({ provider: id, weight: integer(chance, 1, 3) })),
    fallback: [
      ...instances.slice(2).map(({ id, models }) => ({ provider: id, model: models[0] ?? 'm0', weight: 1 })),
      // Other models of the route's first providers: failover within a provider.
      ...instances
        .slice(0, 2)
        .flatMap(({ id, models }) => models.slice(1).map((model) => ({ provider: id, model, weight: 1 }))),
    ],
    ...(chance() < 0.5 && { strategy: strategies(chance) }),
  })
  return new Map(chance() < 0.5 ? [['fast', route('fast')]] : [])
}

export const draw = (chance: Chance, fresh: Chance): Setup => {
  const instances = Array.from({ length: integer(chance, 1, 3) }, (_, n) => instance(chance, fresh, n))
  const config: Config = { settings: settings(chance, fresh), instances, routes: routes(chance, instances) }
  const known = chance() < 0.5
  const catalogue: Catalogue = (provider, model) =>
    known && instances.some(({ id, models }) => id === provider && models.includes(model))
      ? {
          contextWindow: (model === 'm0' ? 8_000 : 32_000) * (provider === 'p2' ? 4 : 1),
          prices: { input: provider === 'p0' ? 30 : 10, output: 40 },
        }
      : undefined
  return { config, catalogue, swapped: swap(chance, fresh, config) }
}

/** Changes keys, providers and request settings. Circuit settings stay, since circuits are compared across the reload. */
const swap = (chance: Chance, fresh: Chance, config: Config): Config => {
  const other = settings(chance, fresh)
  const { circuit, retry, hedge } = config.settings
  const instances = config.instances.flatMap((provider) => {
    const fate = chance()
    if (fate < 0.2 && config.instances.length > 1) return []
    if (fate < 0.5 && provider.keys.length > 1) return [{ ...provider, keys: provider.keys.slice(1) }]
    return [{ ...provider }]
  })
  const left = chance() < 0.05 ? [] : instances
  return { settings: { ...other, circuit, retry, hedge }, instances: left, routes: routes(chance, left) }
}

/** A configuration with a single target. */
export const only = ({ settings }: Config, one: Instance, key: string, model: string): Config => ({
  settings: { ...settings, fallback: 'none' },
  instances: [{ ...one, keys: one.keys.filter(({ id }) => id === key), models: [model] }],
  routes: new Map(),
})
