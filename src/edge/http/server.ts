/**
 * The way in: HTTP on `node:http`, whose parser and protocol limits are kept as strict as they come. From here inwards
 * nobody sees a socket: a request is a `Received`, an answer a `Reply`.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, isIP, type Socket } from 'node:net'
import type { Received } from '../../core/call.ts'
import { bad, type Failure, fail, good } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/protocol.ts'
import type { Settings } from '../../core/settings.ts'
import type { Refusal } from '../../gateway/refusal.ts'
import { corsHeaders, type Door, mayEnter, preflightHeaders, presentedKey } from '../../policy/access.ts'
import { mostHeld, neighbourhood, type Shed, turnedAway } from '../../policy/shed.ts'
import { statusOf } from '../../policy/verdict.ts'
import { bodyProblem, collect, Incoming } from './body.ts'
import { clientOf, keyRing } from './keys.ts'
import { type LoadMeter, measureLoad } from './load.ts'
import { idHeaders, refusalOf, refusalText } from './refusal.ts'
import { HttpReply } from './reply.ts'
import { requestId } from './request-id.ts'
import { allowed, findRoute, type Handlers, isModelPath, type Route, takes } from './routes.ts'
import { type AnswerTurn, SOCKET_TIMING, type SocketTiming, webSockets } from './web-socket.ts'

export type ServerOptions = {
  readonly port: number
  /** Absent: every interface. */
  readonly host: string | undefined
  /** Other processes may listen on the same port, and the system gives each connection to one of them. Rejects with `ENOTSUP` where it cannot. */
  readonly reusePort?: boolean
  /** The settings now; they may be swapped while the server runs. */
  readonly settings: () => Settings
  readonly handlers: Handlers
  /** Answers a turn that came over a WebSocket. Absent: no path takes any, and who tries is sent to HTTP. */
  readonly answerTurn?: AnswerTurn
  /** A handler threw: a bug of ours. */
  readonly onError: (error: unknown, requestId: string) => void
  /** A request was turned away before any handler saw it. */
  readonly onRefused?: (refused: Refused) => void
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
  /** It was turned away for a limit of ours. */
  readonly why?: Shed
}

/** All in ms. */
type Timing = {
  /** For a request's head to arrive. */
  readonly head: number
  /** For all of a request to arrive. */
  readonly request: number
  /** Between two looks whether one of these is over; Node's own 30 s make short limits late. */
  readonly check: number
  /** An idle connection is kept; longer than the minute load balancers keep theirs, so that they close first. */
  readonly keepAlive: number
  /** A refused body is still read and thrown away, so that its sender gets to see the refusal instead of a reset. */
  readonly linger: number
  /** For streams to end themselves after they have been told to. */
  readonly farewell: number
}

const TIMING: Timing = {
  head: 10_000,
  request: 60_000,
  check: 1_000,
  keepAlive: 65_000,
  // Over a long way, or to a busy client, the last words take their time; what nginx waits for (lingering_timeout).
  linger: 5_000,
  farewell: 1_000,
}

const LIMITS = { headBytes: 16 * 1024, headers: 100, target: 8 * 1024, requestsPerSocket: 10_000 }

/** Below this an unread body is drained as it comes; above, the connection is closed. */
const SMALL_BODY = 64 * 1024

/** A request under way. */
type Live = {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** It counts towards the limit. */
  model: boolean
  /** Bytes of its body. */
  held: number
  /** Its client left. */
  left: () => void
  done: () => void
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
  const sockets = new Map<Socket, Set<Live>>()
  const busy = new Set<Live>()
  const access = accessRules()
  const load = options.load ?? measureLoad()
  const { held } = load
  /** Connections beyond a limit: they are told so, once, in the answer to a model call. */
  const unwelcome = new WeakMap<Socket, Shed>()
  const addresses = new Map<string, number>()
  let calls = 0
  let draining = false
  let ending = false
  let door: Door = { loopback: isLoopback(options.host ?? ''), port: options.port, hosts: [], origins: [] }

  const { answerTurn } = options
  const turns =
    answerTurn &&
    webSockets({
      settings: options.settings,
      answer: answerTurn,
      seat() {
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
        return route ? access(options.settings(), route, presentedKey(headers), local) : null
      },
      onError: options.onError,
      onRefused: ({ id, path, failure }) =>
        options.onRefused?.({ id, method: 'WEBSOCKET', path, status: statusOf(failure), failure }),
      timing: { ...SOCKET_TIMING, ...options.socketTiming },
    })

  const server = createServer({
    IncomingMessage: Incoming,
    // Every other offer to speak something else (h2c, a WebSocket elsewhere) is a request like any, and answered as such.
    shouldUpgradeCallback: (req) => turns !== undefined && takesTurns(req),
    maxHeaderSize: LIMITS.headBytes,
    headersTimeout: timing.head,
    requestTimeout: timing.request,
    connectionsCheckingInterval: timing.check,
    keepAliveTimeout: timing.keepAlive,
    // Checked here instead, where the refusal has a body.
    requireHostHeader: false,
    noDelay: true,
  })
  // Node drops headers beyond its count in silence, and then two readers see different requests: all are kept, and counted here.
  server.maxHeadersCount = 0
  server.maxRequestsPerSocket = LIMITS.requestsPerSocket
  server.timeout = 0

  const serve = (req: Incoming, res: ServerResponse, continues: boolean) => {
    const settings = options.settings()
    const headers = lookup(req)
    const id = requestId(headers('x-request-id'))
    const method = req.method ?? ''
    const target = req.url ?? ''
    const question = target.indexOf('?')
    const path = pathOf(target)
    const origin = headers('origin')
    door = { ...door, hosts: settings.hosts, origins: settings.cors.origins }
    const common = { ...idHeaders(path, id), ...corsHeaders(origin, door) }

    const live: Live = { req, res, model: false, held: 0, left: () => {}, done: () => {} }
    const others = sockets.get(req.socket)
    live.done = () => {
      if (!busy.delete(live)) return
      others?.delete(live)
      if (live.model) calls--
      held.change(-live.held)
    }
    busy.add(live)
    others?.add(live)
    res.once('finish', live.done)
    const crowd = unwelcome.get(req.socket)
    if (draining || crowd) res.shouldKeepAlive = false

    const refuse = (failure: Failure, more: Readonly<Record<string, string>> = {}, why?: Shed) => {
      const made = refusalOf(failure, id, path)
      // Every model call says how often it was tried, one that got no further than the door too.
      const tried = isModelPath(path) ? { 'x-headgate-attempts': '0' } : {}
      const refusal = { ...made, headers: { ...common, ...tried, ...made.headers, ...more } }
      options.onRefused?.({ id, method, path, status: statusOf(failure), failure, ...(why && { why }) })
      turnAway(req, res, refusal, continues, timing.linger)
    }

    const problem = headProblem(req) ?? mayEnter(headOf(req, headers), door)
    if (problem) return refuse(problem)
    if (ending) return refuse(fail('draining', 'The gateway is shutting down. Try another.', { retryAfter: 1_000 }))
    if (method === 'OPTIONS' && headers('access-control-request-method') !== undefined && origin !== undefined)
      return answerEmpty(res, { ...common, ...preflightHeaders(origin, door) })
    if (target === '*') return answerEmpty(res, { ...common, allow: 'GET, HEAD, POST, DELETE, OPTIONS' })

    const found = findRoute(path)
    if ('kind' in found) return refuse(found)
    const { routes, rest } = found
    if (routes.some(({ model }) => model) && /websocket/i.test(headers('upgrade') ?? ''))
      return refuse(fail('upgrade_required', 'This path speaks HTTP, not WebSocket. Send a POST.'), {
        connection: 'close',
      })
    if (method === 'OPTIONS') return answerEmpty(res, { ...common, allow: allowed(routes) })
    const route = routes.find((one) => takes(one, method))
    if (!route) {
      const taken = routes.map((one) => one.method).join(' or ')
      return refuse(fail('method_not_allowed', `${path} takes ${taken}, not ${method}.`), { allow: allowed(routes) })
    }
    const local = isLocal(req, headers)
    const stranger = access(settings, route, presentedKey(headers), local)
    if (stranger) return refuse(stranger, { 'www-authenticate': 'Bearer' })
    const shed = route.model ? (crowd ?? load.shedding(calls, settings.limit)) : null
    if (shed) return refuse(turnedAway(shed), {}, shed)

    const enter = (body: string) => {
      const received: Received = {
        id,
        method,
        path,
        query: question === -1 ? '' : target.slice(question + 1),
        headers,
        body,
        local,
        client: settings.auth.keys.length > 0 && route.access === 'client' ? clientOf(presentedKey(headers)) : '',
      }
      const reply = new HttpReply(res, common, held.change)
      live.left = () => reply.left()
      if (route.model) {
        live.model = true
        calls++
      }
      const broken = (error: unknown) => {
        options.onError(error, id)
        if (reply.begun) return reply.cut()
        const made = refusalOf(
          fail('internal', 'The gateway made a mistake of its own; its log has it under this id.'),
          id,
          path,
        )
        reply.head(made.status, made.headers)
        reply.end(made.body)
      }
      try {
        const done = options.handlers[route.name](received, reply, rest)
        if (done) done.catch(broken)
      } catch (error) {
        broken(error)
      }
    }

    if (route.method !== 'POST') return enter('')
    const unfit = bodyProblem(req, settings.limit.body)
    if (unfit) return refuse(unfit)
    if (continues) res.writeContinue()
    let full: Shed | undefined
    const keeps = (bytes: number) => {
      // It has left already, and given back what it held.
      if (!busy.has(live)) return null
      if (route.model && held.bytes() + bytes > mostHeld(options.settings().limit)) {
        full = 'buffered'
        return turnedAway(full)
      }
      live.held += bytes
      held.change(bytes)
      return null
    }
    collect(req, settings.limit.body, keeps, (body) => {
      if (res.destroyed) return
      if (!body.ok) return refuse(body.failure, {}, full)
      // While the body was on its way others may have come in.
      if (route.model && calls >= options.settings().limit.concurrent)
        return refuse(turnedAway('concurrent'), {}, 'concurrent')
      enter(body.value)
    })
  }

  server.on('request', (req, res) => serve(req, res, false))
  server.on('checkContinue', (req, res) => serve(req, res, true))
  server.on('upgrade', (req, stream, head) => {
    // Its type says Duplex for servers over other transports; ours listens on TCP.
    const socket = stream as Socket
    const settings = options.settings()
    const headers = lookup(req)
    const id = requestId(headers('x-request-id'))
    const { url: target = '' } = req
    const path = pathOf(target)
    door = { ...door, hosts: settings.hosts, origins: settings.cors.origins }
    const common = { ...idHeaders(path, id), ...corsHeaders(headers('origin'), door) }
    const refuse = (failure: Failure, why?: Shed) => {
      const made = refusalOf(failure, id, path)
      options.onRefused?.({ id, method: 'WEBSOCKET', path, status: made.status, failure, ...(why && { why }) })
      const more = { ...common, 'x-headgate-attempts': '0', ...made.headers }
      const asks = failure.kind === 'unauthenticated' && { 'www-authenticate': 'Bearer' }
      closeBehind(socket, refusalText({ ...made, headers: { ...more, ...asks } }), timing.linger)
    }
    // Behind a request that is still being answered its words would be taken for that answer's.
    if ((sockets.get(socket)?.size ?? 0) > 0) return void socket.destroy()
    const problem = headProblem(req) ?? mayEnter(headOf(req, headers), door)
    if (problem) return refuse(problem)
    const found = findRoute(path)
    const [route] = 'kind' in found ? [] : found.routes
    if (!turns || !route) return void socket.destroy()
    if (draining) return refuse(fail('draining', 'The gateway is shutting down. Try another.', { retryAfter: 1_000 }))
    const local = isLocal(req, headers)
    const key = presentedKey(headers)
    const stranger = access(settings, route, key, local)
    if (stranger) return refuse(stranger)
    const shed = unwelcome.get(socket) ?? load.shedding(calls, settings.limit)
    if (shed) return refuse(turnedAway(shed), shed)
    const question = target.indexOf('?')
    const visitor: Received = {
      id,
      method: 'GET',
      path,
      query: question === -1 ? '' : target.slice(question + 1),
      headers,
      body: '',
      local,
      client: settings.auth.keys.length > 0 ? clientOf(key) : '',
    }
    turns.accept(req, socket, head, visitor, refuse, common)
  })
  server.on('checkExpectation', (req: IncomingMessage, res: ServerResponse) => {
    const failure = fail('invalid_request', 'The only expectation that is met is 100-continue.', { status: 417 })
    turnAway(req, res, refusalOf(failure, requestId(undefined), pathOf(req.url ?? '')), true, timing.linger)
  })
  server.on('clientError', (error: NodeJS.ErrnoException, stream) => {
    // Its type says Duplex for servers over other transports; ours listens on TCP.
    const socket = stream as Socket
    const failure = parserFailure(error.code ?? '')
    if (!failure || !socket.writable) return void socket.destroy()
    const here = [...(sockets.get(socket) ?? [])]
    const whole = here.filter(({ req }) => req.complete)
    if (whole.length > 0) {
      // The rubbish came behind good requests, whose answers are still due: they get them, and then the end.
      for (const { res } of whole) res.shouldKeepAlive = false
      return
    }
    // In the middle of an answer other words would be taken for a part of it.
    if (here.some(({ res }) => res.headersSent)) return void socket.destroy()
    const id = requestId(undefined)
    // A body that is never complete belongs to a head that was: it says where the request was going.
    const { method = '', url = '' } = here[0]?.req ?? {}
    const path = pathOf(url)
    options.onRefused?.({ id, method, path, status: statusOf(failure), failure })
    closeBehind(socket, refusalText(refusalOf(failure, id, path)), timing.linger)
  })
  server.on('connection', (socket) => {
    const here = new Set<Live>()
    sockets.set(socket, here)
    const { limit } = options.settings()
    server.maxConnections = mostConnections(limit)
    const address = neighbourhood(socket.remoteAddress ?? '')
    const neighbours = (addresses.get(address) ?? 0) + 1
    addresses.set(address, neighbours)
    if (sockets.size > limit.connections) unwelcome.set(socket, 'connections')
    else if (limit.connectionsPerAddress > 0 && neighbours > limit.connectionsPerAddress)
      unwelcome.set(socket, 'address')
    // One listener a connection. Not the response's `close`: one that waits behind an earlier answer never has it.
    socket.once('close', () => {
      sockets.delete(socket)
      const left = (addresses.get(address) ?? 1) - 1
      if (left > 0) addresses.set(address, left)
      else addresses.delete(address)
      for (const live of [...here]) {
        live.done()
        live.left()
      }
    })
  })

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    const { port, host, reusePort = false } = options
    server.listen({ port, host, reusePort }, () => {
      server.off('error', reject)
      resolve()
    })
  })
  // With nobody listening an error of the listening socket (no descriptors left) would end the process.
  server.on('error', (error) => options.onError(error, ''))
  const { port } = server.address() as AddressInfo
  door = { ...door, port }
  server.maxConnections = mostConnections(options.settings().limit)

  const stopMeasuring = () => {
    if (!options.load) load.stop()
  }
  const close = async () => {
    draining = true
    stopMeasuring()
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    for (const socket of sockets.keys()) socket.destroy()
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
          server.closeIdleConnections()
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
    const left = () => busy.size + (turns?.open() ?? 0) + pending()
    for (const { res } of busy) if (!res.headersSent) res.shouldKeepAlive = false
    if (delay > 0 && !hurried) await waitServing(delay)
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    if (left() > 0 && !hurried) await wait(timeout, () => left() === 0)
    if (left() > 0) {
      ending = true
      endStreams()
      hurried = false
      await wait(timing.farewell, () => left() === 0)
    }
    for (const socket of sockets.keys()) socket.destroy()
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
    live: () => busy.size + (turns?.busy() ?? 0),
    connections: () => sockets.size,
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

/** A request's target without its query. */
const pathOf = (target: string): string => target.split('?', 1)[0] ?? ''

/** Beyond the limit a few more are let in: health is asked for on connections too. Who comes after those is hung up on. */
const mostConnections = ({ connections }: Settings['limit']): number =>
  connections + Math.max(16, Math.ceil(connections / 10))

/** Whether a request to change to another protocol is one that is granted: a WebSocket where turns are taken. */
const takesTurns = ({ method, url = '', headers }: IncomingMessage): boolean => {
  if (method !== 'GET' || headers.upgrade?.trim().toLowerCase() !== 'websocket') return false
  const found = findRoute(pathOf(url))
  return 'routes' in found && found.routes.some(({ webSocket }) => webSocket)
}

/** What the parser lets through and we do not; null: nothing. */
const headProblem = (req: IncomingMessage): Failure | null => {
  if (req.httpVersionMajor !== 1) return fail('invalid_request', 'The request is not HTTP/1.1.')
  if (req.rawHeaders.length / 2 > LIMITS.headers)
    return fail('invalid_request', `The request has more than ${LIMITS.headers} headers.`, { status: 431 })
  if ((req.url ?? '').length > LIMITS.target)
    return fail('invalid_request', 'The request target is longer than 8 KiB.', { status: 414 })
  if (req.httpVersionMinor === 1 && req.headers.host === undefined)
    return fail('invalid_request', 'The request has no Host header, which HTTP/1.1 demands.')
  return null
}

/** Node keeps the first Host line only; all of them are looked at. */
const headOf = (req: IncomingMessage, headers: HeaderLookup) => {
  const host: string[] = []
  for (let at = 0; at < req.rawHeaders.length; at += 2)
    if (req.rawHeaders[at]?.toLowerCase() === 'host') host.push(req.rawHeaders[at + 1] ?? '')
  return {
    method: req.method ?? '',
    target: req.url ?? '',
    host,
    origin: headers('origin'),
    secFetchSite: headers('sec-fetch-site'),
  }
}

const lookup =
  (req: IncomingMessage): HeaderLookup =>
  (name) => {
    if (!Object.hasOwn(req.headers, name)) return undefined
    const value = req.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

/** Whether somebody with this key may have what the route gives. Digests are made once for each set of settings. */
const accessRules = () => {
  let made: { settings: Settings; isClient: Ring; isOperator: Ring } | null = null
  return (settings: Settings, { access }: Route, presented: string | undefined, local: boolean): Failure | null => {
    const { keys, admin } = settings.auth
    if (access === 'open' || (access === 'client' && keys.length === 0) || (access === 'operator' && local)) return null
    if (made?.settings !== settings)
      made = { settings, isClient: keyRing(keys), isOperator: keyRing(admin === undefined ? [] : [admin]) }
    if (made.isClient(presented) || (access === 'operator' && made.isOperator(presented))) return null
    return fail('unauthenticated', access === 'client' ? NO_KEY : presented === undefined ? NO_TOKEN : WRONG_TOKEN)
  }
}
type Ring = ReturnType<typeof keyRing>

/** One sentence for a missing, a wrong and a withdrawn key: which it was is nobody's business. */
const NO_KEY = 'A key of this gateway is needed: send one of its client keys as Authorization: Bearer … or x-api-key.'
const NO_TOKEN =
  'From another machine this page needs a client key or the token of the operator (auth.admin, AUTH_ADMIN) as Authorization: Bearer ….'
const WRONG_TOKEN = 'This is neither a client key nor the token of the operator.'

const FORWARDING = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'via']

/** From this machine, and not on behalf of another: a proxy here forwards for the whole world. */
const isLocal = (req: IncomingMessage, headers: HeaderLookup): boolean =>
  isLoopback(req.socket.remoteAddress ?? '') && FORWARDING.every((name) => headers(name) === undefined)

const isLoopback = (address: string): boolean => {
  const plain = address
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/^::ffff:/, '')
  return plain === 'localhost' || plain === '::1' || (isIP(plain) === 4 && plain.startsWith('127.'))
}

const answerEmpty = (res: ServerResponse, headers: Readonly<Record<string, string>>): void => {
  res.writeHead(204, headers)
  res.end()
}

/** Answers without having read the body, or not all of it. `waiting`: the client holds its body back until told to go on. */
const turnAway = (
  req: IncomingMessage,
  res: ServerResponse,
  refusal: Refusal,
  waiting: boolean,
  linger: number,
): void => {
  const { socket } = req
  const length = Number(req.headers['content-length'] ?? 0)
  const large = req.headers['transfer-encoding'] !== undefined || length > SMALL_BODY || refusal.status === 413
  // What follows on the connection could be the body or, if the client keeps it to itself, the next request.
  const unclear = !req.complete && (large || waiting)
  if (unclear || refusal.status === 413) res.shouldKeepAlive = false
  // `res.socket` is set once the answers to earlier requests on the connection have gone out.
  if (unclear && res.socket === socket && !res.headersSent) {
    req.resume()
    closeBehind(socket, refusalText(refusal), linger)
    return
  }
  const reply = new HttpReply(res, {})
  reply.head(refusal.status, refusal.headers)
  reply.end(refusal.body)
}

/** Says the last words on a connection, and closes it only once the other side has had time to read them. */
const closeBehind = (socket: Socket, text: string, linger: number): void => {
  const timer = setTimeout(() => socket.destroy(), linger)
  socket.once('close', () => clearTimeout(timer))
  socket.on('error', () => {})
  socket.end(text)
}

/** What to tell a client whose request the parser gave up on; null: nobody is there to be told. */
const parserFailure = (code: string): Failure | null => {
  if (code === 'ECONNRESET' || code === 'EPIPE' || code === 'ETIMEDOUT') return null
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return fail('request_timeout', 'The request took too long to arrive.')
  if (code === 'HPE_HEADER_OVERFLOW')
    return fail('invalid_request', 'The head of the request is larger than 16 KiB.', { status: 431 })
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW')
    return fail('body_too_large', 'The extensions of a chunk are larger than anybody needs.')
  return fail('invalid_request', 'The request is not valid HTTP/1.1.')
}
