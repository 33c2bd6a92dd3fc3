/** Parses and validates the body of an embeddings request. */

import type { EmbeddingsRequest, EmbeddingsShape } from '../../core/embeddings.ts'
import { good, type Outcome } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import type { TurnScheduler } from '../../core/steps.ts'
import type { ExtentLimits } from '../../policy/request-size.ts'
import { type ParsedBody, readBody, readInTurns } from './parse-request.ts'

/** An embeddings request, parsed. */
export type ParsedEmbeddings = ParsedBody & {
  readonly shape: EmbeddingsShape
  readonly request: EmbeddingsRequest
  /** The client's headers. Absent: none are forwarded. */
  readonly headers?: HeaderLookup
}

/** `path`, `query`: for shapes with members of the request in them. */
type ReceivedEmbeddings = Pick<IncomingRequest, 'body'> & Partial<Pick<IncomingRequest, 'path' | 'query'>>

/** Parses a body. Errors: invalid JSON, limits exceeded, or members that the shape rejects. */
export const parseEmbeddings = (
  shape: EmbeddingsShape,
  received: ReceivedEmbeddings,
  limits: ExtentLimits,
): Outcome<ParsedEmbeddings> => decoded(shape, received, readBody(received.body, limits))

/** The same, a long body in turns of the event loop. */
export const parseEmbeddingsInTurns = async (
  shape: EmbeddingsShape,
  received: ReceivedEmbeddings,
  limits: ExtentLimits,
  turn: TurnScheduler,
): Promise<Outcome<ParsedEmbeddings>> => decoded(shape, received, await readInTurns(received.body, limits, turn))

const decoded = (
  shape: EmbeddingsShape,
  { path, query }: ReceivedEmbeddings,
  read: Outcome<ParsedBody>,
): Outcome<ParsedEmbeddings> => {
  if (!read.ok) return read
  const request = shape.decodeRequest(read.value.body, path, query)
  return request.ok ? good({ ...read.value, shape, request: request.value }) : request
}
