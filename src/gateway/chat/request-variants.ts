/** The forms in which a request is sent to its targets: whole, shortened, or without what a model refused. */
import type { Json } from '../../core/json.ts'
import type { Candidate, Target } from '../../core/target.ts'
import type { UpstreamHealth } from '../health/upstream-health.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'
import { OWN_PARTS, withoutOwnParts } from './own-parts.ts'
import { stripSignatures } from './strip-signatures.ts'
import { truncated } from './truncate.ts'
import type { StoredTurn } from './turn.ts'

type VariantsInput = {
  readonly inbound: InboundRequest
  /** The request for a target, where an earlier turn makes it another one. */
  readonly turn: Pick<StoredTurn, 'inboundFor'> | undefined
  readonly refusals: UpstreamHealth['refusals']
}

export class RequestVariants {
  readonly #input: VariantsInput
  /** The request without signatures, by the id of each provider instance that rejected them. */
  #unsigned: Map<string, InboundRequest> | null = null
  #truncated: InboundRequest | null = null
  /** The request without members that a candidate refused, and the request from which it was derived. */
  #adapted: Map<Candidate, { readonly from: InboundRequest; readonly to: InboundRequest }> | null = null

  constructor(input: VariantsInput) {
    this.#input = input
  }

  /** The request without signatures was sent to this instance. */
  isUnsigned(instanceId: string): boolean {
    return this.#unsigned?.has(instanceId) === true
  }

  /** The request without signatures; null: it has none. */
  withoutSignatures(): InboundRequest | null {
    return stripSignatures(this.#truncated ?? this.#input.inbound)
  }

  sendUnsigned(instanceId: string, unsigned: InboundRequest): void {
    this.#unsigned ??= new Map()
    this.#unsigned.set(instanceId, unsigned)
  }

  /** Leaves out more of the conversation. False: nothing more can be left out. */
  shorten(): boolean {
    const shorter = truncated(this.#truncated ?? this.#input.inbound)
    if (!shorter) return false
    this.#truncated = shorter
    this.#unsigned = null
    return true
  }

  /** A model has refused more of the request. */
  refusedMore(candidate: Candidate): void {
    this.#adapted?.delete(candidate)
  }

  /** The request for this target, including members that its model refused. */
  unadapted(target: Target): InboundRequest {
    return (
      this.#unsigned?.get(target.candidate.instance.id) ??
      this.#truncated ??
      this.#input.turn?.inboundFor(target) ??
      this.#input.inbound
    )
  }

  /** The request as this target receives it. */
  of(target: Target): InboundRequest {
    const inbound = this.unadapted(target)
    const { candidate } = target
    return this.#input.refusals.hasRecent(candidate) ? this.#adaptedFor(candidate, inbound) : inbound
  }

  /** The request without members that this model refused recently; the same object for the same request. */
  #adaptedFor(candidate: Candidate, inbound: InboundRequest): InboundRequest {
    const before = this.#adapted?.get(candidate)
    if (before?.from === inbound) return before.to
    const { refusals } = this.#input
    const stripped = stripSignatures(inbound, (signature) => refusals.hasSignature(candidate, signature)) ?? inbound
    const known = refusals.hasMember(candidate, OWN_PARTS) ? withoutOwnParts(stripped) : stripped
    const to = { ...known, refused: (path: string, value: Json) => refusals.hasMember(candidate, path, value) }
    this.#adapted ??= new Map()
    this.#adapted.set(candidate, { from: inbound, to })
    return to
  }
}
