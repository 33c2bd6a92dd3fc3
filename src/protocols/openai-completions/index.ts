import { isList } from '../../core/json.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import { encodeOpenaiFailure } from '../errors/openai-error.ts'
import { openaiRateLimits } from '../shared/rate-limit-names.ts'
import { decodeRequest } from './decode-request.ts'
import { encodeAnswer } from './encode-answer.ts'
import { encodeStream } from './encode-stream.ts'

/** OpenAI's legacy completions API for older clients. Chat models of any upstream format answer it. */
export const openaiCompletions: ClientProtocol = {
  name: 'openai-completions',
  style: 'completions',
  path: '/completions',
  decodeRequest,
  encodeAnswer,
  encodeStream,
  encodeFailure: encodeOpenaiFailure,
  rateLimitNames: openaiRateLimits,
  recognises: ({ prompt }) => typeof prompt === 'string' || isList(prompt),
}
