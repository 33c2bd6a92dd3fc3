/**
 * Streams gathered into a whole answer, for the formats that pass: the answer, decoded, has the content of the stream, and
 * fits the published schema where there is one. On own exchanges, and on recordings where they are present.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChatAnswer, fold } from '../../src/core/chat.ts'
import { type JsonObject, object } from '../../src/core/json.ts'
import type { Frame } from '../../src/core/protocol.ts'
import { run } from '../../src/core/stage.ts'
import { sseFrames } from '../../src/protocols/framing/sse.ts'
import { sharedProtocols } from '../../src/protocols/index.ts'
import { evidenceOf } from '../support/exchanges.ts'
import { type Recording, recordingsPresent, requireRecordings } from '../support/recordings.ts'
import { problemsIfPresent as problemsOf, type SchemaName } from '../support/schemas.ts'

requireRecordings()

const framesOf = (chunks: readonly string[]): readonly Frame[] =>
  run(
    sseFrames(10_000_000),
    chunks.map((chunk) => `${chunk}\n\n`),
  )

const formats = [
  ['openai-chat', sharedProtocols['openai-chat'], 'openai:wire', 'CreateChatCompletionResponse'],
  // Cut out of the stream as it came: what it lacks of the schema its maker left out.
  ['openai-responses', sharedProtocols['openai-responses'], null, ''],
  ['anthropic-messages', sharedProtocols['anthropic-messages'], 'anthropic:wire', 'BetaMessage'],
] as const satisfies readonly (readonly [keyof typeof sharedProtocols, unknown, SchemaName | null, string])[]

/** What an answer tells, however its text is cut into blocks and its calls' JSON is spaced. */
const told = ({ blocks, finish, usage, model }: ChatAnswer) => {
  const said = (type: string) => blocks.flatMap((block) => (block.type === type ? [block.text] : [])).join('')
  return {
    text: said('text'),
    refusal: said('refusal'),
    reasoning: said('reasoning'),
    calls: blocks.flatMap((block) =>
      block.type === 'tool-call' ? [[block.id, block.name, spaceless(block.text)]] : [],
    ),
    foreign: blocks.flatMap((block) => (block.type === 'foreign' ? [block.raw.type] : [])),
    cited: blocks.flatMap(({ citations }) => citations?.map(({ url }) => url) ?? []),
    logprobs: blocks.flatMap(({ logprobs }) => logprobs ?? []).length,
    proofs: blocks.filter(({ signature: proof }) => proof).length,
    finish: finish?.kind,
    usage: usage && [usage.input, usage.output, usage.cacheRead, usage.cacheWrite, usage.reasoning],
    model,
  }
}

const spaceless = (json: string): string => {
  try {
    return JSON.stringify(JSON.parse(json || '{}'))
  } catch {
    return json
  }
}

for (const [api, protocol, schema, definition] of formats) {
  const streams = evidenceOf(api).flatMap((recording: Recording) => {
    const { chunks, framing, status } = recording
    if (!chunks || framing !== 'sse' || (status !== null && status !== 200)) return []
    const frames = framesOf(chunks)
    const answer = fold(run(protocol.decodeStream(), frames))
    return answer.finish && !answer.failure ? [{ recording, frames, answer }] : []
  })

  test(`gather: every stream of ${api} gives the whole answer`, () => {
    assert.ok(streams.length > (recordingsPresent ? 50 : 15), `${streams.length}`)
    const bad: string[] = []
    for (const { recording, frames, answer } of streams) {
      const text = protocol.passing.assembleAnswer(frames)
      if (text === null) {
        bad.push(`${recording.id}: null`)
        continue
      }
      const body = object(JSON.parse(text)) as JsonObject
      const whole = fold(protocol.decodeAnswer(body))
      try {
        assert.deepEqual(told(whole), told(answer))
      } catch (error) {
        bad.push(`${recording.id}: ${String((error as Error).message).slice(0, 900)}`)
      }
      // Groq and Hugging Face have tiers of their own, whole and streamed.
      const { service_tier: _, ...judged } = body
      const problem = schema && problemsOf(schema, definition, judged)
      if (problem) bad.push(`${recording.id}: ${problem}`)
    }
    assert.deepEqual(bad.length, 0, `${bad.length} of ${streams.length}\n${bad.slice(0, 400).join('\n')}`)
  })

  test(`gather: ${api} gives nothing of nothing`, () => {
    assert.equal(protocol.passing.assembleAnswer([]), null)
    assert.equal(protocol.passing.assembleAnswer([{ data: '[DONE]' }, { data: '' }]), null)
  })
}
