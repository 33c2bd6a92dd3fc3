import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Config } from '../../core/config.ts'
import { settingsSchema } from '../../core/settings.ts'
import { shareOf, workerWarnings } from './share.ts'

const configOf = (settings: unknown): Config => ({
  settings: settingsSchema.parse(settings),
  instances: [],
  routes: new Map(),
})

const shares = [
  ['one worker', 1, { limit: { concurrent: 7 } }, { limit: { concurrent: 7 } }],
  ['what does not divide is rounded up', 2, { limit: { concurrent: 7 } }, { limit: { concurrent: 4 } }],
  ['at least one each', 4, { limit: { connections: 1 } }, { limit: { connections: 1 } }],
  ['off stays off', 4, { limit: { connectionsPerAddress: 0 } }, { limit: { connectionsPerAddress: 0 } }],
  ['memory', 4, { limit: { bufferedMegabytes: 512 } }, { limit: { bufferedMegabytes: 128 } }],
  ['limits per request are not divided', 4, { limit: { body: 1_000 } }, { limit: { body: 1_000 } }],
  ['a retry budget of 0', 2, { retry: { budgetFloor: 0 } }, { retry: { budgetFloor: 0 } }],
  [
    'a retry budget',
    2,
    { retry: { budgetFloor: 3, budgetPercent: 20 } },
    { retry: { budgetFloor: 2, budgetPercent: 20 } },
  ],
  ['stored responses', 2, { idempotency: { maxMegabytes: 64 } }, { idempotency: { maxMegabytes: 32 } }],
  ['the shared disk is not divided', 2, { responses: { maxMegabytes: 64 } }, { responses: { maxMegabytes: 64 } }],
] as const

for (const [name, workers, given, expected] of shares)
  test(`a worker's share: ${name}`, () => {
    const { settings } = shareOf(configOf(given), workers)
    // `expected` only has sections of the settings.
    for (const [section, values] of Object.entries(expected))
      assert.partialDeepStrictEqual(settings[section as keyof typeof expected], values)
  })

test("a worker's share: other settings are unchanged, and the result is frozen", () => {
  const config = configOf({ limit: { concurrent: 8 }, hosts: ['a'] })
  const { settings } = shareOf(config, 2)
  const { concurrent } = settings.limit
  assert.equal(concurrent, 4)
  assert.throws(() => Object.assign(settings.limit, { concurrent: 1 }), TypeError)
  const whole = shareOf(config, 1)
  assert.deepEqual(whole, config)
})

const warnings = [
  ['defaults', {}, undefined],
  ['coalescing', { coalesce: true }, /coalesce/],
] as const
for (const [name, settings, message] of warnings)
  test(`warning for features within one worker: ${name}`, () => {
    const [line, ...more] = workerWarnings(configOf(settings), 2)
    assert.equal(more.length, 0)
    if (message) assert.match(line ?? '', message)
    else assert.equal(line, undefined)
  })
