import type { Failure } from '../core/failure.ts'
import type { FormStore } from '../core/form.ts'
import type { HeaderLookup } from '../core/headers.ts'
import type { IncomingRequest, RequestBody } from '../core/http-exchange.ts'
import type { Settings } from '../core/settings.ts'
import type { RefusedOwner } from '../gateway/accounts/refused-calls.ts'
import type { ShedReason } from '../policy/health/shed.ts'
import type { AdminApi } from './admin-request.ts'
import type { PageParts } from './page-request.ts'
import type { Admission } from './request-admission.ts'
import type { Handlers } from './routes.ts'

/** The context that the parts of a server share. */
export type ServerContext = {
  /** The current settings. */
  readonly settings: () => Settings
  /** The path below which everything is served; empty: the root. */
  readonly basePath: string
  readonly handlers: Handlers
  /** The admin API; undefined: its paths do not exist. */
  readonly admin?: AdminApi | undefined
  /** Whether single sign-on is configured; absent: it is not. Its paths are served by the admin API. */
  readonly signsIn?: (() => boolean) | undefined
  /** Whether the Claude Code gateway protocol is enabled; absent: it is not. */
  readonly hasClaude?: (() => boolean) | undefined
  /** Whether the paths of Claude at clouds are served; absent: they are. */
  readonly servesClouds?: (() => boolean) | undefined
  /** Whether a path begins with the name of an instance that has a pass-through; absent: none has. */
  readonly passes?: ((path: string) => boolean) | undefined
  /** The first of these names of one model that a request can name; absent: the first. */
  readonly knownModel?: ((names: readonly string[]) => string) | undefined
  /** The dashboard and the documentation; undefined: their paths do not exist. */
  readonly pages?: PageParts | undefined
  readonly admission: Admission
  /** Where long forms are kept; undefined: in memory. */
  readonly forms?: FormStore | undefined
  readonly onError: (error: unknown, requestId: string) => void
  /** A model call is passed to its handler. */
  readonly onCall: (request: IncomingRequest<RequestBody>) => void
  /** Masks keys in the path, then reports. */
  readonly onRefused: (refused: RefusedRequest) => void
  /** Masks keys in the path, then reports. */
  readonly onUnread: (ended: UnreadEnded) => void
  /** ms a connection stays open after its last response. */
  readonly linger: number
}

/** A request that was refused before it reached a handler. */
export type RefusedRequest = {
  readonly id: string
  /** See `IncomingRequest`. */
  readonly ownId?: string | undefined
  readonly method: string
  readonly path: string
  readonly status: number
  readonly failure: Failure
  /** Absent: the request could not be parsed. */
  readonly headers?: HeaderLookup
  /** The ID of the client's key; empty or absent where none was presented or the key is unknown. */
  readonly client?: string
  /** The limit of the gateway that caused the refusal. */
  readonly why?: ShedReason
  /** The network of the client, or its key. */
  readonly source: string
}

/** The same with the key that was presented, which is looked up on demand. */
export type GatewayRefusal = RefusedRequest & { readonly owner: () => RefusedOwner | null }

/** An unread response that was aborted to free memory. */
export type UnreadEnded = {
  readonly id: string
  readonly path: string
  /** The ID of the client's key; empty where none is needed. */
  readonly client: string
  readonly bytes: number
}
