import type { Protocol } from '../../core/protocol.ts'
import { decodeOpenaiFailure, encodeOpenaiFailure } from '../errors/openai-error.ts'
import { splitList } from '../shared/choices.ts'
import { toolRestorer } from '../shared/restore-tool-names.ts'
import { toolName } from '../shared/tool-names.ts'
import { decodeAnswer, encodeAnswer } from './answer.ts'
import { gather } from './assemble-answer.ts'
import { encodeChoices } from './choices.ts'
import { decodeRequest } from './decode-request.ts'
import { decodeStream } from './decode-stream.ts'
import { adaptRequest, encodeRequest } from './encode-request.ts'
import { encodeStream, passStream } from './encode-stream.ts'
import { passAnswer } from './pass-answer.ts'

/** OpenAI's chat completions, and the servers that imitate it. */
export const openaiChat: Protocol = {
  name: 'openai-chat',
  style: 'chat',
  path: '/chat/completions',
  decodeRequest,
  encodeRequest,
  restore: toolRestorer(toolName),
  passing: { adaptRequest, passStream, assembleAnswer: gather, passAnswer },
  decodeAnswer,
  encodeAnswer,
  lenientEvents: true,
  decodeStream,
  encodeStream,
  choices: { split: splitList('choices') },
  encodeChoices,
  decodeFailure: decodeOpenaiFailure,
  encodeFailure: encodeOpenaiFailure,
}
