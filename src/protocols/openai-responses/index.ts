import type { Protocol } from '../../core/protocol.ts'
import { decodeOpenaiFailure, encodeOpenaiFailure } from '../errors/openai-error.ts'
import { restoreToolNames } from '../shared/tool-names.ts'
import { gather } from './assemble-answer.ts'
import { decodeRequest } from './decode-request.ts'
import { encodeAnswer } from './encode-answer.ts'
import { adaptRequest, encodeRequest, leftOut } from './encode-request.ts'
import { decodeAnswer, decodeStream, encodeStream, passAnswer, passStream } from './stream.ts'

/** OpenAI's Responses API, and Open Responses, which follows it. */
export const openaiResponses: Protocol = {
  name: 'openai-responses',
  style: 'responses',
  path: '/responses',
  decodeRequest,
  encodeRequest,
  passing: { adaptRequest, omittedEntries: leftOut, passStream, assembleAnswer: gather, passAnswer },
  restore: restoreToolNames,
  decodeAnswer,
  encodeAnswer,
  decodeStream,
  encodeStream,
  decodeFailure: decodeOpenaiFailure,
  encodeFailure: encodeOpenaiFailure,
}
