import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultSettings } from '../../../test/support/settings.ts'
import type { TargetOverride } from '../../core/target-override.ts'
import { cacheKeyText } from '../response-cache.ts'
import {
  overriddenBetas,
  overriddenLimit,
  overriddenSettings,
  overriddenTier,
  overriddenTimeouts,
  overrideText,
} from './override.ts'

test('override: a bound applies to the value of the client, and to an answer without a limit', () => {
  const most: TargetOverride = {
    set: { maxOutputTokens: { max: 100 }, effort: { max: 'medium' }, temperature: { min: 0.5 } },
  }
  const high = {
    effort: { value: 'high', at: 'reasoning_effort' },
    temperature: { value: 0.7, at: 'temperature' },
  } as const
  assert.deepEqual(overriddenSettings(high, most), {
    effort: { value: 'medium', at: 'reasoning_effort' },
    temperature: high.temperature,
    maxOutputTokens: { value: 100, at: 'set.maxOutputTokens' },
  })
  assert.equal(overriddenSettings({}, most).effort, undefined)
})

test('override: a default applies where the client is silent, also if its format has a default', () => {
  const override: TargetOverride = { default: { temperature: 0.2, store: false } }
  const own = { temperature: { value: 1, at: 'temperature' }, store: { value: true, at: '' } }
  assert.deepEqual(overriddenSettings(own, override), { ...own, store: { value: false, at: 'default.store' } })
})

test('override: what is reserved for an attempt follows the limit and the tier that it receives', () => {
  const raised: TargetOverride = { set: { maxOutputTokens: 64_000, serviceTier: 'flex' } }
  assert.equal(overriddenLimit(raised, 100), 64_000)
  assert.equal(overriddenLimit({ set: { maxOutputTokens: { max: 50 } } }, 100), 50)
  assert.equal(overriddenLimit({ remove: ['maxOutputTokens'] }, 100), undefined)
  assert.equal(overriddenLimit(undefined, 100), 100)
  assert.equal(overriddenTier(raised, 'priority'), 'flex')
  assert.equal(overriddenTier({ default: { serviceTier: 'flex' } }, 'priority'), 'priority')
  assert.equal(overriddenTier({ remove: ['serviceTier'] }, 'priority'), undefined)
})

test('override: betas are a list without repetitions', () => {
  assert.deepEqual(overriddenBetas(['a', 'b', 'a'], { add: ['c', 'b'], drop: ['a'] }), ['b', 'c'])
  assert.deepEqual(overriddenBetas([], { drop: ['a'] }), [])
})

test('override: settings without times of their own stay the same object', () => {
  assert.equal(overriddenTimeouts(defaultSettings, { retries: 1 }), defaultSettings)
  const own = overriddenTimeouts(defaultSettings, { timeout: { firstByte: 5, idle: 7 } })
  assert.deepEqual(
    [own.circuit.timeout, own.timeout.idle, own.timeout.firstContent],
    [5, 7, defaultSettings.timeout.firstContent],
  )
})

test('override: the text for operators names headers without their values', () => {
  const override: TargetOverride = {
    set: { effort: 'low', maxOutputTokens: { min: 5, max: 8_000 }, stop: ['a'] },
    timeout: { firstByte: 8_000 },
    retries: 1,
    headers: { 'x-team': 'hidden' },
    betas: { add: ['a'], drop: ['b'] },
  }
  assert.equal(
    overrideText(override),
    'set effort low; set maxOutputTokens at least 5, at most 8000; set stop ["a"]; firstByte 8000 ms; retries 1; headers x-team; betas +a, -b',
  )
})

test('override: answers of a target with other changes have another key in the response cache', () => {
  const keyWith = (override?: TargetOverride) =>
    cacheKeyText(
      {
        scope: 'key a',
        style: 'chat',
        facts: {},
        path: '/v1/chat/completions',
        query: '',
        forwarded: [],
        target: { provider: 'a', model: 'm', baseUrl: 'http://a.test/v1', override },
        revisions: [],
      },
      { model: 'fast', messages: [] },
    )
  const keys = [undefined, { set: { effort: 'low' } }, { set: { effort: 'high' } }, { extra: { x: 1 } }] as const
  assert.equal(new Set(keys.map(keyWith)).size, keys.length)
})
