import type { Failure } from '../../../core/failure.ts'
import type { Settings } from '../../../core/settings.ts'
import type { ShedReason } from '../../../policy/health/shed.ts'
import type { Admission } from './admission.ts'
import type { Handlers } from './routes.ts'

/** The context that the parts of a server share. */
export type ServerContext = {
  /** The current settings. */
  readonly settings: () => Settings
  readonly handlers: Handlers
  readonly admission: Admission
  readonly onError: (error: unknown, requestId: string) => void
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
  readonly method: string
  readonly path: string
  readonly status: number
  readonly failure: Failure
  /** The ID of the client's key; empty or absent where none was presented or the key is unknown. */
  readonly client?: string
  /** The limit of the gateway that caused the refusal. */
  readonly why?: ShedReason
}

/** An unread response that was aborted to free memory. */
export type UnreadEnded = {
  readonly id: string
  readonly path: string
  /** The ID of the client's key; empty where none is needed. */
  readonly client: string
  readonly bytes: number
}
