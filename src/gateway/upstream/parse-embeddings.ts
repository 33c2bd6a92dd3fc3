/** Parses and validates the body of an embeddings request. */

import type { EmbeddingsRequest } from '../../core/embeddings.ts'
import type { EncodedText } from '../../core/encoded-text.ts'
import { good, type Outcome } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { TurnScheduler } from '../../core/steps.ts'
import type { ExtentLimits } from '../../policy/request-size.ts'
import { decodeRequest } from '../../protocols/embeddings/decode-request.ts'
import { type ParsedBody, readBody, readInTurns } from './parse-request.ts'

/** An embeddings request, parsed. */
export type ParsedEmbeddings = ParsedBody & {
  readonly request: EmbeddingsRequest
  /** The client's headers. Absent: none are forwarded. */
  readonly headers?: HeaderLookup
}

/** Parses a body. Errors: invalid JSON, limits exceeded, or members that the format rejects. */
export const parseEmbeddings = (source: EncodedText, limits: ExtentLimits): Outcome<ParsedEmbeddings> =>
  decoded(readBody(source, limits))

/** The same, a long body in turns of the event loop. */
export const parseEmbeddingsInTurns = async (
  source: EncodedText,
  limits: ExtentLimits,
  turn: TurnScheduler,
): Promise<Outcome<ParsedEmbeddings>> => decoded(await readInTurns(source, limits, turn))

const decoded = (read: Outcome<ParsedBody>): Outcome<ParsedEmbeddings> => {
  if (!read.ok) return read
  const request = decodeRequest(read.value.body)
  return request.ok ? good({ ...read.value, request: request.value }) : request
}
