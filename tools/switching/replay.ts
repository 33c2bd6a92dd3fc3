/** Replays a session at two targets: what a turn costs, and what follows from it. */

import { sessionRandom } from '../../src/policy/routing/stickiness.ts'
import { costAt, delayAt, promptPrices } from '../../src/policy/switching/cost.ts'
import { outageAt, type Session } from './sessions.ts'
import type { Vendor } from './vendors.ts'

export const MINUTE_PRICE = 0.1
const NANO = 1e9

/** The last use of a target: the turn, and when its request was sent and its answer ended. */
export type Use = { readonly turn: number; readonly sent: number; readonly ended: number }
export type Place = 0 | 1
/** Before a turn. `at`: when its request comes. `uses`: of each target; null: none. */
export type State = {
  readonly at: number
  readonly place: Place
  readonly uses: readonly [Use | null, Use | null]
  /** When a failure moved the session; null: it is at its first target. */
  readonly movedAt: number | null
}
export const START: State = { at: 0, place: 0, uses: [null, null], movedAt: null }

export type Act = 'serve' | 'wait' | 'move' | 'stay' | 'return'

export class Replay {
  readonly session: Session
  readonly vendors: readonly [Vendor, Vendor]
  readonly #lives: readonly (readonly [number, number])[]

  constructor(session: Session, vendors: readonly [Vendor, Vendor]) {
    this.session = session
    this.vendors = vendors
    const random = sessionRandom(`lives of ${session.name}`)
    this.#lives = session.turns.map(() => [vendors[0].life(random), vendors[1].life(random)])
  }

  /** What may be done with a turn. Only an outage lets a session leave its first target, as the plan's order is kept. */
  acts({ at, place }: State): readonly Act[] {
    const isAway = outageAt(this.session, at) !== undefined
    if (place === 0) return isAway ? ['wait', 'move'] : ['serve']
    return isAway ? ['stay'] : ['stay', 'return']
  }

  /** Tokens that a target really reads from its cache. */
  cached({ uses }: Pick<State, 'uses'>, turn: number, place: Place, at: number): number {
    const use = uses[place]
    const now = this.session.turns[turn]
    const then = use && this.session.turns[use.turn]
    if (!use || !now || !then || then.generation !== now.generation) return 0
    const { rules } = this.vendors[place]
    const since = rules.from === 'request' ? use.sent : use.ended
    const life = this.#lives[use.turn]?.[place] ?? 0
    return at - since > life || then.input < rules.least ? 0 : Math.min(then.input, now.input)
  }

  /** The cost in nano-dollars, with minutes, and the state before the next turn. */
  step(state: State, turn: number, act: Act): { readonly cost: number; readonly next: State; readonly read: number } {
    const now = this.session.turns[turn]
    if (!now) throw new Error(`no turn ${turn}`)
    const sent = act === 'wait' ? (outageAt(this.session, state.at)?.to ?? state.at) : state.at
    const place: Place = act === 'move' || act === 'stay' ? 1 : 0
    const { prices, isHour, prefill } = this.vendors[place]
    const read = this.cached(state, turn, place, sent)
    const choice = { prices: promptPrices(prices, now.input, isHour), warm: read, prefill }
    const wait = sent - state.at + (delayAt(choice, now) ?? 0)
    const cost = (costAt(choice, now) ?? Number.NaN) + (MINUTE_PRICE * NANO * wait) / 60_000
    const ended = sent + now.takes
    const use = { turn, sent, ended }
    const next: State = {
      at: ended + now.gap,
      place,
      uses: place === 0 ? [use, state.uses[1]] : [state.uses[0], use],
      movedAt: place === 0 ? null : (state.movedAt ?? state.at),
    }
    return { cost, next, read }
  }
}

/** A way to choose acts. `saw`: what was done, and how much was read from the cache. */
export type Rule = {
  readonly choose: (replay: Replay, state: State, turn: number) => Act
  readonly saw?: (replay: Replay, done: { readonly turn: number; readonly next: State; readonly read: number }) => void
}

export const costOf = (replay: Replay, rule: Rule): number => {
  let state = START
  let sum = 0
  for (let turn = 0; turn < replay.session.turns.length; turn++) {
    const allowed = replay.acts(state)
    const [only] = allowed
    const act = allowed.length === 1 && only !== undefined ? only : rule.choose(replay, state, turn)
    if (!allowed.includes(act)) throw new Error(`${act} is not possible`)
    const { cost, next, read } = replay.step(state, turn, act)
    rule.saw?.(replay, { turn, next, read })
    sum += cost
    state = next
  }
  return sum
}

/** The least cost of all ways, by dynamic programming over turn, place, and the last use of each target. All outages and lives are known. */
export const optimum = (replay: Replay): number => {
  let states = new Map<string, { readonly state: State; readonly cost: number }>([['', { state: START, cost: 0 }]])
  for (let turn = 0; turn < replay.session.turns.length; turn++) {
    const after: typeof states = new Map()
    for (const { state, cost } of states.values())
      for (const act of replay.acts(state)) {
        const step = replay.step(state, turn, act)
        const [one, other] = step.next.uses
        const name = `${one?.turn},${one?.sent},${other?.turn},${other?.sent}`
        const known = after.get(name)
        const sum = cost + step.cost
        if (!known || sum < known.cost) after.set(name, { state: step.next, cost: sum })
      }
    states = after
  }
  return Math.min(...[...states.values()].map(({ cost }) => cost))
}
