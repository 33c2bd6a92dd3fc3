/** Connects the gateway to simulated upstreams, and checks each call and each step of its script. */
import { textOf, wholeBody } from '../../src/core/encoded-text.ts'
import type { Dial, UpstreamListener } from '../../src/core/world.ts'
import type { AttemptChecks } from './attempt-checks.ts'
import type { Chance } from './chance.ts'
import type { Call } from './client.ts'
import type { Dialed } from './dialed.ts'
import { secretOf } from './setup.ts'
import type { SimState } from './state.ts'
import { ScriptPlayer, type Step, scriptFor, type UpstreamModes } from './upstreams.ts'
import { type Style, tagOf } from './wires.ts'

/** Maximum characters written after the client is full: one piece from upstream and its translation. */
const MAX_OVERFLOW = 64 * 1024

type DialingDeps = {
  readonly chance: Chance
  readonly modes: UpstreamModes
  readonly checks: AttemptChecks
  readonly listenerOf: (listener: UpstreamListener) => UpstreamListener
}

export class Dialing {
  readonly #state: SimState
  readonly #deps: DialingDeps
  /** The request whose call is dialled next. */
  caller: Call | null = null

  constructor(state: SimState, deps: DialingDeps) {
    this.#state = state
    this.#deps = deps
  }

  /** Calls an upstream. Its present mode determines the script of its response. */
  readonly dial: Dial = (call, listener) => {
    const state = this.#state
    const { modes, chance, checks, listenerOf } = this.#deps
    const { now } = state.clock
    const number = state.dials.length
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
    const caller = this.caller ?? undefined
    this.caller = null
    const key = /^sk-canary-p\d(k\d)-/.exec(secret)?.[1] ?? ''
    const mode = modes.at(now, provider, `${provider} ${key}`, `${provider} ${key} ${model}`)
    const script = scriptFor(mode, {
      style,
      stream,
      usage: body.includes('"include_usage":true'),
      tag,
      connectTimeout: call.connectTimeout,
      secret,
      chance,
      poison: caller?.request.poison ?? null,
    })
    const claim = state.watch.claimOf(provider, key, model)
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
      beside: [],
    }
    state.dials.push(dial)
    state.mix(number, now)
    state.seen.add(`mode: ${mode}`)
    state.trace(`  ${caller?.number} → ${tag} ${call.url} ${key} ${model} (${mode}) ${body}`)
    if (secret !== secretOf(provider, key)) state.watch.breach(16, `${call.url} received ${secret}`)
    if (claim) claim.dial = dial
    checks.check(dial, caller, call)
    dial.played = new ScriptPlayer(script, listenerOf(listener), {
      after: (ms, run) => state.clock.after(ms, run),
      date: () => state.date(),
      onStep: (step) => this.#step(dial, caller, step),
    })
    return dial.played
  }

  /** Checks each step of an upstream before it runs. */
  #step(dial: Dialed, caller: Call | undefined, step: Step): void {
    const state = this.#state
    state.trace(
      `  ${dial.tag} ${step.act}${step.act === 'head' ? ` ${step.status} ${JSON.stringify(step.headers)}` : step.act === 'bytes' ? ` ${Buffer.from(step.chunk).toString('latin1')}` : ''}`,
    )
    if (step.act === 'head') dial.headAt = state.clock.now
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
    state.soon(() => {
      if (reply.full && reply.overflow > overflow && ++dial.readOn > (caller.dials.length > 1 ? 3 : 2))
        state.watch.breach(18, `the client of request ${caller.number} is full, but attempt ${dial.tag} is still read`)
      if (reply.overflow > MAX_OVERFLOW)
        state.watch.breach(18, `${reply.overflow} characters are buffered for request ${caller.number}`)
    })
  }
}
