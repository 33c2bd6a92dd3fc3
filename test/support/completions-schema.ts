/** An answer and a stream chunk of the legacy completions API, after OpenAI's published CreateCompletionResponse. */
import type { Json, JsonObject } from '../../src/core/json.ts'

const REASONS = ['stop', 'length', 'content_filter']
const object = (properties: JsonObject, required: readonly string[], rest: JsonObject = {}): JsonObject => ({
  type: 'object',
  properties,
  required,
  ...rest,
})
const listOf = (items: Json): JsonObject => ({ type: 'array', items })
const TEXT = { type: 'string' }
const WHOLE = { type: 'integer' }
const closed = { additionalProperties: false }

const answer = (ends: readonly Json[]): JsonObject =>
  object(
    {
      id: TEXT,
      object: { const: 'text_completion' },
      created: WHOLE,
      model: TEXT,
      system_fingerprint: TEXT,
      choices: listOf(
        object(
          {
            text: TEXT,
            index: WHOLE,
            finish_reason: { enum: ends },
            logprobs: {
              type: ['object', 'null'],
              ...closed,
              properties: {
                text_offset: listOf(WHOLE),
                token_logprobs: listOf({ type: 'number' }),
                tokens: listOf(TEXT),
                top_logprobs: listOf({ type: 'object', additionalProperties: { type: 'number' } }),
              },
            },
          },
          ['text', 'index', 'logprobs', 'finish_reason'],
          closed,
        ),
      ),
      usage: {
        type: ['object', 'null'],
        properties: { prompt_tokens: WHOLE, completion_tokens: WHOLE, total_tokens: WHOLE },
        required: ['prompt_tokens', 'completion_tokens', 'total_tokens'],
      },
    },
    ['id', 'object', 'created', 'model', 'choices'],
    closed,
  )

export const completionsSchema: JsonObject = {
  $id: 'urn:wire:completions',
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $defs: { Answer: answer(REASONS), Chunk: answer([...REASONS, null]) },
}
