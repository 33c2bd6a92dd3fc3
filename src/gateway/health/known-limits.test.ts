import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance } from '../../../test/support/gateway.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import type { Catalogue } from '../../core/config.ts'
import { KnownLimits } from './known-limits.ts'

const catalogue: Catalogue = (provider, model) =>
  provider === 'a' && model === 'm' ? { contextWindow: 400, maxOutputTokens: 40, capabilities: ['tools'] } : undefined
const candidate = (model: string, stated?: number) => ({
  instance: {
    ...instance('a'),
    ...(stated !== undefined && { limits: new Map([[model, { contextWindow: stated }]]) }),
  },
  model,
  because: '',
  weight: 1,
})

test('a limit comes from the file, a refusal, the provider’s list or the catalogue, in this order', async () => {
  const world = stillWorld(() => {})
  const limits = new KnownLimits(world)
  assert.equal(limits.windowOf(catalogue, candidate('m')), 400)
  assert.equal(limits.windowOf(catalogue, candidate('other')), undefined)
  assert.equal(limits.factsOf(catalogue, candidate('other')), undefined)
  limits.list('a', new Map([['m', { contextWindow: 300 }]]))
  assert.deepEqual(limits.factsOf(catalogue, candidate('m')), {
    contextWindow: 300,
    maxOutputTokens: 40,
    capabilities: ['tools'],
    stated: { contextWindow: 300 },
  })
  limits.learn(candidate('m'), { contextWindow: 200 })
  assert.equal(limits.windowOf(catalogue, candidate('m')), 200)
  assert.equal(limits.windowOf(catalogue, candidate('other')), undefined)
  assert.equal(limits.windowOf(catalogue, candidate('m', 100)), 100)
  await world.advance(599_999)
  assert.equal(limits.windowOf(catalogue, candidate('m')), 200)
  await world.advance(1)
  assert.equal(limits.windowOf(catalogue, candidate('m')), 300)
})
