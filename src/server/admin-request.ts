/** The interface between the server and the admin API, which is loaded at the first request to it. */
import { bad, type Failure, good, type Outcome } from '../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../core/http-exchange.ts'
import type { Settings } from '../core/settings.ts'
import type { AccessPolicy } from '../policy/access.ts'
import type { HttpExchange, ResponseHeaders } from '../transport/server/http-server.ts'
import { collect, sizeProblem } from './body.ts'
import type { FailedAttempts } from './failed-attempts.ts'
import { UNKNOWN_BYTES } from './request-admission.ts'

/** The path of the admin API; all its paths begin with it. */
export const ADMIN_BASE = '/admin/api/v1'

/** Whether the admin API serves this path. */
export const isAdminPath = (path: string): boolean =>
  path.startsWith(ADMIN_BASE) && (path.length === ADMIN_BASE.length || path.charCodeAt(ADMIN_BASE.length) === SLASH)

const SLASH = 47

/** A request to the admin API. Its head passed the host and origin checks; nothing else has been checked. */
export type AdminRequest = Pick<IncomingRequest, 'id' | 'method' | 'path' | 'query' | 'headers'> & {
  /** From this machine, without a proxy. */
  readonly local: boolean
  /** The value of every Host line. */
  readonly hosts: readonly string[]
  /** The address of the client: behind trusted proxies the one that they state. */
  readonly address: string
  readonly settings: Settings
  /** The host and origin rules that the request has passed. */
  readonly accessPolicy: AccessPolicy
  /** Whether a presented key is the key of a client, which is no admin credential. */
  readonly isClientKey: (presented: string) => boolean
  /** Counts wrong credentials, those of model calls and pages included. */
  readonly failed: FailedAttempts
  /** Reads the body as text, once; its content type has not been checked. */
  readonly readBody: (from: BodySender) => Promise<Outcome<string>>
  /** Counts the request as a model call until its end. Returns why it is refused at the present load; null: it is not. */
  readonly beginCall: () => Failure | null
  /** Sends an error response; an unread body is handled. */
  readonly refuse: (failure: Failure, headers?: ResponseHeaders) => void
}

/** The sender of a body. `unknown`: the request has no valid credentials so far, such as a sign-in. */
export type BodySender = 'actor' | 'unknown'

/** A part of the server. A rejection becomes a 500 response. */
export type LoadedPart<Received> = { readonly serve: (request: Received, reply: ResponseWriter) => Promise<void> }

/** Serves the admin API. */
export type AdminApi = LoadedPart<AdminRequest>

/** Loads a part of the server at the first request to it. A load that failed is tried again at the next request. */
export const loadedOnUse = <Received>(load: () => Promise<LoadedPart<Received>>): LoadedPart<Received> => {
  let loading: Promise<LoadedPart<Received>> | undefined
  return {
    async serve(request, reply) {
      loading ??= load().catch((error) => {
        loading = undefined
        throw error
      })
      const part = await loading
      await part.serve(request, reply)
    },
  }
}

/** Bytes of a body. A configuration file has at most as many; a prompt may contain images. `unknown`: of an unknown sender. */
const MAX_BODY = { unknown: UNKNOWN_BYTES, usual: 1_048_576, modelCall: 8 * 1_048_576 }
/** Bytes of a body that operators may send when the memory for bodies is full. */
const ALWAYS = 65_536

/** Whether the admin API passes this path to the model API. */
const isTryPath = (path: string): boolean => path.startsWith(`${ADMIN_BASE}/try/`)

type BodyRequest = { readonly path: string; readonly limit: number; readonly from: BodySender }

/** Memory for a body. `reserveSmall`: takes it also if it is full. */
type BodyReserve = {
  reserve(bytes: number): Failure | null
  reserveSmall(bytes: number): void
}

/**
 * Reads a body that the server has held. If the client disconnects before its end, the promise is never settled. `limit`: in
 * bytes, of any body.
 */
export const readBody = (
  exchange: HttpExchange,
  { path, limit, from }: BodyRequest,
  memory: BodyReserve,
): Promise<Outcome<string>> => {
  if (BODILESS.has(exchange.method)) return Promise.resolve(good(''))
  const usual = isTryPath(path) ? MAX_BODY.modelCall : MAX_BODY.usual
  const maxBytes = Math.min(limit, from === 'unknown' ? MAX_BODY.unknown : usual)
  let received = 0
  const reserve = (bytes: number): Failure | null => {
    received += bytes
    if (from === 'unknown' || received > ALWAYS) return memory.reserve(bytes)
    memory.reserveSmall(bytes)
    return null
  }
  const unfit = sizeProblem(exchange.headers, maxBytes)
  if (unfit) return Promise.resolve(bad(unfit))
  if (exchange.expects === 'continue') exchange.sendContinue()
  const body = new Promise<Outcome<string>>((resolve, reject) =>
    collect(
      exchange,
      { kind: 'json', maxBytes },
      {
        // Only forms release a part of theirs.
        memory: { reserve, release() {} },
        received: ({ text }) => resolve(good(text)),
        invalid: (failure) => resolve(bad(failure)),
        broke: reject,
      },
    ),
  )
  // A request that is refused for its head does not await its body.
  body.catch(() => {})
  return body
}

const BODILESS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])
