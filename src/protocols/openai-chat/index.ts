import type { Protocol, SameFormat } from '../../core/protocol.ts'
import { decodeOpenaiFailure, encodeOpenaiFailure } from '../errors/openai-error.ts'
import { splitList } from '../shared/choices.ts'
import { commonSettings } from '../shared/common-settings.ts'
import { lowerMembers } from '../shared/lower-output.ts'
import { openaiRateLimits } from '../shared/rate-limit-names.ts'
import { toolRestorer } from '../shared/restore-tool-names.ts'
import { toolName } from '../shared/tool-names.ts'
import { assembleAnswer } from './assemble-answer.ts'
import { encodeChoices } from './choices.ts'
import { decodeAnswer } from './decode-answer.ts'
import { decodeRequest } from './decode-request.ts'
import { decodeStream } from './decode-stream.ts'
import { encodeAnswer } from './encode-answer.ts'
import { adaptRequest, encodeRequest } from './encode-request.ts'
import { encodeStream } from './encode-stream.ts'
import { passAnswer } from './pass-answer.ts'
import { passStream } from './pass-stream.ts'
import { statesCost } from './states-cost.ts'

const SETTINGS: NonNullable<SameFormat['settings']> = {
  ...commonSettings,
  // Compatible servers take it; what a provider does not accept is left out.
  topK: { path: 'top_k' },
  maxOutputTokens: { path: 'max_completion_tokens' },
  stop: { path: 'stop' },
  seed: { path: 'seed' },
  effort: { path: 'reasoning_effort' },
  verbosity: { path: 'verbosity' },
}

/** OpenAI's chat completions, and compatible servers. */
export const openaiChat: Protocol = {
  name: 'openai-chat',
  style: 'chat',
  path: '/chat/completions',
  decodeRequest,
  encodeRequest,
  restore: toolRestorer(toolName),
  passing: {
    adaptRequest,
    lowerOutput: lowerMembers('max_completion_tokens', 'max_tokens'),
    settings: SETTINGS,
    passStream,
    assembleAnswer,
    passAnswer,
  },
  decodeAnswer,
  encodeAnswer,
  lenientEvents: true,
  decodeStream,
  encodeStream,
  choices: { split: splitList('choices') },
  encodeChoices,
  decodeFailure: decodeOpenaiFailure,
  ranges: { temperature: [0, 2], top_p: [0, 1], presence_penalty: [-2, 2], frequency_penalty: [-2, 2] },
  encodeFailure: encodeOpenaiFailure,
  // `api-key`: clients of Azure's service.
  keyHeaders: ['x-api-key', 'api-key'],
  rateLimitNames: openaiRateLimits,
  statesCost,
}
