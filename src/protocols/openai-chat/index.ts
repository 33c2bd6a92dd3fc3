import type { Protocol } from '../../core/protocol.ts'
import { splitList } from '../choices.ts'
import { decodeOpenaiFailure, encodeOpenaiFailure } from '../openai-error.ts'
import { toolName } from '../openai-responses/names.ts'
import { restoring } from '../restore.ts'
import { decodeAnswer, encodeAnswer } from './answer.ts'
import { encodeChoices } from './choices.ts'
import { gather } from './gather.ts'
import { passAnswer } from './pass-answer.ts'
import { decodeRequest } from './request-decode.ts'
import { adaptRequest, encodeRequest } from './request-encode.ts'
import { decodeStream } from './stream-decode.ts'
import { encodeStream, passStream } from './stream-encode.ts'

/** OpenAI's chat completions, and the servers that imitate it. */
export const openaiChat: Protocol = {
  name: 'openai-chat',
  style: 'chat',
  path: '/chat/completions',
  decodeRequest,
  encodeRequest,
  restore: restoring(toolName),
  passing: { adaptRequest, passStream, gather, passAnswer },
  decodeAnswer,
  encodeAnswer,
  looseEvents: true,
  decodeStream,
  encodeStream,
  choices: { split: splitList('choices') },
  encodeChoices,
  decodeFailure: decodeOpenaiFailure,
  encodeFailure: encodeOpenaiFailure,
}
