import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance } from '../../../test/support/gateway.ts'
import { Issuers } from './issuers.ts'

const [openai, azure] = [instance('openai'), instance('azure')]

test('issuers: reasoning is kept from other endpoints than its issuer', () => {
  const issuers = new Issuers()
  assert.equal(issuers.isEmpty, true)
  assert.equal(issuers.isFromAnother('gAAAABone=', openai), false)
  issuers.note({ origin: 'openai-responses', value: 'gAAAABone=' }, openai)
  assert.equal(issuers.isEmpty, false)
  assert.equal(issuers.isFromAnother('gAAAABone=', openai), false)
  assert.equal(issuers.isFromAnother('gAAAABone=', azure), true)
  assert.equal(issuers.isFromAnother('gAAAABtwo=', azure), false)
})

// manaflow-ai/subrouter#259 and Soju06/codex-lb#2001 measured it: OpenAI accepts the reasoning of another account.
test('issuers: reasoning of another account at the same endpoint is tried', () => {
  const issuers = new Issuers()
  issuers.note({ origin: 'openai-responses', value: 'gAAAABone=' }, openai)
  assert.equal(issuers.isFromAnother('gAAAABone=', { ...azure, baseUrl: openai.baseUrl }), false)
})

test('issuers: signatures of other formats are not recorded, because they are labelled', () => {
  const issuers = new Issuers()
  issuers.note({ origin: 'anthropic-messages', value: 'EqoB' }, openai)
  assert.equal(issuers.isEmpty, true)
})

test('issuers: memory is bounded, and the most recent are known', () => {
  const issuers = new Issuers()
  for (let number = 0; number < 20_000; number++)
    issuers.note({ origin: 'openai-responses', value: `gAAAAB${number}=` }, openai)
  assert.equal(issuers.isFromAnother('gAAAAB0=', azure), false)
  assert.equal(issuers.isFromAnother('gAAAAB19999=', azure), true)
})
