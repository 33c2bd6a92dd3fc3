import { isList } from '../../core/json.ts'
import type { Protocol } from '../../core/protocol.ts'
import { openaiRateLimits } from '../shared/rate-limit-names.ts'
import { toolRestorer } from '../shared/restore-tool-names.ts'
import { adaptRequest, lowerOutput } from './adapt-request.ts'
import { choices } from './choices.ts'
import { tokenCounting } from './count-tokens.ts'
import { decodeAnswer, decodeStream } from './decode-answer.ts'
import { decodeRequest } from './decode-request.ts'
import { encodeAnswer } from './encode-answer.ts'
import { encodeRequest } from './encode-request.ts'
import { encodeChoices, encodeStream } from './encode-stream.ts'
import { decodeFailure, encodeFailure } from './errors.ts'
import { toolName } from './ids.ts'
import { streamForm } from './list-stream.ts'
import { passStream } from './pass-stream.ts'
import { serverTimeout } from './request-path.ts'

/** Google's generateContent, in the form of the Gemini Developer API. */
export const gemini: Protocol = {
  name: 'gemini',
  style: 'gemini',
  path: '/models/{model}:generateContent',
  streamPath: '/models/{model}:streamGenerateContent?alt=sse',
  decodeRequest,
  encodeRequest,
  // The responses of a stream are not joined: an answer that was streamed upstream is encoded from its events.
  passing: { adaptRequest, lowerOutput, passStream, assembleAnswer: () => null },
  restore: toolRestorer(toolName),
  decodeAnswer,
  encodeAnswer,
  decodeStream,
  encodeStream,
  streamForm,
  choices,
  encodeChoices,
  decodeFailure,
  encodeFailure,
  counting: tokenCounting,
  errorSchema: 'GeminiError',
  // Google's clients read none of these; `retry-after` and `RetryInfo` tell them when to try again.
  rateLimitNames: openaiRateLimits,
  keyHeaders: ['x-goog-api-key'],
  keyParameters: ['key', 'access_token'],
  recognises: ({ contents }) => isList(contents),
  deadline: serverTimeout,
}
