/**
 * The providers' lists of models, fetched in the background. No request waits for them. After a failed fetch the last
 * list stays in use.
 */
import { isObject, type Json, list, parseJson, text } from '../../core/json.ts'
import type { Instance, ModelLimits, Provider } from '../../core/provider.ts'
import type { Cancel, World } from '../../core/world.ts'
import { utf8 } from '../../protocols/framing/utf8.ts'
import { endsIn, limitsIn } from '../../protocols/shared/listed-limits.ts'
import { identityOf, providerHeaders } from '../upstream/outbound-request.ts'

/** ms until the next fetch, after a success and after a failure. */
const REFRESH = 10 * 60_000
const RETRY = 60_000
/** Timeout of a fetch (ms), largest body (bytes), most names of one list. */
const LIMIT = { time: 10_000, size: 8 * 1024 * 1024, names: 5_000 }

/** `ends`: when models end, in ms since 1970. */
type ListedModels = {
  readonly names: readonly string[]
  readonly limits: ReadonlyMap<string, ModelLimits>
  readonly ends: ReadonlyMap<string, number>
}
type OnListed = (instanceId: string, listed: Omit<ListedModels, 'names'>) => void

/** The model lists of the configured providers. */
export class FetchedModelLists {
  readonly #world: World
  readonly #onListed: OnListed
  /** A new Map after each change, so that cached decisions can be compared by identity. */
  #lists: ReadonlyMap<string, readonly string[]> = new Map()
  #timers: Cancel[] = []

  /** `onListed` receives what each list that was fetched states of its models. */
  constructor(world: World, onListed: OnListed = () => {}) {
    this.#world = world
    this.#onListed = onListed
  }

  /** The lists by instance id. */
  get all(): ReadonlyMap<string, readonly string[]> {
    return this.#lists
  }

  /** Fetches the lists of these instances from now on, and removes all others. */
  follow(instances: readonly Instance[]): void {
    this.stop()
    const ids = new Set(instances.map(({ id }) => id))
    this.#lists = new Map([...this.#lists].filter(([id]) => ids.has(id)))
    for (const instance of instances) if (instance.provider.models) this.#fetch(instance)
  }

  /** Ends all fetches and timers. */
  stop(): void {
    for (const cancel of this.#timers) cancel()
    this.#timers = []
  }

  /**
   * `slot`: index in `#timers` of the function that cancels this fetch, later of the timer of the next. `isNative`: from the
   * native path, if there is one.
   */
  #fetch(instance: Instance, slot = this.#timers.length, isNative = true): void {
    const { models } = instance.provider
    const [key] = instance.keys
    if (!models || !key) return
    let finished = false
    const finish = (listed: ListedModels | null) => {
      if (finished) return
      finished = true
      if (listed) {
        this.#lists = new Map(this.#lists).set(instance.id, listed.names)
        this.#onListed(instance.id, listed)
      }
      call.abort()
      cancel()
      if (!listed && status !== 0 && isNative && models.nativePath !== undefined)
        return this.#fetch(instance, slot, false)
      this.#timers[slot] = this.#world.later(listed ? REFRESH : RETRY, () => this.#fetch(instance, slot))
    }
    const decode = utf8()
    const pieces: string[] = []
    let size = 0
    let status = 0
    const identity = identityOf(instance, key)
    const call = this.#world.dial(
      {
        ...(identity && { identity }),
        egress: instance.egress,
        method: 'GET',
        url: listUrl(instance, models, isNative),
        headers: { accept: 'application/json', ...providerHeaders(instance, key) },
        connectTimeout: LIMIT.time,
      },
      {
        onHeaders: (code) => {
          status = code
        },
        onBody: (chunk) => {
          size += chunk.length
          if (size > LIMIT.size) finish(null)
          else pieces.push(...decode.push(chunk))
          return true
        },
        onEnd: () =>
          finish(status === 200 ? modelsIn([...pieces, ...decode.end()].join(''), models.decode ?? openaiList) : null),
        onFailure: () => finish(null),
      },
    )
    const cancel = this.#world.later(LIMIT.time, () => finish(null))
    this.#timers[slot] = () => {
      finished = true
      cancel()
      call.abort()
    }
  }
}

const listUrl = (
  { baseUrl, provider: { basePath = '' } }: Instance,
  { path, nativePath }: NonNullable<Provider['models']>,
  isNative: boolean,
): string =>
  isNative && nativePath !== undefined && baseUrl.endsWith(basePath)
    ? baseUrl.slice(0, baseUrl.length - basePath.length) + nativePath
    : baseUrl + path

/** OpenAI's list: `{"data":[{"id":…}]}`. */
const openaiList = (body: Json): readonly string[] =>
  isObject(body) ? list(body.data).flatMap((entry) => (isObject(entry) ? (text(entry.id) ?? []) : [])) : []

const modelsIn = (source: string, decode: (body: Json) => readonly string[]): ListedModels | null => {
  try {
    // JSON.parse returns only JSON values.
    const body = parseJson(source) as Json
    const names = decode(body).filter((name) => name !== '')
    if (names.length === 0) return null
    return { names: [...new Set(names)].slice(0, LIMIT.names), limits: limitsIn(body), ends: endsIn(body) }
  } catch {
    // Malformed: retried like a failed fetch.
    return null
  }
}
