import type { UpstreamProtocol } from '../../core/protocol.ts'
import { ndjson } from '../framing/ndjson.ts'
import { toolRestorer } from '../shared/restore-tool-names.ts'
import { decodeAnswer, decodeStream } from './decode-answer.ts'
import { encodeRequest } from './encode-request.ts'
import { decodeFailure } from './errors.ts'

/** Ollama's own chat API, a line of JSON for each piece of a stream. */
export const ollama: UpstreamProtocol = {
  name: 'ollama',
  style: 'ollama',
  path: '/api/chat',
  encodeRequest,
  // Names need no change here; free-form tools were wrapped.
  restore: toolRestorer((name) => name),
  decodeAnswer,
  framing: ndjson,
  decodeStream,
  decodeFailure,
}
