/** The handler of each route. */

import type { ClientProtocolName } from '../core/chat.ts'
import type { ClientSignal } from '../core/claude.ts'
import { fail, type Outcome } from '../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../core/http-exchange.ts'
import type { JsonObject } from '../core/json.ts'
import { nearest } from '../core/nearest.ts'
import { RELAY_ROWS, type RelayName } from '../core/relay.ts'
import { serveChat } from '../gateway/chat/serve-chat.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { countTokens } from '../gateway/handlers/count-tokens.ts'
import { EMBEDDINGS, serveEmbeddings } from '../gateway/handlers/embeddings.ts'
import { explainCall } from '../gateway/handlers/explain.ts'
import {
  geminiModelPage,
  geminiModelsPage,
  type HealthProblem,
  healthPage,
  modelPage,
  modelsPage,
  statusPage,
} from '../gateway/handlers/pages.ts'
import type { RelayBody } from '../gateway/relay/relay-request.ts'
import { serveRelay } from '../gateway/relay/serve-relay.ts'
import { compact } from '../gateway/responses/compact.ts'
import { createResponse, withHistoryFrom } from '../gateway/responses/create-response.ts'
import { cancelResponse, deleteResponse, listInput, showResponse } from '../gateway/responses/retrieve-response.ts'
import { notRepeatable, repeatableChat, repeatableEmbeddings, shareResponses } from '../gateway/sharing/idempotency.ts'
import { METRICS_TYPE } from '../observe/metrics.ts'
import { embeddingsShapes } from '../protocols/embeddings/shapes.ts'
import { protocols } from '../protocols/index.ts'
import type { ClaudePages } from './claude-pages.ts'
import type { ClientPages } from './client-pages.ts'
import { errorResponse } from './error-response.ts'
import { fingerprint } from './fingerprint.ts'
import { CHAT_ROUTES, type ChatRouteName, type ClaudeHandlers, type Handlers, ROUTES } from './routes.ts'

/** The style of a shared compaction in the log; the model call of a compaction is in the responses style. */
const COMPACT = 'compact'

/** The dependencies of the handlers. */
export type HandlerDeps = {
  readonly gateway: Gateway
  readonly version: string
  /** The path below which everything is served; absent: none. */
  readonly basePath?: string
  /** s since 1970. */
  readonly started: number
  readonly uptime: () => number
  readonly draining: () => boolean
  /** The client keys were not read so far. */
  readonly loading: () => boolean
  /** Model calls need a client key. */
  readonly keyed: () => boolean
  /** Current problems, for `/health`. */
  readonly problems: () => readonly HealthProblem[]
  /** The metrics page; null: not all workers responded. */
  readonly metrics: () => string | Promise<string | null>
  /** What a client may read about its own use; loaded at the first call. */
  readonly clientPages: () => Promise<ClientPages>
  /** The Claude Code gateway protocol; loaded at the first call. Absent: it is never enabled. */
  readonly claude?: () => Promise<ClaudePages>
  /** Present where several processes serve the port. */
  readonly worker?: WorkerHandle | undefined
}

type WorkerHandle = {
  /** From 1. */
  readonly number: number
  readonly of: number
}

/** Creates the handlers. */
export const handlersFor = (deps: HandlerDeps): Handlers => {
  const { gateway, version, started } = deps
  const share = shareResponses(gateway, fingerprint)
  let description: Promise<JsonObject> | undefined
  const described = () => {
    description ??= import('./openapi.ts').then(({ openapi }) => openapi(version))
    return description
  }
  const call = (name: ClientProtocolName) => {
    const protocol = protocols[name]
    const { style } = protocol
    const repeatable = repeatableChat(protocol, false)
    return (received: IncomingRequest, reply: ResponseWriter) =>
      share({ protocol, style, received, responseWriter: reply, repeatable }, (shared, to) =>
        serveChat(shared, { protocol, received, responseWriter: to }),
      )
  }
  // Every chat route has a handler.
  const chatHandlers = Object.fromEntries(CHAT_ROUTES.map(([name, protocol]) => [name, call(protocol)])) as {
    readonly [name in ChatRouteName]: ReturnType<typeof call>
  }
  const relay = (name: RelayName) => (received: IncomingRequest<RelayBody>, reply: ResponseWriter) => {
    const protocol = protocols[ROUTES[name].protocol]
    return share({ protocol, style: name, received, responseWriter: reply, repeatable: notRepeatable }, (shared, to) =>
      serveRelay(shared, { name, received, responseWriter: to }),
    )
  }
  // Every relay has a handler, for the body of its route.
  const relayHandlers = Object.fromEntries(RELAY_ROWS.map(([name]) => [name, relay(name)])) as {
    readonly [name in RelayName]: ReturnType<typeof relay>
  }
  const responsesProtocol = protocols[ROUTES.responses.protocol]
  const repeatableTurn = repeatableChat(responsesProtocol, true)
  const embeddings = (name: keyof typeof embeddingsShapes) => {
    const shape = embeddingsShapes[name]
    const protocol = protocols[ROUTES[name].protocol]
    const repeatable = repeatableEmbeddings(shape)
    return (received: IncomingRequest, reply: ResponseWriter) =>
      share({ protocol, style: EMBEDDINGS, received, responseWriter: reply, repeatable }, (shared, to) =>
        serveEmbeddings(shared, { shape, protocol, received, responseWriter: to }),
      )
  }
  const ready = (reply: ResponseWriter) => {
    const status = deps.draining() ? 'draining' : deps.loading() ? 'loading' : 'ok'
    json(reply, status === 'ok' ? 200 : 503, { status })
  }
  const { worker } = deps
  const identity = worker && { worker: { number: worker.number, of: worker.of } }
  return {
    ...chatHandlers,
    ...relayHandlers,
    ...claudeHandlers(deps.claude),
    pass: passHandler(gateway),
    responses: (received, reply) =>
      share(
        {
          protocol: responsesProtocol,
          style: responsesProtocol.style,
          received,
          responseWriter: reply,
          repeatable: repeatableTurn,
        },
        (shared, to) => createResponse(shared, received, to),
      ),
    compact: (received, reply) =>
      share(
        { protocol: responsesProtocol, style: COMPACT, received, responseWriter: reply, repeatable: () => null },
        (shared, to) => compact(shared, received, to),
      ),
    response: (received, reply, id) => showResponse(gateway, received, reply, id),
    deleteResponse: (received, reply, id) => deleteResponse(gateway, received, reply, id),
    responseInput: (received, reply, id) => listInput(gateway, received, reply, id),
    cancelResponse: (received, reply, id) => cancelResponse(gateway, received, reply, id),
    embeddings: embeddings('embeddings'),
    embedContent: embeddings('embedContent'),
    batchEmbedContents: embeddings('batchEmbedContents'),
    predict: embeddings('predict'),
    countTokens: (received, reply) =>
      countTokens(gateway, { protocol: protocols[ROUTES.countTokens.protocol], received, responseWriter: reply }),
    countContents: (received, reply) =>
      countTokens(gateway, { protocol: protocols[ROUTES.countContents.protocol], received, responseWriter: reply }),
    inputTokens: (received, reply) =>
      countTokens(gateway, {
        protocol: responsesProtocol,
        received,
        responseWriter: reply,
        withHistory: withHistoryFrom(gateway, received),
      }),
    realtime: (received, reply) => refuse(reply, NOT_UPGRADED, received),
    explain: async (received, reply) => {
      const answer = await explainCall(gateway, received)
      if (answer.ok) return json(reply, 200, answer.value)
      refuse(reply, answer.failure, received)
    },
    models: (received, reply) => page(reply, modelsPage(gateway, received, started), received),
    model: (received, reply, id) => {
      const found = modelPage(gateway, received, id, started)
      if (!found.ok) return refuse(reply, found.failure, received)
      if ('entry' in found.value) return json(reply, 200, found.value.entry)
      const [near] = nearest(id, found.value.names.slice(0, 2_000))
      const hint = near === undefined ? 'GET /v1/models lists the models.' : `Did you mean "${near}"?`
      refuse(reply, fail('unknown_model', `Unknown model. ${hint}`, { param: 'model' }), received)
    },
    geminiModels: (received, reply) => page(reply, geminiModelsPage(gateway, received), received),
    geminiModel: (received, reply, id) => page(reply, geminiModelPage(gateway, received, id), received),
    usage: async (received, reply) => {
      const pages = await deps.clientPages()
      own(reply, await pages.usage(received), received)
    },
    request: async (received, reply, id) => {
      const pages = await deps.clientPages()
      own(reply, await pages.request(received, id), received)
    },
    health: (_received, reply) => {
      const draining = deps.draining()
      json(reply, draining ? 503 : 200, {
        ...healthPage(gateway, {
          version,
          uptime: deps.uptime(),
          draining,
          keyed: deps.keyed(),
          problems: deps.problems(),
        }),
        ...identity,
      })
    },
    live: (_received, reply) => json(reply, 200, { status: 'ok' }),
    ready: (_received, reply) => ready(reply),
    providersStatus: ({ client }, reply) =>
      json(reply, 200, { ...statusPage(gateway, client.id === '' ? 'operator' : 'client'), ...identity }),
    metrics: async (received, reply) => {
      const page = await deps.metrics()
      if (page === null)
        return refuse(reply, fail('busy', 'The metrics of all workers could not be collected. Retry.'), received)
      reply.writeHead(200, { 'content-type': METRICS_TYPE })
      reply.end(page)
    },
    openapi: async (_received, reply) =>
      json(reply, 200, { ...(await described()), servers: [{ url: deps.basePath || '/' }] }),
  }
}

/** Loaded with the first call. */
const passHandler =
  (gateway: Gateway): Handlers['pass'] =>
  async (received, reply) => {
    const { servePass } = await import('../gateway/pass/serve-pass.ts')
    await servePass(gateway, { received, responseWriter: reply })
  }

const NOT_UPGRADED = fail(
  'upgrade_required',
  'Sessions of the Realtime API use WebSocket: send `connection: upgrade` and `upgrade: websocket`.',
)

const claudeHandlers = (load: HandlerDeps['claude']): ClaudeHandlers => {
  const pages = () => load?.() ?? Promise.reject(new Error('the Claude Code gateway protocol is not enabled'))
  const relay = (signal: ClientSignal) => async (received: IncomingRequest<Uint8Array>, reply: ResponseWriter) => {
    const failure = (await pages()).receive(signal, received)
    if (failure) return refuse(reply, failure, received)
    // An empty message in either form (OTLP 1.x, "Full Success").
    const isJson = /^application\/json\b/i.test(received.headers('content-type') ?? '')
    reply.writeHead(200, { 'content-type': isJson ? 'application/json' : 'application/x-protobuf' })
    reply.end(isJson ? '{}' : '')
  }
  return {
    managedSettings: async (received, reply) => {
      const answer = (await pages()).settings(received)
      if (!answer.ok) return refuse(reply, answer.failure, received)
      const { status, headers, body } = answer.value
      reply.writeHead(status, headers)
      reply.end(body)
    },
    claudeProtocol: async (_received, reply) => {
      const page = await (await pages()).protocol()
      reply.writeHead(200, { 'content-type': 'text/markdown; charset=utf-8' })
      reply.end(page)
    },
    claudeUsage: async (received, reply) => own(reply, await (await pages()).usage(received), received),
    claudeMetrics: relay('metrics'),
    claudeLogs: relay('logs'),
    claudeTraces: relay('traces'),
  }
}

const page = (reply: ResponseWriter, answer: Outcome<JsonObject>, received: IncomingRequest): void =>
  answer.ok ? json(reply, 200, answer.value) : refuse(reply, answer.failure, received)

/** Sends what only this client may read. */
const own = (reply: ResponseWriter, answer: Outcome<JsonObject>, received: IncomingRequest): void =>
  answer.ok
    ? json(reply, 200, answer.value, { 'cache-control': 'private, no-store' })
    : refuse(reply, answer.failure, received)

const json = (
  reply: ResponseWriter,
  status: number,
  body: JsonObject,
  headers: Readonly<Record<string, string>> = {},
): void => {
  reply.writeHead(status, { 'content-type': 'application/json', ...headers })
  reply.end(JSON.stringify(body))
}

const refuse = (
  reply: ResponseWriter,
  failure: Parameters<typeof errorResponse>[0],
  { id, path }: Pick<IncomingRequest, 'id' | 'path'>,
): void => {
  const { status, headers, body } = errorResponse(failure, id, path)
  reply.writeHead(status, headers)
  reply.end(body)
}
