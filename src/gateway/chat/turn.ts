/** A turn of a stored conversation, as far as a chat call needs it. `responses/conversation.ts` implements it. */
import type { Failure, Outcome } from '../../core/failure.ts'
import type { StorageInfo } from '../../core/protocol.ts'
import type { ProviderKey } from '../../core/provider.ts'
import type { Candidate, Target } from '../../core/target.ts'
import type { Eventual } from '../accounts/authority.ts'
import type { AnswerStream } from '../upstream/attempt.ts'
import type { InboundRequest, OutboundRequest } from '../upstream/outbound-request.ts'

/** Makes the same change to another request of a turn. */
export type ChangeContinuation = (continuation: InboundRequest) => Eventual<Outcome<InboundRequest>>

/** One turn of a stored conversation. */
export type StoredTurn = {
  /** The request with all earlier turns. */
  readonly inbound: InboundRequest
  readonly storage: StorageInfo
  /**
   * Sends this request instead, which guards have changed. What is stored stays. `change` changes the continuation of a
   * conversation at the provider that stores it. Returns why it cannot.
   */
  send(inbound: InboundRequest, change: ChangeContinuation): Promise<Failure | null>
  /** The request for this target: a target that stores the conversation itself receives only the new turn. */
  inboundFor(target: Target): InboundRequest
  /** The keys with the one that holds the stored conversation first. */
  preferredKeys(candidate: Candidate, keys: Iterable<ProviderKey>): Iterable<ProviderKey>
  /** Whether the failure means that the provider's stored conversation has expired: the whole conversation is then sent once. */
  isExpiredUpstream(sent: InboundRequest, failure: Failure): boolean
  /** The failure as the client receives it. */
  asClientError(failure: Failure): Failure
  /** Records which target answered. */
  answeredBy(target: Target, prepared: OutboundRequest, stream: AnswerStream): void
}
