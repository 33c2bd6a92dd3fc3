import { number, object } from '../../core/json.ts'
import type { TokenCounting } from '../../core/protocol.ts'
import { decodeRequest } from './decode-request.ts'

/** OpenAI's `/responses/input_tokens` (API reference, "Get input token counts"). */
export const tokenCounting: TokenCounting = {
  suffix: '/input_tokens',
  decodeRequest,
  accepts: new Set([
    'conversation',
    'input',
    'instructions',
    'model',
    'parallel_tool_calls',
    'personality',
    'previous_response_id',
    'reasoning',
    'text',
    'tool_choice',
    'tools',
    'truncation',
  ]),
  decodeAnswer(body) {
    const tokens = number(object(body)?.input_tokens)
    return tokens !== undefined && Number.isFinite(tokens) && tokens >= 0 ? tokens : undefined
  },
  encodeAnswer: (tokens) => ({ object: 'response.input_tokens', input_tokens: tokens }),
}
