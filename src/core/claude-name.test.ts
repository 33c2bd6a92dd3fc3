import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claudeName, cloudNames, withoutRegion } from './claude-name.ts'

const DATED = 'claude-sonnet-4-5-20250929'
const rows: readonly (readonly [model: string, id: string, name: string])[] = [
  [`us.anthropic.${DATED}-v1:0`, `anthropic.${DATED}-v1:0`, DATED],
  [`us-gov.anthropic.${DATED}-v1:0`, `anthropic.${DATED}-v1:0`, DATED],
  ['global.anthropic.claude-opus-4-7', 'anthropic.claude-opus-4-7', 'claude-opus-4-7'],
  ['anthropic.claude-opus-4-6-v1', 'anthropic.claude-opus-4-6-v1', 'claude-opus-4-6'],
  [`arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.${DATED}-v1:0`, `anthropic.${DATED}-v1:0`, DATED],
  ['claude-sonnet-4-5@20250929', 'claude-sonnet-4-5@20250929', DATED],
  ['anthropic/claude-sonnet-4-5', 'claude-sonnet-4-5', 'claude-sonnet-4-5'],
]
for (const [model, id, name] of rows)
  test(`claude names: ${model} is ${name}`, () => {
    assert.equal(withoutRegion(model), id)
    assert.equal(claudeName(model), name)
  })

test('claude names: a cloud name is tried as it is, then with less around it', () => {
  assert.deepEqual(cloudNames(`us.anthropic.${DATED}-v1:0`), [
    `us.anthropic.${DATED}-v1:0`,
    `anthropic.${DATED}-v1:0`,
    DATED,
    'claude-sonnet-4-5',
  ])
  assert.deepEqual(cloudNames('own-route'), ['own-route'])
})
