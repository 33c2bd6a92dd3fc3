import type { UpstreamProtocol } from '../../core/protocol.ts'
import { ndjson } from '../framing/ndjson.ts'
import { toolRestorer } from '../shared/restore-tool-names.ts'
import { decodeAnswer, decodeStream } from './decode-answer.ts'
import { encodeRequest } from './encode-request.ts'
import { decodeFailure } from './errors.ts'

/** Ollama's own chat API; streams are newline-delimited JSON. */
export const ollama: UpstreamProtocol = {
  name: 'ollama',
  style: 'ollama',
  path: '/api/chat',
  encodeRequest,
  // Names are unchanged; free-form input was wrapped.
  restore: toolRestorer((name) => name),
  decodeAnswer,
  framing: ndjson,
  decodeStream,
  decodeFailure,
}
