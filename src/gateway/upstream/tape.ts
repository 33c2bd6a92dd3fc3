/** What calls ask of recordings. Only a gateway with a tape has this. */
import type { HeaderLookup } from '../../core/headers.ts'
import type { Target } from '../../core/target.ts'
import type { Dial } from '../../core/world.ts'
import type { InboundRequest, OutboundRequest } from './outbound-request.ts'

/** Records calls, or answers them from recordings. */
export type Tape = {
  readonly chat: (inbound: InboundRequest) => TapedCall
  /** A call whose answer is one JSON body: embeddings, a token count. */
  readonly json: (headers: HeaderLookup) => TapedCall
}

/** One call of a client with all of its attempts. */
export type TapedCall = {
  /** The request to a target. If its answer is recorded, that is read in the format in which it was recorded. */
  readonly prepared: (own: OutboundRequest, target: Target) => OutboundRequest
  /** Makes the connection of an attempt. `prepared`: null for a JSON call. */
  readonly dial: (target: Target, prepared: Pick<OutboundRequest, 'protocol' | 'stream'> | null) => Dial
}
