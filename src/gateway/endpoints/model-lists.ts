/**
 * The providers' own lists of models: fetched in the background, kept, never waited for. A provider that does not
 * answer keeps the list it had.
 */
import { isObject, type Json, list, parseJson, text } from '../../core/json.ts'
import type { Instance } from '../../core/provider.ts'
import type { Cancel, World } from '../../core/world.ts'
import { utf8 } from '../../protocols/framing/utf8.ts'
import { identityOf, providerHeaders } from '../upstream/outbound-request.ts'

/** ms between fetches of a list that came, and of one that did not. */
const FRESH = 10 * 60_000
const RETRY = 60_000
/** Longest a provider may take (ms), largest list (bytes), most names kept of one. */
const LIMIT = { time: 10_000, size: 8 * 1024 * 1024, names: 5_000 }

export class ModelLists {
  readonly #world: World
  /** Made anew with every change: what was decided by the old ones can be told by that. */
  #lists: ReadonlyMap<string, readonly string[]> = new Map()
  #timers: Cancel[] = []

  constructor(world: World) {
    this.#world = world
  }

  get all(): ReadonlyMap<string, readonly string[]> {
    return this.#lists
  }

  /** Begins to fetch for these instances, and forgets the others. */
  follow(instances: readonly Instance[]): void {
    this.stop()
    const ids = new Set(instances.map(({ id }) => id))
    this.#lists = new Map([...this.#lists].filter(([id]) => ids.has(id)))
    for (const instance of instances) if (instance.provider.models) this.#fetch(instance)
  }

  stop(): void {
    for (const cancel of this.#timers) cancel()
    this.#timers = []
  }

  /** `slot`: where what ends it is kept, now and when it is fetched again. */
  #fetch(instance: Instance, slot = this.#timers.length): void {
    const { models } = instance.provider
    const [key] = instance.keys
    if (!models || !key) return
    let over = false
    const done = (names: readonly string[] | null) => {
      if (over) return
      over = true
      if (names) this.#lists = new Map(this.#lists).set(instance.id, names)
      call.abort()
      this.#timers[slot] = this.#world.later(names ? FRESH : RETRY, () => this.#fetch(instance, slot))
    }
    const decode = utf8()
    const pieces: string[] = []
    let size = 0
    let status = 0
    const identity = identityOf(instance, key)
    const call = this.#world.dial(
      {
        ...(identity && { identity }),
        method: 'GET',
        url: instance.baseUrl + models.path,
        headers: { accept: 'application/json', ...providerHeaders(instance, key) },
        connectTimeout: LIMIT.time,
      },
      {
        onHeaders: (code) => {
          status = code
        },
        onBody: (chunk) => {
          size += chunk.length
          if (size > LIMIT.size) done(null)
          else pieces.push(...decode.push(chunk))
          return true
        },
        onEnd: () =>
          done(status === 200 ? read([...pieces, ...decode.end()].join(''), models.decode ?? openaiList) : null),
        onFailure: () => done(null),
      },
    )
    const cancel = this.#world.later(LIMIT.time, () => done(null))
    this.#timers[slot] = () => {
      over = true
      cancel()
      call.abort()
    }
  }
}

/** OpenAI's list: `{"data":[{"id":…}]}`. */
const openaiList = (body: Json): readonly string[] =>
  isObject(body) ? list(body.data).flatMap((entry) => (isObject(entry) ? (text(entry.id) ?? []) : [])) : []

const read = (source: string, decode: (body: Json) => readonly string[]): readonly string[] | null => {
  try {
    // JSON.parse gives nothing but JSON.
    const names = decode(parseJson(source) as Json).filter((name) => name !== '')
    return names.length > 0 ? [...new Set(names)].slice(0, LIMIT.names) : null
  } catch {
    // Not a list: the same as none, and asked for again later.
    return null
  }
}
