/**
 * The way in: who may enter, what is refused, where a request goes, and how the house is closed in order. From here
 * inwards nobody sees a connection: a request is a `Received`, an answer a `Reply`.
 */
import { isIP, type Socket } from 'node:net'
import type { EncodedText } from '../../../core/encoded-text.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../../core/failure.ts'
import type { HeaderLookup } from '../../../core/headers.ts'
import type { IncomingRequest } from '../../../core/http-exchange.ts'
import type { Settings } from '../../../core/settings.ts'
import { corsHeaders, type Door, mayEnter, preflightHeaders, presentedKey } from '../../../policy/access.ts'
import { mostHeld, neighbourhood, type Shed, turnedAway } from '../../../policy/health/shed.ts'
import { statusOf } from '../../../policy/reply/final-error.ts'
import { type LoadMeter, measureLoad } from '../../process/load.ts'
import { errorText } from '../server/error-text.ts'
import {
  type ClientConnection,
  closeBehind,
  type Headers,
  type HttpExchange,
  type OpenHttpServer,
  type Problem,
  type RequestHead,
  type ServerTiming,
} from '../server/http-server.ts'
import { http1Server } from '../server/http1-server.ts'
import { bodyProblem, collect, type Waiting } from './body.ts'
import { clientOf, keyRing, type Ring } from './client-keys.ts'
import { errorResponse, idHeaders } from './error-response.ts'
import { maskPath, type OwnKeys, slashesIn } from './mask-path.ts'
import { HttpReply, type ReplyAccounting } from './reply.ts'
import { requestId } from './request-id.ts'
import { allowed, findRoute, type Handlers, isModelPath, type Route, takes } from './routes.ts'
import { type Unread, unreadAnswers } from './unread-answers.ts'
import { type AnswerTurn, SOCKET_TIMING, type SocketTiming, webSockets } from './web-socket.ts'

export type ServerOptions = {
  readonly port: number
  /** Absent: every interface. */
  readonly host: string | undefined
  /** Other processes may listen on the same port, and the system gives each connection to one of them. Rejects with `ENOTSUP` where it cannot. */
  readonly reusePort?: boolean
  readonly front?: keyof typeof FRONTS
  /** The settings now; they may be swapped while the server runs. */
  readonly settings: () => Settings
  readonly handlers: Handlers
  /** Answers a turn that came over a WebSocket. Absent: no path takes any, and who tries is sent to HTTP. */
  readonly answerTurn?: AnswerTurn
  /** A handler threw: a bug of ours. */
  readonly onError: (error: unknown, requestId: string) => void
  /** A request was turned away before any handler saw it. */
  readonly onRefused?: (refused: Refused) => void
  /** An unread answer was ended to make room for other clients. */
  readonly onUnread?: (ended: UnreadEnded) => void
  /** What the process bears; whoever gives it stops it. Absent: the server measures for itself. */
  readonly load?: LoadMeter
  readonly timing?: Partial<Timing>
  readonly socketTiming?: Partial<SocketTiming>
}

export type Refused = {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly status: number
  readonly failure: Failure
  /** The id of the client's key, where it has presented a known one. */
  readonly client?: string
  /** It was turned away for a limit of ours. */
  readonly why?: Shed
}

/** An unread answer that was ended to make room in memory. */
export type UnreadEnded = {
  readonly id: string
  readonly path: string
  /** The id of the client's key; empty where none is needed. */
  readonly client: string
  readonly bytes: number
}

/** All in ms. */
type Timing = ServerTiming & {
  /** For streams to end themselves after they have been told to. */
  readonly farewell: number
}

const TIMING: Timing = {
  head: 10_000,
  request: 60_000,
  check: 1_000,
  // Longer than the minute load balancers keep theirs, so that they close first.
  keepAlive: 65_000,
  // Over a long way, or to a busy client, the last words take their time; what nginx waits for (lingering_timeout).
  linger: 5_000,
  farewell: 1_000,
}

/** Who speaks HTTP with clients; `node:http` is not loaded where nobody asks for it. */
const FRONTS = {
  own: async () => http1Server,
  node: async () => (await import('../server/node-server.ts')).nodeServer,
} as const satisfies Record<string, () => Promise<OpenHttpServer>>

const LIMITS = { headBytes: 16 * 1024, headers: 100, target: 8 * 1024, requestsPerSocket: 10_000 }

/** Below this an unread body is drained as it comes; above, the connection is closed. */
const SMALL_BODY = 64 * 1024

/** A request under way. */
type Live = {
  readonly exchange: HttpExchange
  readonly reply: HttpReply
  readonly path: string
  /** It is one no longer. */
  done(): void
}

/** Whoever is at the other end of a connection. */
type Guest = {
  readonly line: ClientConnection
  readonly loopback: boolean
  readonly neighbourhood: string
  /** One beyond a limit: it is told so, once, in the answer to a model call. */
  crowd: Shed | null
  /** What it has asked and is not answered yet: one request, or several where a front hands them on ahead. */
  here: readonly Live[]
}

type Drain = {
  /** ms to go on serving before the port is closed: balancers need to notice. */
  readonly delay: number
  /** ms for requests under way to finish. */
  readonly timeout: number
  /** Tells every stream still under way to say its farewell in-band. */
  readonly endStreams: () => void
  /** What else is under way that no client waits for. */
  readonly pending?: () => number
}

export type Server = {
  readonly port: number
  readonly draining: () => boolean
  /** Requests under way. */
  readonly live: () => number
  readonly connections: () => number
  /** Ends in order; resolves when nothing is left. Called again: goes on to the end at once. */
  readonly drain: (how: Drain) => Promise<void>
  /** Ends at once. */
  readonly close: () => Promise<void>
}

/** Rejects with Node's error when it cannot listen (`EADDRINUSE`, `EACCES`). */
export const startServer = async (options: ServerOptions): Promise<Server> => {
  const timing: Timing = { ...TIMING, ...options.timing }
  const guests = new Set<Guest>()
  let busy = 0
  const { access, shownPath } = accessRules()
  const loggedPath = (path: string): string => shownPath(options.settings(), path, 'routes' in findRoute(path))
  const reportRefused = (refused: Refused): void => options.onRefused?.({ ...refused, path: loggedPath(refused.path) })
  const reportUnread = (ended: UnreadEnded): void => options.onUnread?.({ ...ended, path: loggedPath(ended.path) })
  const load = options.load ?? measureLoad()
  const { held } = load
  const unread = unreadAnswers(held, () => mostHeld(options.settings().limit))
  const addresses = new Map<string, number>()
  const placeOf = places()
  let calls = 0
  let draining = false
  let ending = false
  let door: Door = {
    loopback: isLoopback(options.host ?? ''),
    keyed: false,
    port: options.port,
    hosts: [],
    origins: [],
  }
  const doorFor = ({ hosts, cors, auth }: Settings): Door => {
    const keyed = auth.keys.length > 0
    if (door.hosts !== hosts || door.origins !== cors.origins || door.keyed !== keyed)
      door = { ...door, keyed, hosts, origins: cors.origins }
    return door
  }

  const { answerTurn } = options
  const turns =
    answerTurn &&
    webSockets({
      settings: options.settings,
      answer: answerTurn,
      seat() {
        unread.makeRoom(0)
        const why = load.shedding(calls, options.settings().limit)
        if (why) return bad(turnedAway(why))
        calls++
        return good(() => {
          calls--
        })
      },
      admits({ path, headers, local }) {
        const found = findRoute(path)
        const [route] = 'kind' in found ? [] : found.routes
        const admitted = route && access(options.settings(), route, presentedKey(headers), local)
        return admitted?.ok === false ? admitted.failure : null
      },
      unread: {
        set: ({ clientKey }, address, answer, bytes) =>
          unread.set(clientKey ? holderOf(clientKey) : placeOf(address).address, answer, bytes),
        ended: ({ id, path, clientKey = '' }, bytes) => reportUnread({ id, path, client: clientKey, bytes }),
      },
      onError: options.onError,
      onRefused: ({ id, path, failure }) =>
        reportRefused({ id, method: 'WEBSOCKET', path, status: statusOf(failure), failure }),
      timing: { ...SOCKET_TIMING, ...options.socketTiming },
    })

  /** A request under way: an object with methods, where a function for each would be made anew with every request. */
  class Visit implements Live, Waiting, ReplyAccounting, Unread {
    readonly exchange: HttpExchange
    readonly reply: HttpReply
    readonly path: string
    readonly #guest: Guest
    readonly #settings: Settings
    readonly #entrance: Door
    readonly #id: string
    #route: Route | null = null
    /** What the path's `{…}` stood for. */
    #rest = ''
    #local = false
    #key: string | undefined
    /** The id of the client's key; empty where none is configured, or needed. */
    #clientKey = ''
    /** Whose share of memory its unread answer takes. */
    #holder: string
    /** Its unread answer was ended to make room. */
    #ended = false
    /** It counts towards the limit. */
    #counts = false
    /** Bytes of its body. */
    #bytes = 0
    /** There was no room for all of it. */
    #full: Shed | undefined

    constructor(guest: Guest, exchange: HttpExchange) {
      const { target, headers } = exchange
      this.exchange = exchange
      this.path = pathOf(target)
      this.#guest = guest
      this.#holder = guest.neighbourhood
      this.#settings = options.settings()
      this.#entrance = doorFor(this.#settings)
      this.#id = requestId(headers('x-request-id'))
      const common = { ...idHeaders(this.path, this.#id), ...corsHeaders(headers('origin'), this.#entrance) }
      this.reply = new HttpReply(exchange, common, this)
      exchange.patience = this.#settings.timeout.clientWrite
      if (draining || guest.crowd) exchange.last()
      // A list of its length: one that is pushed to has room for seventeen, for as long as a stream lasts.
      guest.here = guest.here.concat(this)
      busy++
    }

    begin(): void {
      const { exchange, path } = this
      const { method, target, headers } = exchange
      const settings = this.#settings
      const entrance = this.#entrance
      const origin = headers('origin')
      const problem = headProblem(exchange) ?? mayEnter(doorstep(exchange), entrance)
      if (problem) return this.refuse(problem)
      if (exchange.expects === 'other') return this.refuse(NO_MIRACLES)
      if (ending)
        return this.refuse(fail('draining', 'The gateway is shutting down. Try another.', { retryAfter: 1_000 }))
      if (method === 'OPTIONS' && headers('access-control-request-method') !== undefined && origin !== undefined)
        return this.#answerEmpty(preflightHeaders(origin, entrance))
      if (target === '*') return this.#answerEmpty({ allow: 'GET, HEAD, POST, DELETE, OPTIONS' })

      const found = findRoute(path, (unknown) => shownPath(this.#settings, unknown, false))
      if ('kind' in found) return this.refuse(found)
      const { routes, rest } = found
      if (routes.some(({ model }) => model) && /websocket/i.test(headers('upgrade') ?? '')) {
        exchange.last()
        return this.refuse(fail('upgrade_required', 'This path speaks HTTP, not WebSocket. Send a POST.'))
      }
      if (method === 'OPTIONS') return this.#answerEmpty({ allow: allowed(routes) })
      const route = routes.find((one) => takes(one, method))
      if (!route) {
        const taken = routes.map((one) => one.method).join(' or ')
        const failure = fail('method_not_allowed', `${shownPath(settings, path, true)} takes ${taken}, not ${method}.`)
        return this.refuse(failure, { allow: allowed(routes) })
      }
      this.#route = route
      this.#rest = rest
      this.#local = isLocal(this.#guest, headers)
      this.#key = presentedKey(headers)
      const admitted = access(settings, route, this.#key, this.#local)
      if (!admitted.ok) return this.refuse(admitted.failure, { 'www-authenticate': 'Bearer' })
      this.#clientKey = admitted.value
      if (this.#clientKey !== '') this.#holder = holderOf(this.#clientKey)
      if (route.model) unread.makeRoom(0)
      const shed = route.model ? (this.#guest.crowd ?? load.shedding(calls, settings.limit)) : null
      if (shed) return this.refuse(turnedAway(shed), {}, shed)

      if (route.method !== 'POST') return this.#answer(route, null)
      const unfit = bodyProblem(headers, settings.limit.body)
      if (unfit) return this.refuse(unfit)
      if (exchange.expects === 'continue') exchange.proceed()
      collect(exchange, settings.limit.body, this)
    }

    keeps(bytes: number): Failure | null {
      unread.makeRoom(bytes)
      if (this.#route?.model && held.bytes() + bytes > mostHeld(options.settings().limit)) {
        this.#full = 'buffered'
        return turnedAway(this.#full)
      }
      this.#bytes += bytes
      held.change(bytes)
      return null
    }

    unfit(failure: Failure): void {
      if (this.#isUnderWay) this.refuse(failure, {}, this.#full)
    }

    enter(body: EncodedText): void {
      const route = this.#route
      if (!route) throw new Error('a body was read that nobody had asked for')
      if (!this.#isUnderWay) return
      // While the body was on its way others may have come in.
      if (route.model && calls >= options.settings().limit.concurrent)
        return this.refuse(turnedAway('concurrent'), {}, 'concurrent')
      this.#answer(route, body)
    }

    #answer(route: Route, source: EncodedText | null): void {
      const { method, target, headers } = this.exchange
      const received: IncomingRequest = {
        id: this.#id,
        method,
        path: this.path,
        query: queryOf(target),
        headers,
        body: source?.text ?? '',
        source: source ?? undefined,
        local: this.#local,
        client: this.#settings.auth.keys.length > 0 && route.access === 'client' ? clientOf(this.#key) : '',
        clientKey: this.#clientKey,
        holder: this.#holder,
      }
      this.#key = undefined
      if (route.model) {
        this.#counts = true
        calls++
      }
      try {
        options.handlers[route.name](received, this.reply, this.#rest)?.catch((error) => this.broke(error))
      } catch (error) {
        this.broke(error)
      }
    }

    /** Its client has not left. */
    get #isUnderWay(): boolean {
      return this.#guest.here.includes(this)
    }

    broke(error: unknown): void {
      options.onError(error, this.#id)
      if (this.reply.begun) return this.reply.cut()
      const made = errorResponse(
        fail('internal', 'The gateway made a mistake of its own; its log has it under this id.'),
        this.#id,
        this.path,
      )
      this.reply.head(made.status, made.headers)
      this.reply.end(made.body)
    }

    refuse(failure: Failure, more: Headers = {}, why?: Shed): void {
      const { exchange, path, reply } = this
      const made = errorResponse(failure, this.#id, path)
      // Every model call says how often it was tried, one that got no further than the door too.
      const tried = isModelPath(path) ? { 'x-headgate-attempts': '0' } : {}
      const { method } = exchange
      const client = this.#clientKey
      reportRefused({ id: this.#id, method, path, status: statusOf(failure), failure, client, ...(why && { why }) })
      if (unclearAfter(exchange, made.status)) exchange.last()
      reply.head(made.status, { ...tried, ...made.headers, ...more })
      reply.end(made.body)
    }

    #answerEmpty(more: Headers): void {
      this.reply.head(204, more)
      this.reply.end()
    }

    unread(bytes: number): void {
      if (!this.#ended) unread.set(this.#holder, this, bytes)
    }

    endUnread(bytes: number): void {
      this.#ended = true
      reportUnread({ id: this.#id, path: this.path, client: this.#clientKey, bytes })
      this.exchange.cut()
    }

    done(): void {
      const guest = this.#guest
      if (!guest.here.includes(this)) return
      guest.here = guest.here.filter((one) => one !== this)
      busy--
      if (this.#counts) calls--
      held.change(-this.#bytes)
    }
  }

  const serve = (guest: Guest, exchange: HttpExchange): void => new Visit(guest, exchange).begin()

  const upgrade = (guest: Guest, head: RequestHead, socket: Socket, first: Buffer): void => {
    const { target, headers } = head
    const settings = options.settings()
    const id = requestId(headers('x-request-id'))
    const path = pathOf(target)
    const entrance = doorFor(settings)
    const common = { ...idHeaders(path, id), ...corsHeaders(headers('origin'), entrance) }
    const refuse = (failure: Failure, why?: Shed) => {
      const made = errorResponse(failure, id, path)
      reportRefused({ id, method: 'WEBSOCKET', path, status: made.status, failure, ...(why && { why }) })
      const more = { ...common, 'x-headgate-attempts': '0', ...made.headers }
      const asks = failure.kind === 'unauthenticated' && { 'www-authenticate': 'Bearer' }
      closeBehind(socket, errorText({ ...made, headers: { ...more, ...asks } }), timing.linger)
    }
    // Behind a request that is still being answered its words would be taken for that answer's.
    if (guest.here.length > 0) return void socket.destroy()
    const problem = headProblem(head) ?? mayEnter(doorstep(head), entrance)
    if (problem) return refuse(problem)
    const found = findRoute(path)
    const [route] = 'kind' in found ? [] : found.routes
    if (!turns || !route) return void socket.destroy()
    if (draining) return refuse(fail('draining', 'The gateway is shutting down. Try another.', { retryAfter: 1_000 }))
    const local = isLocal(guest, headers)
    const key = presentedKey(headers)
    const admitted = access(settings, route, key, local)
    if (!admitted.ok) return refuse(admitted.failure)
    const shed = guest.crowd ?? load.shedding(calls, settings.limit)
    if (shed) return refuse(turnedAway(shed), shed)
    const visitor: IncomingRequest = {
      id,
      method: 'GET',
      path,
      query: queryOf(target),
      headers,
      body: '',
      local,
      client: settings.auth.keys.length > 0 ? clientOf(key) : '',
      clientKey: admitted.value,
    }
    turns.accept(head, socket, first, visitor, refuse, common)
  }

  const openFront: OpenHttpServer = await FRONTS[options.front ?? 'own']()
  const front = openFront<Guest>(
    {
      greet(line) {
        const { limit } = options.settings()
        front.most(mostConnections(limit))
        const { address, loopback } = placeOf(line.address)
        const neighbours = (addresses.get(address) ?? 0) + 1
        addresses.set(address, neighbours)
        const guest: Guest = {
          line,
          loopback,
          neighbourhood: address,
          crowd: null,
          here: [],
        }
        guests.add(guest)
        if (guests.size > limit.connections) guest.crowd = 'connections'
        else if (limit.connectionsPerAddress > 0 && neighbours > limit.connectionsPerAddress) guest.crowd = 'address'
        return guest
      },
      serve,
      // Every other offer (h2c, a WebSocket elsewhere) is a request like any.
      grants({ method, target }, protocol) {
        if (!turns || method !== 'GET' || protocol.trim().toLowerCase() !== 'websocket') return false
        const found = findRoute(pathOf(target))
        return 'routes' in found && found.routes.some(({ webSocket }) => webSocket)
      },
      upgrade,
      broke(guest, problem) {
        const whole = guest.here.filter(({ exchange }) => exchange.complete)
        if (whole.length > 0) {
          // The rubbish came behind good requests, whose answers are still due: they get them, and then the end.
          for (const { exchange } of whole) exchange.last()
          return
        }
        const [live] = guest.here
        // In the middle of an answer other words would be taken for a part of it.
        if (live?.reply.begun) return guest.line.destroy()
        const id = requestId(undefined)
        // A body that is never complete belongs to a head that was: it says where the request was going.
        const { path = '' } = live ?? {}
        const failure = PROBLEMS[problem]
        reportRefused({ id, method: live?.exchange.method ?? '', path, status: statusOf(failure), failure })
        guest.line.bye(errorText(errorResponse(failure, id, path)))
      },
      left(guest) {
        guests.delete(guest)
        const left = (addresses.get(guest.neighbourhood) ?? 1) - 1
        if (left > 0) addresses.set(guest.neighbourhood, left)
        else addresses.delete(guest.neighbourhood)
        for (const live of guest.here) {
          live.done()
          live.reply.left()
        }
      },
      failed: (error) => options.onError(error, ''),
    },
    { timing, headBytes: LIMITS.headBytes, requestsPerSocket: LIMITS.requestsPerSocket },
  )

  const { host, reusePort = false } = options
  const port = await front.listen({ port: options.port, host, reusePort })
  door = { ...door, port }
  front.most(mostConnections(options.settings().limit))

  const stopMeasuring = () => {
    if (!options.load) load.stop()
  }
  const close = async () => {
    draining = true
    stopMeasuring()
    const closed = front.close()
    for (const { line } of guests) line.destroy()
    await closed
  }

  let hurry: (() => void) | null = null
  let hurried = false
  /** Looks every few ms whether something has come true, until the time is over or somebody is in a hurry. */
  const wait = (ms: number, done: () => boolean): Promise<void> =>
    new Promise((resolve) => {
      const end = performance.now() + ms
      const look = setInterval(
        () => {
          front.closeIdle()
          if (done() || hurried || performance.now() >= end) stop()
        },
        Math.min(50, Math.max(1, ms)),
      )
      const stop = () => {
        clearInterval(look)
        hurry = null
        resolve()
      }
      hurry = stop
    })

  const drain = async ({ delay, timeout, endStreams, pending = () => 0 }: Drain): Promise<void> => {
    draining = true
    turns?.drain()
    const left = () => busy + (turns?.open() ?? 0) + pending()
    for (const { here } of guests) for (const { exchange } of here) if (!exchange.begun) exchange.last()
    if (delay > 0 && !hurried) await waitServing(delay)
    const closed = front.close()
    if (left() > 0 && !hurried) await wait(timeout, () => left() === 0)
    if (left() > 0) {
      ending = true
      endStreams()
      hurried = false
      await wait(timing.farewell, () => left() === 0)
    }
    for (const { line } of guests) line.destroy()
    await closed
    stopMeasuring()
  }
  /** Idle connections stay while the port is open: a request may already be on its way on one. */
  const waitServing = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      hurry = () => {
        clearTimeout(timer)
        resolve()
      }
    })

  let drained: Promise<void> | null = null
  return {
    port,
    draining: () => draining,
    live: () => busy + (turns?.busy() ?? 0),
    connections: () => guests.size,
    drain(how) {
      if (drained) {
        hurried = true
        hurry?.()
      }
      drained ??= drain(how)
      return drained
    },
    close,
  }
}

/** The name under which a client key's unread answers are counted; no address is written so. */
const holderOf = (clientKey: string): string => `key ${clientKey}`

/** A request's target without its query. */
const pathOf = (target: string): string => {
  const question = target.indexOf('?')
  return question === -1 ? target : target.slice(0, question)
}
const queryOf = (target: string): string => {
  const question = target.indexOf('?')
  return question === -1 ? '' : target.slice(question + 1)
}

/** Beyond the limit a few more are let in: health is asked for on connections too. Who comes after those is hung up on. */
const mostConnections = ({ connections }: Settings['limit']): number =>
  connections + Math.max(16, Math.ceil(connections / 10))

/** What a front lets through and we do not; null: nothing. */
const headProblem = ({ version, lines, target, headers }: RequestHead): Failure | null => {
  if (!version.startsWith('1.')) return fail('invalid_request', 'The request is not HTTP/1.1.')
  if (lines > LIMITS.headers)
    return fail('invalid_request', `The request has more than ${LIMITS.headers} headers.`, { status: 431 })
  if (target.length > LIMITS.target)
    return fail('invalid_request', 'The request target is longer than 8 KiB.', { status: 414 })
  if (version === '1.1' && headers('host') === undefined)
    return fail('invalid_request', 'The request has no Host header, which HTTP/1.1 demands.')
  return null
}

/** What is looked at to let somebody in. */
const doorstep = ({ method, target, hosts, headers }: RequestHead) => ({
  method,
  target,
  host: hosts,
  origin: headers('origin'),
  secFetchSite: headers('sec-fetch-site'),
})

/** Decides by the presented key. Digests are made once for each set of settings. */
const accessRules = () => {
  let made: { settings: Settings; isClient: Ring; isOperator: Ring; own: OwnKeys } | null = null
  const rings = (settings: Settings) => {
    const { keys, admin } = settings.auth
    if (made?.settings !== settings) {
      const admins = admin === undefined ? [] : [admin]
      const isClient = keyRing(keys)
      const isOperator = keyRing(admins)
      const own: OwnKeys = {
        has: (text) => (isClient(text) ?? isOperator(text)) !== undefined,
        slashes: slashesIn([...keys, ...admins]),
      }
      made = { settings, isClient, isOperator, own }
    }
    return made
  }
  /** The id of the client key that grants access to the route; empty where access needs no client key. */
  const access = (
    settings: Settings,
    { access }: Route,
    presented: string | undefined,
    local: boolean,
  ): Outcome<string> => {
    const open = access === 'open' || (access === 'client' && settings.auth.keys.length === 0)
    if (open || (access === 'operator' && local)) return good('')
    const { isClient, isOperator } = rings(settings)
    const client = isClient(presented)
    if (client !== undefined) return good(client)
    if (access === 'operator' && isOperator(presented) !== undefined) return good('')
    return bad(fail('unauthenticated', keyProblem(access, presented)))
  }
  /** The path as errors and the log show it. */
  const shownPath = (settings: Settings, path: string, known: boolean): string =>
    maskPath(path, rings(settings).own, known)
  return { access, shownPath }
}

/** A wrong key and a withdrawn one read the same, so that an answer reveals nothing about keys that once existed. */
const keyProblem = (access: Route['access'], presented: string | undefined): string => {
  const missing = presented === undefined
  if (access === 'client')
    return missing
      ? 'No API key was sent. Send a client key of this gateway as `Authorization: Bearer KEY` or `x-api-key: KEY`.'
      : 'Unknown API key. Send a client key of this gateway (auth.keys, AUTH_KEYS); the keys of providers are not accepted here.'
  return missing
    ? 'No API key was sent. From another machine this page requires a client key or the admin token (auth.admin, AUTH_ADMIN) as `Authorization: Bearer KEY`.'
    : 'Unknown API key. This page requires a client key or the admin token (auth.admin, AUTH_ADMIN).'
}

const FORWARDING = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'via']

/** From this machine, and not on behalf of another: a proxy here forwards for the whole world. */
const isLocal = ({ loopback }: Guest, headers: HeaderLookup): boolean =>
  loopback && FORWARDING.every((name) => headers(name) === undefined)

/** A proxy in front of it, or a client with many connections, comes from the same address again and again. */
const places = () => {
  let last = { of: '', address: '', loopback: false }
  return (of: string) => {
    if (of !== last.of) last = { of, address: neighbourhood(of), loopback: isLoopback(of) }
    return last
  }
}

const isLoopback = (address: string): boolean => {
  const plain = address
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/^::ffff:/, '')
  return plain === 'localhost' || plain === '::1' || (isIP(plain) === 4 && plain.startsWith('127.'))
}

/** Refused before its body was read, or not all of it: what follows could be the body or, if the client keeps it to itself, the next request. */
const unclearAfter = ({ complete, expects, headers }: HttpExchange, status: number): boolean => {
  if (status === 413) return true
  if (complete) return false
  const large = headers('transfer-encoding') !== undefined || Number(headers('content-length') ?? 0) > SMALL_BODY
  return large || expects !== 'nothing'
}

/** What to tell a client whose request was none. */
const PROBLEMS: { readonly [problem in Problem]: Failure } = {
  late: fail('request_timeout', 'The request took too long to arrive.'),
  long_head: fail('invalid_request', 'The head of the request is larger than 16 KiB.', { status: 431 }),
  long_extension: fail('body_too_large', 'The extensions of a chunk are larger than anybody needs.'),
  not_http: fail('invalid_request', 'The request is not valid HTTP/1.1.'),
}

const NO_MIRACLES = fail('invalid_request', 'The only expectation that is met is 100-continue.', { status: 417 })
