import type { UpstreamCall } from '../../core/world.ts'

/** A call to write to a connection. `path` includes the query. */
export type OutgoingCall = {
  readonly call: Pick<UpstreamCall, 'method' | 'headers' | 'body' | 'upload' | 'connectTimeout' | 'upgrade'>
  readonly path: string
}
