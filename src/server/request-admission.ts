/** Admission control: limits on connections, checks of a header block, load shedding and access. */
import { BoundedMap } from '../core/bounded-map.ts'
import { type Failure, fail } from '../core/failure.ts'
import type { Settings } from '../core/settings.ts'
import { type AccessPolicy, accessProblem } from '../policy/access.ts'
import { addressGroup, bufferLimitBytes, type ShedReason } from '../policy/health/shed.ts'
import type { HeldBytes, LoadMeter } from '../runtime/load.ts'
import type { ClientConnection, HttpExchange, IncomingHead } from '../transport/server/http-server.ts'
import { AccessRules, type KeySource } from './access-rules.ts'
import { BodyMemory } from './body-memory.ts'
import { EXPOSED_HEADERS } from './client-formats.ts'
import type { LastCredential } from './key-index.ts'
import { isLoopback } from './local-request.ts'
import type { BegunReply } from './reply.ts'
import { type UnreadAnswers, unreadAnswers } from './unread-answers.ts'

/** Limits of one request. `headBytes`, `target`: in bytes; `headers`: header lines. */
export const REQUEST_LIMITS = { headBytes: 16 * 1024, headers: 100, target: 8 * 1024 }

/** A request in progress. */
export type ActiveRequest = {
  readonly exchange: HttpExchange
  readonly reply: BegunReply
  readonly path: string
  /** Removes it from its connection and from the counts. */
  done(): void
}

/** A client connection and its requests. */
export type ConnectionContext = {
  readonly connection: ClientConnection
  /** The IPv4 address, or the /64 network of an IPv6 address: the unit of the limit per address. */
  readonly network: string
  /** The limit this connection exceeds: its model calls are refused, and it closes after one response. */
  overLimit: ShedReason | null
  /** Requests without a complete response: one, or several if the server emits pipelined requests. */
  active: readonly ActiveRequest[]
  /** Counted bytes of the connection that belong to no request. */
  kept: number
  readonly lastCredential: LastCredential
}

/** Bytes of a connection that may be in memory, whatever else is, before it is known who sends them. */
export const UNKNOWN_BYTES = 4_096

/** `draining`: connections close after their response. `ending`: new requests are refused. */
export type Phase = 'serving' | 'draining' | 'ending'

type AdmissionOptions = {
  readonly port: number
  /** The address the server listens on; absent: every interface. */
  readonly host: string | undefined
  /** The current settings. */
  readonly settings: () => Settings
  readonly load: LoadMeter
  readonly keys: KeySource | undefined
  readonly production: boolean
  readonly secure: boolean
}

/** Decides which connections and requests are served, and counts those in progress. */
export class Admission {
  readonly connections = new Set<ConnectionContext>()
  /** Bytes in memory for requests and responses. */
  readonly held: HeldBytes
  /** Responses that clients have not read. */
  readonly unread: UnreadAnswers
  /** What clients have sent. */
  readonly bodies: BodyMemory
  readonly access: AccessRules
  phase: Phase = 'serving'
  /** HTTP requests in progress. */
  requests = 0
  /** Model calls in progress, over HTTP and WebSocket; limited by `limit.concurrent`. */
  calls = 0
  readonly #settings: () => Settings
  readonly #load: LoadMeter
  readonly #perNetwork = new Map<string, number>()
  #accessPolicy: AccessPolicy
  #lastNetwork = { address: '', network: '' }
  readonly #owners = new BoundedMap<string>()

  constructor({ port, host, settings, load, keys, production, secure }: AdmissionOptions) {
    this.access = new AccessRules(keys, { production })
    this.#settings = settings
    this.#load = load
    this.held = load.held
    const limit = () => bufferLimitBytes(settings().limit)
    this.unread = unreadAnswers(load.held, limit)
    this.bodies = new BodyMemory(load.held, this.unread, limit)
    this.#accessPolicy = {
      loopback: isLoopback(host ?? ''),
      secure,
      keyed: false,
      port,
      hosts: [],
      origins: [],
      exposed: EXPOSED_HEADERS,
    }
  }

  /** Sets the port the server listens on; origins are compared with it. */
  listensOn(port: number): void {
    this.#accessPolicy = { ...this.#accessPolicy, port }
  }

  /** Adds a connection and counts it for its network. */
  connect(connection: ClientConnection): ConnectionContext {
    const { limit } = this.#settings()
    const network = this.networkOf(connection.address)
    const count = (this.#perNetwork.get(network) ?? 0) + 1
    this.#perNetwork.set(network, count)
    const lastCredential = { text: '', digest: '' }
    const context: ConnectionContext = { connection, network, overLimit: null, active: [], kept: 0, lastCredential }
    this.connections.add(context)
    if (this.connections.size > limit.connections) context.overLimit = 'connections'
    else if (limit.connectionsPerAddress > 0 && count > limit.connectionsPerAddress) context.overLimit = 'address'
    return context
  }

  /** Removes a closed connection, and with it the requests it leaves. */
  disconnect(context: ConnectionContext): void {
    this.connections.delete(context)
    const count = (this.#perNetwork.get(context.network) ?? 1) - 1
    if (count > 0) this.#perNetwork.set(context.network, count)
    else this.#perNetwork.delete(context.network)
    this.keep(context, 0)
    for (const request of context.active) {
      request.done()
      request.reply.left()
    }
  }

  /** Sets the bytes of a connection that belong to no request. False: there is no memory for them. */
  keep(context: ConnectionContext, bytes: number): boolean {
    const more = Math.max(0, bytes - UNKNOWN_BYTES) - context.kept
    if (more === 0) return true
    if (more < 0) this.bodies.count(context.network, more)
    else if (this.bodies.take(context.network, more)) return false
    context.kept += more
    return true
  }

  /** The network of an address. The last one is cached: clients and proxies open many connections from one address. */
  networkOf(address: string): string {
    if (address !== this.#lastNetwork.address) this.#lastNetwork = { address, network: addressGroup(address) }
    return this.#lastNetwork.network
  }

  /** The name under which the memory of a client is counted: its key, or the network of its address. */
  memoryOwner(key: string, address: string, headers: IncomingHead['headers']): string {
    if (key !== '') return this.#ownerOf(key)
    return this.networkOf(this.access.addressOf(this.#settings(), { address, headers }))
  }

  /** The same text for each request of a key: it is a name in several maps. */
  #ownerOf(key: string): string {
    const known = this.#owners.get(key)
    if (known !== undefined) return known
    const owner = memoryOwnerOf(key)
    this.#owners.set(key, owner)
    return owner
  }

  /** Connections above `limit.connections` that still get a response, so that health checks work at the limit. */
  get mostConnections(): number {
    const { connections } = this.#settings().limit
    return connections + Math.max(16, Math.ceil(connections / 10))
  }

  /** The host and origin rules; the same object while the settings are the same. */
  accessPolicyFor(settings: Settings): AccessPolicy {
    const { hosts, cors } = settings
    const keyed = this.access.isKeyRequired(settings)
    const policy = this.#accessPolicy
    if (policy.hosts !== hosts || policy.origins !== cors.origins || policy.keyed !== keyed)
      this.#accessPolicy = { ...policy, keyed, hosts, origins: cors.origins }
    return this.#accessPolicy
  }

  /** Why a model call is refused at the current load; null: it is admitted. */
  shed({ overLimit }: Pick<ConnectionContext, 'overLimit'>, limit: Settings['limit']): ShedReason | null {
    return overLimit ?? this.#load.shedding(this.calls, limit)
  }

  /** The path for the log and events, with keys masked. */
  loggedPath(path: string, known: boolean): string {
    return this.access.shownPath(this.#settings(), path, known)
  }
}

/** Why a request is refused for its header block alone; null: it is admitted. */
export const headProblem = (
  head: IncomingHead,
  policy: AccessPolicy,
  secFetchSite: string | undefined,
): Failure | null => {
  const { version, lines, method, target, hosts, headers } = head
  if (!version.startsWith('1.')) return fail('invalid_request', 'The request is not HTTP/1.1.')
  if (lines > REQUEST_LIMITS.headers)
    return fail('invalid_request', `The request has more than ${REQUEST_LIMITS.headers} headers.`, { status: 431 })
  if (target.length > REQUEST_LIMITS.target)
    return fail('invalid_request', 'The request target is longer than 8 KiB.', { status: 414 })
  if (version === '1.1' && headers('host') === undefined)
    return fail('invalid_request', 'The request has no Host header; HTTP/1.1 requires one.')
  return accessProblem({ method, target, host: hosts, origin: headers('origin'), secFetchSite }, policy)
}

/** The name under which unread responses of a client key are counted. It differs from every network address. */
export const memoryOwnerOf = (clientKey: string): string => `key ${clientKey}`

/** A request target without its query. */
export const pathOf = (target: string): string => {
  const mark = target.indexOf('?')
  return mark === -1 ? target : target.slice(0, mark)
}

/** The query of a request target, without its `?`; empty where there is none. */
export const queryOf = (target: string): string => {
  const mark = target.indexOf('?')
  return mark === -1 ? '' : target.slice(mark + 1)
}
