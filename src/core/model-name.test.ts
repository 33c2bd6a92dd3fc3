import assert from 'node:assert/strict'
import { test } from 'node:test'
import { modelName, modelNames } from './model-name.ts'

for (const [written, name] of [
  ['gpt-5', 'gpt-5'],
  ['GPT-5', 'gpt-5'],
  [' gpt-5\t', 'gpt-5'],
  ['\u00a0Gpt-5\u2003\n', 'gpt-5'],
  ['models/gemini-2.5-flash', 'gemini-2.5-flash'],
  ['Models/ Gemini-2.5-flash', 'gemini-2.5-flash'],
  ['ＧＰＴ－5', 'gpt-5'],
  ['gpt\u200b-5\ufeff', 'gpt-5'],
  ['', ''],
] as const)
  test(`model name: ${JSON.stringify(written)} is ${name}`, () => assert.equal(modelName(written), name))

for (const [written, of] of [
  ['gpt-5-2025-08-07', 'gpt-5'],
  ['gpt-5-latest', 'gpt-5'],
  ['GPT-5-Latest ', 'gpt-5'],
  ['claude-opus-4-20250514', 'claude-opus-4'],
  ['claude-opus-4@20250514', 'claude-opus-4-20250514'],
  ['claude-opus-4@20250514', 'claude-opus-4'],
  ['claude-opus-4-6@default', 'claude-opus-4-6'],
  ['gemini-2.0-flash-001', 'gemini-2.0-flash'],
  ['google/gemini-2.5-flash', 'gemini-2.5-flash'],
  ['publishers/google/models/gemini-2.5-flash', 'gemini-2.5-flash'],
  ['us.anthropic.claude-sonnet-4-5-20250929-v1:0', 'anthropic.claude-sonnet-4-5-20250929-v1:0'],
  ['us.anthropic.claude-sonnet-4-5-20250929-v1:0', 'anthropic.claude-sonnet-4-5'],
  ['us.anthropic.claude-sonnet-4-5-20250929-v1:0', 'claude-sonnet-4-5'],
  ['eu.anthropic.claude-opus-5', 'anthropic.claude-opus-5'],
  ['apac.anthropic.claude-opus-5', 'anthropic.claude-opus-5'],
  ['us-gov.anthropic.claude-opus-5', 'anthropic.claude-opus-5'],
  ['Global.Anthropic.Claude-Opus-5', 'claude-opus-5'],
  ['anthropic.claude-opus-4-6-v1:0', 'anthropic.claude-opus-4-6'],
  ['anthropic.claude-3-opus-20240229-v1:0:200k', 'anthropic.claude-3-opus'],
  ['arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-opus-5', 'anthropic.claude-opus-5'],
  ['arn:aws-us-gov:bedrock:us-gov-west-1::foundation-model/anthropic.claude-opus-5', 'claude-opus-5'],
  ['ft:gpt-4o-2024-08-06:org::id', 'gpt-4o-2024-08-06'],
  ['FT:GPT-4o:org:name:id', 'gpt-4o'],
  ['ft:gpt-4o-2024-08-06:org::id', 'gpt-4o'],
  ['gpt-4o-2024-08-06.ft-0123abcd', 'gpt-4o'],
  ['gpt-5/', 'gpt-5'],
  ['openai/gpt-5//', 'openai/gpt-5'],
  ['llama3:latest', 'llama3'],
  ['anthropic.claude-opus-4-6-v1:0', 'anthropic.claude-opus-4-6-v1'],
  ['anthropic.claude-opus-4-6-v1:0:1m', 'anthropic.claude-opus-4-6'],
] as const)
  test(`model name: ${written} is a version of ${of}`, () => {
    const { kin } = modelNames(written)
    assert.ok(kin.includes(of), kin.join())
  })

for (const name of [
  'gpt-5',
  'gpt-5.4',
  'gpt-5-mini',
  'o3',
  'claude-sonnet-4-6',
  'qwen2.5-72b-instruct',
  'grok-4.20-0309',
])
  test(`model name: ${name} is no version of another`, () => assert.deepEqual(modelNames(name).kin, []))

for (const [written, of] of [
  ['gpt-5:free', 'gpt-5'],
  ['Anthropic/Claude-Opus-5-20260501:thinking', 'anthropic/claude-opus-5-20260501'],
  ['anthropic/claude-opus-5-20260501:thinking', 'claude-opus-5'],
] as const)
  test(`model name: ${written} is a variant of ${of}, not a version`, () => {
    const { kin, variantOf } = modelNames(written)
    assert.ok(variantOf.includes(of), variantOf.join())
    assert.ok(!kin.includes(of), kin.join())
  })

test('model name: a size, a revision and a tuned model are no variants', () => {
  for (const name of ['llama3:8b', 'gpt-5', 'amazon.nova-pro-v1:0', 'ft:gpt-4o:org::id'])
    assert.deepEqual(modelNames(name).variantOf, [], name)
})

test('model name: a tuned model is recognised', () => {
  assert.deepEqual(
    ['ft:gpt-4o:org::id', 'gpt-4o.ft-abc', 'gpt-4o', 'us.anthropic.claude-opus-5'].map(
      (name) => modelNames(name).isTuned,
    ),
    [true, true, false, false],
  )
})
