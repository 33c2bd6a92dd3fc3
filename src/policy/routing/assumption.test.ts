import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loaded } from '../../../test/support/config.ts'
import { assumedConfig, assumedRefusal, NO_ASSUMPTION } from './assumption.ts'

const { config } = loaded({
  env: {},
  yaml: `providers:
  alpha: { kind: openai, keys: [sk-alpha-one-0123456789] }
  beta: { kind: openai, keys: [sk-beta-one-0123456789] }
`,
})
const [alpha, beta] = config.instances
assert.ok(alpha && beta)

test('providers that are assumed to be missing are not in the configuration', () => {
  assert.equal(assumedConfig(config, NO_ASSUMPTION), config)
  assert.deepEqual(assumedConfig(config, { ...NO_ASSUMPTION, without: ['alpha'] }).instances, [beta])
})

test('a provider is down with all its keys, and a limit may concern one key', () => {
  const [key] = alpha.keys
  assert.ok(key)
  const target = { candidate: { instance: alpha, model: 'm', because: '', weight: 1 }, key }
  assert.equal(assumedRefusal(NO_ASSUMPTION, target), null)
  assert.equal(assumedRefusal({ ...NO_ASSUMPTION, down: ['alpha'], limited: ['alpha'] }, target), 'assumed_down')
  assert.equal(assumedRefusal({ ...NO_ASSUMPTION, limited: [`alpha#${key.id}`] }, target), 'assumed_limited')
  assert.equal(assumedRefusal({ ...NO_ASSUMPTION, down: ['beta'], limited: ['alpha#ffff'] }, target), null)
})
