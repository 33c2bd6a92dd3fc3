import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { ClaudeMatch, ClaudeReceiver } from '../../core/claude.ts'
import type { JsonObject } from '../../core/json.ts'
import { type ClaudePerson, managedSettings, mergeSettings, sortedJson } from './managed-settings.ts'

type RecordedSet = {
  readonly address: string
  readonly telemetry: boolean
  readonly base: JsonObject
  readonly policies: readonly JsonObject[]
  readonly received: readonly { readonly checksum: string; readonly settings: JsonObject }[]
}

const ALL: ClaudeMatch = { groups: null, domains: null, teams: null }
const person = (more: Partial<ClaudePerson> = {}): ClaudePerson => ({ email: null, groups: [], team: null, ...more })
const checksumOf = (settings: JsonObject) => `sha256:${createHash('sha256').update(sortedJson(settings)).digest('hex')}`

const file = join(
  import.meta.dirname,
  '..',
  '..',
  '..',
  'test',
  'conformance',
  'claude-gateway',
  'data',
  'settings.json',
)
const { sets, source } = JSON.parse(readFileSync(file, 'utf8')) as {
  readonly source: string
  readonly sets: readonly RecordedSet[]
}

test(`managed settings: 200 sets of policies give the settings and checksums of ${source}`, () => {
  let compared = 0
  for (const { address, telemetry, base, policies, received } of sets) {
    const receivers: readonly ClaudeReceiver[] = telemetry
      ? [{ url: 'http://127.0.0.1:9', headers: {}, signals: ['metrics', 'traces'] }]
      : []
    const all = [
      { match: ALL, settings: base },
      ...policies.map((settings, index) => ({ match: { ...ALL, groups: [`g${index}`] }, settings })),
    ]
    for (const [index, expected] of received.entries()) {
      const found = managedSettings({ policies: all, receivers }, person({ groups: [`g${index}`] }), address)
      assert.deepEqual(found?.settings, expected.settings)
      assert.equal(checksumOf(found?.settings ?? {}), expected.checksum)
      compared++
    }
  }
  assert.equal(compared, 200)
})

test('managed settings: the first policy that matches counts, above all that are for everyone', () => {
  const policies = [
    { match: { ...ALL, groups: ['a'] }, settings: { model: 'first' } },
    { match: { ...ALL, groups: ['a', 'b'] }, settings: { model: 'second' } },
    { match: ALL, settings: { model: 'base', cleanupPeriodDays: 7 } },
    { match: ALL, settings: { cleanupPeriodDays: 30 } },
  ]
  const of = (groups: readonly string[]) => managedSettings({ policies, receivers: [] }, person({ groups }), '')
  assert.deepEqual(of(['b', 'a']), { settings: { model: 'first', cleanupPeriodDays: 30 }, rules: [2, 3, 0] })
  assert.deepEqual(of(['b'])?.rules, [2, 3, 1])
  assert.deepEqual(of([]), { settings: { model: 'base', cleanupPeriodDays: 30 }, rules: [2, 3] })
})

test('managed settings: every part of a match must hold', () => {
  const policies = [
    { match: { groups: ['a'], domains: ['corp.example'], teams: ['search'] }, settings: { model: 'x' } },
  ]
  const team = { id: 'team_1', name: 'search' }
  const found = (more: Partial<ClaudePerson>) => managedSettings({ policies, receivers: [] }, person(more), '') !== null
  const whole = { groups: ['a'], email: 'Ann@CORP.example', team }
  assert.ok(found(whole))
  assert.ok(found({ ...whole, team: { id: 'search', name: 'renamed' } }))
  for (const less of [
    { groups: ['A'] },
    { groups: [] },
    { email: 'ann@corp.example.evil' },
    { email: 'corp.example' },
    { email: null },
    { email: 'ann@corp.example@evil.example' },
    { team: null },
    { team: { id: 'team_2', name: 'Search' } },
  ])
    assert.ok(!found({ ...whole, ...less }), JSON.stringify(less))
})

test('managed settings: no policy and no receiver is no policy, an empty one is an empty policy', () => {
  assert.equal(managedSettings({ policies: [], receivers: [] }, person(), ''), null)
  const empty = managedSettings({ policies: [{ match: ALL, settings: {} }], receivers: [] }, person(), '')
  assert.deepEqual(empty, { settings: {}, rules: [0] })
})

test('managed settings: a variable of a policy replaces that of telemetry', () => {
  const receivers: readonly ClaudeReceiver[] = [{ url: 'http://a', headers: {}, signals: ['logs'] }]
  const policies = [{ match: ALL, settings: { env: { OTEL_LOGS_EXPORTER: 'none', A: '1' } } }]
  const { env } = managedSettings({ policies, receivers }, person(), 'https://gateway')?.settings ?? {}
  assert.deepEqual(env, {
    CLAUDE_CODE_ENABLE_TELEMETRY: '1',
    OTEL_METRICS_EXPORTER: 'none',
    OTEL_LOGS_EXPORTER: 'none',
    OTEL_TRACES_EXPORTER: 'none',
    OTEL_EXPORTER_OTLP_ENDPOINT: 'https://gateway',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
    A: '1',
  })
})

test('managed settings: what denies is never lost, and names cannot reach a prototype', () => {
  const evil = JSON.parse('{"__proto__":{"deny":[]},"env":{"__proto__":"x"}}') as JsonObject
  const merged = mergeSettings({ permissions: { deny: ['A'], allow: ['X'] }, deniedModels: ['m'] }, evil)
  assert.deepEqual(merged.permissions, { deny: ['A'], allow: ['X'] })
  assert.deepEqual(merged.deniedModels, ['m'])
  assert.equal(Object.getPrototypeOf(merged), Object.prototype)
  const emptied = mergeSettings({ permissions: { deny: ['A'], ask: ['B'] } }, { permissions: { deny: [], ask: [] } })
  assert.deepEqual(emptied.permissions, { deny: ['A'], ask: ['B'] })
})
