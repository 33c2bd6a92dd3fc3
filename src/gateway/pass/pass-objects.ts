/** Separates clients that use one account of a provider: whose the objects are that a call names, makes and lists. */
import { textOf } from '../../core/encoded-text.ts'
import { type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import { isObject, type JsonObject, readJson } from '../../core/json.ts'
import type { BatchWatch } from '../../core/pass-batches.ts'
import type { PassObjects, PassOwner } from '../../core/pass-objects.ts'
import type { PassThrough } from '../../core/pass-through.ts'
import { mayHaveBatches } from '../../policy/pass/batches.ts'
import { LOCATIONS } from '../../policy/pass/headers.ts'
import {
  filteredList,
  idsInPath,
  isOwn,
  listIn,
  listsAll,
  MAX_IDS,
  madeObjects,
  namedObjects,
  objectsInAddress,
} from '../../policy/pass/objects.ts'
import type { KeptPass, PassHead } from './pass-attempt.ts'
import { batchCall, type PassCall } from './pass-call.ts'

const UNKNOWN = fail('not_found', 'The object does not exist.')
const TOO_MANY = fail('invalid_request', `The call names more than ${MAX_IDS} objects.`)
const UNAVAILABLE = fail('storage', 'The owners of objects are not known, so clients cannot be separated.')

/** Absent: clients cannot be separated, and no batch is booked. */
export type CallStores = { readonly store: PassObjects | undefined; readonly batches: BatchWatch | undefined }

/** The objects of one call. */
export class CallObjects {
  readonly #call: PassCall
  readonly #store: PassObjects
  readonly #isolate: PassThrough['isolate']
  readonly #own: PassOwner
  /** Absent: no batch is booked. */
  readonly #batches: BatchWatch | undefined

  constructor(call: PassCall, { store, batches }: CallStores, isolate: PassThrough['isolate']) {
    this.#call = call
    this.#store = store ?? NO_STORE
    this.#batches = batches
    this.#isolate = isolate
    const { client } = call.received
    this.#own = { team: client.team.id, key: client.id }
  }

  /** Why the call may not be made, or null. An object of others is as one that does not exist. */
  async refusal(): Promise<Failure | null> {
    if (this.#isolate === 'none') return null
    const { method, address, received, members, instance } = this.#call
    const { certain, possible } = namedObjects({ method, path: address.path, query: received.query }, members)
    if (certain.size + possible.size > MAX_IDS) return TOO_MANY
    const found = await this.#store.owners(instance.id, [...certain, ...possible])
    if (!found.ok) return found.failure
    const isForeign = (id: string) => found.value.has(id) && !this.#isOwn(found.value, id)
    if ([...certain].some((id) => !this.#isOwn(found.value, id)) || [...possible].some(isForeign)) return UNKNOWN
    return null
  }

  /** Whether the answer is read before it is sent: it may name objects and batches. Contents of files are none. */
  kept({ status, headers }: PassHead): KeptPass {
    const { method, address, received } = this.#call
    const { path } = address
    if (status >= 300 || !/[/+]json/.test(headers('content-type') ?? '')) return 'none'
    if (this.#isolate === 'none') return mayHaveBatches(path) ? 'small' : 'none'
    if (method !== 'GET') return 'whole'
    if (/\/(?:content|results)$|:download$/.test(path) || /(?:^|&)alt=media/.test(received.query)) return 'none'
    return listsAll(method, path) ? 'whole' : 'small'
  }

  /** The answer as its client may see it, after the objects in it have been stored as its own. */
  async checked(body: Uint8Array): Promise<Outcome<Uint8Array | string>> {
    const answer = readJson(textOf(body))
    if (!isObject(answer)) return good(body)
    const { method, address } = this.#call
    const unbooked = mayHaveBatches(address.path) && (await this.#batches?.observe(batchCall(this.#call), answer))
    if (unbooked) return { ok: false, failure: unbooked }
    if (this.#isolate === 'none') return good(body)
    if (listsAll(method, address.path)) return this.#filtered(answer, body)
    const failure = await this.#store.keep(this.#call.instance.id, this.#made(answer), this.#own)
    return failure ? { ok: false, failure } : good(body)
  }

  /** Stores what the addresses in an answer name as the client's own: its next call must name it. Returns why it cannot be stored. */
  async keepAddressed({ headers }: PassHead): Promise<Failure | null> {
    const { method, instance } = this.#call
    if (this.#isolate === 'none' || method === 'GET' || method === 'HEAD') return null
    const made = LOCATIONS.flatMap((name) => objectsInAddress(headers(name) ?? ''))
    return made.length === 0 ? null : this.#store.keep(instance.id, made, this.#own)
  }

  /** Those of a call that reads belong to the object that it names, which is the client's. */
  #made(answer: JsonObject): readonly string[] {
    const { method, address } = this.#call
    const isShared =
      method === 'GET' && /\/models\/[^/]+$/.test(address.path) && idsInPath(method, address.path).length === 0
    return isShared ? [] : madeObjects(answer)
  }

  async #filtered(answer: JsonObject, body: Uint8Array): Promise<Outcome<Uint8Array | string>> {
    const list = listIn(answer)
    if (!list) return good(body)
    const found = await this.#store.owners(this.#call.instance.id, list.ids)
    if (!found.ok) return found
    return good(JSON.stringify(filteredList(answer, list, (id) => this.#isOwn(found.value, id))))
  }

  #isOwn(owners: ReadonlyMap<string, PassOwner>, id: string): boolean {
    return isOwn(owners.get(id), this.#own, this.#isolate)
  }
}

/** A failure: the clients cannot be separated. */
export const objectsOf = (stores: CallStores, call: PassCall): CallObjects | Failure => {
  const isolate = call.instance.passThrough?.isolate ?? 'team'
  return stores.store || isolate === 'none' ? new CallObjects(call, stores, isolate) : UNAVAILABLE
}

const NO_STORE: PassObjects = { keep: async () => null, owners: async () => good(new Map()), close: async () => {} }
