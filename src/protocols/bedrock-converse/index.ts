import type { UpstreamProtocol } from '../../core/protocol.ts'
import { eventStream } from '../event-stream.ts'
import { restoring } from '../restore.ts'
import { decodeAnswer, decodeStream } from './decode.ts'
import { encodeRequest } from './encode-request.ts'
import { decodeFailure } from './failure.ts'
import { toolName } from './ids.ts'

/** Amazon Bedrock's Converse and ConverseStream: one format for the models of many makers. */
export const bedrockConverse: UpstreamProtocol = {
  name: 'bedrock-converse',
  style: 'bedrock',
  path: '/model/{model}/converse',
  streamPath: '/model/{model}/converse-stream',
  framing: eventStream,
  encodeRequest,
  restore: restoring(toolName),
  decodeAnswer,
  decodeStream,
  decodeFailure,
}
