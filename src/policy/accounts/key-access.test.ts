import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Access, type AccessList, FULL_ACCESS } from '../../core/accounts.ts'
import {
  accessListProblem,
  allowsAddress,
  allowsName,
  allowsTarget,
  countsTarget,
  keyAccessRules,
  restrictionsOf,
} from './key-access.ts'

const rules = (...parts: readonly Partial<Access>[]) =>
  keyAccessRules(parts.map((part) => ({ ...FULL_ACCESS, ...part })))

const names: readonly (readonly [team: AccessList, key: AccessList, name: string, allowed: boolean])[] = [
  [null, null, 'chat', true],
  [[], null, 'chat', false],
  [null, [], 'chat', false],
  [[], [], 'chat', false],
  [['chat'], null, 'chat', true],
  [['chat'], null, 'messages', false],
  [null, ['chat'], 'messages', false],
  [['chat', 'messages'], ['messages'], 'messages', true],
  [['chat', 'messages'], ['messages'], 'chat', false],
  [['chat'], ['messages'], 'chat', false],
  [['*'], null, 'chat', true],
  [['*', '!chat'], null, 'chat', false],
  [['*', '!chat'], null, 'messages', true],
  // A denial counts wherever it is in the list, and cannot be overridden by the key.
  [['!chat', '*'], null, 'chat', false],
  [['*', '!chat'], ['chat'], 'chat', false],
  [['!chat'], null, 'messages', false],
  [[''], null, 'chat', false],
  [['CHAT'], null, 'Chat', true],
  [['xchat', 'chat'], null, 'chat', true],
  [['!chat!', '*'], null, 'chat', true],
]
for (const dimension of ['routes', 'providers', 'styles'] as const)
  for (const [team, key, name, allowed] of names)
    test(`access: ${dimension} of team ${JSON.stringify(team)} and key ${JSON.stringify(key)} ${allowed ? 'allow' : 'refuse'} ${name}`, () =>
      assert.equal(allowsName(rules({ [dimension]: team }, { [dimension]: key })[dimension], name), allowed))

const targets: readonly (readonly [
  models: AccessList,
  requested: string | null,
  provider: string,
  model: string,
  allowed: boolean,
])[] = [
  [null, 'fast', 'openai', 'gpt-5-mini', true],
  [[], 'fast', 'openai', 'gpt-5-mini', false],
  [['fast'], 'fast', 'openai', 'gpt-5-mini', true],
  [['fast'], 'slow', 'openai', 'gpt-5-mini', false],
  [['openai/*'], 'fast', 'openai', 'gpt-5-mini', true],
  [['openai/*'], 'fast', 'groq', 'llama-3', false],
  [['openai/*'], 'gpt-5-mini', 'azure', 'gpt-5-mini', false],
  [['gpt-5-mini'], 'gpt-5-mini', 'azure', 'gpt-5-mini', true],
  [['claude-*'], 'anthropic/claude-haiku-5', 'anthropic', 'claude-haiku-5', true],
  // A deny by model name also applies to the qualified name, to a route, and in any case.
  [['*', '!claude-opus*'], 'anthropic/claude-opus-5', 'anthropic', 'claude-opus-5', false],
  [['*', '!claude-opus*'], 'ANTHROPIC/CLAUDE-OPUS-5', 'anthropic', 'CLAUDE-OPUS-5', false],
  [['*', '!claude-opus*'], 'best', 'anthropic', 'claude-opus-5', false],
  // Nor can it be avoided by another spelling, a version or a tuned model.
  ...(
    [
      ['openai', ' Claude-Opus-5 '],
      ['gemini', 'models/claude-opus-5'],
      ['vertex', 'anthropic/claude-opus-5'],
      ['vertex', 'claude-opus-5@20260501'],
      ['bedrock', 'us.anthropic.claude-opus-5'],
      ['bedrock', 'arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-5-v1:0'],
      ['openrouter', 'anthropic/claude-opus-5-latest'],
      ['openai', 'ft:claude-opus-5:org::id'],
    ] as const
  ).map(([provider, model]) => [['*', '!claude-opus-5'], null, provider, model, false] as const),
  // An allowed name allows its spellings, but no version, which may be another model or in another region.
  [['openai/gpt-5'], null, 'openai', ' GPT-5', true],
  [['models/gemini-2.5-flash'], null, 'gemini', 'gemini-2.5-flash', true],
  [['gpt-5'], null, 'openai', 'ft:gpt-5:org::id', false],
  [['eu.anthropic.*'], null, 'bedrock', 'us.anthropic.claude-opus-5', false],
  [['gpt-4o'], null, 'openai', 'gpt-4o-2024-05-13', false],
  [['*', '!anthropic/*'], 'claude-opus-5', 'bedrock', 'claude-opus-5', true],
  [['*', '!anthropic/*'], 'claude-opus-5', 'anthropic', 'claude-opus-5', false],
  [['fast', '!fast'], 'fast', 'openai', 'gpt-5-mini', false],
  // A name that the default route replaced allows nothing.
  [['claude-*'], null, 'openai', 'gpt-5', false],
  [['gpt-*'], null, 'openai', 'gpt-5', true],
]
for (const [models, requested, provider, model, allowed] of targets)
  test(`access: models ${JSON.stringify(models)} ${allowed ? 'allow' : 'refuse'} ${provider}/${model} for ${requested}`, () => {
    assert.equal(allowsTarget(rules({ models }), { requested, provider, model }), allowed)
    assert.equal(allowsTarget(rules({}, { models }), { requested, provider, model }), allowed)
  })

test('access: a target needs both its model and its provider', () => {
  const target = { requested: 'fast', provider: 'openai', model: 'gpt-5' }
  assert.equal(allowsTarget(rules({ models: ['fast'], providers: ['groq'] }), target), false)
  assert.equal(allowsTarget(rules({ models: ['fast'] }, { providers: ['open*'] }), target), true)
})

const addresses: readonly (readonly [team: AccessList, key: AccessList, address: string, allowed: boolean])[] = [
  [null, null, 'not an address', true],
  [['0.0.0.0/0', '::/0'], null, 'not an address', false],
  [[], null, '10.0.0.1', false],
  [['10.0.0.0/8'], null, '10.0.0.1', true],
  [['10.0.0.0/8'], null, '::ffff:10.0.0.1', true],
  [['10.0.0.0/8'], ['10.1.0.0/16'], '10.2.0.1', false],
  [['10.0.0.0/8'], ['10.1.0.0/16'], '10.1.0.1', true],
  [['10.0.0.0/8', '!10.0.0.5'], null, '10.0.0.5', false],
  [['10.0.0.0/8', '!10.0.0.5'], null, '10.0.0.6', true],
  [['!10.0.0.5'], null, '10.0.0.6', false],
  // Configuration refuses invalid ranges. If one is met here, it never allows.
  [['10.0.0.0/99'], null, '10.0.0.6', false],
  [['10.0.0.0/8', '!10.0.0.0/99'], null, '10.0.0.6', false],
]
for (const [team, key, address, allowed] of addresses)
  test(`access: ips of team ${JSON.stringify(team)} and key ${JSON.stringify(key)} ${allowed ? 'allow' : 'refuse'} ${address}`, () =>
    assert.equal(allowsAddress(rules({ ips: team }, { ips: key }), address), allowed))

test('access: a key never allows more than its team', () => {
  const list = fc.option(
    fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '*', '!'), minLength: 1, maxLength: 3 }), { maxLength: 3 }),
  )
  fc.assert(
    fc.property(list, list, fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 3 }), (team, key, name) => {
      const both = allowsName(rules({ styles: team }, { styles: key }).styles, name)
      const each = [team, key].map((styles) => allowsName(rules({ styles }).styles, name))
      assert.equal(both, each[0] && each[1])
    }),
    { numRuns: 2_000 },
  )
})

const problems: readonly (readonly [dimension: keyof Access, list: AccessList, problem: RegExp | null])[] = [
  ['models', null, null],
  ['models', [], null],
  ['models', ['openai/*', '!*opus*'], null],
  ['models', ['!*opus*'], /only denials.*"\*"/],
  ['models', ['a', ''], /"" is empty/],
  ['models', ['a', ' '], /" " is empty/],
  ['models', ['!'], /"!" is empty/],
  ['ips', ['10.0.0.0/8', '::1', '!10.0.0.1'], null],
  ['ips', ['10.0.0.0/33'], /"10\.0\.0\.0\/33" is not an IP address/],
  ['ips', ['!example.com'], /"!example\.com" is not/],
  ['ips', ['!10.0.0.1'], /only denials.*"0\.0\.0\.0\/0"/],
]
for (const [dimension, list, problem] of problems)
  test(`access: the problem of ${dimension} ${JSON.stringify(list)}`, () => {
    const found = accessListProblem(dimension, list)
    if (problem === null) assert.equal(found, null)
    else assert.match(found ?? '', problem)
  })

const COUNTED: readonly (readonly [models: AccessList, model: string, counts: boolean])[] = [
  [null, 'gpt-5-mini', true],
  [['gpt-5-mini'], 'gpt-5-mini', true],
  [['gpt-5-mini'], 'gpt-4o', false],
  // In doubt it counts: a version of a listed model, and of one that is left out.
  [['gpt-5-mini'], 'gpt-5-mini-2025-08-07', true],
  [['openai/gpt-5-mini'], 'gpt-5-mini-2025-08-07', true],
  [['*', '!gpt-5-mini'], 'gpt-5-mini-2025-08-07', true],
  [['*', '!gpt-5-mini'], 'gpt-5-mini', false],
]
for (const [models, model, isCounted] of COUNTED)
  test(`access: a budget of the models ${JSON.stringify(models)} ${isCounted ? 'counts' : 'does not count'} ${model}`, () =>
    assert.equal(countsTarget(rules({ models }), { requested: null, provider: 'openai', model }), isCounted))

test('access: a target must satisfy the lists of every owner', () => {
  const target = { requested: null, provider: 'openai', model: 'gpt-5-mini' }
  assert.equal(allowsTarget(rules({ models: ['gpt-5-mini'] }, { models: ['gpt-4o'] }), target), false)
  assert.equal(allowsTarget(rules({ models: ['gpt-*'] }, { models: ['gpt-5-mini'] }), target), true)
})

test('access: only routes may be named as soon as one owner lists routes and no models', () => {
  assert.equal(rules({}, { routes: ['fast'] }).routesOnly, true)
  assert.equal(rules({}, { routes: ['fast'], models: ['*'] }).routesOnly, false)
  assert.equal(rules({}, {}).routesOnly, false)
})

test('access: restrictions are prepared once, and there are none without a list', () => {
  const restricted = [FULL_ACCESS, { ...FULL_ACCESS, styles: ['chat'] }]
  assert.equal(restrictionsOf({ access: [] }), null)
  assert.equal(restrictionsOf({ access: [FULL_ACCESS] }), null)
  assert.equal(restrictionsOf({ access: [{ ...FULL_ACCESS, ips: ['10.0.0.0/8'] }] }), null)
  assert.ok(restrictionsOf({ access: restricted }))
  assert.equal(restrictionsOf({ access: restricted }), restrictionsOf({ access: restricted }))
})
