/** The interface to the pages about a client's own use, which are loaded at the first request to them. */
import type { Outcome } from '../core/failure.ts'
import type { IncomingRequest } from '../core/http-exchange.ts'
import type { JsonObject } from '../core/json.ts'

/** The answers to a client about what it has used. A client sees what its own key has used, and nothing else. */
export type ClientPages = {
  /** Its limits and budgets with what is left of them, and its use. */
  readonly usage: (received: IncomingRequest) => Promise<Outcome<JsonObject>>
  /** One of its requests. */
  readonly request: (received: IncomingRequest, id: string) => Promise<Outcome<JsonObject>>
}
