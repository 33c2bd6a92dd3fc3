/** One seed: a gateway over a world of chance, from its first request until nothing is left to come. */

import type { Config } from '../../src/core/config.ts'
import { fail } from '../../src/core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../src/core/http-exchange.ts'
import { deploymentId, keyId, type Target } from '../../src/core/target.ts'
import type { GatewayEvent } from '../../src/core/trace.ts'
import type { Dial, UpstreamCall, UpstreamListener, World } from '../../src/core/world.ts'
import { ActiveCalls } from '../../src/gateway/call/cancellation.ts'
import { serveChat } from '../../src/gateway/chat/serve-chat.ts'
import type { Gateway } from '../../src/gateway/gateway.ts'
import type { UpstreamHealth } from '../../src/gateway/health/upstream-health.ts'
import { repeatableChat, type Share, shareResponses } from '../../src/gateway/sharing/idempotency.ts'
import { protocols } from '../../src/protocols/index.ts'
import { testStore } from '../../test/support/stores.ts'
import { type Chance, drawing, exponential, fork, logNormal, pick, whole } from './chance.ts'
import { bodyFor, type Call, PROTOCOL, type Question, type Reading, SimReply } from './client.ts'
import { Clock } from './clock.ts'
import type { Dialed } from './dialed.ts'
import type { Breach } from './invariants.ts'
import { draw, only, type Setup, secretOf } from './setup.ts'
import { Played, type Poison, type Step, scriptFor, Weather } from './upstreams.ts'
import { judge } from './verdicts.ts'
import { type BoardClass, boardFor, realBoard, restsOf, Watch } from './watch.ts'
import { type Style, tagOf } from './wires.ts'

/** What is put in the place of the real thing, to see that somebody notices. */
export type Mutant = {
  readonly board?: (Base: BoardClass) => BoardClass
  readonly listener?: (listener: UpstreamListener) => UpstreamListener
  readonly reply?: (reply: ResponseWriter) => ResponseWriter
  readonly world?: (world: World) => World
  readonly gateway?: (gateway: Gateway) => Gateway
  /** By which questions are told apart. */
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
  /** First choices among so many equal keys that were well: which. */
  readonly shares: readonly (readonly [keys: number, chosen: number])[]
}

/** More than any run needs that comes to rest. */
const MOST_EVENTS = 50_000

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

/** Everything that was promised has run when this resolves: what `nextTick` runs comes behind all microtasks. */
const settled = (): Promise<void> => new Promise((resolve) => process.nextTick(resolve))

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
  readonly #weather: Weather
  readonly #board: UpstreamHealth
  readonly #gateway: Gateway
  /** Answers may be shared. */
  readonly #share: Share | null
  readonly #calls: Call[] = []
  readonly #dials: Dialed[] = []
  readonly #shares: [number, number][] = []
  /** Looked at once everything that was promised has run. */
  #soon: (() => void)[] = []
  #config: Config
  #wall = 1_800_000_000_000
  /** For whom the call is that is being made upstream. */
  #asking: Call | null = null
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
    this.#weather = new Weather(fork(seed, 5), this.#clock.now)
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
    const tell = (news: GatewayEvent) => this.#tell(news)
    this.#board = boardFor(mutant.board?.(realBoard) ?? realBoard, this.#watch, world, tell)
    const gateway: Gateway = {
      world,
      emit: tell,
      health: this.#board,
      catalogue: this.#setup.catalogue,
      config: () => this.#config,
      lists: () => new Map(),
      activeCalls: new ActiveCalls(),
      responses: testStore(10_000),
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
      if (this.#soon.length > 0) this.#look()
      if (++this.#events > MOST_EVENTS) this.#watch.breach(14, `no rest after ${MOST_EVENTS} events`)
    }
  }

  #look(): void {
    const soon = this.#soon
    this.#soon = []
    for (const look of soon) look()
  }

  // ── What happens ───────────────────────────────────────────────────────────────────────────────────────────────

  #plan(): void {
    const chance = this.#chance.clients
    const most = whole(chance, 8, 20)
    const mean = pick(chance, [30, 300, 2_000, 2_000, 15_000])
    const last = mean * most
    let at = 0
    for (let n = 0; n < most; n++) {
      // A burst: several at the same moment.
      if (chance() > 0.2) at += exponential(chance, mean)
      this.#clock.after(at, () => this.#arrive())
    }
    if (chance() < 0.25)
      this.#clock.after(chance() * last, () => {
        this.#trace('configuration swapped')
        this.#config = this.#setup.swapped
      })
    if (chance() < 0.25) this.#clock.after(chance() * last * 1.2, () => this.#shutDown())
    const jumps = chance() < 0.4 ? whole(chance, 1, 2) : 0
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
    return this.#chance.late() < 0.03 ? this.#chance.late() * LATEST : 0
  }

  #arrive(): void {
    if (this.#draining !== null) return
    const chance = this.#chance.clients
    const patience = chance() < 0.15 ? exponential(chance, pick(chance, [50, 1_000, 10_000])) : null
    const reading =
      chance() < 0.12
        ? { room: whole(chance, 1, 1_500), drains: chance() < 0.7 ? logNormal(chance, 500, 1.5) : null }
        : null
    const call = this.#ask(this.#question(chance), reading)
    if (patience !== null) this.#clock.after(patience, () => this.#leave(call))
  }

  #question(chance: Chance): Question {
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
    const strange = !broken && chance() < 0.02 ? 'nobody-has-this' : model
    const exact = this.#share !== null && this.#chance.sharing() < 0.6
    const body = bodyFor(style, strange, stream, chance() < 0.5, number, exact)
    const spoilt = broken
      ? pick(chance, [body.slice(0, -9), '{}', body.replace(/"(messages|input)":/, '"missing":')])
      : body
    const poison = poisons(chance)
    const question: Question = { style, stream, model: strange, poison, body: spoilt, broken, client: '', key: null }
    return this.#share ? this.#again(question, number) : question
  }

  /** Somebody who has a key, or comes back with one, or says the same as another. */
  #again(question: Question, number: number): Question {
    const chance = this.#chance.sharing
    const client = chance() < 0.5 ? 'c0' : 'c1'
    const key = chance() < 0.7 ? `key-${number}` : null
    const before = this.#calls[Math.floor(chance() * this.#calls.length)]
    const how = chance()
    if (!before || how > 0.5) return { ...question, client, key }
    const { question: first } = before
    // Its own again; the key of another client, or with another question.
    if (how < 0.35) return first
    return how < 0.43 ? { ...first, client } : { ...question, client: first.client, key: first.key }
  }

  #ask(question: Question, reading: Reading | null): Call {
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
        if (call.later) this.#soon.push(call.later)
        call.later = null
        this.#mix(number, how === 'ended' ? 1 : 2)
        this.#trace(`  ${number} ${how}`)
      },
    })
    const call: Call = {
      number,
      question,
      at: this.#clock.now,
      settings,
      reply,
      dials: [],
      shareable: this.#share !== null && (question.key !== null || settings.coalesce),
      repeated: 0,
      unconfigured: this.#config.instances.length === 0,
      goneAt: null,
      exchange: null,
      recorded: 0,
      later: null,
      settled: false,
    }
    this.#calls.push(call)
    this.#trace(`request ${number}: ${question.body}${question.poison ? ` (${question.poison})` : ''}`)
    const protocol = protocols[PROTOCOL[question.style]]
    const received: IncomingRequest = {
      id: `req_${number}`,
      method: 'POST',
      path: protocol.path,
      query: '',
      headers: (name) => (name === 'idempotency-key' ? (question.key ?? undefined) : undefined),
      body: question.body,
      local: true,
      client: question.client,
    }
    const config = this.#config
    const given = this.#options.mutant?.reply?.(reply) ?? reply
    const serve = (gateway: Gateway, to: ResponseWriter) => {
      const { world } = gateway
      const dial: Dial = (upstream, listener) => {
        this.#asking = call
        return world.dial(upstream, listener)
      }
      return serveChat({ ...gateway, world: { ...world, dial } }, { protocol, received, reply: to })
    }
    const repeatable = repeatableChat(protocol, false)
    const served = this.#share
      ? this.#share({ protocol, style: protocol.style, received, reply: given, repeatable }, serve)
      : serve(this.#gateway, given)
    served.then(
      () => {
        call.settled = true
        this.#soon.push(() => {
          if (call.recorded !== 1) this.#watch.breach(15, `request ${number} was written down ${call.recorded} times`)
          const { exchange } = call
          const shared = exchange?.find((fact) => fact.type === 'shared')
          const leader = shared && shared.how !== 'left' ? this.#calls[Number(shared.with.slice(4))] : undefined
          if (shared) this.#seen.add(`shared: ${shared.how}`)
          const look = () => judge(call, leader, config, this.#board, this.#watch, this.#dials, this.#clock.now)
          // A shared answer may be over before its slowest reader has read it.
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
    this.#trace(`request ${call.number}: the client leaves`)
    this.#seen.add(
      call.reply.content
        ? 'left: in the middle'
        : call.dials.length === 0
          ? 'left: before an attempt'
          : 'left: waiting',
    )
    call.goneAt = this.#clock.now
    if (call.later) this.#soon.push(call.later)
    call.later = null
    call.reply.leave()
    this.#soon.push(() => {
      for (const dial of call.dials)
        if (dial.played && !dial.played.over && !dial.finished && !call.shareable)
          this.#watch.breach(25, `request ${call.number} left, and attempt ${dial.tag} (${dial.mode}) goes on`)
    })
  }

  #shutDown(): void {
    this.#trace('shutdown')
    this.#draining = this.#clock.now
    const under = this.#calls.filter(({ settled }) => !settled)
    if (under.length > 0) this.#seen.add('shutdown: with requests under way')
    for (const stop of [...this.#gateway.activeCalls])
      stop.cancel(fail('shutdown', 'The gateway is shutting down. Ask again in a moment.'))
    this.#soon.push(() => {
      // A client that left at its answer's end may be waited behind for the upstream's own end, if only for a moment.
      // A shared answer is over, and its slowest reader has yet to read it.
      for (const call of under)
        if (!call.settled && !call.reply.gone && !(call.shareable && call.reply.full))
          this.#watch.breach(24, `request ${call.number} goes on after the shutdown`)
    })
  }

  // ── The way upstream ───────────────────────────────────────────────────────────────────────────────────────────

  readonly #dial: Dial = (call, heard) => {
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
    const body = call.body ?? ''
    const model = /"model":"([^"]*)"/.exec(body)?.[1] ?? ''
    const stream = /"stream":true/.test(body)
    const asked = this.#asking ?? undefined
    this.#asking = null
    const key = /^sk-canary-p\d(k\d)-/.exec(secret)?.[1] ?? ''
    const mode = this.#weather.at(now, provider, `${provider} ${key}`, `${provider} ${key} ${model}`)
    const script = scriptFor(mode, {
      style,
      stream,
      usage: body.includes('"include_usage":true'),
      tag,
      connectTimeout: call.connectTimeout,
      secret,
      chance: this.#chance.upstream,
      poison: asked?.question.poison ?? null,
    })
    const claim = this.#watch.last
    this.#watch.last = null
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
      told: false,
      readOn: 0,
    }
    this.#dials.push(dial)
    this.#mix(number, now)
    this.#seen.add(`mode: ${mode}`)
    this.#trace(`  ${asked?.number} → ${tag} ${call.url} ${key} ${model} (${mode}) ${body}`)
    if (secret !== secretOf(provider, key)) this.#watch.breach(16, `${call.url} was shown ${secret}`)
    if (claim) claim.dial = dial
    this.#lawful(dial, asked, call)
    const { mutant } = this.#options
    const listener = mutant?.listener?.(heard) ?? heard
    dial.played = new Played(script, listener, {
      after: (ms, run) => this.#clock.after(ms, run),
      date: () => this.#wall + this.#clock.now,
      onStep: (step) => this.#step(dial, asked, step),
    })
    return dial.played
  }

  /** What the upstream is about to do. */
  #step(dial: Dialed, asked: Call | undefined, step: Step): void {
    this.#trace(
      `  ${dial.tag} ${step.act}${step.act === 'head' ? ` ${step.status} ${JSON.stringify(step.headers)}` : step.act === 'bytes' ? ` ${Buffer.from(step.chunk).toString('latin1')}` : ''}`,
    )
    if (step.act === 'head') dial.headAt = this.#clock.now
    if (step.act === 'bytes' && step.finished) {
      dial.finished = true
      if (dial.script.meaning !== 'answer') dial.told = true
    }
    if (step.act === 'end' || step.act === 'fail') dial.told = true
    // It has read since it was last full.
    if (step.act === 'bytes' && (!asked?.reply.full || asked.reply.behind === 0)) dial.readOn = 0
    // What several may read is kept for the slowest of them.
    if (step.act !== 'bytes' || !asked?.reply.full || asked.reply.over || asked.shareable) return
    const { reply } = asked
    const { behind } = reply
    // One piece may be on its way when the client turns out to be full; where that shows as what was held is poured, a
    // second is read before the attempt can say so; and one of who goes on with a text.
    this.#soon.push(() => {
      if (reply.full && reply.behind > behind && ++dial.readOn > (asked.dials.length > 1 ? 3 : 2))
        this.#watch.breach(18, `request ${asked.number} is full, and attempt ${dial.tag} is read on`)
      if (reply.behind > MOST_BEHIND)
        this.#watch.breach(18, `${reply.behind} characters wait for request ${asked.number}`)
    })
  }

  /** Whether this attempt may be made now. */
  #lawful(dial: Dialed, call: Call | undefined, { url }: UpstreamCall): void {
    const watch = this.#watch
    const { claim } = dial
    if (!call) return watch.breach(14, `a call of nobody: ${url}`)
    const name = `request ${call.number}`
    const target = claim?.target
    const isTarget =
      target?.candidate.instance.id === dial.provider &&
      target.key.id === dial.key &&
      target.candidate.model === dial.model
    if (!claim || !target || !isTarget)
      return watch.breach(14, `${name} asks ${dial.provider} ${dial.key} ${dial.model} without a claim on it`)
    const now = this.#clock.now
    const { settings, reply } = call
    // Who is to go on with a text that broke off is asked then, of course.
    if (reply.content && !settings.stream.continue) watch.breach(4, `${name} tries ${dial.tag} after content went out`)
    if (reply.over && !call.shareable) watch.breach(4, `${name} tries ${dial.tag} after its reply was over`)
    if (call.goneAt !== null && !call.shareable) watch.breach(4, `${name} tries ${dial.tag} after its client left`)
    if (this.#draining !== null) watch.breach(4, `${name} tries ${dial.tag} after the shutdown`)
    const { request } = settings.timeout
    if (request > 0 && now >= call.at + request + LATEST)
      watch.breach(4, `${name} tries ${dial.tag} after its deadline`)

    const dead = ({ script, told }: Dialed) => told && (script.meaning === 'auth' || script.meaning === 'quota')
    const counted = call.dials.filter((other) => !dead(other))
    if (counted.length >= settings.retry.maxAttempts)
      watch.breach(1, `${name} tries ${dial.tag} behind ${counted.length} of ${settings.retry.maxAttempts} attempts`)
    const id = deploymentId(target)
    if (call.dials.some((other) => other.claim && deploymentId(other.claim.target) === id)) {
      call.repeated++
      if (call.repeated > 1) watch.breach(1, `${name} tries ${id} again, which is the second such repetition`)
    }
    const beside = call.dials.filter((other) => other.played && !other.played.over && !other.finished)
    if (beside.length > 0) {
      this.#hedges++
      if (settings.hedge.percent === 0 || beside.length > 1 || beside[0]?.provider === dial.provider)
        watch.breach(1, `${name} tries ${dial.tag} beside ${beside.map(({ tag }) => tag).join(' and ')}`)
    }
    for (const other of call.dials) {
      const { meaning } = other.script
      if (!other.told) continue
      if (meaning === 'request' || meaning === 'policy') watch.breach(5, `${name} goes on after ${meaning}`)
      if (meaning === 'context' && !this.#larger(other.claim?.target, target))
        watch.breach(5, `${name} goes on after ${meaning}`)
    }
    const again = (other: Dialed) => other.provider === dial.provider && other.model === dial.model && !dead(other)
    if (call.dials.some(again)) {
      const tries = watch.tries(target.candidate)
      tries.made++
      if (tries.made > tries.granted)
        watch.breach(12, `${name} repeats at ${dial.provider} ${dial.model} beyond the retry budget`)
    }
    if (call.dials.length === 0) this.#firstChoice(target, settings.keyStrategy)
    call.dials.push(dial)
  }

  #larger(before: Target | undefined, after: Target): boolean {
    const windowOf = ({ candidate: { instance, model } }: Target) =>
      this.#setup.catalogue(instance.provider.name, model)?.contextWindow
    const [small, large] = [before && windowOf(before), windowOf(after)]
    return small !== undefined && large !== undefined && large > small
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

  // ── What is told ───────────────────────────────────────────────────────────────────────────────────────────────

  #tell(news: GatewayEvent): void {
    switch (news.event) {
      case 'request': {
        const first = news.trace[0]
        const call = first?.type === 'received' ? this.#calls[Number(first.id.slice(4))] : undefined
        if (!call) return this.#watch.breach(15, 'a request nobody made was written down')
        call.recorded++
        call.exchange = news.trace
        const ended = news.trace.find((fact) => fact.type === 'ended')
        if (ended) {
          this.#mix(ended.status, ended.at)
          this.#trace(`request ${call.number} ${ended.how} ${ended.status} ${JSON.stringify(ended.failure ?? null)}`)
        }
        return
      }
      case 'circuit':
        this.#seen.add(`circuit: ${news.from}→${news.to}`)
        this.#seen.add(`circuit of ${news.what}: →${news.to}`)
        this.#mix(news.from.length, news.to.length)
        this.#trace(`circuit ${news.name} ${news.from} → ${news.to}: ${news.why}`)
        return
      case 'key':
        this.#seen.add(`key: ${news.from}→${news.to}`)
        this.#trace(`key ${news.provider} ${news.key} ${news.from} → ${news.to}`)
        return
      case 'fallback':
        this.#trace(`fallback ${news.id} ${news.from} → ${news.to}: ${news.kind}`)
        return
      case 'error':
        return this.#watch.breach(0, `${news.error instanceof Error ? news.error.stack : news.error}`)
      default:
        throw new Error(`unknown news ${JSON.stringify(news satisfies never)}`)
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

  // ── At the end ─────────────────────────────────────────────────────────────────────────────────────────────────

  /** Nothing more is to come: nothing may be left. */
  #atRest(): void {
    const left = (what: string) => this.#watch.breach(14, `at the end ${what}`)
    const { hedge } = this.#setup.config.settings
    if (this.#hedges > 0) this.#seen.add('hedge')
    if (100 * this.#hedges > hedge.percent * this.#calls.length)
      this.#watch.breach(
        12,
        `${this.#hedges} hedges of ${this.#calls.length} requests are more than ${hedge.percent} %`,
      )
    if (this.#clock.live > 0) left(`${this.#clock.live} timers are left`)
    if (this.#gateway.activeCalls.size > 0) left(`${this.#gateway.activeCalls.size} requests can still be stopped`)
    if (this.#watch.open > 0) left(`${this.#watch.open} claims have no verdict`)
    for (const call of this.#calls) if (!call.settled || call.later) left(`request ${call.number} is not over`)
    for (const dial of this.#dials)
      if (dial.played && !dial.played.over)
        left(`attempt ${dial.tag} (${dial.mode}) was neither heard out nor given up`)
    for (const instance of this.#setup.config.instances)
      for (const key of instance.keys)
        if (this.#board.inFlight(instance, key) !== 0) left(`${keyId(instance, key)} has load`)
  }

  /** All is well upstream: whatever was opened or rests has to come back when its time is over and somebody asks. */
  async #recover(): Promise<void> {
    this.#weather.calm = true
    this.#draining = null
    const { config } = this.#setup
    for (const instance of config.instances)
      for (const model of instance.models)
        for (const key of instance.keys) {
          const target: Target = { candidate: { instance, model, because: '', weight: 1 }, key }
          const scopes = [...restsOf(target)]
          const isWell = () =>
            scopes.every(
              (id) =>
                this.#board.cooldown(id) === undefined && this.#watch.circuit(id, config.settings).at === 'closed',
            ) && scopes.every((id) => this.#board.phase(id, config.settings).at === 'closed')
          // Whatever had a reason to rest is asked, whether or not it still seems to rest.
          if (isWell() && !scopes.some((id) => this.#watch.troubled.has(id))) continue
          this.#clock.jump(this.#clock.now + Math.max(config.settings.circuit.resetTimeout, LONGEST_REST) + 1)
          this.#config = only(config, instance, key.id, model)
          this.#trace(`recovery of ${deploymentId(target)}`)
          const body = bodyFor('chat', `${instance.id}/${model}`, false, false, this.#calls.length)
          const call = this.#ask(
            {
              style: 'chat',
              stream: false,
              model: `${instance.id}/${model}`,
              poison: null,
              body,
              broken: false,
              client: '',
              key: null,
            },
            null,
          )
          await settled()
          this.#look()
          await this.#untilRest()
          if (!this.#fine) return
          if (call.reply.status !== 200 || !isWell())
            this.#watch.breach(
              10,
              `${deploymentId(target)} is well and does not come back: ${call.reply.status} ${call.reply.text}`,
            )
        }
  }
}

/** Characters that may be written behind a client's first refusal: a piece from upstream, and what it is translated to. */
const MOST_BEHIND = 64 * 1024
/** Ms by which a timer is late at most. */
const LATEST = 40
/** Ms: the longest rest there is, of a key without quota. */
const LONGEST_REST = 6 * 3_600_000
