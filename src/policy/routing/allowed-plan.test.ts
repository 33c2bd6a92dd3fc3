import assert from 'node:assert/strict'
import { test } from 'node:test'
import { load } from '../../../test/support/config.ts'
import { type Access, FULL_ACCESS } from '../../core/accounts.ts'
import { type DeclaredFacts, NO_REQUIRE, type Require } from '../../core/data-policy.ts'
import type { Instance } from '../../core/provider.ts'
import type { Candidate } from '../../core/target.ts'
import { type KeyAccessRules, keyAccessRules } from '../accounts/key-access.ts'
import { allowedDraft, modelNotAllowed, satisfyingDraft, styleNotAllowed } from './allowed-plan.ts'
import type { PlanDraft } from './plan.ts'

const instance = (id: string): Instance => ({
  id,
  provider: { name: id, title: id, order: 1, speaks: [{ protocol: 'openai-chat' }], auth: 'none' },
  baseUrl: `http://${id}.example`,
  keys: [],
  models: [],
  speaks: [{ protocol: 'openai-chat' }],
  variables: {},
})
const at = (provider: string, model: string): Candidate => ({
  instance: instance(provider),
  model,
  because: '',
  weight: 1,
})
const draft = (rest: Partial<PlanDraft> = {}): PlanDraft => ({
  by: 'route',
  groups: [
    { candidates: [at('a', 'one'), at('b', 'two')], strategy: 'priority', own: true },
    { candidates: [at('a', 'three'), at('b', 'four')], strategy: 'priority', own: false },
  ],
  repeats: false,
  onlyFirst: false,
  isConditional: false,
  skipped: [
    { provider: 'a', model: 'five', why: '' },
    { provider: 'b', model: 'six', why: '' },
  ],
  ...rest,
})
const rules = (access: Partial<Access>) => keyAccessRules([{ ...FULL_ACCESS, ...access }])
const CONFIG = { instances: [instance('a'), instance('b')] }
const allowed = (of: PlanDraft, limits: KeyAccessRules, requested: string | null) =>
  allowedDraft(of, { rules: limits, requested, config: CONFIG })
const left = (found: PlanDraft | null) =>
  found && {
    targets: found.groups.map(({ candidates }) => candidates.map(({ model }) => model)),
    skipped: found.skipped.map(({ model }) => model),
  }

test('allowed plan: targets of a provider that the key may not use are left out, also of those skipped', () => {
  assert.deepEqual(left(allowed(draft(), rules({ providers: ['a'] }), 'fast')), {
    targets: [['one'], ['three']],
    skipped: ['five'],
  })
})

test('allowed plan: an allowed name allows its own targets, and none for failover', () => {
  assert.deepEqual(left(allowed(draft(), rules({ models: ['fast', 'five'] }), 'fast')), {
    targets: [['one', 'two'], []],
    skipped: ['five'],
  })
  assert.deepEqual(left(allowed(draft(), rules({ models: ['fast', 'four'] }), 'fast'))?.targets, [
    ['one', 'two'],
    ['four'],
  ])
})

test('allowed plan: the name does not count where the default was taken', () => {
  assert.equal(allowed(draft({ by: 'default' }), rules({ models: ['fast'] }), 'fast'), null)
  assert.equal(allowed(draft(), rules({ models: ['fast'] }), null), null)
})

test('allowed plan: the name of a provider allows no model of another that begins with it', () => {
  const others = draft({
    groups: [{ candidates: [at('b', 'a/one'), at('a', 'one')], strategy: 'priority', own: true }],
  })
  assert.deepEqual(left(allowed(others, rules({ models: ['a/*'] }), 'fast'))?.targets, [['one']])
  assert.deepEqual(left(allowed(others, rules({ models: ['b/a/*'] }), 'fast'))?.targets, [['a/one']])
  assert.deepEqual(left(allowed(others, rules({ models: ['*', '!a/*'] }), 'fast')), null)
  // Of a provider that does not exist it is a part of the model's name.
  const maker = draft({ groups: [{ candidates: [at('b', 'maker/one')], strategy: 'priority', own: true }] })
  assert.deepEqual(left(allowed(maker, rules({ models: ['maker/*'] }), 'fast'))?.targets, [['maker/one']])
})

test('allowed plan: targets for failover alone are no plan', () => {
  assert.equal(allowed(draft(), rules({ models: ['three', 'four'] }), 'fast'), null)
})

test('allowed plan: the failure names near models, else the first three, else the operator', () => {
  const message = (model: string, names: readonly string[]) => modelNotAllowed(model, names).message
  assert.equal(
    message('gpt-5.4-mni', ['gpt-5.4-mini', 'claude']),
    'This key may not use the model "gpt-5.4-mni". It may use "gpt-5.4-mini"; GET /v1/models lists all.',
  )
  assert.match(message('zzz', ['aaaa', 'bbbb', 'cccc', 'dddd']), /It may use "aaaa" or "bbbb" or "cccc"; GET/)
  assert.match(message('zzz', []), /It may use no model that is configured; the operator sets its access\./)
  const failure = modelNotAllowed('zzz', [])
  assert.deepEqual([failure.kind, failure.param], ['model_not_allowed', 'model'])
  const style = styleNotAllowed('messages')
  assert.deepEqual(
    [style.kind, style.message],
    ['style_not_allowed', 'This key may not use the API style "messages". The operator sets its access.'],
  )
})

const placed = (id: string, facts?: DeclaredFacts): Candidate => {
  const one = at(id, 'm')
  return facts ? { ...one, instance: { ...one.instance, facts } } : one
}
const refusal = (require: Partial<Require>, ...candidates: Candidate[]): string => {
  const found = satisfyingDraft(
    draft({ groups: [{ candidates, strategy: 'priority', own: true }] }),
    { ...NO_REQUIRE, ...require },
    'fast',
  )
  return found.ok ? '' : found.failure.message
}

test('allowed plan: a refusal by the data policy states the line that declares what is missing', () => {
  const require = { region: ['eu', 'local'], retention: 0, training: false } as const
  const message = refusal(
    require,
    placed('openai'),
    placed('mistral', { region: 'eu-fr' }),
    placed('groq', { region: 'us' }),
  )
  assert.match(
    message,
    /openai\/m \(region not declared\), mistral\/m \(retention not declared\), groq\/m \(region us\)\./,
  )
  const [, line = ''] = /adds to headgate\.yaml: (.*)$/.exec(message) ?? []
  assert.equal(
    line,
    'providers: { openai: { facts: { region: "eu", retention: 0, training: false } }, mistral: { facts: { retention: 0, training: false } } }',
  )
  const loaded = load({ env: { OPENAI_API_KEY: 'sk-1', MISTRAL_API_KEY: 'k-2' }, yaml: line })
  assert.ok(loaded.ok)
  const declared = loaded.config.instances.map(({ id, facts }) => placed(id, { region: 'eu', ...facts }))
  assert.equal(declared.length, 2)
  assert.equal(refusal(require, ...declared), '')
})

test('allowed plan: a refusal by the data policy has no line where what is declared is against it', () => {
  assert.doesNotMatch(refusal({ retention: 0 }, placed('openai', { retention: 30 })), /headgate\.yaml/)
  assert.doesNotMatch(refusal({ region: [] }, placed('openai')), /headgate\.yaml/)
})
