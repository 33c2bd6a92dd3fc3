/** `/providers/status`: shows every circuit, and its sums agree with their parts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance } from '../../../test/support/gateway.ts'
import { defaultSettings } from '../../../test/support/settings.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import type { Config } from '../../core/config.ts'
import { type FailureKind, fail } from '../../core/failure.ts'
import type { Settings } from '../../core/settings.ts'
import { UpstreamHealth } from '../health/upstream-health.ts'
import { providersStatus, standing } from './status.ts'

const MODELS = ['used', 'unused']
const KEYS = ['k1', 'k2']

/** A provider with two keys and two models whose circuits open at the second failure in a row. */
const given = (failures: readonly (readonly [key: string, model: string, kind: FailureKind])[]) => {
  const settings: Settings = {
    ...defaultSettings,
    circuit: { ...defaultSettings.circuit, consecutiveFailures: 2, resetTimeout: 60_000, slowStart: 0 },
  }
  const world = stillWorld()
  const health = new UpstreamHealth(world, () => {})
  const one = instance('p', KEYS)
  const config: Config = { settings, instances: [one], routes: new Map() }
  for (const [id, model, kind] of failures) {
    const key = one.keys.find((key) => key.id === id) ?? assert.fail()
    for (let n = 0; n < 2; n++) {
      const target = { candidate: { instance: one, model, because: '', weight: 1 }, key }
      const permit = health.admit(target, settings, 'normal')
      // A cooldown refuses the second.
      if ('failed' in permit) permit.failed(fail(kind, 'x'))
    }
  }
  const page = () => {
    const { data } = providersStatus(health, config, () => MODELS)
    // biome-ignore lint/suspicious/noExplicitAny: untyped JSON
    const [provider] = data as any
    return provider
  }
  return { health, config, world, page }
}

/** The page in one line: provider, base URL, then each model with its keys. */
// biome-ignore lint/suspicious/noExplicitAny: as above
const lineOf = ({ status, circuit, endpoint, models }: any): string =>
  [
    `${status} ${circuit.state}`,
    `url ${endpoint.status} ${endpoint.circuit.state}`,
    // biome-ignore lint/suspicious/noExplicitAny: as above
    ...models.map(({ id, status, circuit, keys }: any) => {
      // biome-ignore lint/suspicious/noExplicitAny: as above
      const each = keys.map((key: any) => `${key.id} ${key.status} ${key.circuit.state}`)
      return `${id} ${status} ${circuit.state} (${each.join(', ')})`
    }),
  ].join('; ')

const FINE = 'k1 active closed, k2 active closed'

const cases: readonly (readonly [string, Parameters<typeof given>[0], string])[] = [
  [
    'nothing has failed',
    [],
    `available closed; url available closed; used available closed (${FINE}); unused available closed (${FINE})`,
  ],
  [
    'the circuit of one key at one model is open',
    [['k1', 'used', 'timeout']],
    `degraded closed; url available closed; used available closed (k1 active open, k2 active closed); unused available closed (${FINE})`,
  ],
  [
    'a model is open when it is open on every key; one that was not requested counts as closed',
    [
      ['k1', 'used', 'timeout'],
      ['k2', 'used', 'timeout'],
    ],
    `degraded closed; url available closed; used unavailable open (k1 active open, k2 active open); unused available closed (${FINE})`,
  ],
  [
    'a provider is open when every model is',
    MODELS.flatMap((model) => KEYS.map((key) => [key, model, 'timeout'] as const)),
    'unavailable open; url available closed; used unavailable open (k1 active open, k2 active open); unused unavailable open (k1 active open, k2 active open)',
  ],
  [
    'an overloaded model is unavailable with every key, and cools down',
    [['k1', 'used', 'overloaded']],
    `degraded closed; url available closed; used unavailable open (k1 active open, k2 active open); unused available closed (${FINE})`,
  ],
  [
    'a provider is open when its base URL is',
    [['k1', 'used', 'reset']],
    `unavailable open; url unavailable open; used available closed (${FINE}); unused available closed (${FINE})`,
  ],
  [
    'a base URL may cool down without an open circuit',
    [['k1', 'used', 'tls']],
    `unavailable closed; url unavailable closed; used available closed (${FINE}); unused available closed (${FINE})`,
  ],
  [
    'a rate limit of one key at one model is shown',
    [['k1', 'used', 'rate_limited']],
    `degraded closed; url available closed; used available closed (k1 rate_limited closed, k2 active closed); unused available closed (${FINE})`,
  ],
]
for (const [name, failures, expected] of cases)
  test(`status: ${name}`, () => {
    const { page, health, config } = given(failures)
    assert.equal(lineOf(page()), expected)
    assert.equal(standing(health, config, () => MODELS).closed, page().circuit.state === 'closed' ? 1 : 0)
  })

test('status: the times of a circuit come from its open part, and a probe makes it half-open', async () => {
  const { page, world } = given(MODELS.flatMap((model) => KEYS.map((key) => [key, model, 'timeout'] as const)))
  const { circuit, models } = page()
  assert.ok(Date.parse(circuit.retry_at) > Date.parse(circuit.opened_at))
  assert.equal(models[0].keys[0].circuit.retry_at, circuit.retry_at)
  await world.advance(60_000)
  const after = page()
  assert.deepEqual([after.circuit.state, after.status], ['half_open', 'degraded'])
  assert.deepEqual([after.models[0].circuit.state, after.models[0].status], ['half_open', 'degraded'])
  assert.equal(after.models[0].keys[0].circuit.state, 'half_open')
})
