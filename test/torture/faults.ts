/** A gateway in which one chosen call to its environment fails. A first run counts the calls. */

import { ANONYMOUS } from '../../src/core/accounts.ts'
import type { ClientProtocolName } from '../../src/core/chat.ts'
import type { Config } from '../../src/core/config.ts'
import type { TextOrBytes } from '../../src/core/encoded-text.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../src/core/failure.ts'
import type { IncomingRequest } from '../../src/core/http-exchange.ts'
import type { Instance } from '../../src/core/provider.ts'
import { settingsSchema } from '../../src/core/settings.ts'
import type { ResponseStore } from '../../src/core/stored-response.ts'
import type { World } from '../../src/core/world.ts'
import { ActiveCalls } from '../../src/gateway/call/cancellation.ts'
import { serveChat } from '../../src/gateway/chat/serve-chat.ts'
import type { Gateway } from '../../src/gateway/gateway.ts'
import { serveEmbeddings } from '../../src/gateway/handlers/embeddings.ts'
import { UpstreamHealth } from '../../src/gateway/health/upstream-health.ts'
import { createResponse } from '../../src/gateway/responses/create-response.ts'
import { repeatableChat, repeatableEmbeddings, shareResponses } from '../../src/gateway/sharing/idempotency.ts'
import { ResponseCache } from '../../src/gateway/sharing/response-cache.ts'
import { eventBus } from '../../src/observe/event-bus.ts'
import { priceBook } from '../../src/policy/accounts/price-book.ts'
import { openaiShape } from '../../src/protocols/embeddings/openai.ts'
import { protocols } from '../../src/protocols/index.ts'
import { testAccounts } from '../support/accounts.ts'
import { openaiEmbeddingsCall } from '../support/embeddings-call.ts'
import { CapturedReply, type SettingsInput } from '../support/gateway.ts'
import { type ScriptedCall, type StillWorld, stillWorld } from '../support/still-world.ts'
import { testStore } from '../support/stores.ts'

/**
 * The ways a call can fail. `refused`, `reset`: the upstream breaks at once or later. `slow`, `gone`: the client stops
 * reading or has left. `not kept`, `forgotten`, `not read`: results of the store. `throws`: an exception, as a bug, a
 * full disk or another library version may cause. `lost`: a timer never fires.
 */
export const FAULTS = {
  dial: ['refused', 'reset'],
  later: ['lost'],
  tell: ['throws'],
  put: ['not kept'],
  get: ['forgotten', 'not read'],
  head: ['gone', 'throws'],
  write: ['slow', 'gone'],
  end: ['gone'],
} as const satisfies { readonly [call: string]: readonly string[] }
export type CallName = keyof typeof FAULTS
export type Fault = (typeof FAULTS)[CallName][number]

export type Plan = { readonly at: number; readonly fault: Fault } | null

type Endpoint = ClientProtocolName | 'embeddings' | 'turn'

export type Rig = {
  readonly world: StillWorld
  readonly gateway: Gateway
  /** Every call to the environment, in order. */
  readonly calls: CallName[]
  readonly replies: readonly ClientCall[]
  /** Errors that reached the edge: thrown into the callback of a connection or timer. */
  readonly edge: unknown[]
  readonly caught: Catch
  readonly outcomes: () => number
  readonly ask: (style: Endpoint, body: object, key?: string) => ClientCall
  /** Replaces the configuration with an equal one. */
  readonly reload: () => void
  /** Starts a shutdown of the process. */
  readonly shutdown: () => void
}

export type ClientCall = { readonly reply: TorturedReply; state: 'open' | 'resolved' | 'rejected'; left: boolean }

/** Runs a callback as the edge does: records what it throws. */
type Catch = (run: () => void) => void

type Hit = (call: CallName) => Fault | null

class TorturedReply extends CapturedReply {
  readonly #hit: Hit
  readonly #leave: () => void
  constructor(hit: Hit, leave: () => void) {
    super()
    this.#hit = hit
    this.#leave = leave
  }
  #fault(call: CallName): Fault | null {
    const fault = this.#hit(call)
    if (fault === 'throws') throw new Error(`the ${call} of a reply threw`)
    if (fault === 'gone') this.#leave()
    return fault
  }
  override writeHead(status: number, headers: Readonly<Record<string, string>>): void {
    this.#fault('head')
    super.writeHead(status, headers)
  }
  override write(piece: TextOrBytes): boolean {
    const fault = this.#fault('write')
    const room = super.write(piece)
    return fault === 'slow' ? false : room
  }
  override end(text?: string): void {
    this.#fault('end')
    super.end(text)
  }
}

/** The world, in which a call upstream or a timer can fail. */
const failingWorld = (still: StillWorld, hit: Hit, caught: Catch): World => ({
  ...still,
  later: (ms, run) => (hit('later') === 'lost' ? () => {} : still.later(ms, () => caught(run))),
  dial: (call, listener) => {
    const fault = hit('dial')
    if (fault === null) return still.dial(call, listener)
    let over = false
    still.later(fault === 'reset' ? 20 : 0, () => {
      if (!over) caught(() => listener.onFailure(connectionFailure(fault)))
    })
    return {
      abort: () => {
        over = true
      },
      resume: () => {},
    }
  },
})

const connectionFailure = (fault: Fault): Failure =>
  fault === 'reset' ? fail('reset', 'the connection broke off') : fail('refused', 'connection refused')

/** A store whose reads and writes can fail. */
const failingStore = (hit: Hit): ResponseStore => {
  const store = testStore()
  const broken = fail('storage', 'the disk does not answer')
  const lookup = async <T>(found: Promise<Outcome<T>>, none: T): Promise<Outcome<T>> => {
    const fault = hit('get')
    if (fault === 'not read') return bad(broken)
    return fault === 'forgotten' ? good(none) : found
  }
  return {
    prepare: () => {},
    put: async (response) => (hit('put') === 'not kept' ? broken : store.put(response)),
    get: (id, owner) => lookup(store.get(id, owner), undefined),
    findByItem: (item, owner) => lookup(store.findByItem(item, owner), undefined),
    turns: (id, owner) => lookup(store.turns(id, owner), []),
    delete: store.delete,
    ask: store.ask,
    events: store.events,
    addEvents: store.addEvents,
  }
}

const protocolOf = (style: Endpoint) => {
  const name = style === 'turn' ? 'openai-responses' : style === 'embeddings' ? 'openai-chat' : style
  return protocols[name]
}

type ClientContext = {
  readonly share: ReturnType<typeof shareResponses<Gateway>>
  readonly hit: Hit
  readonly caught: Catch
  readonly edge: unknown[]
  readonly replies: ClientCall[]
}

/** Returns a function that sends requests as the HTTP server does. */
const clientOf =
  ({ share, hit, caught, edge, replies }: ClientContext): Rig['ask'] =>
  (style, body, key) => {
    const protocol = protocolOf(style)
    const leave = () => {
      clientCall.left = true
      caught(() => clientCall.reply.disconnect())
    }
    const clientCall: ClientCall = { reply: new TorturedReply(hit, leave), state: 'open', left: false }
    const received: IncomingRequest = {
      id: `req_${String.fromCharCode(97 + replies.length)}`,
      method: 'POST',
      path: protocol.path,
      query: '',
      headers: (header) => (header === 'idempotency-key' ? key : undefined),
      body: { text: JSON.stringify(body) },
      client: ANONYMOUS,
    }
    replies.push(clientCall)
    const repeatable =
      style === 'embeddings' ? repeatableEmbeddings(openaiShape) : repeatableChat(protocol, style === 'turn')
    const { reply } = clientCall
    share({ protocol, style: protocol.style, received, responseWriter: reply, repeatable }, (shared, to) => {
      if (style === 'turn') return createResponse(shared, received, to)
      return style === 'embeddings'
        ? serveEmbeddings(shared, openaiEmbeddingsCall(received, to))
        : serveChat(shared, { protocol, received, responseWriter: to })
    }).then(
      () => {
        clientCall.state = 'resolved'
      },
      (error: unknown) => {
        // As the server does: the error is recorded and an unfinished response is aborted.
        clientCall.state = 'rejected'
        edge.push(error)
        clientCall.reply.abort()
      },
    )
    return clientCall
  }

export const rig = (
  plan: Plan,
  instances: readonly Instance[],
  script: (request: ScriptedCall) => void,
  settings: SettingsInput = {},
): Rig => {
  const calls: CallName[] = []
  const edge: unknown[] = []
  const troubles: unknown[] = []
  const hit: Hit = (call) => {
    const at = calls.push(call) - 1
    return plan?.at === at ? plan.fault : null
  }
  /** The edge catches what a listener throws, because no other caller can. */
  const caught: Catch = (run) => {
    try {
      run()
    } catch (error) {
      edge.push(error)
    }
  }
  const still = stillWorld((request) => caught(() => script(request)))
  const world = failingWorld(still, hit, caught)
  let outcomes = 0
  const log: Gateway['emit'] = () => {
    if (hit('tell') === 'throws') throw new Error('the log threw')
  }
  const count: Gateway['emit'] = ({ event }) => {
    if (event === 'request') outcomes++
  }
  // As at the start of the process.
  const emit = eventBus([log, count], (error) => troubles.push(error))
  let config: Config = { settings: settingsSchema.parse(settings), instances, routes: new Map() }
  const gateway: Gateway = {
    world,
    emit,
    health: new UpstreamHealth(world, emit),
    catalogue: () => undefined,
    prices: () => priceBook(() => undefined, []),
    config: () => config,
    lists: () => new Map(),
    activeCalls: new ActiveCalls(),
    responses: failingStore(hit),
    accounts: testAccounts(world),
    cache: new ResponseCache({ world, fingerprint: (text) => text, limit: () => 67_108_864 }),
    jobs: new Map(),
  }
  const replies: ClientCall[] = []
  return {
    world: still,
    gateway,
    calls,
    replies,
    edge,
    caught,
    outcomes: () => outcomes,
    reload: () => {
      config = { ...config }
    },
    shutdown: () => {
      for (const stop of [...gateway.activeCalls])
        caught(() => stop.cancel(fail('shutdown', 'The gateway is shutting down.')))
    },
    ask: clientOf({ share: shareResponses(gateway, (text) => text), hit, caught, edge, replies }),
  }
}
