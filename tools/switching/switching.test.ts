/** The simulation of switches: its sessions are as agents are, its optimum is one, and it detects faults of the estimate. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { comparePair, OWN } from './compare.ts'
import { costOf, optimum, Replay, type Rule, START } from './replay.ts'
import { type Fault, FIXED, GatewayRule, RULES } from './rules.ts'
import { type Session, sessionOf } from './sessions.ts'
import { VENDORS, type Vendor } from './vendors.ts'

const vendor = (name: string): Vendor => {
  const found = VENDORS.find((one) => one.name === name)
  assert(found, name)
  return found
}
const sessions = (count: number): readonly Session[] =>
  Array.from({ length: count }, (_, at) => sessionOf(`test ${at}`))

test('switching: 96 to 98 % of the gaps are shorter than five minutes', () => {
  const gaps = sessions(1_000).flatMap(({ turns }) => turns.map(({ gap, takes }) => gap + takes))
  const share = gaps.filter((gap) => gap <= 300_000).length / gaps.length
  assert(share >= 0.96 && share <= 0.98, String(share))
})

test('switching: no rule costs less than the optimum, for each pair', () => {
  for (const first of VENDORS)
    for (const second of VENDORS)
      for (const session of sessions(8)) {
        const replay = new Replay(session, [first, second])
        const least = optimum(replay)
        for (const rule of [...Object.values(FIXED), new GatewayRule()])
          assert(costOf(replay, rule) >= least - 1, `${first.name} ${second.name} ${session.name}`)
      }
})

test('switching: the optimum is that of all ways, one after another', () => {
  for (const session of sessions(400).slice(0, 40)) {
    const short = { ...session, turns: session.turns.slice(0, 9) }
    const replay = new Replay(short, [vendor('anthropic'), vendor('openai')])
    const all = (state: typeof START, turn: number): number => {
      if (turn === short.turns.length) return 0
      const costs = replay.acts(state).map((act) => {
        const { cost, next } = replay.step(state, turn, act)
        return cost + all(next, turn + 1)
      })
      return Math.min(...costs)
    }
    assert(Math.abs(optimum(replay) - all(START, 0)) < 1)
  }
})

test('switching: only a stated end is waited for, within the limit, and `maxStay` holds', () => {
  const seen: string[] = []
  for (const session of sessions(300)) {
    const rule = new GatewayRule()
    const checked: Rule = {
      saw: rule.saw,
      choose: (replay, state, turn) => {
        const act = rule.choose(replay, state, turn)
        const outage = session.outages.find(({ from, to }) => from <= state.at && state.at < to)
        if (act === 'wait') assert(outage?.isStated && outage.to - state.at <= RULES.wait)
        if (act === 'stay') assert(state.at - (state.movedAt ?? state.at) < RULES.maxStay)
        seen.push(act)
        return act
      },
    }
    costOf(new Replay(session, [vendor('anthropic'), vendor('bedrock')]), checked)
  }
  for (const act of ['wait', 'move', 'stay', 'return']) assert(seen.includes(act), act)
})

/** The cost above the optimum, and the share of tokens that the estimate has wrong. */
const measured = (fault?: Fault) => {
  const rule = new GatewayRule(RULES, fault)
  let cost = 0
  for (const session of sessions(1_500))
    cost += costOf(new Replay(session, [vendor('anthropic'), vendor('openai')]), rule)
  const [one, other] = rule.right
  return { cost, wrong: (one.wrong + other.wrong) / (one.input + other.input) }
}

test('switching: each fault of the estimate is seen in the figures', () => {
  const right = measured()
  assert(measured('compaction ignored').wrong > 1.1 * right.wrong)
  assert(measured('no write price').cost > 1.02 * right.cost)
})

test('switching: the estimate has at least 90 % of the tokens right, by pair', () => {
  for (const first of VENDORS)
    for (const second of VENDORS) {
      if (first === second) continue
      const { right, rules } = comparePair(first, second, 150)
      assert(right >= 0.9, `${first.name} ${second.name} ${right}`)
      assert(Number.isFinite(rules[OWN]))
    }
})
