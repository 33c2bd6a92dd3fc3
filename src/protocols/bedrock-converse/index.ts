import type { UpstreamProtocol } from '../../core/protocol.ts'
import { decodeFailure } from '../errors/aws-error.ts'
import { eventStream } from '../framing/event-stream.ts'
import { toolRestorer } from '../shared/restore-tool-names.ts'
import { withBreakpoints } from './breakpoints.ts'
import { decodeAnswer } from './decode-answer.ts'
import { decodeStream } from './decode-stream.ts'
import { encodeRequest } from './encode-request.ts'
import { toolName } from './ids.ts'

/** Amazon Bedrock's Converse and ConverseStream: one format for models of many vendors. */
export const bedrockConverse: UpstreamProtocol = {
  name: 'bedrock-converse',
  style: 'bedrock',
  cacheMark: 'cache_control',
  withBreakpoints,
  path: '/model/{model}/converse',
  streamPath: '/model/{model}/converse-stream',
  framing: eventStream,
  encodeRequest,
  restore: toolRestorer(toolName),
  decodeAnswer,
  decodeStream,
  decodeFailure,
}
