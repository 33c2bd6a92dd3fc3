import { isObject } from '../../core/json.ts'
import type { TokenCounting } from '../../core/protocol.ts'
import { decodeRequest } from './decode-request.ts'

/** Anthropic's `/messages/count_tokens`. Its body is a messages request without `max_tokens`. */
export const tokenCounting: TokenCounting = {
  suffix: '/count_tokens',
  decodeRequest: (body) => decodeRequest({ ...body, max_tokens: body.max_tokens ?? 1 }),
  decodeAnswer(body) {
    const tokens = isObject(body) ? body.input_tokens : undefined
    return typeof tokens === 'number' && Number.isFinite(tokens) && tokens >= 0 ? tokens : undefined
  },
  encodeAnswer: (tokens) => ({ input_tokens: tokens }),
}
