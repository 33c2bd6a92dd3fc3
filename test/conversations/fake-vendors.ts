/** The fake vendors of one conversation: their outages, and the requests they have received. */
import type { JsonObject } from '../../src/core/json.ts'
import { type Answer, VendorIds } from './answers.ts'
import type { Conversation } from './conversation.ts'
import { streams, wantsStream } from './streams.ts'
import { FakeVendor, LENIENT, type Result, type Vendor } from './vendors.ts'

/** A request that a vendor received, and its response. */
export type Upstream = Result & { readonly vendor: string }

/** The response of a vendor: a JSON body, or the pieces of a stream. */
export type Sent =
  | { readonly status: number; readonly body: JsonObject }
  | { readonly mediaType: string; readonly pieces: readonly (string | Uint8Array)[] }

const OUTAGE: { readonly [outage in Conversation['outage']]?: Sent } = {
  down: { status: 503, body: { error: { message: 'Service unavailable', type: 'server_error' } } },
  'rate-limited': { status: 429, body: { error: { message: 'Rate limit reached', type: 'rate_limit_error' } } },
}

export class FakeVendors {
  /** The targets of the conversation, in order. */
  readonly vendors: readonly Vendor[]
  readonly #fakes: ReadonlyMap<string, FakeVendor>
  readonly #outage: Conversation['outage']
  #answer: Answer = { thought: '' }
  #isDown = false
  #calls: Upstream[] = []

  constructor({ first, second, outage }: Pick<Conversation, 'first' | 'second' | 'outage'>) {
    this.vendors = [first, second, LENIENT]
    this.#fakes = new Map(
      this.vendors.map((vendor) => [vendor.name, new FakeVendor(vendor, new VendorIds(vendor.name))]),
    )
    this.#outage = outage
  }

  /** Starts a turn. Returns the list of its upstream calls, to which each call is added. */
  begin(answer: Answer, isDown: boolean): readonly Upstream[] {
    this.#answer = answer
    this.#isDown = isDown
    this.#calls = []
    return this.#calls
  }

  /** The response of a vendor to this request. */
  receive(name: string, path: string, body: JsonObject): Sent {
    const fake = this.#fakes.get(name)
    if (!fake) throw new Error(`${name} is no vendor of this conversation`)
    const outage = this.#isDown && name === this.vendors[0]?.name ? OUTAGE[this.#outage] : undefined
    if (outage) return outage
    const result = fake.answer(path, body, this.#answer)
    this.#calls.push({ ...result, vendor: name })
    if (result.status !== 200 || !wantsStream(path, body)) return result
    const { mediaType, pieces } = streams[result.wire]
    return { mediaType, pieces: pieces(result.body) }
  }

  /** Whether a request contains a signature or a reasoning id of another vendor. */
  hasForeignSignature(vendor: string, body: string): boolean {
    return [...this.#fakes.values()].some(
      (fake) => fake.vendor.name !== vendor && [...fake.ids.signatures].some((signature) => body.includes(signature)),
    )
  }
}
