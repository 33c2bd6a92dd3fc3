import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonObject } from '../core/json.ts'
import xai from './xai.ts'

const summary = [{ type: 'summary_text', text: 'The user wants the weather.' }]
const content = [{ type: 'reasoning_text', text: 'hm' }]
const item = (more: JsonObject): JsonObject => ({ type: 'reasoning', summary, ...more })

/** Reasoning items of clients, and as they are sent. */
const ITEMS: readonly (readonly [string, JsonObject, JsonObject])[] = [
  ['null content of Codex', item({ content: null, encrypted_content: null }), item({ encrypted_content: null })],
  [
    'null content beside encryption',
    item({ id: 'rs_1', content: null, encrypted_content: 'x' }),
    item({ id: 'rs_1', encrypted_content: 'x' }),
  ],
  ['its own encryption', item({ id: 'rs_1', encrypted_content: 'x' }), item({ id: 'rs_1', encrypted_content: 'x' })],
  ['a stored item', item({ id: 'rs_1' }), item({ id: 'rs_1' })],
  ["another vendor's plain reasoning", item({ id: 'rs_1', content }), item({ content })],
  ['an empty content', item({ id: 'rs_1', content: [] }), item({ id: 'rs_1', content: [] })],
]
for (const [name, given, sent] of ITEMS)
  test(`xai: reasoning items in responses: ${name}`, () => {
    const question = { role: 'user', content: 'hi' }
    const body = { model: 'grok-4.3', input: [question, given] }
    const lost: string[] = []
    const adapted = xai.quirks.requestBody(body, 'grok-4.3', (path) => lost.push(path), 'openai-responses')
    assert.deepEqual(adapted, { model: 'grok-4.3', input: [question, sent] })
    assert.deepEqual(lost, [])
    if (JSON.stringify(given) === JSON.stringify(sent)) assert.equal(adapted, body, 'it passes byte for byte')
  })
