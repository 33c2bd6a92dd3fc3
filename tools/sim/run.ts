/** Simulates one seed: a gateway in a random world, from the first request until no timer is left. */

import type { Config } from '../../src/core/config.ts'
import { textOf, wholeBody } from '../../src/core/encoded-text.ts'
import { fail } from '../../src/core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../src/core/http-exchange.ts'
import { deploymentId, keyId, modelId, type Target } from '../../src/core/target.ts'
import type { GatewayEvent } from '../../src/core/trace.ts'
import type { Dial, UpstreamCall, UpstreamListener, World } from '../../src/core/world.ts'
import { ActiveCalls } from '../../src/gateway/call/cancellation.ts'
import { serveChat } from '../../src/gateway/chat/serve-chat.ts'
import type { Gateway } from '../../src/gateway/gateway.ts'
import type { UpstreamHealth } from '../../src/gateway/health/upstream-health.ts'
import { repeatableChat, type Share, shareResponses } from '../../src/gateway/sharing/idempotency.ts'
import { ResponseCache } from '../../src/gateway/sharing/response-cache.ts'
import { priceBook } from '../../src/policy/accounts/price-book.ts'
import { protocols } from '../../src/protocols/index.ts'
import { testStore } from '../../test/support/stores.ts'
import { SimAccounts } from './accounts.ts'
import { type Chance, drawing, exponential, fork, integer, logNormal, pick } from './chance.ts'
import { bodyFor, type Call, PROTOCOL, type ReaderPace, SimReply, type SimRequest } from './client.ts'
import { Clock } from './clock.ts'
import type { Dialed } from './dialed.ts'
import type { Breach } from './invariants.ts'
import { draw, only, type Setup, secretOf } from './setup.ts'
import { type Poison, ScriptPlayer, type Step, scriptFor, UpstreamModes } from './upstreams.ts'
import { judge } from './verdicts.ts'
import { checkedHealth, cooldownIds, type HealthClass, realHealth, Watch } from './watch.ts'
import { type Style, tagOf } from './wires.ts'

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

/** More than any run needs that ends. */
const MAX_EVENTS = 50_000

const styles = drawing<Style>([
  ['chat', 3],
  ['responses', 2],
  ['messages', 2],
])
const poisons = drawing<Poison | null>([
  [null, 40],
  ['request', 1],
  ['policy', 1],
  ['context', 2],
])

/** Resolves after all pending microtasks: Node runs `nextTick` callbacks after them. */
const settled = (): Promise<void> => new Promise((resolve) => process.nextTick(resolve))

/** Runs one seed. */
export const simulate = async (seed: number, options: Options = {}): Promise<Result> => {
  const simulation = new Simulation(seed, options)
  return simulation.run()
}

class Simulation {
  readonly #seed: number
  readonly #options: Options
  readonly #clock = new Clock()
  readonly #seen = new Set<string>()
  readonly #watch: Watch
  readonly #setup: Setup
  readonly #modes: UpstreamModes
  readonly #health: UpstreamHealth
  readonly #gateway: Gateway
  readonly #accounts: SimAccounts
  /** Null if responses are not shared. */
  readonly #share: Share<Gateway> | null
  readonly #calls: Call[] = []
  readonly #dials: Dialed[] = []
  readonly #shares: [number, number][] = []
  /** Checks to run after all pending microtasks. */
  #checks: (() => void)[] = []
  #config: Config
  #wall = 1_800_000_000_000
  /** The request that is dialling now. */
  #dialling: Call | null = null
  #draining: number | null = null
  #hedges = 0
  #hash = 0x811c9dc5
  #events = 0
  readonly #chance: { readonly [name in 'clients' | 'upstream' | 'world' | 'late' | 'sharing']: Chance }

  constructor(seed: number, options: Options) {
    this.#seed = seed
    this.#options = options
    this.#chance = {
      clients: fork(seed, 1),
      upstream: fork(seed, 2),
      world: fork(seed, 3),
      late: fork(seed, 4),
      sharing: fork(seed, 7),
    }
    this.#setup = draw(fork(seed, 0), fork(seed, 6))
    this.#config = this.#setup.config
    this.#modes = new UpstreamModes(fork(seed, 5), this.#clock.now)
    this.#watch = new Watch(
      () => this.#clock.now,
      (what) => this.#seen.add(what),
    )
    const { mutant = {} } = options
    const plain: World = {
      now: () => this.#clock.now,
      date: () => this.#wall + this.#clock.now,
      random: this.#chance.world,
      later: (ms, run) => this.#clock.after(ms + this.#lateness(), run),
      turn: (run) => void this.#clock.after(0, run),
      dial: this.#dial,
    }
    const world = mutant.world?.(plain) ?? plain
    const emit = (event: GatewayEvent) => this.#onEvent(event)
    this.#health = checkedHealth(mutant.health?.(realHealth) ?? realHealth, this.#watch, world, emit)
    const prices = priceBook(this.#setup.catalogue, [])
    this.#accounts = new SimAccounts(fork(seed, 8), world, prices)
    const gateway: Gateway = {
      world,
      emit,
      health: this.#health,
      catalogue: this.#setup.catalogue,
      prices: () => prices,
      config: () => this.#config,
      lists: () => new Map(),
      activeCalls: new ActiveCalls(),
      responses: testStore(10_000),
      accounts: this.#accounts.accounts,
      cache: new ResponseCache({ world, fingerprint: (text) => text, limit: () => 67_108_864 }),
      jobs: new Map(),
    }
    this.#gateway = mutant.gateway?.(gateway) ?? gateway
    this.#share =
      this.#chance.sharing() < 0.3 ? shareResponses(this.#gateway, mutant.fingerprint ?? ((text) => text)) : null
  }

  async run(): Promise<Result> {
    this.#plan()
    await this.#untilRest()
    if (this.#fine) this.#atRest()
    if (this.#fine) await this.#recover()
    if (this.#fine) this.#atRest()
    return {
      seed: this.#seed,
      hash: this.#hash >>> 0,
      breach: this.#watch.breaches[0] ?? null,
      requests: this.#calls.length,
      attempts: this.#dials.length,
      events: this.#events,
      seen: this.#seen,
      shares: this.#shares,
    }
  }

  get #fine(): boolean {
    return this.#watch.breaches.length === 0
  }

  async #untilRest(): Promise<void> {
    while (this.#fine && this.#clock.step()) {
      await settled()
      if (this.#checks.length > 0) this.#runChecks()
      if (++this.#events > MAX_EVENTS) this.#watch.breach(14, `no rest after ${MAX_EVENTS} events`)
    }
  }

  #runChecks(): void {
    const soon = this.#checks
    this.#checks = []
    for (const look of soon) look()
  }

  // ── Events ─────────────────────────────────────────────────────────────────────────────────────────────

  #plan(): void {
    const chance = this.#chance.clients
    const most = integer(chance, 8, 20)
    const mean = pick(chance, [30, 300, 2_000, 2_000, 15_000])
    const last = mean * most
    let at = 0
    for (let n = 0; n < most; n++) {
      // A burst: several at the same time.
      if (chance() > 0.2) at += exponential(chance, mean)
      this.#clock.after(at, () => this.#arrive())
    }
    if (chance() < 0.25)
      this.#clock.after(chance() * last, () => {
        this.#trace('configuration swapped')
        this.#config = this.#setup.swapped
      })
    if (chance() < 0.25) this.#clock.after(chance() * last * 1.2, () => this.#shutDown())
    const jumps = chance() < 0.4 ? integer(chance, 1, 2) : 0
    for (let n = 0; n < jumps; n++) {
      const by = chance() < 0.5 ? 3_600_000 : -3_600_000
      this.#clock.after(chance() * last, () => {
        if (this.#options.steady) return
        this.#trace(`wall clock jumps by ${by} ms`)
        this.#wall += by
      })
    }
  }

  #lateness(): number {
    return this.#chance.late() < 0.03 ? this.#chance.late() * MAX_LATENESS : 0
  }

  #arrive(): void {
    if (this.#draining !== null) return
    const chance = this.#chance.clients
    const patience = chance() < 0.15 ? exponential(chance, pick(chance, [50, 1_000, 10_000])) : null
    const reading =
      chance() < 0.12
        ? { room: integer(chance, 1, 1_500), drains: chance() < 0.7 ? logNormal(chance, 500, 1.5) : null }
        : null
    const call = this.#send(this.#newRequest(chance), reading)
    if (patience !== null) this.#clock.after(patience, () => this.#leave(call))
  }

  #newRequest(chance: Chance): SimRequest {
    const number = this.#calls.length
    const style = styles(chance)
    const stream = chance() < 0.65
    const { instances, routes } = this.#config
    const one = instances.length > 0 ? instances[Math.floor(chance() * instances.length)] : undefined
    const model = pick(chance, [
      'm0',
      'm1',
      'm0',
      'auto',
      one ? `${one.id}/${one.models[0] ?? 'm0'}` : 'm0',
      routes.has('fast') ? 'fast' : 'm1',
    ])
    const broken = chance() < 0.02
    const strange = !broken && chance() < 0.02 ? 'unknown-model-0' : model
    const exact = this.#share !== null && this.#chance.sharing() < 0.6
    const body = bodyFor({ style, model: strange, stream, usage: chance() < 0.5, number, exact })
    const sentBody = broken
      ? pick(chance, [body.slice(0, -9), '{}', body.replace(/"(messages|input)":/, '"missing":')])
      : body
    const poison = poisons(chance)
    const request: SimRequest = { style, stream, model: strange, poison, body: sentBody, broken, client: '', key: null }
    return this.#share ? this.#withKey(request, number) : request
  }

  /** A request with an idempotency key: new, reused, or equal to another request. */
  #withKey(request: SimRequest, number: number): SimRequest {
    const chance = this.#chance.sharing
    const client = chance() < 0.5 ? 'c0' : 'c1'
    const key = chance() < 0.7 ? `key-${number}` : null
    const before = this.#calls[Math.floor(chance() * this.#calls.length)]
    const how = chance()
    if (!before || how > 0.5) return { ...request, client, key }
    const { request: first } = before
    // The same request; or its key with another client, or with another request.
    if (how < 0.35) return first
    return how < 0.43 ? { ...first, client } : { ...request, client: first.client, key: first.key }
  }

  #send(request: SimRequest, reading: ReaderPace | null): Call {
    const number = this.#calls.length
    const { settings } = this.#config
    const reply = new SimReply(reading, {
      after: (ms, run) => void this.#clock.after(ms, run),
      wrong: (what) => this.#watch.breach(2, `request ${number}: ${what}`),
      wrote: (text) => {
        this.#mix(number, text.length)
        this.#trace(`  ${number} ← ${text}`)
      },
      over: (how) => {
        if (call.later) this.#checks.push(call.later)
        call.later = null
        this.#mix(number, how === 'ended' ? 1 : 2)
        this.#trace(`  ${number} ${how}`)
      },
    })
    const call: Call = {
      number,
      request,
      at: this.#clock.now,
      settings,
      reply,
      dials: [],
      shareable: this.#share !== null && (request.key !== null || settings.coalesce),
      repeated: 0,
      unconfigured: this.#config.instances.length === 0,
      goneAt: null,
      exchange: null,
      recorded: 0,
      later: null,
      settled: false,
    }
    this.#calls.push(call)
    this.#trace(`request ${number}: ${request.body}${request.poison ? ` (${request.poison})` : ''}`)
    const protocol = protocols[PROTOCOL[request.style]]
    const received: IncomingRequest = {
      id: `req_${number}`,
      method: 'POST',
      path: protocol.path,
      query: '',
      headers: (name) => (name === 'idempotency-key' ? (request.key ?? undefined) : undefined),
      body: { text: request.body },
      client: this.#accounts.clientOf(request.client),
    }
    const config = this.#config
    const given = this.#options.mutant?.reply?.(reply) ?? reply
    const serve = (gateway: Gateway, to: ResponseWriter) => {
      const { world } = gateway
      const dial: Dial = (upstream, listener) => {
        this.#dialling = call
        return world.dial(upstream, listener)
      }
      return serveChat({ ...gateway, world: { ...world, dial } }, { protocol, received, responseWriter: to })
    }
    const repeatable = repeatableChat(protocol, false)
    const served = this.#share
      ? this.#share({ protocol, style: protocol.style, received, responseWriter: given, repeatable }, serve)
      : serve(this.#gateway, given)
    served.then(
      () => {
        call.settled = true
        this.#checks.push(() => {
          if (call.recorded !== 1) this.#watch.breach(15, `request ${number} was recorded ${call.recorded} times`)
          const { exchange } = call
          const shared = exchange?.find((fact) => fact.type === 'shared')
          const leader = shared && shared.how !== 'left' ? this.#calls[Number(shared.with.slice(4))] : undefined
          if (shared) this.#seen.add(`shared: ${shared.how}`)
          const look = () =>
            judge({
              call,
              leader,
              config,
              health: this.#health,
              watch: this.#watch,
              dials: this.#dials,
              now: this.#clock.now,
            })
          // A shared response may end before its slowest reader has read it.
          if (call.shareable && !call.reply.over && !call.reply.gone) call.later = look
          else look()
        })
      },
      (error: unknown) => this.#watch.breach(0, `handle threw ${error instanceof Error ? error.stack : error}`),
    )
    return call
  }

  #leave(call: Call): void {
    if (call.reply.over || call.reply.gone) return
    this.#trace(`request ${call.number}: the client disconnects`)
    this.#seen.add(
      call.reply.content
        ? 'left: in the middle'
        : call.dials.length === 0
          ? 'left: before an attempt'
          : 'left: waiting',
    )
    call.goneAt = this.#clock.now
    if (call.later) this.#checks.push(call.later)
    call.later = null
    call.reply.leave()
    this.#checks.push(() => {
      // A whole answer that a hard budget pays for is read to its end.
      for (const dial of call.dials)
        if (dial.played && !dial.played.over && !dial.finished && !call.shareable && call.request.stream)
          this.#watch.breach(
            25,
            `the client of request ${call.number} disconnected, but attempt ${dial.tag} (${dial.mode}) continues`,
          )
    })
  }

  #shutDown(): void {
    this.#trace('shutdown')
    this.#draining = this.#clock.now
    const active = this.#calls.filter(({ settled }) => !settled)
    if (active.length > 0) this.#seen.add('shutdown: with requests in progress')
    for (const stop of [...this.#gateway.activeCalls])
      stop.cancel(fail('shutdown', 'The gateway is shutting down. Ask again in a moment.'))
    // An attempt that is being recorded ends with the turn of the event loop.
    this.#accounts.endTurn()
    this.#checks.push(() => {
      // After a disconnect at the end of the response, the gateway may still wait for the upstream's end. A shared
      // response may have ended while its slowest reader still reads.
      for (const call of active)
        if (!call.settled && !call.reply.gone && !(call.shareable && call.reply.full))
          this.#watch.breach(24, `request ${call.number} continues after the shutdown`)
    })
  }

  // ── Upstream calls ─────────────────────────────────────────────────────────────────────────────────────────

  readonly #dial: Dial = (call, original) => {
    const now = this.#clock.now
    const number = this.#dials.length
    const tag = tagOf(number)
    const provider = /^http:\/\/(p\d)\.test\/v1\//.exec(call.url)?.[1] ?? ''
    const style: Style = call.url.endsWith('/messages')
      ? 'messages'
      : call.url.endsWith('/responses')
        ? 'responses'
        : 'chat'
    const secret = (call.headers.authorization ?? call.headers['x-api-key'] ?? '').replace(/^Bearer /, '')
    const body = textOf(wholeBody(call.body ?? ''))
    const model = /"model":"([^"]*)"/.exec(body)?.[1] ?? ''
    const stream = /"stream":true/.test(body)
    const caller = this.#dialling ?? undefined
    this.#dialling = null
    const key = /^sk-canary-p\d(k\d)-/.exec(secret)?.[1] ?? ''
    const mode = this.#modes.at(now, provider, `${provider} ${key}`, `${provider} ${key} ${model}`)
    const script = scriptFor(mode, {
      style,
      stream,
      usage: body.includes('"include_usage":true'),
      tag,
      connectTimeout: call.connectTimeout,
      secret,
      chance: this.#chance.upstream,
      poison: caller?.request.poison ?? null,
    })
    const claim = this.#watch.claimOf(provider, key, model)
    const dial: Dialed = {
      number,
      tag,
      at: now,
      provider,
      key,
      model,
      stream,
      mode,
      script,
      claim,
      played: null,
      headAt: null,
      finished: false,
      sent: false,
      readOn: 0,
    }
    this.#dials.push(dial)
    this.#mix(number, now)
    this.#seen.add(`mode: ${mode}`)
    this.#trace(`  ${caller?.number} → ${tag} ${call.url} ${key} ${model} (${mode}) ${body}`)
    if (secret !== secretOf(provider, key)) this.#watch.breach(16, `${call.url} received ${secret}`)
    if (claim) claim.dial = dial
    this.#checkAttempt(dial, caller, call)
    const { mutant } = this.#options
    const listener = mutant?.listener?.(original) ?? original
    dial.played = new ScriptPlayer(script, listener, {
      after: (ms, run) => this.#clock.after(ms, run),
      date: () => this.#wall + this.#clock.now,
      onStep: (step) => this.#step(dial, caller, step),
    })
    return dial.played
  }

  /** Checks each step of an upstream before it runs. */
  #step(dial: Dialed, caller: Call | undefined, step: Step): void {
    this.#trace(
      `  ${dial.tag} ${step.act}${step.act === 'head' ? ` ${step.status} ${JSON.stringify(step.headers)}` : step.act === 'bytes' ? ` ${Buffer.from(step.chunk).toString('latin1')}` : ''}`,
    )
    if (step.act === 'head') dial.headAt = this.#clock.now
    if (step.act === 'bytes' && step.finished) {
      dial.finished = true
      if (dial.script.meaning !== 'answer') dial.sent = true
    }
    if (step.act === 'end' || step.act === 'fail') dial.sent = true
    // The client has read since it was last full.
    if (step.act === 'bytes' && (!caller?.reply.full || caller.reply.overflow === 0)) dial.readOn = 0
    // Shared responses are buffered for the slowest reader.
    if (step.act !== 'bytes' || !caller?.reply.full || caller.reply.over || caller.shareable) return
    const { reply } = caller
    const { overflow } = reply
    // One piece may already be in flight when the client becomes full. If that happens while held-back content is flushed,
    // a second is read before the attempt can pause; a continuation adds one more.
    this.#checks.push(() => {
      if (reply.full && reply.overflow > overflow && ++dial.readOn > (caller.dials.length > 1 ? 3 : 2))
        this.#watch.breach(18, `the client of request ${caller.number} is full, but attempt ${dial.tag} is still read`)
      if (reply.overflow > MAX_OVERFLOW)
        this.#watch.breach(18, `${reply.overflow} characters are buffered for request ${caller.number}`)
    })
  }

  /** Checks that this attempt is permitted now. */
  #checkAttempt(dial: Dialed, call: Call | undefined, { url }: UpstreamCall): void {
    const watch = this.#watch
    const { claim } = dial
    if (!call) return watch.breach(14, `a call without a request: ${url}`)
    const name = `request ${call.number}`
    const target = claim?.target
    const isTarget =
      target?.candidate.instance.id === dial.provider &&
      target.key.id === dial.key &&
      target.candidate.model === dial.model
    if (!claim || !target || !isTarget)
      return watch.breach(14, `${name} calls ${dial.provider} ${dial.key} ${dial.model} without a permit`)
    const now = this.#clock.now
    const { settings, reply } = call
    // A continuation begins after content by design.
    if (reply.content && !settings.stream.continue) watch.breach(4, `${name} tries ${dial.tag} after content was sent`)
    if (reply.over && !call.shareable) watch.breach(4, `${name} tries ${dial.tag} after its response ended`)
    if (call.goneAt !== null && !call.shareable)
      watch.breach(4, `${name} tries ${dial.tag} after its client disconnected`)
    if (this.#draining !== null) watch.breach(4, `${name} tries ${dial.tag} after the shutdown`)
    const { request } = settings.timeout
    if (request > 0 && now >= call.at + request + MAX_LATENESS)
      watch.breach(4, `${name} tries ${dial.tag} after its deadline`)

    const isRejectedKey = ({ script, sent }: Dialed) =>
      sent && (script.meaning === 'auth' || script.meaning === 'quota')
    const counted = call.dials.filter((other) => !isRejectedKey(other))
    if (counted.length >= settings.retry.maxAttempts)
      watch.breach(1, `${name} tries ${dial.tag} after ${counted.length} of ${settings.retry.maxAttempts} attempts`)
    const id = deploymentId(target)
    if (call.dials.some((other) => other.claim && deploymentId(other.claim.target) === id)) {
      call.repeated++
      if (call.repeated > 1) watch.breach(1, `${name} tries ${id} again, which is its second retry`)
    }
    const concurrent = call.dials.filter((other) => other.played && !other.played.over && !other.finished)
    const [only] = concurrent
    const isBesideProbe = concurrent.length === 1 && only?.claim?.tokens.some(({ kind }) => kind !== 'plain') === true
    if (isBesideProbe) {
      this.#seen.add('hedge of a probe')
      if (now < only.at + SLOW_PROBE)
        watch.breach(1, `${name} tries ${dial.tag} while the probe ${only.tag} is not slow`)
    } else if (concurrent.length > 0) {
      this.#hedges++
      if (settings.hedge.percent === 0 || concurrent.length > 1 || concurrent[0]?.provider === dial.provider)
        watch.breach(1, `${name} tries ${dial.tag} while ${concurrent.map(({ tag }) => tag).join(' and ')}`)
    }
    for (const other of call.dials) {
      const { meaning } = other.script
      if (!other.sent) continue
      if (meaning === 'policy') watch.breach(5, `${name} continues after ${meaning}`)
      if (meaning === 'context' && !this.#mayFit(other.claim?.target, target))
        watch.breach(5, `${name} continues after ${meaning}`)
    }
    const again = (other: Dialed) =>
      other.provider === dial.provider && other.model === dial.model && !isRejectedKey(other)
    if (call.dials.some(again)) {
      const tries = watch.retries.tries(target.candidate)
      tries.made++
      if (tries.made > tries.granted)
        watch.breach(12, `${name} retries at ${dial.provider} ${dial.model} beyond the retry budget`)
    }
    if (call.dials.length === 0) this.#firstChoice(target, settings.keyStrategy)
    call.dials.push(dial)
  }

  /** Another model whose window is unknown, or larger than the one that the refusal stated. */
  #mayFit(before: Target | undefined, { candidate }: Target): boolean {
    const window = this.#setup.catalogue(candidate.instance.provider.name, candidate.model)?.contextWindow
    const isOther = modelId(candidate) !== (before && modelId(before.candidate))
    return isOther && (window === undefined || window > STATED_WINDOW)
  }

  #firstChoice({ candidate: { instance }, key }: Target, strategy: string): void {
    const { keys } = instance
    if (keys.length < 2 || strategy !== 'spread' || keys.some(({ weight }) => weight !== keys[0]?.weight)) return
    const troubled = keys.some(
      (one) =>
        this.#watch.troubled.has(keyId(instance, one)) ||
        this.#watch.circuits.get(`${instance.id} ${one.id} m0`)?.at === 'open' ||
        this.#watch.circuits.get(`${instance.id} ${one.id} m1`)?.at === 'open',
    )
    if (troubled || this.#watch.troubled.size > 0) return
    this.#shares.push([keys.length, keys.findIndex(({ id }) => id === key.id)])
  }

  // ── Gateway events ─────────────────────────────────────────────────────────────────────────────────────────────

  #onEvent(event: GatewayEvent): void {
    switch (event.event) {
      case 'request': {
        const first = event.trace[0]
        const call = first?.type === 'received' ? this.#calls[Number(first.id.slice(4))] : undefined
        if (!call) return this.#watch.breach(15, 'an unknown request was recorded')
        call.recorded++
        call.exchange = event.trace
        const ended = event.trace.find((fact) => fact.type === 'ended')
        if (ended) {
          this.#mix(ended.status, ended.at)
          this.#trace(`request ${call.number} ${ended.how} ${ended.status} ${JSON.stringify(ended.failure ?? null)}`)
        }
        return
      }
      case 'circuit':
        this.#seen.add(`circuit: ${event.from}→${event.to}`)
        this.#seen.add(`circuit of ${event.what}: →${event.to}`)
        this.#mix(event.from.length, event.to.length)
        this.#trace(`circuit ${event.name} ${event.from} → ${event.to}: ${event.why}`)
        return
      case 'key':
        this.#seen.add(`key: ${event.from}→${event.to}`)
        this.#trace(`key ${event.provider} ${event.key} ${event.from} → ${event.to}`)
        return
      case 'fallback':
        this.#trace(`fallback ${event.id} ${event.from} → ${event.to}: ${event.kind}`)
        return
      case 'error':
        return this.#watch.breach(0, `${event.error instanceof Error ? event.error.stack : event.error}`)
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }

  #trace(line: string): void {
    this.#options.trace?.(`${this.#clock.now.toFixed(1).padStart(10)} ${line.replaceAll('\n', '⏎')}`)
  }

  #mix(one: number, other: number): void {
    this.#hash = Math.imul(this.#hash ^ one, 0x01000193)
    this.#hash = Math.imul(this.#hash ^ Math.floor(other * 1_000), 0x85ebca6b)
    this.#hash ^= this.#hash >>> 13
  }

  // ── End of the run ───────────────────────────────────────────────────────────────────────────────────────────────

  /** Checks that nothing is left after the last event. */
  #atRest(): void {
    const left = (what: string) => this.#watch.breach(14, `at the end ${what}`)
    const { hedge } = this.#setup.config.settings
    if (this.#hedges > 0) this.#seen.add('hedge')
    if (100 * this.#hedges > hedge.percent * this.#calls.length)
      this.#watch.breach(
        12,
        `${this.#hedges} hedges of ${this.#calls.length} requests are more than ${hedge.percent} %`,
      )
    const billed = (request: string) =>
      this.#calls[Number(request.slice('req_'.length))]?.dials.map(({ script }) => script.words) ?? []
    for (const problem of this.#accounts.problems(billed)) this.#watch.breach(29, problem)
    if (this.#clock.live > 0) left(`${this.#clock.live} timers are left`)
    if (this.#gateway.activeCalls.size > 0) left(`${this.#gateway.activeCalls.size} requests are still active`)
    if (this.#watch.open > 0) left(`${this.#watch.open} permits have no outcome`)
    for (const call of this.#calls) if (!call.settled || call.later) left(`request ${call.number} has not ended`)
    for (const dial of this.#dials)
      if (dial.played && !dial.played.over)
        left(`attempt ${dial.tag} (${dial.mode}) was neither read to its end nor aborted`)
    for (const instance of this.#setup.config.instances)
      for (const key of instance.keys)
        if (this.#health.load.inFlight(instance, key) !== 0) left(`${keyId(instance, key)} has load`)
  }

  /** All upstreams recover: every open circuit and cooldown must end after its time when a request arrives. */
  async #recover(): Promise<void> {
    this.#modes.allHealthy = true
    this.#draining = null
    const { config } = this.#setup
    for (const instance of config.instances)
      for (const model of instance.models)
        for (const key of instance.keys) {
          const target: Target = { candidate: { instance, model, because: '', weight: 1 }, key }
          const scopes = [...cooldownIds(target)]
          const isHealthy = () =>
            scopes.every(
              (id) =>
                this.#health.cooldowns.of(id) === undefined && this.#watch.circuit(id, config.settings).at === 'closed',
            ) && scopes.every((id) => this.#health.circuits.phase(id, config.settings.circuit).state === 'closed')
          // Targets that ever had a cooldown are called too, whether or not it has ended.
          if (isHealthy() && !scopes.some((id) => this.#watch.troubled.has(id))) continue
          this.#clock.jump(this.#clock.now + Math.max(config.settings.circuit.resetTimeout, LONGEST_COOLDOWN) + 1)
          this.#config = only(config, instance, key.id, model)
          this.#trace(`recovery of ${deploymentId(target)}`)
          this.#accounts.credit()
          const named = `${instance.id}/${model}`
          const number = this.#calls.length
          const body = bodyFor({ style: 'chat', model: named, stream: false, usage: false, number })
          const call = this.#send(
            {
              style: 'chat',
              stream: false,
              model: named,
              poison: null,
              body,
              broken: false,
              client: '',
              key: null,
            },
            null,
          )
          await settled()
          this.#runChecks()
          await this.#untilRest()
          if (!this.#fine) return
          if (call.reply.status !== 200 || !isHealthy())
            this.#watch.breach(
              10,
              `${deploymentId(target)} has recovered but is not used: ${call.reply.status} ${call.reply.text}`,
            )
        }
  }
}

/** Maximum characters written after the client is full: one piece from upstream and its translation. */
const MAX_OVERFLOW = 64 * 1024
/** Maximum ms by which a timer is late. */
/** Tokens: what upstreams state when a prompt is too long. */
const STATED_WINDOW = 8_000
/** ms after which another target may be tried beside a probe. */
const SLOW_PROBE = 1_000
const MAX_LATENESS = 40
/** The longest cooldown in ms: of a key without quota. */
const LONGEST_COOLDOWN = 6 * 3_600_000
