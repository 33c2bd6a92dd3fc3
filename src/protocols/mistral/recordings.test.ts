/** What Mistral really said, through the codec, and on to clients of every style. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { reading, type Said } from '../../../test/conformance/said.ts'
import { framesOf, tellClients } from '../../../test/conformance/told.ts'
import { recordingsAreHere, recordingsOf, skip } from '../../../test/support/recordings.ts'
import { problemsOf } from '../../../test/support/schemas.ts'
import { type ChatEvent, fold } from '../../core/chat.ts'
import { isObject, type JsonObject, list, object } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { openaiChat } from '../openai-chat/index.ts'
import { sse } from '../sse.ts'
import { mistral } from './index.ts'

const recordings = recordingsOf('mistral')

/** Recordings that are no answers, and why. */
const EXCLUDED: ReadonlyMap<string, string> = new Map([
  ['mistral-mistral-ocr-response-1-d0f83697', 'an answer of the OCR API, filed here by its source'],
])

/** Read without the codec: Mistral's answer is what chat completions say, lists in place of texts included. */
const saidIn = (body: JsonObject): Said => reading['openai-chat'].said(body)

const KINDS: { readonly [reason: string]: string } = { stop: 'stop', tool_calls: 'tool-calls', length: 'length' }

const check = (events: readonly ChatEvent[], said: Said): void => {
  const answer = fold(events)
  assert.equal(answer.failure, undefined)
  const words = (type: string) =>
    answer.blocks
      .filter((block) => block.type === type)
      .map((block) => block.text)
      .join('')
  assert.equal(words('text'), said.text)
  assert.equal(words('reasoning').replaceAll(/\s*\n\s*/g, ''), said.reasoning)
  const calls = answer.blocks.filter((block) => block.type === 'tool-call')
  // The ids a client sees are Mistral's own.
  assert.deepEqual(
    calls.map((block) => ({ id: block.id, name: block.name, input: JSON.parse(block.text) })),
    said.calls,
  )
  const { input = 0, output = 0, cacheRead = 0 } = answer.usage ?? {}
  assert.deepEqual({ input, output, cacheRead, cacheWrite: 0, reasoning: 0 }, said.usage)
  assert.equal(answer.finish?.raw, said.reason)
  assert.equal(answer.finish?.kind, KINDS[said.reason])
  tellClients(events, said)
}

recordingsAreHere()

const streamOf = (wire: string, cuts: readonly number[] = []): ChatEvent[] => {
  const bytes = new TextEncoder().encode(wire)
  const places = [0, ...cuts, bytes.length]
  const pieces = places.slice(1).map((end, at) => bytes.subarray(places[at], end))
  return run(mistral.decodeStream(), run(sse.frames(1_000_000), pieces))
}

describe('recorded answers of Mistral', { skip }, () => {
  let seen = 0
  for (const { id, status, response, chunks } of recordings) {
    if (status !== 200 || chunks || EXCLUDED.has(id)) continue
    seen++
    test(id, () => {
      assert.ok(isObject(response))
      check(mistral.decodeAnswer(response), saidIn(response))
    })
  }
  test('there are enough of them', () => assert.ok(seen > 45, String(seen)))
})

describe('recorded streams of Mistral', { skip }, () => {
  let seen = 0
  for (const { id, status, chunks } of recordings) {
    if (status !== 200 || !chunks) continue
    seen++
    test(id, () => {
      const wire = chunks.map((chunk) => `${chunk}\n\n`).join('')
      const events = streamOf(wire)
      const { events: read } = framesOf(wire)
      const said = saidIn(reading['openai-chat'].assemble(read))
      check(events, said)
      // The same whatever the pieces are, one byte at a time included.
      const size = new TextEncoder().encode(wire).length
      assert.deepEqual(
        streamOf(
          wire,
          Array.from({ length: size - 1 }, (_, at) => at + 1),
        ),
        events,
      )
      // Cut before it says why it ended it is never taken for complete.
      const end = chunks.findIndex((chunk) => /"finish_reason": ?"/.test(chunk))
      const cut = streamOf(
        chunks
          .slice(0, end)
          .map((chunk) => `${chunk}\n\n`)
          .join(''),
      )
      assert.equal(fold(cut).failure?.kind, 'truncated')
      assert.equal(fold(cut).finish, undefined)
    })
  }
  test('there are enough of them', () => assert.ok(seen > 10, String(seen)))
})

test('recorded: a key it does not know', { skip }, () => {
  const recording = recordings.find(({ status }) => status === 401)
  assert.ok(recording)
  const failure = mistral.decodeFailure(401, recording.response, () => undefined)
  assert.deepEqual([failure.kind, failure.message], ['auth', 'Invalid API Key'])
})

describe('recorded requests to Mistral, asked by a chat client', { skip }, () => {
  for (const { id, status, request } of recordings) {
    if (status !== 200 || !isObject(request) || !Array.isArray(request.messages)) continue
    test(id, () => {
      const decoded = openaiChat.decodeRequest(request)
      assert.ok(decoded.ok, decoded.ok ? '' : decoded.failure.message)
      const { body, losses } = mistral.encodeRequest(decoded.value, { model: String(request.model) })
      assert.deepEqual(losses, [])
      assert.equal(problemsOf('mistral', 'ChatCompletionRequest', body), undefined)
      // It took this order of turns, so it stands as it was.
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
