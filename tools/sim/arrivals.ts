/** Schedules what happens to a gateway from outside: requests arrive, clients leave, its configuration and the wall clock change, it shuts down. */
import { fail } from '../../src/core/failure.ts'
import type { ActiveCalls } from '../../src/gateway/call/cancellation.ts'
import { type Chance, exponential, integer, logNormal, pick } from './chance.ts'
import type { Call } from './client.ts'
import type { SimClients } from './clients.ts'
import { type Dialed, isLeft } from './dialed.ts'
import type { RequestSource } from './requests.ts'
import type { SimState } from './state.ts'

type ArrivalDeps = {
  readonly chance: Chance
  readonly requests: RequestSource
  readonly clients: SimClients
  readonly activeCalls: ActiveCalls
  /** Ends the turn of the event loop for the journal. */
  readonly endTurn: () => void
  /** The wall clock does not jump. */
  readonly steady: boolean
}

export class Arrivals {
  readonly #state: SimState
  readonly #deps: ArrivalDeps

  constructor(state: SimState, deps: ArrivalDeps) {
    this.#state = state
    this.#deps = deps
  }

  /** Sets the timers of a whole run. */
  schedule(): void {
    const state = this.#state
    const { chance, steady } = this.#deps
    const most = integer(chance, 8, 20)
    const mean = pick(chance, [30, 300, 2_000, 2_000, 15_000])
    const last = mean * most
    let at = 0
    for (let n = 0; n < most; n++) {
      // A burst: several at the same time.
      if (chance() > 0.2) at += exponential(chance, mean)
      state.clock.after(at, () => this.#arrive())
    }
    if (chance() < 0.25)
      state.clock.after(chance() * last, () => {
        state.trace('configuration swapped')
        state.config = state.setup.swapped
      })
    if (chance() < 0.25) state.clock.after(chance() * last * 1.2, () => this.#shutDown())
    const jumps = chance() < 0.4 ? integer(chance, 1, 2) : 0
    for (let n = 0; n < jumps; n++) {
      const by = chance() < 0.5 ? 3_600_000 : -3_600_000
      state.clock.after(chance() * last, () => {
        if (steady) return
        state.trace(`wall clock jumps by ${by} ms`)
        state.wallOffset += by
      })
    }
  }

  #arrive(): void {
    if (this.#state.isDraining) return
    const { chance, clients, requests } = this.#deps
    const patience = chance() < 0.15 ? exponential(chance, pick(chance, [50, 1_000, 10_000])) : null
    const reading =
      chance() < 0.12
        ? { room: integer(chance, 1, 1_500), drains: chance() < 0.7 ? logNormal(chance, 500, 1.5) : null }
        : null
    const call = clients.send(requests.next(), reading)
    if (patience !== null) this.#state.clock.after(patience, () => this.#leave(call))
  }

  /** A client disconnects. */
  #leave(call: Call): void {
    if (call.reply.over || call.reply.gone) return
    this.#state.trace(`request ${call.number}: the client disconnects`)
    this.#state.seen.add(
      call.reply.content
        ? 'left: in the middle'
        : call.dials.length === 0
          ? 'left: before an attempt'
          : 'left: waiting',
    )
    call.goneAt = this.#state.clock.now
    if (call.later) this.#state.soon(call.later)
    call.later = null
    call.reply.leave()
    this.#state.soon(() => {
      // A whole answer that a hard budget pays for is read to its end.
      const mustEnd = (dial: Dialed) => !dial.finished && !isLeft(dial) && !call.shareable && call.request.stream
      for (const dial of call.dials)
        if (dial.played && !dial.played.over && mustEnd(dial))
          this.#state.watch.breach(
            25,
            `the client of request ${call.number} disconnected, but attempt ${dial.tag} (${dial.mode}) continues`,
          )
    })
  }

  #shutDown(): void {
    this.#state.trace('shutdown')
    this.#state.isDraining = true
    const active = this.#state.calls.filter(({ settled }) => !settled)
    if (active.length > 0) this.#state.seen.add('shutdown: with requests in progress')
    for (const stop of [...this.#deps.activeCalls])
      stop.cancel(fail('shutdown', 'The gateway is shutting down. Ask again in a moment.'))
    // An attempt that is being recorded ends with the turn of the event loop.
    this.#deps.endTurn()
    this.#state.soon(() => {
      // After a disconnect at the end of the response, the gateway may still wait for the upstream's end. A shared
      // response may have ended while its slowest reader still reads.
      for (const call of active)
        if (!call.settled && !call.reply.gone && !(call.shareable && call.reply.full))
          this.#state.watch.breach(24, `request ${call.number} continues after the shutdown`)
    })
  }
}
