/** Clients of messages take the input and cached tokens of a stream from its first event (langchain-ai/langchain#35509). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AnswerContent, answerWith } from '../../../test/support/answers.ts'
import { chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import type { UpstreamRequest } from '../../../test/support/upstream.ts'
import type { UpstreamProtocolName } from '../../core/chat.ts'
import { isObject, type JsonObject, object } from '../../core/json.ts'

const WORDS = 'word '.repeat(400)
const QUESTION = { model: 'm', max_tokens: 90, stream: true, messages: [{ role: 'user', content: WORDS }] }

/** `usage` of the first event and of the last `message_delta`. */
const usagesIn = (text: string): { readonly start: JsonObject; readonly delta: JsonObject } => {
  const events = text.split('\n').flatMap((line) => (line.startsWith('data: {') ? [JSON.parse(line.slice(6))] : []))
  const [start, delta] = ['message_start', 'message_delta'].map((type) =>
    events.findLast((event) => event.type === type),
  )
  const usages = [object(object(start?.message)?.usage), object(delta?.usage)]
  assert.ok(isObject(usages[0]) && isObject(usages[1]), text)
  return { start: usages[0], delta: usages[1] }
}

const ask = async (
  script: (asked: ScriptedCall) => void,
  protocols: readonly UpstreamProtocolName[],
  settings = {},
) => {
  const instances = protocols.map((protocol, at) => instance('abc'.charAt(at), ['k1'], { speaks: [{ protocol }] }))
  const { send, world } = gatewayHarness(instances, script, settings)
  const reply = send(QUESTION, 'anthropic-messages')
  await world.advance(30_000)
  assert.equal(reply.status, 200)
  return usagesIn(reply.text)
}

/** Mistral states the usage without being asked. */
const WITH_USAGE = { stream_options: { include_usage: true } }

/** Answers in the format of the request. */
const answering = (answer: AnswerContent) => (asked: ScriptedCall) => {
  const request = {
    path: new URL(asked.url).pathname,
    stream: true,
    json: { ...JSON.parse(asked.body ?? ''), ...WITH_USAGE },
  } as UpstreamRequest
  const act = answerWith(request, answer)
  assert.ok(act.do === 'stream')
  const type = /ollama/.test(request.path) || request.path.endsWith('/api/chat') ? 'application/x-ndjson' : undefined
  asked.head(200, { 'content-type': 'text/event-stream', ...(type && { 'content-type': type }), ...act.headers })
  for (const piece of act.pieces) asked.sendBytes(Buffer.from(piece))
  asked.end()
}

const isEstimate = (tokens: unknown): boolean => typeof tokens === 'number' && tokens > 200 && tokens < 900

/** Formats that state the usage at their end. Gemini states it in its first event. */
const AT_END = ['openai-chat', 'openai-responses', 'bedrock-converse', 'mistral', 'ollama', 'cohere'] as const
for (const protocol of AT_END)
  test(`message_start of ${protocol}: the estimated input`, async () => {
    const { start, delta } = await ask(answering({ text: 'a b c', input: 411, output: 3 }), [protocol])
    assert.ok(isEstimate(start.input_tokens), `${start.input_tokens}`)
    assert.notEqual(start.input_tokens, 411)
    assert.deepEqual([delta.input_tokens, delta.output_tokens], [411, 3])
  })

test('message_start of gemini: the input of its first event', async () => {
  const { start, delta } = await ask(answering({ text: 'a b c', input: 411, output: 3 }), ['gemini'])
  assert.deepEqual([start.input_tokens, delta.input_tokens, delta.output_tokens], [411, 411, 3])
})

const usage = (output: number) => ({
  prompt_tokens: 400,
  completion_tokens: output,
  total_tokens: 400 + output,
  prompt_tokens_details: { cached_tokens: 300 },
})
const chunk = (delta: object, finish: string | null, more: object = {}) =>
  `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`
const EACH_CHUNK =
  chunk({ role: 'assistant', content: '' }, null) +
  chunk({ content: 'ok' }, null, { usage: usage(1) }) +
  chunk({}, 'stop', { usage: usage(3) }) +
  chatAnswer.done

test('message_start of a chat server with usage in every chunk: its input and cached tokens', async () => {
  const { start, delta } = await ask((asked) => respondWith.stream(asked, EACH_CHUNK), ['openai-chat'])
  assert.deepEqual(start, {
    input_tokens: 100,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 300,
    output_tokens: 1,
  })
  assert.deepEqual([delta.input_tokens, delta.cache_read_input_tokens, delta.output_tokens], [100, 300, 3])
})

test('message_start of a stream without any usage: the estimate, and again at its end', async () => {
  const { start, delta } = await ask((asked) => respondWith.stream(asked, chatAnswer.stream('a', 'b')), ['openai-chat'])
  assert.ok(isEstimate(start.input_tokens))
  assert.equal(delta.input_tokens, start.input_tokens)
})

test('message_start after a failover is of the target that answers', async () => {
  const script = (asked: ScriptedCall) => {
    if (asked.url.includes('//a.')) return respondWith.error(asked, 503)
    return respondWith.stream(asked, EACH_CHUNK)
  }
  const { start } = await ask(script, ['ollama', 'openai-chat'])
  assert.deepEqual([start.input_tokens, start.cache_read_input_tokens], [100, 300])
})

test('message_start of a hedged stream is of the target that answers', async () => {
  const script = (asked: ScriptedCall) => {
    if (asked.url.includes('//b.')) respondWith.stream(asked, EACH_CHUNK)
  }
  const { start } = await ask(script, ['openai-chat', 'openai-chat'], { hedge: { percent: 100, delay: 1_000 } })
  assert.deepEqual([start.input_tokens, start.cache_read_input_tokens], [100, 300])
})
