import type { IncomingRequest, RequestBody } from '../../core/http-exchange.ts'
import type { JsonObject } from '../../core/json.ts'
import type { BatchCall } from '../../core/pass-batches.ts'
import type { HttpMethod } from '../../core/pass-through.ts'
import type { Instance } from '../../core/provider.ts'
import type { Candidate } from '../../core/target.ts'
import type { PassAddress } from '../../policy/pass/address.ts'
import type { KnownFormat } from './answer-usage.ts'

/** A call that may be made. */
export type PassCall = {
  readonly instance: Instance
  readonly method: HttpMethod
  readonly address: PassAddress
  readonly candidate: Candidate
  readonly received: IncomingRequest<RequestBody>
  /** Of a body of JSON; empty where it is none. */
  readonly members: JsonObject
  readonly format: KnownFormat | null
  readonly headers: Readonly<Record<string, string>>
}

export const batchCall = ({ instance, method, address: { path }, received }: PassCall): BatchCall => ({
  instance,
  method,
  path,
  client: received.client,
  request: received.ownId ?? received.id,
})
