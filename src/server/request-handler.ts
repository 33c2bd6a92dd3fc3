/** One HTTP request from its header block to its response: checks, body, handler, accounting. */
import { ANONYMOUS, type Client } from '../core/accounts.ts'
import { type Failure, fail, good, type Outcome } from '../core/failure.ts'
import type { FormStore, ReceivedForm } from '../core/form.ts'
import type { HeaderLookup } from '../core/headers.ts'
import type { IncomingRequest, RequestBody } from '../core/http-exchange.ts'
import type { Settings } from '../core/settings.ts'
import { type AccessPolicy, corsHeaders, preflightHeaders } from '../policy/access.ts'
import { type ShedReason, shedFailure } from '../policy/health/shed.ts'
import { isUploadedContent } from '../policy/pass/headers.ts'
import { statusOf } from '../policy/reply/final-error.ts'
import { errorText } from '../transport/server/error-text.ts'
import type { HttpExchange, RequestProblem, ResponseHeaders } from '../transport/server/http-server.ts'
import { challengeFor, NOT_LOOKED_UP } from './access-rules.ts'
import { isAdminPath } from './admin-request.ts'
import { belowBase, fromRoot, notBelowBase } from './base-path.ts'
import { type BodyListener, type BodyRules, bodyProblem, collect, lengthProblem, typeProblem, UPLOAD } from './body.ts'
import { withoutAnyKeys, withoutKeys } from './client-formats.ts'
import { type CloudPath, cloudFailure, cloudPathOf, cloudReply, ownRequest } from './cloud-paths.ts'
import { canonicalPath, withDeployment } from './deployment-path.ts'
import { errorResponse, idHeaders } from './error-response.ts'
import { googlePath } from './google-path.ts'
import { redirect, serveAdmin, servePage } from './operator-request.ts'
import { DASHBOARD_BASE, isDashboardPath, isDocsPath, isNavigation } from './page-request.ts'
import { type BegunReply, HttpReply, type ReplyAccounting } from './reply.ts'
import { type ActiveRequest, type ConnectionContext, headProblem, pathOf, queryOf } from './request-admission.ts'
import { newRequestId, requestIds } from './request-id.ts'
import { RequestMemory } from './request-memory.ts'
import {
  type ApiRoute,
  allowed,
  findClaudeRoute,
  findRoute,
  handlerOf,
  isCounted,
  isModelPath,
  PASS_ROUTES,
  protocolAt,
  takes,
} from './routes.ts'
import type { ServerContext } from './server-context.ts'
import { isSignInPath, siteOf } from './sign-in-paths.ts'
import { StreamedUpload } from './streamed-upload.ts'
import type { Unread } from './unread-answers.ts'

/** Bytes up to which an unread body is drained; above, the connection closes. */
const SMALL_BODY = 64 * 1024

/** A request in progress. A class, because closures would be allocated for every request. */
export class RequestHandler implements ActiveRequest, BodyListener, ReplyAccounting, Unread {
  readonly exchange: HttpExchange
  readonly reply: BegunReply
  readonly path: string
  readonly server: ServerContext
  readonly connection: ConnectionContext
  readonly settings: Settings
  readonly accessPolicy: AccessPolicy
  readonly ids: Pick<IncomingRequest, 'id' | 'ownId'>
  readonly memory: RequestMemory
  readonly sent: SentTo
  #route: ApiRoute | null = null
  /** The part of the path that matched `{id}`. */
  #rest = ''
  #client = ANONYMOUS
  /** The request is counted in `Admission.calls`. */
  #counted = false

  constructor(server: ServerContext, connection: ConnectionContext, exchange: HttpExchange) {
    const { admission } = server
    const { headers } = exchange
    this.exchange = exchange
    this.sent = sentTo(exchange, server)
    this.path = this.sent.path
    this.server = server
    this.connection = connection
    this.memory = new RequestMemory(admission, connection.network)
    this.settings = server.settings()
    this.accessPolicy = admission.accessPolicyFor(this.settings)
    this.ids = requestIds(headers('x-request-id'))
    const ids = idHeaders(this.path, this.ids.id)
    const reply = new HttpReply(exchange, commonHeaders(exchange, ids, this.accessPolicy), this)
    this.reply = this.sent.cloud ? cloudReply(this.sent.cloud, reply) : reply
    exchange.writeTimeout = this.settings.timeout.clientWrite
    if (admission.phase !== 'serving' || connection.overLimit) exchange.closeAfter()
    // `concat` allocates the exact size; `push` would reserve room for 17 entries as long as the stream lasts.
    connection.active = connection.active.concat(this)
    admission.requests++
  }

  /** Checks the request, then calls its handler or reads its body first. */
  begin(): void {
    const { exchange } = this
    const { method, target, headers } = exchange
    const origin = headers('origin')
    const problem = headProblem(exchange, this.accessPolicy, siteOf(exchange, this.path))
    if (problem) return this.refuse(problem)
    if (exchange.expects === 'other') return this.refuse(UNKNOWN_EXPECTATION)
    if (this.server.admission.phase === 'ending') return this.refuse(SHUTTING_DOWN)
    if (method === 'OPTIONS' && headers('access-control-request-method') !== undefined && origin !== undefined)
      return this.respondEmpty(preflightHeaders(origin, this.accessPolicy))
    if (target === '*') return this.respondEmpty({ allow: 'GET, HEAD, POST, PATCH, DELETE, OPTIONS' })
    if (belowBase(target, this.server.basePath) === null)
      return this.refuse(notBelowBase(this.server.admission.loggedPath(this.path, false), this.server.basePath))
    const { admin, pages, signsIn } = this.server
    if (admin && (isAdminPath(this.path) || (isSignInPath(this.path) && signsIn?.()))) return serveAdmin(this, admin)
    // Errors lead to the documentation, with and without the dashboard.
    if (pages && isDocsPath(this.path)) return servePage(this, pages.docs)
    if (pages && this.settings.dashboard.enabled) {
      if (isDashboardPath(this.path)) return servePage(this, pages.dashboard)
      if (isNavigation(method, this.path, headers)) return redirect(this.reply, fromRoot(target, `${DASHBOARD_BASE}/`))
    }
    const found = routeFor(this)
    if (!found) return
    this.#rest = found.rest
    this.#admit(found.route)
  }

  /** Counts a model call that the admin API makes. Returns why it is refused. */
  beginCall(): Failure | null {
    const { admission } = this.server
    const shed = admission.shed(this.connection, this.settings.limit)
    if (shed) return shedFailure(shed)
    this.#counted = true
    admission.calls++
    return null
  }

  #admit(route: ApiRoute): void {
    const { version, hosts } = this.exchange
    const { access } = this.server.admission
    this.#route = route
    const { lastCredential, connection } = this.connection
    const request = { route, version, address: connection.address, hosts, headers: this.sent.headers, lastCredential }
    const admitted = access.check(this.settings, request)
    if (admitted.ok || admitted.failure !== NOT_LOOKED_UP) return this.#admitClient(route, admitted)
    holdBody(this)
    access.lookUp(this.settings, request).then(
      (found) => {
        if (!this.#isActive) return
        const { why } = this.memory
        if (why) return this.refuse(shedFailure(why), {}, why)
        // Its parts are counted again, as they are read.
        if (route.body !== 'stream') this.memory.releaseBody()
        this.#admitClient(route, found)
      },
      (error) => this.broke(error),
    )
  }

  #admitClient(route: ApiRoute, admitted: Outcome<Client>): void {
    const { exchange, settings } = this
    const { headers } = exchange
    const { admission } = this.server
    if (!admitted.ok)
      return this.refuse(
        this.sent.cloud ? cloudFailure(admitted.failure, headers) : admitted.failure,
        challengeFor(admitted.failure),
      )
    this.#client = admitted.value
    this.memory.owner = admission.memoryOwner(this.#client.id, this.connection.connection.address, headers)
    const counted = isCounted(route)
    if (counted) admission.unread.makeRoom(0)
    const shed = counted ? admission.shed(this.connection, settings.limit) : null
    if (shed) return this.refuse(shedFailure(shed), {}, shed)
    if (route.body === 'none') return this.#call(route, { text: '' })
    if (route.body === 'stream') return this.#passOn(route)
    const rules = bodyRules(readAs(route, headers), settings, this.server.forms)
    const unfit = bodyProblem(headers, rules)
    if (unfit) return this.refuse(unfit)
    if (exchange.expects === 'continue') exchange.sendContinue()
    this.memory.reading = collect(exchange, rules, this)
  }

  /** Calls a handler that reads the body itself. */
  #passOn(route: ApiRoute): void {
    const maxBytes = this.settings.limit.upload
    const tooLong = lengthProblem(this.exchange.headers, { maxBytes, setting: UPLOAD })
    if (tooLong) return this.refuse(tooLong)
    const upload = new StreamedUpload(this.exchange, {
      maxBytes,
      held: (bytes) => this.memory.hold(bytes),
      released: () => this.memory.releaseBody(),
    })
    this.#call(route, { text: '' }, upload)
  }

  invalid(failure: Failure): void {
    if (this.#isActive) this.refuse(failure, {}, this.memory.why)
  }

  received(body: RequestBody): void {
    const { admission, settings } = this.server
    const route = this.#route
    if (!route) throw new Error('a body was read for a request without a route')
    if (!this.#isActive) return
    // Other calls may have been admitted while the body arrived.
    if (isCounted(route) && admission.calls >= settings().limit.concurrent)
      return this.refuse(shedFailure('concurrent'), {}, 'concurrent')
    this.#call(route, body)
  }

  #call(route: ApiRoute, body: RequestBody, upload?: StreamedUpload): void {
    const { method } = this.exchange
    const made = ownRequestOf(this.sent.cloud, this, body)
    if (!made.ok) return this.refuse(made.failure)
    const { headers } = made.value
    const request: IncomingRequest<RequestBody> = {
      id: this.ids.id,
      ownId: this.ids.ownId,
      method,
      path: this.path,
      query: this.sent.query,
      headers,
      body: made.value.body,
      ...(upload && { upload }),
      client: this.#client,
      memoryOwner: this.memory.owner,
    }
    if (isCounted(route)) {
      this.#counted = true
      this.server.admission.calls++
    }
    if (route.model) this.server.onCall(request)
    // The call may go on after its client has left.
    this.memory.reading = null
    try {
      const served = handlerOf(this.server.handlers, route.name)(request, this.reply, this.#rest)
      served?.catch((error) => this.broke(error))
      if ('parts' in body) releaseAfter(served, body)
    } catch (error) {
      this.broke(error)
    }
  }

  /** The client is still connected and the response is not complete. */
  get #isActive(): boolean {
    return this.connection.active.includes(this)
  }

  broke(error: unknown): void {
    this.server.onError(error, this.ids.id)
    if (this.reply.begun) return this.reply.abort()
    const { status, headers, body } = errorResponse(INTERNAL, this.ids.id, this.path)
    this.reply.writeHead(status, headers)
    this.reply.end(body)
  }

  /** Sends an error response. `why`: the limit of the gateway that caused it. */
  refuse(failure: Failure, extraHeaders: ResponseHeaders = {}, why?: ShedReason): void {
    const { exchange, path } = this
    const { status, headers, body } = errorResponse(failure, this.ids.id, path)
    // Every response to a model call has this header, also a refusal.
    const attempts = isModelPath(path) ? { 'x-headgate-attempts': '0' } : {}
    this.server.onRefused({
      ...this.ids,
      source: this.memory.owner,
      method: exchange.method,
      path,
      status: statusOf(failure),
      failure,
      headers: exchange.headers,
      client: this.#client.id,
      ...(why && { why }),
    })
    if (mustClose(exchange, status)) exchange.closeAfter()
    this.reply.writeHead(status, { ...attempts, ...headers, ...extraHeaders })
    this.reply.end(body)
  }

  respondEmpty(headers: ResponseHeaders): void {
    this.reply.writeHead(204, headers)
    this.reply.end()
  }

  unread(bytes: number): void {
    this.memory.unread(bytes, this)
  }

  endUnread(bytes: number): void {
    this.memory.endUnread()
    this.server.onUnread({ id: this.ids.id, path: this.path, client: this.#client.id, bytes })
    this.exchange.cut()
  }

  done(): void {
    const { admission } = this.server
    const connection = this.connection
    if (!connection.active.includes(this)) return
    connection.active = connection.active.filter((request) => request !== this)
    admission.requests--
    if (this.#counted) admission.calls--
    this.memory.done()
  }
}

/** The route with the kind of body that the request states. */
const readAs = (route: ApiRoute, headers: HeaderLookup): ApiRoute =>
  route.isJsonToo && headers('content-type') !== undefined && typeProblem(headers, 'json') === null
    ? { ...route, body: 'json' }
    : route

/** What is read of the body of a route. */
const bodyRules = (
  { body: kind, maxBody = Number.POSITIVE_INFINITY, encoded: asSent }: ApiRoute,
  { limit }: Settings,
  forms: FormStore | undefined,
): BodyRules => {
  const store = limit.spoolMegabytes > 0 ? forms : undefined
  if (kind !== 'multipart' || !store) return { kind, maxBytes: Math.min(maxBody, limit.body), asSent }
  return {
    kind,
    maxBytes: limit.upload,
    setting: UPLOAD,
    form: { maxMemory: limit.spoolMemory, store },
  }
}

const releaseAfter = (served: void | Promise<void>, { bytes }: ReceivedForm): void => {
  const release = () => bytes.release()
  if (served) served.then(release, release)
  else release()
}

/** `path`: as the table of routes has it. `query`: without credentials; `headers`: with them. `cloud`: null for other paths. */
type SentTo = ReturnType<typeof withoutKeys> & {
  readonly path: string
  readonly cloud: CloudPath | null
  /** It may be a call of a provider's own API, if it is no path of the gateway. */
  readonly isPassed: boolean
}

const sentTo = ({ target, headers }: HttpExchange, { basePath, servesClouds, passes }: ServerContext): SentTo => {
  const query = queryOf(target)
  const sent = pathOf(belowBase(target, basePath) ?? target)
  const isPassed = passes?.(sent) === true
  const found = servesClouds?.() === false ? null : cloudPathOf(sent)
  const cloud = isPassed && found?.call === 'unknown' ? null : found
  const path = cloud?.path ?? googlePath(canonicalPath(sent), query, headers)
  // Nearly all requests have no query; those are not looked at.
  const keyless =
    query === '' ? null : isPassed ? withoutAnyKeys(query, headers) : withoutKeys(protocolAt(path), query, headers)
  return { path, cloud, isPassed, query: keyless?.query ?? query, headers: keyless?.headers ?? headers }
}

/** Responds to bytes that the server cannot parse as a request, and closes the connection. */
export const refuseMalformed = (server: ServerContext, context: ConnectionContext, problem: RequestProblem): void => {
  const complete = context.active.filter(({ exchange }) => exchange.complete)
  if (complete.length > 0) {
    // Earlier requests were valid: they are answered, then the connection closes.
    for (const { exchange } of complete) exchange.closeAfter()
    return
  }
  const [active] = context.active
  // In the middle of a response the client would parse the error as a part of it.
  if (active?.reply.begun) return context.connection.destroy()
  const id = newRequestId()
  // The path is known if only the body of the request is incomplete.
  const path = active?.path ?? ''
  const failure = MALFORMED[problem]
  const { network: source } = context
  server.onRefused({ id, source, method: active?.exchange.method ?? '', path, status: statusOf(failure), failure })
  context.connection.endWith(errorText(errorResponse(failure, id, path)))
}

/** Whether the connection must close after an error sent before the whole body arrived: the next bytes are ambiguous. */
const mustClose = ({ complete, expects, headers }: HttpExchange, status: number): boolean => {
  if (status === 413) return true
  if (complete) return false
  const large = headers('transfer-encoding') !== undefined || Number(headers('content-length') ?? 0) > SMALL_BODY
  return large || expects !== 'nothing'
}

const MALFORMED: { readonly [problem in RequestProblem]: Failure } = {
  no_memory: shedFailure('share'),
  late: fail('request_timeout', 'The request took too long to arrive.'),
  long_head: fail('invalid_request', 'The header block of the request is larger than 16 KiB.', { status: 431 }),
  long_extension: fail('body_too_large', 'Chunk extensions are too large (limit 1 KiB).'),
  not_http: fail('invalid_request', 'The request is not valid HTTP/1.1.'),
}

/** The response to requests during the last phase of a shutdown. */
export const SHUTTING_DOWN = fail('draining', 'The gateway is shutting down. Try another.', { retryAfter: 1_000 })

const INTERNAL = fail('internal', 'Internal gateway error. See the gateway log for this request ID.')

const UNKNOWN_EXPECTATION = fail('invalid_request', 'The Expect header supports 100-continue only.', { status: 417 })

/** The headers of every response. `ids`: those with the ID of the request. */
const commonHeaders = ({ headers }: HttpExchange, ids: ResponseHeaders, policy: AccessPolicy): ResponseHeaders =>
  policy.origins.length === 0 ? ids : { ...ids, ...corsHeaders(headers('origin'), policy) }

/** Null: the response has already been sent. */
const routeFor = (handler: RequestHandler): { readonly route: ApiRoute; readonly rest: string } | null => {
  const { exchange, path, server, settings } = handler
  const { method, headers } = exchange
  const { access } = server.admission
  const claude = server.hasClaude?.() ? findClaudeRoute(path) : null
  const found = claude ?? findRoute(path, (unknown) => access.shownPath(settings, unknown, false))
  if ('kind' in found) {
    if (handler.sent.isPassed && !/websocket/i.test(headers('upgrade') ?? ''))
      return { route: passRoute(path, headers), rest: '' }
    handler.refuse(found)
    return null
  }
  const { routes, rest } = found
  if (routes.some(({ model }) => model) && /websocket/i.test(headers('upgrade') ?? '')) {
    exchange.closeAfter()
    handler.refuse(fail('upgrade_required', 'This path does not support WebSocket. Send a POST.'))
    return null
  }
  if (method === 'OPTIONS') {
    handler.respondEmpty({ allow: allowed(routes) })
    return null
  }
  const route = routes.find((candidate) => takes(candidate, method))
  if (!route) {
    const methods = routes.map((candidate) => candidate.method).join(' or ')
    const shown = access.shownPath(settings, path, true)
    const failure = fail('method_not_allowed', `${shown} takes ${methods}, not ${method}.`)
    handler.refuse(failure, { allow: allowed(routes) })
    return null
  }
  return { route, rest }
}

/** JSON is read whole, because it names models and objects. */
const passRoute = (path: string, headers: HeaderLookup): ApiRoute =>
  headers('content-type') === undefined || typeProblem(headers, 'json') || isUploadedContent(path, headers)
    ? PASS_ROUTES.stream
    : PASS_ROUTES.json

/** Body and headers as the route takes them. */
const ownRequestOf = (
  cloud: CloudPath | null,
  { exchange: { target, headers }, server }: RequestHandler,
  body: RequestBody,
): Outcome<{ readonly body: RequestBody; readonly headers: HeaderLookup }> =>
  cloud
    ? ownRequest(cloud, { body, headers }, server.knownModel ?? firstOf)
    : good({ body: withDeployment(pathOf(belowBase(target, server.basePath) ?? target), body), headers })

const firstOf = ([name = '']: readonly string[]): string => name

/** Its sender is not known yet. */
const holdBody = ({ exchange, memory, server, connection }: RequestHandler): void => {
  memory.owner = server.admission.memoryOwner('', connection.connection.address, exchange.headers)
  exchange.holdBody((bytes) => {
    // Without memory for it, the body is dropped.
    if (!memory.hold(bytes)) exchange.pipeBody(null)
  })
}
