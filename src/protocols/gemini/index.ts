import type { UpstreamProtocol } from '../../core/protocol.ts'
import { toolRestorer } from '../shared/restore-tool-names.ts'
import { choices } from './choices.ts'
import { decodeAnswer, decodeStream } from './decode-answer.ts'
import { encodeRequest } from './encode-request.ts'
import { decodeFailure } from './errors.ts'
import { toolName } from './ids.ts'

/** Google's generateContent, in the form of the Gemini Developer API. */
export const gemini: UpstreamProtocol = {
  name: 'gemini',
  style: 'gemini',
  path: '/models/{model}:generateContent',
  streamPath: '/models/{model}:streamGenerateContent?alt=sse',
  encodeRequest,
  restore: toolRestorer(toolName),
  decodeAnswer,
  decodeStream,
  choices,
  decodeFailure,
}
