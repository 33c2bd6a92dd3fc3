/**
 * Streams assembled into a whole answer, for the formats that pass through: the decoded answer has the content of the
 * stream, and is valid by the published schema. On own exchanges, and on recordings where they are present.
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
  // Not validated: the answer is taken from the last event unchanged, and some servers omit required members.
  ['openai-responses', sharedProtocols['openai-responses'], null, ''],
  ['anthropic-messages', sharedProtocols['anthropic-messages'], 'anthropic:wire', 'BetaMessage'],
] as const satisfies readonly (readonly [keyof typeof sharedProtocols, unknown, SchemaName | null, string])[]

/** The content of an answer, independent of its block boundaries and of the white space in arguments. */
const comparable = ({ blocks, finish, usage, model }: ChatAnswer) => {
  const textOf = (type: string) => blocks.flatMap((block) => (block.type === type ? [block.text] : [])).join('')
  return {
    text: textOf('text'),
    refusal: textOf('refusal'),
    reasoning: textOf('reasoning'),
    calls: blocks.flatMap((block) =>
      block.type === 'tool-call' ? [[block.id, block.name, canonicalJson(block.text)]] : [],
    ),
    foreign: blocks.flatMap((block) => (block.type === 'foreign' ? [block.raw.type] : [])),
    cited: blocks.flatMap(({ citations }) => citations?.map(({ url }) => url) ?? []),
    logprobs: blocks.flatMap(({ logprobs }) => logprobs ?? []).length,
    signatures: blocks.filter(({ signature }) => signature).length,
    finish: finish?.kind,
    usage: usage && [usage.input, usage.output, usage.cacheRead, usage.cacheWrite, usage.reasoning],
    model,
  }
}

const canonicalJson = (json: string): string => {
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

  test(`assemble: every stream of ${api} gives the whole answer`, () => {
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
        assert.deepEqual(comparable(whole), comparable(answer))
      } catch (error) {
        bad.push(`${recording.id}: ${String((error as Error).message).slice(0, 900)}`)
      }
      // Groq and Hugging Face have other values of service_tier than the schema.
      const { service_tier: _, ...validated } = body
      const problem = schema && problemsOf(schema, definition, validated)
      if (problem) bad.push(`${recording.id}: ${problem}`)
    }
    assert.deepEqual(bad.length, 0, `${bad.length} of ${streams.length}\n${bad.slice(0, 400).join('\n')}`)
  })

  test(`assemble: ${api} returns null for an empty stream`, () => {
    assert.equal(protocol.passing.assembleAnswer([]), null)
    assert.equal(protocol.passing.assembleAnswer([{ data: '[DONE]' }, { data: '' }]), null)
  })
}
