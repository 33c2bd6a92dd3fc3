import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Config } from '../../core/config.ts'
import { settingsSchema } from '../../core/settings.ts'
import { shareOf, weakened } from './share.ts'

const configOf = (settings: unknown): Config => ({
  settings: settingsSchema.parse(settings),
  instances: [],
  routes: new Map(),
})

const shares = [
  ['the whole', 1, { limit: { concurrent: 7 } }, { limit: { concurrent: 7 } }],
  ['what does not divide is rounded up', 2, { limit: { concurrent: 7 } }, { limit: { concurrent: 4 } }],
  ['one each at least', 4, { limit: { connections: 1 } }, { limit: { connections: 1 } }],
  ['off stays off', 4, { limit: { connectionsPerAddress: 0 } }, { limit: { connectionsPerAddress: 0 } }],
  ['memory', 4, { limit: { bufferedMegabytes: 512 } }, { limit: { bufferedMegabytes: 128 } }],
  ['what one request may be', 4, { limit: { body: 1_000 } }, { limit: { body: 1_000 } }],
  ['repeats', 2, { retry: { budgetFloor: 0 } }, { retry: { budgetFloor: 0 } }],
  [
    'repeats of a share',
    2,
    { retry: { budgetFloor: 3, budgetPercent: 20 } },
    { retry: { budgetFloor: 2, budgetPercent: 20 } },
  ],
  ['kept answers', 2, { idempotency: { maxMegabytes: 64 } }, { idempotency: { maxMegabytes: 32 } }],
  ['the disk is everybody’s', 2, { responses: { maxMegabytes: 64 } }, { responses: { maxMegabytes: 64 } }],
] as const

for (const [name, workers, given, expected] of shares)
  test(`a worker's share: ${name}`, () => {
    const { settings } = shareOf(configOf(given), workers)
    // The sections of the table are those of the settings.
    for (const [section, values] of Object.entries(expected))
      assert.partialDeepStrictEqual(settings[section as keyof typeof expected], values)
  })

test("a worker's share: of everything else nothing is different, and nothing can be changed", () => {
  const config = configOf({ limit: { concurrent: 8 }, hosts: ['a'] })
  const { settings } = shareOf(config, 2)
  const { concurrent } = settings.limit
  assert.equal(concurrent, 4)
  assert.throws(() => Object.assign(settings.limit, { concurrent: 1 }), TypeError)
  const whole = shareOf(config, 1)
  assert.deepEqual(whole, config)
})

const weak = [
  ['as it comes', {}, /Idempotency-Key/],
  ['nothing kept', { idempotency: { keep: 0 } }, undefined],
  ['equal ones joined', { idempotency: { keep: 0 }, coalesce: true }, /coalesce/],
  ['both', { coalesce: true }, /Idempotency-Key.* and .*coalesce/],
] as const
for (const [name, settings, said] of weak)
  test(`what holds for one worker only: ${name}`, () => {
    const [line, ...more] = weakened(configOf(settings), 2)
    assert.equal(more.length, 0)
    if (said) assert.match(line ?? '', said)
    else assert.equal(line, undefined)
  })
