import { BoundedMap } from '../../core/bounded-map.ts'
import type { ReasoningSignature } from '../../core/chat.ts'
import type { Instance } from '../../core/provider.ts'
import { endpointId } from '../../core/target.ts'
import { upstreamProtocols } from '../../protocols/index.ts'

/**
 * The endpoints that issued encrypted reasoning. OpenAI, xAI and the resources of Azure cannot read each other's; accounts of
 * OpenAI can, as measured (manaflow-ai/subrouter#259). Its text does not show the issuer, and clients of the responses API
 * receive it unchanged. If the issuer is unknown, the upstream refuses the reasoning and a second attempt omits it.
 */
export class Issuers {
  readonly #endpoints = new BoundedMap<string>()

  /** Whether no issuer is known. If so, the caller skips one lookup for each reasoning item of the request. */
  get isEmpty(): boolean {
    return this.#endpoints.isEmpty
  }

  /** Records the issuer of encrypted reasoning. Signatures of other formats are labelled. */
  note({ origin, value }: Pick<ReasoningSignature, 'origin' | 'value'>, instance: Instance): void {
    if (upstreamProtocols[origin].hidesIssuer) this.#endpoints.set(identityOf(value), endpointId(instance))
  }

  /** Whether an endpoint other than that of this instance is known to have issued the reasoning. */
  isFromAnother(encrypted: string, instance: Instance): boolean {
    const issuer = this.#endpoints.get(identityOf(encrypted))
    return issuer !== undefined && issuer !== endpointId(instance)
  }
}

/** Its length and its last 48 characters, which include the end of the authentication code. */
const identityOf = (encrypted: string): string => `${encrypted.length} ${encrypted.slice(-48)}`
