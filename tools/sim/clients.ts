/** Sends requests to the gateway, and checks each after its end. */
import type { Config } from '../../src/core/config.ts'
import type { IncomingRequest, ResponseWriter } from '../../src/core/http-exchange.ts'
import type { Dial } from '../../src/core/world.ts'
import { serveChat } from '../../src/gateway/chat/serve-chat.ts'
import type { Gateway } from '../../src/gateway/gateway.ts'
import type { UpstreamHealth } from '../../src/gateway/health/upstream-health.ts'
import { repeatableChat, type Share } from '../../src/gateway/sharing/idempotency.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { SimAccounts } from './accounts.ts'
import { type Call, PROTOCOL, type ReaderPace, SimReply, type SimRequest } from './client.ts'
import type { SimState } from './state.ts'
import { judge } from './verdicts.ts'

type ClientDeps = {
  readonly gateway: Gateway
  /** Null if responses are not shared. */
  readonly share: Share<Gateway> | null
  readonly health: UpstreamHealth
  readonly accounts: SimAccounts
  readonly replyOf: (reply: ResponseWriter) => ResponseWriter
  /** Called before each upstream call of a request. */
  readonly onDial: (call: Call) => void
}

export class SimClients {
  readonly #state: SimState
  readonly #deps: ClientDeps

  constructor(state: SimState, deps: ClientDeps) {
    this.#state = state
    this.#deps = deps
  }

  /** Sends a request now. `reading`: null if the client reads everything at once. */
  send(request: SimRequest, reading: ReaderPace | null): Call {
    const call = this.#callOf(request, reading)
    const state = this.#state
    const { config } = state
    state.calls.push(call)
    state.trace(`request ${call.number}: ${request.body}${request.poison ? ` (${request.poison})` : ''}`)
    this.#serve(call).then(
      () => {
        call.settled = true
        state.soon(() => this.#check(call, config))
      },
      (error: unknown) => state.watch.breach(0, `handle threw ${error instanceof Error ? error.stack : error}`),
    )
    return call
  }

  #callOf(request: SimRequest, reading: ReaderPace | null): Call {
    const state = this.#state
    const number = state.calls.length
    const { settings, instances } = state.config
    const reply = new SimReply(reading, {
      after: (ms, run) => void state.clock.after(ms, run),
      wrong: (what) => state.watch.breach(2, `request ${number}: ${what}`),
      wrote: (text) => {
        state.mix(number, text.length)
        state.trace(`  ${number} ← ${text}`)
      },
      over: (how) => {
        if (call.later) state.soon(call.later)
        call.later = null
        state.mix(number, how === 'ended' ? 1 : 2)
        state.trace(`  ${number} ${how}`)
      },
    })
    const call: Call = {
      number,
      request,
      at: state.clock.now,
      settings,
      reply,
      dials: [],
      shareable: this.#deps.share !== null && (request.key !== null || settings.coalesce),
      repeated: 0,
      unconfigured: instances.length === 0,
      goneAt: null,
      exchange: null,
      recorded: 0,
      later: null,
      settled: false,
    }
    return call
  }

  #serve(call: Call): Promise<void> {
    const { request, number } = call
    const { gateway, share, accounts, replyOf, onDial } = this.#deps
    const protocol = protocols[PROTOCOL[request.style]]
    const received: IncomingRequest = {
      id: `req_${number}`,
      method: 'POST',
      path: protocol.path,
      query: '',
      headers: (name) => (name === 'idempotency-key' ? (request.key ?? undefined) : undefined),
      body: { text: request.body },
      client: accounts.clientOf(request.client),
    }
    const responseWriter = replyOf(call.reply)
    const serve = (own: Gateway, to: ResponseWriter) => {
      const { world } = own
      const dial: Dial = (upstream, listener) => {
        onDial(call)
        return world.dial(upstream, listener)
      }
      return serveChat({ ...own, world: { ...world, dial } }, { protocol, received, responseWriter: to })
    }
    if (!share) return serve(gateway, responseWriter)
    const repeatable = repeatableChat(protocol, false)
    return share({ protocol, style: protocol.style, received, responseWriter, repeatable }, serve)
  }

  /** Checks a request that was handled. `config`: the configuration when it arrived. */
  #check(call: Call, config: Config): void {
    const { calls, dials, watch, clock } = this.#state
    if (call.recorded !== 1) watch.breach(15, `request ${call.number} was recorded ${call.recorded} times`)
    const shared = call.exchange?.find((fact) => fact.type === 'shared')
    const leader = shared && shared.how !== 'left' ? calls[Number(shared.with.slice(4))] : undefined
    if (shared) watch.seen(`shared: ${shared.how}`)
    const look = () => judge({ call, leader, config, health: this.#deps.health, watch, dials, now: clock.now })
    // A shared response may end before its slowest reader has read it.
    if (call.shareable && !call.reply.over && !call.reply.gone) call.later = look
    else look()
  }
}
