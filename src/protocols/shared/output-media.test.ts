import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonObject } from '../../core/json.ts'
import { outputPath } from './output-media.ts'

const NAMES: readonly (readonly [string, JsonObject, string])[] = [
  ['a type', { type: 'web_search_call', id: 'ws_1' }, 'output.web_search_call'],
  // Gemini 3: the part of a server tool begins with its signature.
  ['a part of Gemini', { thoughtSignature: 'EqoB', toolCall: { toolType: 'GOOGLE_SEARCH' } }, 'output.toolCall'],
  ['a part of Gemini in another order', { toolResponse: { id: '1' }, thoughtSignature: 'EqoB' }, 'output.toolResponse'],
  ['a part with a text only', { videoMetadata: 'x' }, 'output.videoMetadata'],
  ['no member', {}, 'output.other'],
  ['a name that no header takes', { 'a, b': {} }, 'output.other'],
]
for (const [name, raw, path] of NAMES)
  test(`a lost block is named by ${name}`, () =>
    assert.equal(outputPath({ type: 'foreign', protocol: 'gemini', raw }), path))
