import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TransitionLog } from './transition-log.ts'

const circuit = { event: 'circuit', from: 'closed', to: 'open', why: 'timeout' } as const

test('names the provider, the key and the model of each scope', () => {
  const log = new TransitionLog(() => 5)
  log.observe({ ...circuit, what: 'endpoint', name: 'http://a/v1' })
  log.observe({ ...circuit, what: 'model', name: 'a a model' })
  log.observe({ ...circuit, what: 'deployment', name: 'a f00d a model', request: 'req_1' })
  log.observe({ event: 'key', provider: 'a', key: 'f00d', from: 'active', to: 'suspended', until: null })
  log.observe({ event: 'error', error: new Error('x') })
  const found = log.between({ from: 0, to: 6 }, 10)
  assert.deepEqual(
    found.map(({ what, provider, credential, model, base_url }) => [what, provider, credential, model, base_url]),
    [
      ['endpoint', null, null, null, 'http://a/v1'],
      ['model', 'a', null, 'a model', null],
      ['deployment', 'a', 'f00d', 'a model', null],
      ['key', 'a', 'f00d', null, null],
    ],
  )
  assert.equal(found[2]?.request, 'req_1')
})

test('keeps the newest ones, and returns those of a range', () => {
  let now = 0
  const log = new TransitionLog(() => now)
  for (now = 0; now < 10_000; now++) log.observe({ ...circuit, what: 'model', name: 'a m' })
  const all = log.between({ from: 0, to: 20_000 }, 100_000)
  assert.ok(all.length >= 2_000 && all.length <= 3_000, String(all.length))
  assert.equal(all.at(-1)?.at, 9_999)
  assert.deepEqual(
    log.between({ from: 9_990, to: 9_995 }, 2).map(({ at }) => at),
    [9_993, 9_994],
  )
})
