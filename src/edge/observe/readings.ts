/** The state of things as the metrics page reads it: circuits, keys and load at the moment it is asked for. */
import { endpointId, keyId } from '../../core/target.ts'
import type { Gateway } from '../../gateway/handle.ts'
import type { HealthProblem } from '../../gateway/pages.ts'
import type { LoadMeter } from '../http/load.ts'
import type { Reading } from './metrics.ts'

const STATES = { closed: 0, half_open: 1, open: 2 } as const

/** What the process bears, as the door decides by it. */
export const loadReadings = (
  { held, delay }: LoadMeter,
  { connections }: { readonly connections: () => number },
): Reading[] => [
  { name: 'connections', help: 'Connections of clients.', labels: {}, value: connections() },
  { name: 'buffered_bytes', help: 'Bytes held for requests and answers.', labels: {}, value: held.bytes() },
  {
    name: 'event_loop_delay_seconds',
    help: 'By how much timers were late in the last second, p99.',
    labels: {},
    value: delay() / 1000,
  },
]

/** Whether what `/health` reports besides the providers works. */
export const healthReadings = (problems: readonly HealthProblem[]): Reading[] => {
  const ok = (component: HealthProblem['component']) => (problems.some((one) => one.component === component) ? 0 : 1)
  return [
    {
      name: 'store_ok',
      help: 'Whether responses can be stored: 1 yes, 0 no (see /health).',
      labels: {},
      value: ok('store'),
    },
    {
      name: 'config_reload_ok',
      help: 'Whether the last reload of the configuration was applied: 1 yes, 0 refused (see /health).',
      labels: {},
      value: ok('config'),
    },
  ]
}

export const readingsOf = (gateway: Gateway): Reading[] => {
  const { board } = gateway
  const { instances, settings } = gateway.config()
  const readings: Reading[] = [
    { name: 'in_flight', help: 'Model calls under way.', labels: {}, value: gateway.live.size },
  ]
  const add = (name: string, help: string, labels: Reading['labels'], value: number) => {
    readings.push({ name, help, labels, value })
  }
  for (const instance of instances) {
    const provider = instance.id
    const state = STATES[board.phase(endpointId(instance), settings).at]
    add('circuit_state', 'Circuit of a provider’s endpoint: 0 closed, 1 half open, 2 open.', { provider }, state)
  }
  for (const instance of instances)
    for (const key of instance.keys) {
      const labels = { provider: instance.id, key: key.id }
      add(
        'key_active',
        'Whether a key may be used: 1 yes, 0 resting.',
        labels,
        board.gate(keyId(instance, key)) ? 0 : 1,
      )
    }
  for (const instance of instances)
    for (const key of instance.keys) {
      const labels = { provider: instance.id, key: key.id }
      add('key_in_flight', 'Calls under way with a key.', labels, board.inFlight(instance, key))
    }
  return readings
}
