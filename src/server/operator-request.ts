/** Requests for the admin API and for pages: they are authorised by the part that serves them. */
import { bad, type Failure, fail } from '../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../core/http-exchange.ts'
import type { Settings } from '../core/settings.ts'
import type { AccessPolicy } from '../policy/access.ts'
import { shedFailure } from '../policy/health/shed.ts'
import type { HttpExchange, ResponseHeaders } from '../transport/server/http-server.ts'
import { type AdminApi, type AdminRequest, type BodySender, readBody } from './admin-request.ts'
import { isLocal } from './local-request.ts'
import type { Pages } from './page-request.ts'
import { type ConnectionContext, queryOf } from './request-admission.ts'
import type { RequestMemory } from './request-memory.ts'
import type { ServerContext } from './server-context.ts'

/** A request whose head has passed the checks of all paths. */
export type CheckedRequest = {
  readonly exchange: HttpExchange
  readonly reply: ResponseWriter
  readonly path: string
  readonly ids: Pick<IncomingRequest, 'id'>
  readonly server: Pick<ServerContext, 'admission'>
  readonly connection: ConnectionContext
  readonly settings: Settings
  readonly accessPolicy: AccessPolicy
  readonly memory: RequestMemory
  /** Counts a model call that the admin API makes. Returns why it is refused. */
  beginCall(): Failure | null
  refuse(failure: Failure, headers?: ResponseHeaders): void
  respondEmpty(headers: ResponseHeaders): void
  broke(error: unknown): void
}

/** The admin API checks the method, the path and the credentials itself. It reads the body afterwards. */
export const serveAdmin = (request: CheckedRequest, admin: AdminApi): void => {
  const { exchange, path, settings, accessPolicy, memory } = request
  const { version, method, target, headers, hosts } = exchange
  const { admission } = request.server
  const { access } = admission
  const { address } = request.connection.connection
  memory.owner = admission.memoryOwner('', address, headers)
  exchange.holdBody((bytes) => {
    // Without memory for it, the body is dropped.
    if (!memory.hold(bytes)) exchange.pipeBody(null)
  })
  const received: AdminRequest = {
    id: request.ids.id,
    method,
    path,
    query: queryOf(target),
    headers,
    hosts,
    local: isLocal({ version, address, hosts, headers }),
    address: access.addressOf(settings, { address, headers }),
    settings,
    accessPolicy,
    failed: access.failed,
    isClientKey: (key) => access.isClientKey(settings, key),
    readBody: (from) => readHeldBody(request, from),
    beginCall: () => request.beginCall(),
    refuse: (failure, extraHeaders) => request.refuse(failure, extraHeaders),
  }
  admin.serve(received, request.reply).catch((error) => request.broke(error))
}

const readHeldBody = ({ exchange, path, settings, memory }: CheckedRequest, from: BodySender) => {
  if (memory.why) return Promise.resolve(bad(shedFailure(memory.why)))
  // Its parts are counted again, as they are read.
  memory.releaseBody()
  return readBody(exchange, { path, limit: settings.limit.body, from }, memory)
}

const PAGES_ALLOW = { allow: 'GET, HEAD, OPTIONS' }

export const servePage = (request: CheckedRequest, pages: Pages): void => {
  const { exchange, path, reply } = request
  const { version, method, headers, hosts } = exchange
  if (method === 'OPTIONS') return request.respondEmpty(PAGES_ALLOW)
  if (method !== 'GET' && method !== 'HEAD')
    return request.refuse(fail('method_not_allowed', `Pages take GET, not ${method}.`), PAGES_ALLOW)
  const { address } = request.connection.connection
  const page = { method, path, headers, local: isLocal({ version, address, hosts, headers }) }
  pages.serve(page, reply).catch((error) => request.broke(error))
}

export const redirect = (reply: ResponseWriter, location: string): void => {
  reply.writeHead(302, { location, 'cache-control': 'no-store' })
  reply.end()
}
