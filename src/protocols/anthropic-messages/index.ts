import { withoutBillingLines } from '../../core/billing-line.ts'
import type { Protocol, UpstreamProtocol } from '../../core/protocol.ts'
import { decodeFailure as decodeAwsError } from '../errors/aws-error.ts'
import { awsChunks } from '../framing/aws-chunks.ts'
import { toolRestorer } from '../shared/restore-tool-names.ts'
import { adaptRequest, lowerOutput, omittedBlocks } from './adapt-request.ts'
import { assembleAnswer } from './assemble-answer.ts'
import { withBreakpoints } from './breakpoints.ts'
import { rateLimitNames, recognises } from './client-facts.ts'
import { tokenCounting } from './count-tokens.ts'
import { decodeAnswer } from './decode-answer.ts'
import { decodeRequest } from './decode-request.ts'
import { decodeStream } from './decode-stream.ts'
import { encodeAnswer } from './encode-answer.ts'
import { encodeRequest } from './encode-request.ts'
import { encodeStream } from './encode-stream.ts'
import { decodeFailure, encodeFailure } from './errors.ts'
import { toolName } from './ids.ts'
import { passStream } from './pass-stream.ts'
import { settings } from './settings.ts'
import { spend } from './spend.ts'

/** Anthropic's Messages API. */
export const anthropicMessages: Protocol = {
  name: 'anthropic-messages',
  style: 'messages',
  cacheMark: 'cache_control',
  withBreakpoints,
  path: '/messages',
  headers: { 'anthropic-version': '2023-06-01' },
  takesBetas: true,
  decodeRequest,
  encodeRequest,
  passing: { adaptRequest, lowerOutput, settings, omittedEntries: omittedBlocks, passStream, assembleAnswer },
  restore: toolRestorer(toolName),
  decodeAnswer,
  encodeAnswer,
  decodeStream,
  encodeStream,
  decodeFailure,
  encodeFailure,
  counting: tokenCounting,
  keyHeaders: ['x-api-key'],
  errorIdHeader: 'request-id',
  errorSchema: 'MessageError',
  rateLimitNames,
  recognises,
  spend,
  steadyBody: withoutBillingLines,
}

const { headers: _, ...withoutHeaders } = anthropicMessages

/** The same in Bedrock's InvokeModel: events in chunks, and errors of AWS. The version is in the body. */
export const bedrockInvoke: UpstreamProtocol = { ...withoutHeaders, framing: awsChunks, decodeFailure: decodeAwsError }
