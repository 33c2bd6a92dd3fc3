/** Requests to Mistral: own exchanges, and recordings where they are present. Its answers: test/conformance. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { evidenceOf } from '../../../test/support/exchanges.ts'
import { recordingsOf, requireRecordings, skipWithoutRecordings } from '../../../test/support/recordings.ts'
import { problemsIfPresent } from '../../../test/support/schemas.ts'
import { isObject, type JsonObject, list, object } from '../../core/json.ts'
import { openaiChat } from '../openai-chat/index.ts'
import { mistral } from './index.ts'

requireRecordings()

test('recorded: an unknown key', { skip: skipWithoutRecordings }, () => {
  const recording = recordingsOf('mistral').find(({ status }) => status === 401)
  assert.ok(recording)
  const failure = mistral.decodeFailure(401, recording.response, () => undefined)
  assert.deepEqual([failure.kind, failure.message], ['auth', 'Invalid API Key'])
})

describe('requests to Mistral, sent by a chat client', () => {
  for (const { id, status, request } of evidenceOf('mistral')) {
    if (status !== 200 || !isObject(request) || !Array.isArray(request.messages)) continue
    test(id, () => {
      const decoded = openaiChat.decodeRequest(request)
      assert.ok(decoded.ok, decoded.ok ? '' : decoded.failure.message)
      const { body, losses } = mistral.encodeRequest(decoded.value, { model: String(request.model) })
      assert.deepEqual(losses, [])
      assert.equal(problemsIfPresent('mistral', 'ChatCompletionRequest', body), undefined)
      // Mistral accepted this order of messages, so it must not change.
      const roles = (of: JsonObject) => list(of.messages).map((message) => object(message)?.role)
      assert.deepEqual(roles(body), roles(request))
      const ids = (of: JsonObject) =>
        list(of.messages).flatMap((message) => [
          object(message)?.tool_call_id ?? [],
          ...list(object(message)?.tool_calls).map((call) => object(call)?.id ?? null),
        ])
      assert.deepEqual(ids(body), ids(request))
      for (const name of [
        'temperature',
        'top_p',
        'max_tokens',
        'random_seed',
        'stop',
        'tool_choice',
        'reasoning_effort',
      ])
        assert.deepEqual(body[name], request[name], name)
    })
  }
})
