import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance } from '../../../test/support/gateway.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import type { Candidate } from '../../core/target.ts'
import { ProviderRefusals } from './provider-refusals.ts'

const a: Candidate = { instance: instance('a'), model: 'm', because: '', weight: 1 }

test('refusals: only models with a recent refusal need a comparison', async () => {
  const world = stillWorld()
  const refusals = new ProviderRefusals(world)
  assert.equal(refusals.hasRecent(a), false)
  refusals.noteMember(a, 'store')
  assert.equal(refusals.hasRecent(a), true)
  assert.equal(refusals.hasRecent({ ...a, model: 'other' }), false)
  assert.equal(refusals.hasRecent({ ...a, instance: instance('b') }), false)
  await world.advance(300_000)
  refusals.noteSignature(a, 'sealed')
  await world.advance(300_000)
  assert.deepEqual([refusals.hasMember(a, 'store'), refusals.hasSignature(a, 'sealed')], [false, true])
  assert.equal(refusals.hasRecent(a), true)
  await world.advance(300_000)
  assert.equal(refusals.hasRecent(a), false)
})
