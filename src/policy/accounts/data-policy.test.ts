import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type DataFacts, type DeclaredFacts, NO_REQUIRE, type Require } from '../../core/data-policy.ts'
import {
  combined,
  dataFacts,
  lackOf,
  lackText,
  missingFacts,
  parseRequire,
  requestRequire,
  requireText,
  withoutPolicyMembers,
} from './data-policy.ts'

const lack = (require: Partial<Require>, facts: DeclaredFacts | undefined, model = 'm'): string | null => {
  const found = lackOf({ ...NO_REQUIRE, ...require }, { instance: facts ? { facts } : {}, model })
  return found && lackText(found)
}

const EU = { region: ['eu'] }

for (const [name, require, facts, expected] of [
  ['nothing is required', {}, undefined, null],
  ['a region contains its parts', EU, { region: 'eu-de' }, null],
  ['a region contains itself', EU, { region: 'eu' }, null],
  ['a label with the same beginning is no part', EU, { region: 'eur' }, 'region eur'],
  ['a part does not contain the whole', { region: ['eu-de'] }, { region: 'eu' }, 'region eu'],
  ['one of several regions', { region: ['us', 'local'] }, { region: 'local' }, null],
  ['no region is allowed', { region: [] }, { region: 'eu' }, 'region eu'],
  ['retention at the limit', { retention: 30 }, { retention: 30 }, null],
  ['retention above the limit', { retention: 0 }, { retention: 1 }, 'retention 1'],
  ['training', { training: false }, { training: true }, 'training yes'],
  ['no training', { training: false }, { training: false }, null],
  ['no facts', { training: false }, undefined, 'training not declared'],
  ['a missing region', EU, { retention: 0, training: false }, 'region not declared'],
  ['a missing retention', { retention: 30 }, { region: 'eu' }, 'retention not declared'],
  [
    'every fact counts',
    { ...EU, retention: 0, training: false },
    { region: 'eu', retention: 0 },
    'training not declared',
  ],
] as const satisfies readonly (readonly [string, Partial<Require>, DeclaredFacts | undefined, string | null])[])
  test(`data policy: ${name}`, () => assert.equal(lack(require, facts), expected))

const MIXED: DeclaredFacts = {
  region: 'us',
  retention: 30,
  models: { 'gpt-5-zdr*': { retention: 0 }, 'gpt-5*': { training: true }, 'gpt-old': { retention: 90 } },
}

for (const [model, expected] of [
  ['other', [{ region: 'us', retention: 30 }]],
  ['GPT-5-ZDR', [{ region: 'us', retention: 0 }]],
  ['gpt-5-zdr-2026-01-02', [{ region: 'us', retention: 0 }]],
  ['gpt-5-mini', [{ region: 'us', retention: 30, training: true }]],
  ['gpt-old', [{ region: 'us', retention: 90 }]],
  // A version of a model with worse facts may be that model.
  [
    'gpt-old-2025-08-07',
    [
      { region: 'us', retention: 30 },
      { region: 'us', retention: 90 },
    ],
  ],
  [
    'maker/gpt-5-zdr',
    [
      { region: 'us', retention: 30 },
      { region: 'us', retention: 0 },
    ],
  ],
] as const satisfies readonly (readonly [string, readonly DataFacts[]])[])
  test(`data policy: facts of the model ${model}`, () => assert.deepEqual(dataFacts({ facts: MIXED }, model), expected))

const LABELS = ['eu', 'eu-de', 'eu-de-be', 'us', 'local', 'eur']
const required: fc.Arbitrary<Require> = fc.record({
  region: fc.option(fc.uniqueArray(fc.constantFrom(...LABELS), { maxLength: 3 }), { nil: null }),
  retention: fc.option(fc.integer({ min: 0, max: 3 }), { nil: null }),
  training: fc.constantFrom(false as const, null),
})
const declared: fc.Arbitrary<DeclaredFacts> = fc.record(
  { region: fc.constantFrom(...LABELS), retention: fc.integer({ min: 0, max: 3 }), training: fc.boolean() },
  { requiredKeys: [] },
)

test('data policy: what is combined holds exactly if all of it holds', () =>
  fc.assert(
    fc.property(fc.array(required, { maxLength: 4 }), declared, (scopes, facts) => {
      const all = combined(...scopes)
      const holds = all === null || lack(all, facts) === null
      assert.equal(
        holds,
        scopes.every((one) => lack(one, facts) === null),
      )
    }),
  ))

test('data policy: the missing facts are those that make a target satisfy it, and there are none if it cannot', () =>
  fc.assert(
    fc.property(
      required,
      declared,
      fc.option(declared, { nil: undefined }),
      declared,
      (require, facts, ofModel, more) => {
        const before = { ...facts, ...(ofModel && { models: { m: ofModel } }) }
        const missing = missingFacts(require, { instance: { facts: before }, model: 'm' })
        if (missing) {
          assert.equal(lack(require, { ...missing, ...before }), null)
          assert.equal(Object.keys(missing).length === 0, lack(require, before) === null)
        } else assert.notEqual(lack(require, { ...more, ...before }), null)
      },
    ),
  ))

test('data policy: a requirement is the same after it was written and parsed', () =>
  fc.assert(
    fc.property(required, (one) => {
      fc.pre(one.region?.length !== 0 && combined(one) !== null)
      assert.deepEqual(parseRequire(requireText(one)), { ok: true, value: { ...one } })
    }),
  ))

for (const [header, why] of [
  ['', /no condition/],
  ['region', /no condition/],
  ['region=', /is no condition/],
  ['region=EU;retention=0;', null],
  ['region=eu,', /is no condition/],
  ['region=eu; region=us', /second condition/],
  ['retention=-1', /is no condition/],
  ['retention=1e3', /is no condition/],
  ['retention=99999', /is no condition/],
  ['training=yes', /is no condition/],
  ['training=no; colour=red', /is no condition/],
  [`region=${'a,'.repeat(500)}a`, /is no condition/],
] as const)
  test(`data policy: the header ${JSON.stringify(header.slice(0, 30))}`, () => {
    const parsed = requestRequire(header, {})
    if (why) assert.match(parsed.ok ? 'valid' : parsed.failure.message, why)
    else assert.ok(parsed.ok)
  })

const own = (provider: object) => {
  const found = requestRequire(undefined, { provider: { ...provider } })
  return found.ok ? found.value : found.failure.param
}

test("data policy: OpenRouter's members", () => {
  assert.deepEqual(own({ zdr: true }), { ...NO_REQUIRE, retention: 0 })
  assert.deepEqual(own({ data_collection: 'deny' }), { ...NO_REQUIRE, training: false })
  assert.deepEqual(own({ zdr: true, data_collection: 'deny' }), { ...NO_REQUIRE, retention: 0, training: false })
  assert.equal(own({ zdr: false, data_collection: 'allow', order: ['x'] }), null)
  // A misspelt wish must not be ignored.
  assert.equal(own({ zdr: 'true' }), 'provider.zdr')
  assert.equal(own({ data_collection: 'none' }), 'provider.data_collection')
})

test('data policy: its members are removed from the body, and nothing else', () => {
  const body = { model: 'm', provider: { zdr: true, data_collection: 'deny' } }
  assert.deepEqual(withoutPolicyMembers(body), { model: 'm' })
  assert.deepEqual(withoutPolicyMembers({ provider: { zdr: true, order: ['a'] } }), { provider: { order: ['a'] } })
  const other = { model: 'm', provider: { order: ['a'] } }
  assert.equal(withoutPolicyMembers(other), other)
})
