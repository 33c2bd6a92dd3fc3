import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultSettings } from '../../test/support/settings.ts'
import { measureLoad } from './load.ts'

test('load: watches closely only while there are model calls', (context) => {
  context.mock.timers.enable({ apis: ['setInterval'] })
  let inFlight = 0
  const changes: string[] = []
  const whileBusy = () => {
    changes.push('busy')
    return () => changes.push('idle')
  }
  const load = measureLoad({ inFlight: () => inFlight, whileBusy })
  const seconds = (count: number) => context.mock.timers.tick(count * 1_000)
  const call = () => assert.equal(load.shedding(0, defaultSettings.limit), null)
  seconds(10)
  assert.deepEqual(changes, [], 'an idle process does not start it')
  call()
  call()
  seconds(4)
  call()
  seconds(5)
  assert.deepEqual(changes, ['busy'])
  seconds(1)
  assert.deepEqual(changes, ['busy', 'idle'])
  call()
  inFlight = 1
  seconds(60)
  assert.deepEqual(changes, ['busy', 'idle', 'busy'], 'a long stream')
  load.stop()
  load.stop()
  assert.deepEqual(changes, ['busy', 'idle', 'busy', 'idle'])
})
