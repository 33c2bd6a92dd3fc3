/** Gauges for the metrics page: circuits, keys and load at the time of the scrape. */
import { keyId } from '../core/target.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { HealthProblem } from '../gateway/handlers/pages.ts'
import type { LoadMeter } from '../runtime/load.ts'
import type { Reading } from './registry.ts'

const STATES = { closed: 0, half_open: 1, open: 2 } as const

/** Load of the process, as used for admission control. */
export const loadReadings = (
  { held, delay }: LoadMeter,
  { connections }: { readonly connections: () => number },
): Reading[] => [
  { name: 'connections', help: 'Client connections.', labels: {}, value: connections() },
  { name: 'buffered_bytes', help: 'Bytes buffered for requests and answers.', labels: {}, value: held.bytes() },
  {
    name: 'event_loop_delay_seconds',
    help: 'Timer lateness in the last second, p99.',
    labels: {},
    value: delay() / 1000,
  },
]

/** State of the stores and the configuration, as reported by `/health`. `isShared`: limits are shared with other gateways. */
export const healthReadings = (problems: readonly HealthProblem[], isShared: boolean): Reading[] => {
  const ok = (component: HealthProblem['component']) => (problems.some((one) => one.component === component) ? 0 : 1)
  return [
    {
      name: 'store_ok',
      help: 'Whether responses can be stored: 1 yes, 0 no (see /health).',
      labels: {},
      value: ok('store'),
    },
    {
      name: 'ledger_ok',
      help: 'Whether usage can be recorded and stored: 1 yes, 0 no (see /health).',
      labels: {},
      value: ok('ledger'),
    },
    {
      name: 'store_up',
      help: 'Whether a store works: 1 yes, 0 no (see /health).',
      labels: { store: 'responses' },
      value: ok('store'),
    },
    {
      name: 'store_up',
      help: 'Whether a store works: 1 yes, 0 no (see /health).',
      labels: { store: 'usage' },
      value: ok('ledger'),
    },
    {
      name: 'store_up',
      help: 'Whether a store works: 1 yes, 0 no (see /health).',
      labels: { store: 'control' },
      value: ok('control'),
    },
    ...(isShared
      ? [
          {
            name: 'store_up',
            help: 'Whether a store works: 1 yes, 0 no (see /health).',
            labels: { store: 'limits' },
            value: ok('limits'),
          },
        ]
      : []),
    {
      name: 'config_reload_ok',
      help: 'Whether the configuration on disk is in use: 0 if the last reload was refused (see /health), otherwise 1.',
      labels: {},
      value: ok('config'),
    },
  ]
}

export const readingsOf = (gateway: Gateway): Reading[] => {
  const { health } = gateway
  const { instances, settings } = gateway.config()
  const readings: Reading[] = [
    { name: 'in_flight', help: 'Model calls in flight.', labels: {}, value: gateway.activeCalls.size },
  ]
  readings.push({
    name: 'cache_bytes',
    help: 'Memory of the response cache.',
    labels: {},
    value: gateway.cache.bytes,
  })
  const add = (name: string, help: string, labels: Reading['labels'], value: number) => {
    readings.push({ name, help, labels, value })
  }
  for (const instance of instances) {
    const provider = instance.id
    const state = STATES[health.circuits.wayPhase(instance, settings.circuit).state]
    add(
      'circuit_state',
      'Circuit breaker of an endpoint, or of the proxy in front of it: 0 closed, 1 half open, 2 open.',
      { provider },
      state,
    )
  }
  for (const instance of instances)
    for (const key of instance.keys) {
      const labels = { provider: instance.id, key: key.id }
      add(
        'key_active',
        'Whether a key is usable: 1 yes, 0 in cool-down.',
        labels,
        health.cooldowns.of(keyId(instance, key)) ? 0 : 1,
      )
    }
  for (const instance of instances)
    for (const key of instance.keys) {
      const labels = { provider: instance.id, key: key.id }
      add('key_in_flight', 'Calls in flight with a key.', labels, health.load.inFlight(instance, key))
    }
  return readings
}
