import type { Protocol, SameFormat, TokenCounting } from '../../core/protocol.ts'
import { decodeOpenaiFailure, encodeOpenaiFailure } from '../errors/openai-error.ts'
import { commonSettings } from '../shared/common-settings.ts'
import { lowerMembers } from '../shared/lower-output.ts'
import { openaiRateLimits } from '../shared/rate-limit-names.ts'
import { toolRestorer } from '../shared/restore-tool-names.ts'
import { toolName } from '../shared/tool-names.ts'
import { assembleAnswer } from './assemble-answer.ts'
import { tokenCounting } from './count-tokens.ts'
import { decodeAnswer } from './decode-answer.ts'
import { decodeRequest } from './decode-request.ts'
import { decodeStream } from './decode-stream.ts'
import { encodeAnswer } from './encode-answer.ts'
import { adaptRequest, encodeRequest, inOwnShape, omittedItems } from './encode-request.ts'
import { encodeStream } from './encode-stream.ts'
import { passAnswer, passStream } from './pass-stream.ts'
import { statesCost } from './states-cost.ts'

const SETTINGS: NonNullable<SameFormat['settings']> = {
  ...commonSettings,
  maxOutputTokens: { path: 'max_output_tokens' },
  effort: { path: 'reasoning.effort' },
  verbosity: { path: 'text.verbosity' },
}

/** OpenAI's Responses API and Open Responses, which is based on it. */
export const openaiResponses: Protocol & { readonly counting: TokenCounting } = {
  name: 'openai-responses',
  style: 'responses',
  path: '/responses',
  decodeRequest,
  inOwnShape,
  counting: tokenCounting,
  encodeRequest,
  passing: {
    adaptRequest,
    lowerOutput: lowerMembers('max_output_tokens'),
    settings: SETTINGS,
    omittedEntries: omittedItems,
    passStream,
    assembleAnswer,
    passAnswer,
  },
  restore: toolRestorer(toolName, { supportsCustomTools: true }),
  decodeAnswer,
  encodeAnswer,
  decodeStream,
  encodeStream,
  decodeFailure: decodeOpenaiFailure,
  ranges: { temperature: [0, 2], top_p: [0, 1], top_logprobs: [0, 20] },
  encodeFailure: encodeOpenaiFailure,
  storesAnswers: true,
  hidesIssuer: true,
  rateLimitNames: openaiRateLimits,
  recognises: ({ input, instructions }) => input !== undefined || instructions !== undefined,
  statesCost,
  repeatsRequest: true,
}
