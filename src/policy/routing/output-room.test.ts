import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatRequest, textPart, userMessage } from '../../../test/support/builders.ts'
import type { ModelLimits } from '../../core/provider.ts'
import { estimateTokens } from './estimate-tokens.ts'
import { fittingOutput, roomAfterRefusal } from './output-room.ts'

const TEXT = 'The quick brown fox jumps over the lazy dog. '.repeat(300)
const asking = (value?: number) =>
  chatRequest({
    messages: [userMessage(textPart(TEXT))],
    settings: value === undefined ? {} : { maxOutputTokens: { value, at: 'max_tokens' } },
  })
/** With the margin of the estimate. */
const PROMPT = Math.ceil(estimateTokens(asking()) * 1.25) + 512

const fits: readonly (readonly [string, number | undefined, ModelLimits, number | undefined])[] = [
  ['no limit of the client', undefined, { contextWindow: 100, maxOutputTokens: 10 }, undefined],
  ['nothing known', 32_000, {}, undefined],
  ['both fit', 1_000, { contextWindow: 32_768, maxOutputTokens: 4_096 }, undefined],
  ['above what the model writes', 32_000, { maxOutputTokens: 4_096 }, 4_096],
  ['beside the prompt', 32_000, { contextWindow: 32_768 }, 32_768 - PROMPT],
  ['as large as the window', 32_768, { contextWindow: 32_768 }, 32_768 - PROMPT],
  ['both', 32_000, { contextWindow: 32_768, maxOutputTokens: 8_192 }, 8_192],
  ['little room', 2_000, { contextWindow: 5_000 }, undefined],
  ['a prompt that is too long', 32_000, { contextWindow: 1_000 }, undefined],
]
for (const [name, value, limits, expected] of fits)
  test(`output room: ${name}`, () => assert.equal(fittingOutput(asking(value), limits, TEXT.length), expected))

test('output room: a short body is not estimated', () => {
  const { messages: _, ...rest } = asking(1_000)
  const request = {
    ...rest,
    get messages(): never {
      throw new Error('read')
    },
  }
  assert.equal(fittingOutput(request, { contextWindow: 32_768 }, TEXT.length), undefined)
})

const refusals: readonly (readonly [string, Parameters<typeof roomAfterRefusal>[1], number, number | undefined])[] = [
  ['all figures', { window: 32_768, promptTokens: 3_758, requestedOutput: 32_000 }, 32_000, 29_010],
  ['no figures', {}, 32_000, undefined],
  ['the window only', { window: 32_768 }, 32_000, 32_768 - PROMPT],
  ['a prompt as long as the window', { window: 32_768, promptTokens: 32_768 }, 32_000, undefined],
  ['hardly any room', { window: 32_768, promptTokens: 32_760 }, 32_000, undefined],
  ['a limit that fits', { window: 32_768, promptTokens: 100, requestedOutput: 64_000 }, 1_000, undefined],
  ['a lower bound of the prompt', { window: 196_608, promptTokens: 180_225 }, 16_384, 8_192],
]
for (const [name, overflow, sent, expected] of refusals)
  test(`output room after a refusal: ${name}`, () =>
    assert.equal(roomAfterRefusal(asking(sent), overflow, sent), expected))
