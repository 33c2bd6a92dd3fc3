/** Providers and routes without a usable target, for alerts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance } from '../../../test/support/gateway.ts'
import { defaultSettings } from '../../../test/support/settings.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import type { Config } from '../../core/config.ts'
import { type FailureKind, fail } from '../../core/failure.ts'
import type { Settings } from '../../core/settings.ts'
import { UpstreamHealth } from '../health/upstream-health.ts'
import { outagesOf } from './outages.ts'

type Outcome = readonly [provider: string, key: string, model: string, kind: FailureKind | 'ok']

/** The provider `groq` has two keys, `house` one; a circuit opens at the second failure in a row. */
const given = (outcomes: readonly Outcome[], rested?: string) => {
  const settings: Settings = {
    ...defaultSettings,
    circuit: { ...defaultSettings.circuit, consecutiveFailures: 2, slowStart: 0 },
  }
  const world = stillWorld()
  const health = new UpstreamHealth(world, () => {})
  const instances = [instance('groq', ['k1', 'k2']), instance('house')]
  const target = (provider: string, model?: string) => ({ provider, weight: 1, ...(model && { model }) })
  const route = (name: string, ...targets: readonly ReturnType<typeof target>[]) => ({ name, targets, fallback: [] })
  const routes = [
    route('one', target('groq', 'a')),
    route('both', target('groq', 'a'), target('house', 'x')),
    route('default', target('house')),
    { ...route('fallback', target('groq', 'a')), fallback: [target('house', 'x')] },
  ]
  const config: Config = { settings, instances, routes: new Map(routes.map((one) => [one.name, one])) }
  for (const [provider, id, model, kind] of outcomes) {
    const one = instances.find((each) => each.id === provider) ?? assert.fail()
    const key = one.keys.find((each) => each.id === id) ?? assert.fail()
    for (let n = 0; n < 2; n++) {
      const permit = health.admit(
        { candidate: { instance: one, model, because: '', weight: 1 }, key },
        settings,
        'warm',
      )
      if (!('failed' in permit)) continue
      if (kind === 'ok') {
        permit.commit(1)
        permit.done()
      } else permit.failed(fail(kind, 'x'))
    }
  }
  if (rested !== undefined)
    health.cooldowns.decide([{ provider: rested, key: null, until: Number.POSITIVE_INFINITY, reason: 'maintenance' }])
  const { providers, routes: closed } = outagesOf(health, config, ({ models }) => models[0])
  return `${providers.join(',')} | ${closed.join(',')}`
}

const down = (model: string): readonly Outcome[] => [
  ['groq', 'k1', model, 'timeout'],
  ['groq', 'k2', model, 'timeout'],
]

const cases: readonly (readonly [name: string, outcomes: readonly Outcome[], expected: string, rested?: string])[] = [
  ['nothing has failed', [], ' | '],
  ['a model is open with one of two keys', [['groq', 'k1', 'a', 'timeout']], ' | '],
  ['the only model in use is open with every key', down('a'), 'groq | one'],
  ['all models in use are open', [...down('a'), ...down('b')], 'groq | one'],
  ['another model answers', [['groq', 'k1', 'b', 'ok'], ...down('a')], ' | one'],
  ['another model has not answered', [['groq', 'k1', 'b', 'client_gone'], ...down('a')], 'groq | one'],
  ['the base URL is open', [['groq', 'k1', 'a', 'refused']], 'groq | one'],
  ['an overloaded model', [['groq', 'k1', 'a', 'overloaded']], 'groq | one'],
  [
    'every target of a route is open',
    [...down('a'), ['house', 'k1', 'x', 'timeout']],
    'groq,house | one,both,fallback',
  ],
  ['a target rests, the other one is open', [['house', 'k1', 'x', 'timeout']], 'house | one,both,fallback', 'groq'],
  ['the default model of a route is open', [['house', 'k1', 'm', 'timeout']], 'house | default'],
]
for (const [name, outcomes, expected, rested] of cases)
  test(`outages: ${name}`, () => assert.equal(given(outcomes, rested), expected))
