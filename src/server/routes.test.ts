import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findRoute } from './routes.ts'

const messageOf = (path: string): string => {
  const found = findRoute(path)
  return 'kind' in found ? `${found.kind}: ${found.message}` : 'found'
}

/** [path, what its error says] */
const unserved = [
  [
    '/v1/conversations',
    /^unknown_url: \/v1\/conversations is not served here\. .*previous_response_id.*\/v1\/responses/,
  ],
  ['/v1/conversations/', /previous_response_id/],
  ['/v1/conversations/conv_123/items', /^unknown_url: .*previous_response_id/],
  ['/upload/v1/files', /^unknown_url: .*passThrough/],
  ['/v1/conversation', /does not exist/],
  ['/v1/conversationsx', /does not exist/],
] as const
for (const [path, says] of unserved) test(`routes: the error of ${path}`, () => assert.match(messageOf(path), says))
