import type { IncomingRequest, RequestBody, ResponseWriter } from './http-exchange.ts'
import type { Secret } from './secret.ts'
import type { UpstreamCall, UpstreamListener } from './world.ts'

/** Keeps the bodies of calls for which the operator has enabled it. */
export type BodyKeeper = {
  /** Null: the bodies of this call are not kept. */
  open(received: IncomingRequest<RequestBody>): CallBodies | null
}

/** Records the bodies of one call. */
export type CallBodies = {
  /** Records the request of an attempt, and its answer as the returned listener receives it. In the order of attempts. */
  attempt(call: KeptAttempt, listener: UpstreamListener): UpstreamListener
  /** Records the headers of the response, and the time, size and type of the events that the returned writer writes. */
  response(writer: ResponseWriter): ResponseWriter
  /** Stores what was recorded. Nothing later is recorded. */
  end(): void
}

/** `secret`: the credential of the attempt, which must not be stored. */
export type KeptAttempt = Pick<UpstreamCall, 'url' | 'headers' | 'body'> & { readonly secret: Secret | null }
