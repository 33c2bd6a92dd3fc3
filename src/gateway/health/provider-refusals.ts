/**
 * What providers have rejected: protocols, members of requests, reasoning signatures of other providers, and too many
 * inputs in one embeddings call. Entries expire after ten minutes.
 */

import { BoundedMap } from '../../core/bounded-map.ts'
import type { UpstreamProtocolName } from '../../core/chat.ts'
import type { Json } from '../../core/json.ts'
import type { Instance } from '../../core/provider.ts'
import { type Candidate, endpointId, modelId } from '../../core/target.ts'
import type { World } from '../../core/world.ts'

/** Lifetime of an entry in ms. Servers are upgraded, so what was rejected is then sent again. */
const LIFETIME = 600_000

/** What each endpoint and model has rejected recently. */
export class ProviderRefusals {
  readonly #world: World
  /** Expiry times (ms of the monotonic clock) by endpoint or model, and what it rejected. */
  readonly #expiry = new BoundedMap<number>()
  /** The latest expiry time of any entry, by model. */
  readonly #latestExpiry = new BoundedMap<number>()
  /** Most inputs in one embeddings call, by model. */
  readonly #batches = new BoundedMap<{ readonly inputs: number; readonly until: number }>()

  constructor(world: World) {
    this.#world = world
  }

  /** Records that the endpoint does not support this protocol. */
  noteProtocol(instance: Instance, protocol: UpstreamProtocolName): void {
    this.#expiry.set(protocolId(instance, protocol), this.#world.now() + LIFETIME)
  }

  /** The protocols of the instance that its endpoint has recently not supported. */
  protocolsOf(instance: Instance): readonly UpstreamProtocolName[] {
    if (this.#expiry.isEmpty) return NO_PROTOCOLS
    const protocols = instance.speaks.map(({ protocol }) => protocol)
    return protocols.filter((protocol) => this.#isRecent(this.#expiry.get(protocolId(instance, protocol))))
  }

  /** Whether the model has any entry. If not, the caller skips one lookup for each member of the request. */
  hasRecent(candidate: Candidate): boolean {
    if (this.#latestExpiry.isEmpty) return false
    return this.#isRecent(this.#latestExpiry.get(modelId(candidate)))
  }

  /**
   * Records a rejected member of the body (`store`), of an object in it (`generationConfig.topK`), or of its messages or
   * items (`messages.foo`). `value`: only this value of it was rejected.
   */
  noteMember(candidate: Candidate, path: string, value?: Json): void {
    if (value === undefined) return this.#note(candidate, `member ${path}`)
    this.#note(candidate, `values ${path}`)
    this.#note(candidate, valueId(path, value))
  }

  /** Whether the model has rejected this member, or this value of it. */
  hasMember(candidate: Candidate, path: string, value?: Json): boolean {
    if (this.#has(candidate, `member ${path}`)) return true
    return value !== undefined && this.#has(candidate, `values ${path}`) && this.#has(candidate, valueId(path, value))
  }

  /** Removes what `noteMember` recorded: the model refuses the request without the member too. */
  forgetMember(candidate: Candidate, path: string, value?: Json): void {
    this.#expiry.delete(`${modelId(candidate)} ${value === undefined ? `member ${path}` : valueId(path, value)}`)
  }

  /** Records a rejected reasoning signature. It is identified by its length and its last 48 characters. */
  noteSignature(candidate: Candidate, signature: string): void {
    this.#note(candidate, signatureId(signature))
  }

  /** Whether the model has rejected this reasoning signature. */
  hasSignature(candidate: Candidate, signature: string): boolean {
    return this.#has(candidate, signatureId(signature))
  }

  /** Records the most inputs that the model takes in one embeddings call. */
  noteBatch(candidate: Candidate, inputs: number): void {
    this.#batches.set(modelId(candidate), { inputs, until: this.#world.now() + LIFETIME })
  }

  /** The most inputs that the model takes in one embeddings call. Undefined: unknown. */
  batchOf(candidate: Candidate): number | undefined {
    if (this.#batches.isEmpty) return undefined
    const batch = this.#batches.get(modelId(candidate))
    return this.#isRecent(batch?.until) ? batch?.inputs : undefined
  }

  #note(candidate: Candidate, part: string): void {
    const until = this.#world.now() + LIFETIME
    const model = modelId(candidate)
    this.#expiry.set(`${model} ${part}`, until)
    this.#latestExpiry.set(model, until)
  }

  #has(candidate: Candidate, part: string): boolean {
    return this.#isRecent(this.#expiry.get(`${modelId(candidate)} ${part}`))
  }

  #isRecent(until = 0): boolean {
    return until > this.#world.now()
  }
}

const NO_PROTOCOLS: readonly UpstreamProtocolName[] = []
const protocolId = (instance: Instance, protocol: UpstreamProtocolName): string =>
  `protocol ${protocol} ${endpointId(instance)}`

/** Only short values are recorded; longer ones differ in each request. */
const valueId = (path: string, value: Json): string => `value ${path} ${JSON.stringify(value).slice(0, 200)}`

const signatureId = (signature: string): string => `signature ${signature.length} ${signature.slice(-48)}`
