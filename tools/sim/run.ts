/** Simulates one seed: a gateway in a random world, from the first request until no timer is left. */
import type { ResponseWriter } from '../../src/core/http-exchange.ts'
import type { GatewayEvent, Trace } from '../../src/core/trace.ts'
import type { UpstreamListener, World } from '../../src/core/world.ts'
import { ActiveCalls } from '../../src/gateway/call/cancellation.ts'
import type { Gateway } from '../../src/gateway/gateway.ts'
import { shareResponses } from '../../src/gateway/sharing/idempotency.ts'
import { ResponseCache } from '../../src/gateway/sharing/response-cache.ts'
import { priceBook } from '../../src/policy/accounts/price-book.ts'
import { testStore } from '../../test/support/stores.ts'
import { SimAccounts } from './accounts.ts'
import { Arrivals } from './arrivals.ts'
import { AttemptChecks } from './attempt-checks.ts'
import { fork } from './chance.ts'
import { SimClients } from './clients.ts'
import { MAX_LATENESS } from './clock.ts'
import { Dialing } from './dialing.ts'
import { FinalChecks } from './final-checks.ts'
import type { Breach } from './invariants.ts'
import { RequestSource } from './requests.ts'
import { draw } from './setup.ts'
import { SimState } from './state.ts'
import { UpstreamModes } from './upstreams.ts'
import { checkedHealth, type HealthClass, realHealth } from './watch.ts'

/** Replacements for real parts, to show that the checks detect a fault. */
export type Mutant = {
  readonly health?: (Base: HealthClass) => HealthClass
  readonly listener?: (listener: UpstreamListener) => UpstreamListener
  readonly reply?: (reply: ResponseWriter) => ResponseWriter
  readonly world?: (world: World) => World
  readonly gateway?: (gateway: Gateway) => Gateway
  /** Replaces the fingerprint of requests. */
  readonly fingerprint?: (text: string) => string
}

export type Options = {
  readonly trace?: (line: string) => void
  /** The wall clock does not jump. */
  readonly steady?: boolean
  readonly mutant?: Mutant
}

export type Result = {
  readonly seed: number
  readonly hash: number
  readonly breach: Breach | null
  readonly requests: number
  readonly attempts: number
  readonly events: number
  readonly seen: ReadonlySet<string>
  /** First choices among equal healthy keys: their number, and the index chosen. */
  readonly shares: readonly (readonly [keys: number, chosen: number])[]
}

/** Runs one seed. */
export const simulate = async (seed: number, options: Options = {}): Promise<Result> =>
  new Simulation(seed, options).run()

/** Connects the gateway with everything around it. */
class Simulation {
  readonly #seed: number
  readonly #state: SimState
  readonly #checks: AttemptChecks
  readonly #arrivals: Arrivals
  readonly #finalChecks: FinalChecks

  constructor(seed: number, { mutant = {}, steady = false, trace }: Options) {
    const chance = (n: number) => fork(seed, n)
    this.#seed = seed
    const state = new SimState(draw(chance(0), chance(6)), trace)
    const { clock, setup, watch } = state
    const modes = new UpstreamModes(chance(5), clock.now)
    const checks = new AttemptChecks(state)
    const listenerOf = mutant.listener ?? ((listener) => listener)
    const dialing = new Dialing(state, { chance: chance(2), modes, checks, listenerOf })
    const late = chance(4)
    const lateness = () => (late() < 0.03 ? late() * MAX_LATENESS : 0)
    const plain: World = {
      now: () => clock.now,
      date: () => state.date(),
      random: chance(3),
      later: (ms, run) => clock.after(ms + lateness(), run),
      turn: (run) => void clock.after(0, run),
      dial: dialing.dial,
    }
    const world = mutant.world?.(plain) ?? plain
    const emit = (event: GatewayEvent) => this.#onEvent(event)
    const health = checkedHealth(mutant.health?.(realHealth) ?? realHealth, watch, world, emit)
    const prices = priceBook(setup.catalogue, [])
    const accounts = new SimAccounts(chance(8), world, prices)
    const plainGateway: Gateway = {
      world,
      emit,
      health,
      catalogue: setup.catalogue,
      prices: () => prices,
      config: () => state.config,
      lists: () => new Map(),
      activeCalls: new ActiveCalls(),
      responses: testStore(10_000),
      accounts: accounts.accounts,
      cache: new ResponseCache({ world, fingerprint: (text) => text, limit: () => 67_108_864 }),
      jobs: new Map(),
    }
    const gateway = mutant.gateway?.(plainGateway) ?? plainGateway
    const sharing = chance(7)
    const share = sharing() < 0.3 ? shareResponses(gateway, mutant.fingerprint ?? ((text) => text)) : null
    const clients = new SimClients(state, {
      gateway,
      share,
      health,
      accounts,
      replyOf: mutant.reply ?? ((reply) => reply),
      onDial: (call) => {
        dialing.caller = call
      },
    })
    const arriving = chance(1)
    this.#state = state
    this.#checks = checks
    this.#arrivals = new Arrivals(state, {
      chance: arriving,
      requests: new RequestSource(state, { clients: arriving, sharing: share && sharing }),
      clients,
      activeCalls: gateway.activeCalls,
      endTurn: accounts.endTurn,
      steady,
    })
    this.#finalChecks = new FinalChecks(state, {
      activeCalls: gateway.activeCalls,
      health,
      accounts,
      modes,
      clients,
      checks,
    })
  }

  async run(): Promise<Result> {
    const state = this.#state
    this.#arrivals.schedule()
    await state.untilRest()
    await this.#finalChecks.run()
    return {
      seed: this.#seed,
      hash: state.hash,
      breach: state.watch.breaches[0] ?? null,
      requests: state.calls.length,
      attempts: state.dials.length,
      events: state.events,
      seen: state.seen,
      shares: this.#checks.shares,
    }
  }

  #onRecord(trace: Trace): void {
    const state = this.#state
    const first = trace[0]
    const call = first?.type === 'received' ? state.calls[Number(first.id.slice(4))] : undefined
    if (!call) return state.watch.breach(15, 'an unknown request was recorded')
    call.recorded++
    call.exchange = trace
    const ended = trace.find((fact) => fact.type === 'ended')
    if (!ended) return
    state.mix(ended.status, ended.at)
    state.trace(`request ${call.number} ${ended.how} ${ended.status} ${JSON.stringify(ended.failure ?? null)}`)
  }

  #onEvent(event: GatewayEvent): void {
    const state = this.#state
    switch (event.event) {
      case 'request':
        return this.#onRecord(event.trace)
      case 'circuit':
        state.seen.add(`circuit: ${event.from}→${event.to}`)
        state.seen.add(`circuit of ${event.what}: →${event.to}`)
        state.mix(event.from.length, event.to.length)
        state.trace(`circuit ${event.name} ${event.from} → ${event.to}: ${event.why}`)
        return
      case 'key':
        state.seen.add(`key: ${event.from}→${event.to}`)
        state.trace(`key ${event.provider} ${event.key} ${event.from} → ${event.to}`)
        return
      case 'fallback':
        state.trace(`fallback ${event.id} ${event.from} → ${event.to}: ${event.kind}`)
        return
      case 'break_glass':
      case 'guard_error':
      case 'loop':
      case 'shadow':
        return
      case 'policy_breach':
        return state.watch.breach(0, `policy: ${event.provider}/${event.model} ${event.lack}`)
      case 'error':
        return state.watch.breach(0, `${event.error instanceof Error ? event.error.stack : event.error}`)
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }
}
