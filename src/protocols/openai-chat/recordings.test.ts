/**
 * Requests, answers and errors of chat completions: decoded and encoded again, passed through, and read by openai-node. Uses
 * the project's exchanges, and recordings if present. Correct decoding: test/conformance.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ChatCompletionStream } from 'openai/lib/ChatCompletionStream'
import { answerContext, chatRequest } from '../../../test/support/builders.ts'
import { evidenceOf } from '../../../test/support/exchanges.ts'
import { withReasoningContent } from '../../../test/support/reasoning-names.ts'
import { recordingsPresent, requireRecordings } from '../../../test/support/recordings.ts'
import { problemsIfPresent } from '../../../test/support/schemas.ts'
import { type ChatAnswer, type ChatEvent, fold } from '../../core/chat.ts'
import { isObject } from '../../core/json.ts'
import type { Frame, StreamStep } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { sseFrames } from '../framing/sse.ts'
import { openaiChat } from './index.ts'

const recordings = evidenceOf('openai-chat')

/** Answers are validated against the schema of live answers, requests against the published schema. */
const valid = (name: string, value: unknown, schema: 'openai' | 'openai:wire' = 'openai:wire'): void =>
  assert.equal(problemsIfPresent(schema, name, value), undefined, JSON.stringify(value))

/** Recordings with status 200 that are failures, with the kind. */
const FAILURES: ReadonlyMap<string, string> = new Map([
  // Azure's content filter with status 200.
  ['azure-chat-test-prompt-content-filtering-with-events-with-n-98ddde0e', 'content_policy'],
  // Groq reports a malformed call in the stream; Groq's own error table has its meaning.
  ['groq-chat-test-tool-use-failed-error-streaming-with-text-564fca61', 'incompatible'],
  // OpenRouter reports its provider's error in a chunk.
  ['openrouter-chat-test-openrouter-stream-error', 'incompatible'],
])
const failureOf = (name: string): string | undefined => [...FAILURES].find(([start]) => name.startsWith(start))?.[1]

/** Invalid requests, with the invalid member. Requests to Azure deployments have the model in the path. */
const REFUSED: ReadonlyMap<string, string> = new Map([
  ['azure-chat-', 'model'],
  ['openai-chat-chat-bad-request', 'messages[0].content'],
  ['openai-chat-chat-no-messages', 'messages'],
  ['openai-chat-test-custom-llm-within-crew', 'messages[1].content[0].type'],
])

const context = answerContext({
  request: chatRequest({ settings: { streamUsage: { value: true, at: 'stream_options.include_usage' } } }),
  model: 'model',
  requestId: 'req_x',
})

// ── Comparison of answers ───────────────────────────────────────────────────────────────────────────────────────────

const summaryOf = (answer: ChatAnswer) => {
  const of = (type: string) => answer.blocks.filter((block) => block.type === type)
  const join = (type: string) =>
    of(type)
      .map((block) => block.text)
      .join('')
  const { usage } = answer
  return {
    text: join('text'),
    refusal: join('refusal'),
    reasoning: join('reasoning'),
    calls: answer.blocks.flatMap((block) =>
      block.type === 'tool-call' ? [{ name: block.name, arguments: block.text }] : [],
    ),
    ...(usage && { usage: [usage.input, usage.output] }),
  }
}

/** The members of an answer that survive encoding and decoding. */
const essence = (answer: ChatAnswer) => {
  const { calls, ...said } = summaryOf(answer)
  return {
    ...said,
    calls: calls.map((call) => ({ ...call, arguments: call.arguments || '{}' })),
    ids: answer.blocks.flatMap((block) => (block.type === 'tool-call' ? [block.id] : [])),
    proofs: answer.blocks.flatMap((block) => (block.signature ? [block.signature] : [])),
    cited: answer.blocks.flatMap((block) => (block.citations ?? []).map(({ url }) => url)),
    logprobs: answer.blocks.flatMap((block) => block.logprobs ?? []),
    finish: answer.finish?.kind,
    usage: answer.usage && { ...answer.usage, cacheRead: answer.usage.cacheRead ?? 0, raw: undefined },
    reasoned: answer.usage?.reasoning ?? 0,
  }
}
const withoutCounts = ({ usage, ...rest }: ReturnType<typeof essence>) => ({
  ...rest,
  usage: usage && { input: usage.input, output: usage.output, cacheRead: usage.cacheRead, write: usage.cacheWrite },
})

/** Reasoning blocks are joined by an empty line in this format. */
const spaced = (text: string): string => text.replaceAll('\n', '')

const sameAgain = (again: ChatAnswer, before: ChatAnswer) => {
  const [a, b] = [withoutCounts(essence(again)), withoutCounts(essence(before))]
  assert.deepEqual({ ...a, reasoning: spaced(a.reasoning) }, { ...b, reasoning: spaced(b.reasoning) })
}

const decode = (pieces: Iterable<string>): { frames: Frame[]; events: ChatEvent[]; steps: StreamStep[] } => {
  const frames = run(sseFrames(), pieces)
  const stage = openaiChat.decodeStream()
  const steps: StreamStep[] = frames.map((frame) => ({ frame, events: stage.push(frame) }))
  const rest = stage.end()
  if (rest.length > 0) steps.push({ events: rest })
  return { frames, events: steps.flatMap(({ events }) => events), steps }
}

/** openai-node throws on an invalid sequence. */
const accepted = async (frames: readonly Frame[]) => {
  const stream = new ReadableStream({
    start(controller) {
      for (const { data } of frames) if (data !== '[DONE]') controller.enqueue(new TextEncoder().encode(`${data}\n`))
      controller.close()
    },
  })
  await ChatCompletionStream.fromReadableStream(stream).finalChatCompletion()
}

requireRecordings()

test('chat recordings: every recording is tested', () =>
  assert.ok(recordings.length > (recordingsPresent ? 700 : 40), `${recordings.length} recordings`))

describe('chat recordings: requests', () => {
  for (const { id: name, request, status } of recordings)
    if (isObject(request))
      test(name, () => {
        const decoded = openaiChat.decodeRequest(request)
        if (!decoded.ok) {
          const [, param] = [...REFUSED].find(([start]) => name.startsWith(start)) ?? []
          assert.equal(decoded.failure.param, param, decoded.failure.message)
          return
        }
        if (status === 200) assert.ok(decoded.value.messages.length > 0)
        const { body } = openaiChat.encodeRequest(decoded.value, { model: 'm', acceptsReasoning: true })
        // A vendor's own tools and parts are encoded unchanged, and are not in the published schema.
        const { tools, messages } = decoded.value
        const foreign =
          tools.some(({ kind }) => kind === 'foreign') ||
          messages.some(({ content }) => content.some(({ type }) => type === 'foreign'))
        if (!foreign) valid('CreateChatCompletionRequest', body, 'openai')
        // The encoded request decodes to the same request, except for members without an equivalent in this format.
        const again = openaiChat.decodeRequest(body)
        assert.ok(again.ok, again.ok ? '' : again.failure.message)
        assert.equal(again.value.messages.length >= decoded.value.messages.length - 1, true)
        assert.deepEqual(
          again.value.tools.map((tool) => (tool.kind === 'foreign' ? tool.raw : tool.name)),
          decoded.value.tools.map((tool) => (tool.kind === 'foreign' ? tool.raw : tool.name)),
        )
        const adapted = openaiChat.passing.adaptRequest(request, { model: 'theirs' })
        for (const [member, value] of Object.entries(request))
          if (member !== 'model' && member !== 'stream_options') assert.equal(adapted[member], value)
        assert.equal(adapted.model, 'theirs')
      })
})

describe('chat recordings: errors', () => {
  const KINDS: ReadonlyMap<number, readonly string[]> = new Map([
    [400, ['incompatible', 'context_length', 'malformed']],
    [401, ['auth']],
    [404, ['model_missing', 'not_there']],
    [429, ['rate_limited']],
    [503, ['overloaded']],
  ])
  for (const { id: name, status, response } of recordings)
    if (status !== null && status >= 400)
      test(name, () => {
        const failure = openaiChat.decodeFailure(status, response, () => undefined)
        assert.ok(KINDS.get(status)?.includes(failure.kind), failure.kind)
        valid('ErrorResponse', openaiChat.encodeFailure(failure, { requestId: 'req_x' }))
      })
})

describe('chat recordings: complete answers', () => {
  for (const { id: name, status, response } of recordings)
    if ((status ?? 200) < 400 && isObject(response))
      test(name, () => {
        const events = openaiChat.decodeAnswer(response)
        const kind = failureOf(name)
        if (kind !== undefined) {
          assert.deepEqual(
            events.map((event) => event.type === 'failure' && event.failure.kind),
            [kind],
          )
          return
        }
        const answer = fold(events)
        assert.equal(answer.failure, undefined)
        const body = openaiChat.encodeAnswer(answer, context)
        valid('CreateChatCompletionResponse', body)
        sameAgain(fold(openaiChat.decodeAnswer(body)), answer)
      })
})

describe('chat recordings: streams', () => {
  for (const { id: name, chunks } of recordings)
    if (chunks)
      test(name, async () => {
        const wireText = `${chunks.join('\n\n')}\n\n`
        const { events, steps } = decode([wireText])
        const answer = fold(events)
        const kind = failureOf(name)
        if (kind !== undefined) {
          assert.equal(answer.failure?.kind, kind)
          const broken = run(openaiChat.passing.passStream(context), steps).join('')
          assert.ok(!broken.includes('[DONE]'))
          assert.match(broken, /data: \{"error":.*\n\n$/)
          return
        }
        const written = run(openaiChat.encodeStream(context), [{ events }])
        const again = decode([written.join('')])
        for (const { data } of again.frames.slice(0, -1)) valid('CreateChatCompletionStreamResponse', JSON.parse(data))
        assert.equal(again.frames.at(-1)?.data, '[DONE]')
        sameAgain(fold(again.events), answer)
        await accepted(again.frames)
        // The client reads the same from one event per step as from all events in one step.
        const slowly = run(
          openaiChat.encodeStream(context),
          events.map((event) => ({ events: [event] })),
        )
        assert.equal(slowly.join(''), written.join(''))

        const passed = run(openaiChat.passing.passStream(context), steps).join('')
        const done = wireText.includes('data: [DONE]') ? '' : 'data: [DONE]\n\n'
        // Recordings of Groq and OpenRouter end in `[DONE] `, which openai-node does not accept as the end.
        assert.equal(
          passed,
          withReasoningContent(wireText).replace('[DONE] \n', '[DONE]\n') + done,
          'passed through unchanged',
        )
        const quiet = { ...context, request: { ...context.request, settings: {} } }
        const kept = run(sseFrames(), [run(openaiChat.passing.passStream(quiet), steps).join('')])
        for (const { data } of kept)
          if (data !== '' && data !== '[DONE]') {
            const chunk = JSON.parse(data)
            assert.ok(!(chunk.usage && chunk.choices?.length === 0), 'usage was not requested')
          }
      })
})
