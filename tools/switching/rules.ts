/** The rules that are compared: fixed ones, and that of the gateway with what the gateway knows. */
import { promptPrices, type WarmTarget } from '../../src/policy/switching/cost.ts'
import { SessionScopes } from '../../src/policy/switching/scopes.ts'
import {
  chanceOf,
  keptTokens,
  LearnedTarget,
  lifeAfter,
  usedAt,
  warmTokens,
} from '../../src/policy/switching/warmth.ts'
import { afterFailure, type SwitchRules, whileMoved } from './decide.ts'
import { type Act, MINUTE_PRICE, type Place, type Replay, type Rule } from './replay.ts'
import { outageAt } from './sessions.ts'

/** `wait`: the longest stated end that is waited for, in ms. */
const fixed = (wait: number, moved: Act): Rule => ({
  choose: ({ session }, { at, place }) => {
    if (place === 1) return moved
    const outage = outageAt(session, at)
    return outage?.isStated && outage.to - at <= wait ? 'wait' : 'move'
  },
})

export const FIXED: { readonly [name: string]: Rule } = {
  'return at once': fixed(0, 'return'),
  stay: fixed(0, 'stay'),
  'wait ≤ 20 s, return': fixed(20_000, 'return'),
  'wait ≤ 20 s, stay': fixed(20_000, 'stay'),
}

export const RULES: SwitchRules = { wait: 20_000, minute: MINUTE_PRICE, least: 0.02, horizon: 6, maxStay: 1_800_000 }

const LEFT = 600_000
/** Output that the rule expects: it cannot know that of the turn. */
const OUTPUT = 500

/** Faults of the estimate, to show that the figures depend on each part. */
export type Fault = 'no write price' | 'compaction ignored'

/** Of a target: tokens by which the estimate was wrong, and those of all inputs. */
type Rightness = { wrong: number; input: number }

export class GatewayRule implements Rule {
  readonly #rules: SwitchRules
  readonly #fault: Fault | undefined
  readonly #scopes = new SessionScopes()
  readonly #learned = [new LearnedTarget(), new LearnedTarget()] as const
  readonly right: readonly [Rightness, Rightness] = [
    { wrong: 0, input: 0 },
    { wrong: 0, input: 0 },
  ]

  constructor(rules: SwitchRules = RULES, fault?: Fault) {
    this.#rules = rules
    this.#fault = fault
  }

  readonly choose: Rule['choose'] = (replay, state, turn) => {
    const now = replay.session.turns[turn]
    if (!now) throw new Error(`no turn ${turn}`)
    const sizes = { input: now.input, output: OUTPUT }
    const from = this.#choice(replay, 0, now.input, state.at)
    const to = this.#choice(replay, 1, now.input, state.at)
    if (state.place === 0) {
      const outage = outageAt(replay.session, state.at)
      const ends = outage?.isStated ? outage.to - state.at : null
      const act = afterFailure({ from, key: null, to, ends, left: LEFT }, sizes, this.#rules)
      return act === 'wait' ? 'wait' : 'move'
    }
    const last = this.#scopes.of(replay.session.name)?.input ?? 0
    const growth = Math.max(0, Math.min(now.input, now.input - last))
    const since = state.at - (state.movedAt ?? state.at)
    return whileMoved({ from, to, growth, since }, sizes, this.#rules)
  }

  readonly saw: NonNullable<Rule['saw']> = (replay, { turn, next, read }) => {
    const now = replay.session.turns[turn]
    const use = next.uses[next.place]
    if (!now || !use) return
    const { rules, isHour, prefill } = replay.vendors[next.place]
    const learned = this.#learned[next.place]
    const { warm } = this.#choice(replay, next.place, now.input, use.sent)
    const right = this.right[next.place]
    right.wrong += Math.abs(warm - read)
    right.input += now.input
    const target = nameOf(next.place)
    const known = this.#scopes.of(replay.session.name)
    const before = known?.scopes.find((scope) => scope.target === target)
    const expected = before ? warmTokens(before.tokens, now.input, known?.input ?? 0) : 0
    if (before && expected > 0) learned.saw(use.sent - before.at, expected, read)
    const writes = rules.automatic ? 0 : now.input - read
    const usage = { input: now.input, cacheRead: read, cacheWrite: writes, cacheWrite1h: isHour ? writes : 0 }
    learned.took((now.input - read) * prefill, now.input - read)
    if (read > 0) learned.hasRead = true
    const answer = {
      target,
      tokens: keptTokens(usage, rules, learned.hasRead),
      at: usedAt(rules, use.sent, use.ended),
      life: lifeAfter(rules, isHour || before?.isHour === true),
      isHour: isHour || before?.isHour === true,
      movedFrom: next.place === 1 ? nameOf(0) : null,
      input: this.#fault === 'compaction ignored' ? 0 : now.input,
      size: now.input * 4,
    }
    this.#scopes.note(replay.session.name, answer, use.ended)
  }

  #choice({ session, vendors }: Replay, place: Place, input: number, at: number): WarmTarget {
    const { rules, prices, isHour } = vendors[place]
    const learned = this.#learned[place]
    const known = this.#scopes.of(session.name)
    const scope = known?.scopes.find(({ target }) => target === nameOf(place))
    const tokens = scope ? warmTokens(scope.tokens, input, known?.input ?? 0) : 0
    const chance = scope ? chanceOf(scope, rules, { now: at, learned: learned.chance(at - scope.at) }) : 0
    const list = promptPrices(prices, input, isHour)
    const paid = this.#fault === 'no write price' && list ? { ...list, write: list.read } : list
    return { prices: paid, warm: tokens * chance, prefill: learned.prefill }
  }
}

const nameOf = (place: Place): string => (place === 0 ? 'first' : 'second')
