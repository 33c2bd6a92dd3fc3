import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonObject } from '../../core/json.ts'
import { mediaIn } from './request-media.ts'

const user = (...content: readonly JsonObject[]): JsonObject => ({ messages: [{ role: 'user', content }] })

/** Parts as in the documentation of OpenAI's chat and responses APIs and of Anthropic's messages API. */
const cases: readonly (readonly [string, JsonObject, readonly string[]])[] = [
  ['an image of the chat API', user({ type: 'image_url', image_url: { url: 'https://x/y.png' } }), ['IMAGE']],
  ['audio of the chat API', user({ type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } }), ['AUDIO']],
  ['a file of the chat API', user({ type: 'file', file: { file_id: 'file-1' } }), ['FILE']],
  ['a part without a type', user({ image_url: 'https://x/y.png' }), ['IMAGE']],
  [
    'an image of the messages API',
    user({ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA' } }),
    ['IMAGE'],
  ],
  ['a document of the messages API', user({ type: 'document', source: { type: 'url', url: 'https://x' } }), ['FILE']],
  [
    'a document of text',
    user({ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'hi' } }),
    [],
  ],
  [
    'an image in the result of a tool',
    user({ type: 'tool_result', tool_use_id: 'c', content: [{ type: 'image', source: {} }] }),
    ['IMAGE'],
  ],
  [
    'a document with an image in it',
    user({ type: 'document', source: { type: 'content', content: [{ type: 'image', source: {} }] } }),
    ['IMAGE'],
  ],
  [
    'items of the responses API',
    {
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_image', file_id: 'f' },
            { type: 'input_file', file_url: 'https://x' },
          ],
        },
        { type: 'computer_call_output', call_id: 'c', output: { type: 'computer_screenshot', image_url: 'x' } },
        { type: 'image_generation_call', id: 'i', result: 'AA' },
        { type: 'file_search_call', id: 's', queries: ['x'], results: null },
      ],
    },
    ['IMAGE', 'FILE', 'IMAGE', 'IMAGE'],
  ],
  [
    'tools and the form of the answer',
    { input: 'x', tools: [{ type: 'image', image_url: 'x' }], audio: { voice: 'a' } },
    [],
  ],
  ['text alone', { messages: [{ role: 'user', content: 'an image_url' }] }, []],
]
for (const [name, body, expected] of cases) test(`media: ${name}`, () => assert.deepEqual(mediaIn(body), expected))
