/** Sends kept requests again, through the handlers of the gateway. */
import type { Client } from '../../core/accounts.ts'
import { REQUIRE_HEADER } from '../../core/data-policy.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { mergePatch } from '../../core/merge-patch.ts'
import { parseRequire } from '../../policy/accounts/data-policy.ts'
import type { StoredBodies } from '../../usage/bodies/recorded-calls.ts'
import { newRequestId } from '../request-id.ts'
import { findRoute, type Handlers, handlerOf } from '../routes.ts'

/** Replays at once. */
const MOST = 4

/** Changes of a replayed request. `edit`: a JSON Merge Patch of its body. */
export type ReplayChanges = { readonly model?: string | undefined; readonly edit?: JsonObject | undefined }

/** A request whose bodies are kept. `require`: what was required of its data, which holds for its replays too; null: nothing. */
export type KeptRequest = { readonly bodies: StoredBodies; readonly require: string | null }

/** A replay that can be sent. */
export type ReplayedRequest = {
  readonly id: string
  /** Of the handler. */
  readonly name: keyof Handlers
  readonly path: string
  readonly text: string
  readonly client: Client
  readonly require: string | null
}

export class Replays {
  readonly #handlers: Handlers
  readonly #client: () => Outcome<Client>
  readonly #onError: (error: unknown, id: string) => void
  #running = 0

  constructor(handlers: Handlers, client: () => Outcome<Client>, onError: (error: unknown, id: string) => void) {
    this.#handlers = handlers
    this.#client = client
    this.#onError = onError
  }

  /** The replay with this ID, or why it cannot be sent now. */
  prepare({ bodies, require }: KeptRequest, changes: ReplayChanges, id = newRequestId()): Outcome<ReplayedRequest> {
    const body = replayedBody(bodies, changes)
    if (!body.ok) return body
    if (require !== null && !parseRequire(require).ok)
      return bad(notReplayable('what it required of its data is too long to be kept as a whole'))
    const found = findRoute(bodies.path)
    const route = 'kind' in found ? undefined : found.routes.find(({ method, model }) => method === 'POST' && model)
    if (!route) return bad(notReplayable('its path is no model call'))
    if (this.#running >= MOST)
      return bad(
        fail('busy', `${MOST} replays are in progress (limit ${MOST}). Try again later.`, { retryAfter: 2_000 }),
      )
    const client = this.#client()
    if (!client.ok) return client
    return good({ id, name: route.name, path: bodies.path, text: body.value, client: client.value, require })
  }

  start(replayed: ReplayedRequest): void {
    this.#running++
    void this.#run(replayed)
  }

  async #run({ id, name, path, text, client, require }: ReplayedRequest): Promise<void> {
    const received = {
      id,
      method: 'POST',
      path,
      query: '',
      body: { text },
      headers: (header: string) =>
        header === 'content-type' ? 'application/json' : header === REQUIRE_HEADER ? (require ?? undefined) : undefined,
      // Its bodies are kept for a comparison.
      client: { ...client, logBodies: true as const },
    }
    try {
      await handlerOf(this.#handlers, name)(received, new DiscardedReply(), '')
    } catch (error) {
      this.#onError(error, id)
    } finally {
      this.#running--
    }
  }
}

/** The body of a replay, or why there is none. */
const replayedBody = ({ request }: StoredBodies, { model, edit }: ReplayChanges): Outcome<string> => {
  const { text, truncated, media } = request
  if (truncated) return bad(notReplayable('only its beginning is kept (bodies.maxBytes)'))
  if (text === null || media > 0) return bad(notReplayable('its media are not kept'))
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    body = null
  }
  if (!isObject(body)) return bad(notReplayable('its body is no JSON object'))
  if (model === undefined && edit === undefined) return good(text)
  const edited = mergePatch(body, edit ?? {})
  return good(JSON.stringify(model === undefined ? edited : { ...edited, model }))
}

/** Why a request cannot be sent again. */
export const notReplayable = (reason: string): Failure =>
  fail('record_conflict', `This request cannot be sent again: ${reason}.`, { code: 'not_replayable' })

/** A response that is only recorded. */
class DiscardedReply implements ResponseWriter {
  writeHead(): void {}
  write(): boolean {
    return true
  }
  end(): void {}
  abort(): void {}
  onDrain(): void {}
  onDisconnect(): void {}
}
