import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { GatewayEvent } from '../core/trace.ts'
import { eventBus } from './event-bus.ts'

test('event bus: a listener that throws does not keep the event from the others', () => {
  const calls: string[] = []
  const bug = new Error('a bug')
  const listener = (name: string) => (event: GatewayEvent) => {
    calls.push(`${name} ${event.event}`)
    if (name === 'second') throw bug
  }
  const emit = eventBus([listener('first'), listener('second'), listener('third')], (error) => {
    assert.equal(error, bug)
    calls.push('onError')
  })
  emit({ event: 'error', error: 'x' })
  assert.deepEqual(calls, ['first error', 'second error', 'onError', 'third error'])
})
