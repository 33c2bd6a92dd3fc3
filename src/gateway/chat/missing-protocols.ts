/** The protocols that a request found unsupported at the providers it was sent to. */

import type { UpstreamProtocolName } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import type { Instance } from '../../core/provider.ts'
import type { UpstreamHealth } from '../health/upstream-health.ts'

const NO_PROTOCOLS: ReadonlySet<UpstreamProtocolName> = new Set()

export class MissingProtocols {
  readonly #refusals: UpstreamHealth['refusals']
  /** Null: none. */
  #missing: Map<Instance, Set<UpstreamProtocolName>> | null = null

  constructor(refusals: UpstreamHealth['refusals']) {
    this.#refusals = refusals
  }

  /** Also those that earlier requests found. */
  at(instance: Instance): ReadonlySet<UpstreamProtocolName> {
    const known = this.#refusals.protocolsOf(instance)
    const found = this.#missing?.get(instance) ?? NO_PROTOCOLS
    return known.length === 0 ? found : new Set([...known, ...found])
  }

  /** Whether the failure means that the instance lacks the protocol that was used, and it has another one to try. Remembers it. */
  note(instance: Instance, used: UpstreamProtocolName | undefined, failure: Failure): boolean {
    const missing = this.#missing?.get(instance) ?? new Set()
    const isLast = this.at(instance).size + 1 >= instance.speaks.length
    if (!used || isLast || missing.has(used) || !isMissingPath(failure)) return false
    this.#missing ??= new Map()
    this.#missing.set(instance, missing.add(used))
    // An error that mentions a model may be about the model: remembered for this request only.
    if (!/model/i.test(failure.upstream?.message ?? '')) this.#refusals.noteProtocol(instance, used)
    return true
  }
}

/**
 * Whether the path does not exist at the provider, rather than the model: 405, 501, or a 404 either without a structured
 * error or with a message about the address.
 */
const isMissingPath = ({ status, upstream }: Failure): boolean => {
  if (status === 405 || status === 501) return true
  const isStructured = upstream?.type !== undefined || upstream?.code !== undefined
  const isAboutPath = /\b(?:url|path|route|endpoint)\b|cannot post/i.test(upstream?.message ?? '')
  return status === 404 && (!isStructured || isAboutPath)
}
