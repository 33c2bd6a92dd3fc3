import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fail } from '../../core/failure.ts'
import { outputLimitIn } from './output-limit.ts'

/** Refusals in the vendors' words. `thread`: where users quote them. */
const refusals: readonly (readonly [thread: string, message: string, sent: number, limit: number | undefined])[] = [
  [
    'enoch3712/ExtractThinker#346 (OpenAI)',
    'max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you provided 32000.',
    32_000,
    16_384,
  ],
  [
    'anthropics/claude-code#24451',
    'max_tokens: 128001 > 64000, which is the maximum allowed number of output tokens for claude-opus-4-5-20251101',
    128_001,
    64_000,
  ],
  [
    'continuedev/continue#4225 (Anthropic)',
    'max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for claude-3-haiku-20240307',
    8_192,
    4_096,
  ],
  [
    'sigoden/aichat#813 (Bedrock)',
    'The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.',
    8_192,
    4_096,
  ],
  [
    'charmbracelet/crush#946 (Bedrock)',
    'The maximum tokens you requested exceeds the model limit of 32768',
    64_000,
    32_768,
  ],
  ['deepseek-ai/DeepSeek-V3#69', 'Invalid max_tokens value, the valid range of max_tokens is [1, 8192]', 16_384, 8_192],
  ['anomalyco/opencode#40770 (Alibaba)', 'Range of max_tokens should be [1, 131072]', 200_000, 131_072],
  ['anomalyco/opencode#1000 (Groq)', '`max_tokens` must be less than or equal to `16384`', 32_000, 16_384],
  [
    'skapadia3214/groq-moa#8',
    'max_tokens for `llama-3.1-8b-instant` must be less than or equal to 8000',
    32_000,
    8_000,
  ],
  [
    'Gitlawb/openclaude#331 (Doubao)',
    'The parameter `max_completion_tokens` specified in the request are not valid: integer above maximum value, expected a value <= 12288, but got 32000 instead. Request id: 0217752964393142fa50af54af66c5cfb922304bfd59ea286af93',
    32_000,
    12_288,
  ],
  [
    'AQBot-Desktop/AQBot#93',
    'Param Incorrect max_tokens is too large: 1048576. This model supports at most 131072 completion tokens, whereas you provided 1048576.',
    1_048_576,
    131_072,
  ],
  [
    'Vertex AI',
    'Unable to submit request because it has a maxOutputTokens value of 32000 but the supported range is from 1 (inclusive) to 8193 (exclusive). Update the value and try again.',
    32_000,
    8_192,
  ],
  ['a range in words', 'max_tokens must be between 1 and 8192', 32_000, 8_192],
  ['an exclusive range', 'max_output_tokens must be in the range [1, 65537).', 100_000, 65_536],
  [
    'Cohere',
    'max tokens must be less than or equal to 4096, the maximum output for this model - received 32000.',
    32_000,
    4_096,
  ],
  ['FastAPI', 'body.max_tokens: Input should be less than or equal to 4096', 32_000, 4_096],
  ['a rate limit', 'Rate limit reached for tokens per minute (TPM): Limit 6000', 32_000, undefined],
  ['another member', 'temperature must be less than or equal to 2', 32_000, undefined],
  [
    'a member that is refused',
    "Unsupported parameter: 'max_tokens' is not supported with this model.",
    32_000,
    undefined,
  ],
  ['a value that is too small', 'max_tokens must be at least 16', 1, undefined],
]
for (const [thread, message, sent, limit] of refusals)
  test(`output limit: ${thread}: ${limit ?? 'none'}`, () => {
    const failure = { ...fail('incompatible', message), upstream: { message } }
    assert.equal(outputLimitIn(failure, sent), limit)
  })

test('output limit: the sentence may be in `param`', () => {
  const param = 'max_tokens is too large: 1048576. This model supports at most 131072 completion tokens'
  assert.equal(outputLimitIn({ ...fail('incompatible', 'Param Incorrect'), param }, 1_048_576), 131_072)
})
