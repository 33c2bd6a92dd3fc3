import type { UpstreamProtocol } from '../../core/protocol.ts'
import { toolRestorer } from '../shared/restore-tool-names.ts'
import { decodeAnswer, decodeStream } from './decode-answer.ts'
import { encodeRequest } from './encode-request.ts'
import { decodeFailure } from './errors.ts'
import { toolName } from './ids.ts'

/** Cohere's chat API, version 2. */
export const cohere: UpstreamProtocol = {
  name: 'cohere',
  style: 'cohere',
  path: '/v2/chat',
  encodeRequest,
  restore: toolRestorer(toolName),
  decodeAnswer,
  decodeStream,
  decodeFailure,
}
