/** The excess of each rule over the same sessions without outages, in multiples of the optimum's. */
import { costOf, optimum, Replay } from './replay.ts'
import { FIXED, GatewayRule } from './rules.ts'
import { sessionOf } from './sessions.ts'
import { VENDORS, type Vendor } from './vendors.ts'

export type Compared = {
  readonly pair: string
  /** Dollars a session: without outages, and the optimum's excess over that. */
  readonly base: number
  readonly excess: number
  /** By rule, in multiples of `excess`. */
  readonly rules: { readonly [name: string]: number }
  /** The share of input tokens for which the estimate at both targets was right. */
  readonly right: number
}

export const OWN = 'this rule'
const NANO = 1e9

export const comparePair = (first: Vendor, second: Vendor, sessions: number): Compared => {
  const own = new GatewayRule()
  const rules = { ...FIXED, [OWN]: own }
  const sums = new Map<string, number>()
  let base = 0
  let best = 0
  for (let index = 0; index < sessions; index++) {
    const session = sessionOf(`${first.name} ${second.name} ${index}`)
    const replay = new Replay(session, [first, second])
    const calm = costOf(new Replay({ ...session, outages: [] }, [first, second]), CALM)
    base += calm
    best += optimum(replay) - calm
    for (const [name, rule] of Object.entries(rules))
      sums.set(name, (sums.get(name) ?? 0) + costOf(replay, rule) - calm)
  }
  const [one, other] = own.right
  return {
    pair: `${first.name} → ${second.name}`,
    base: base / sessions / NANO,
    excess: best / sessions / NANO,
    rules: Object.fromEntries([...sums].map(([name, sum]) => [name, sum / best])),
    right: 1 - (one.wrong + other.wrong) / (one.input + other.input),
  }
}
const CALM = { choose: () => 'serve' as const }

/** `sessions`: of each pair. */
export const compare = (sessions: number): readonly Compared[] =>
  VENDORS.flatMap((first) =>
    VENDORS.filter((second) => second.name.split(' ')[0] !== first.name.split(' ')[0]).map((second) =>
      comparePair(first, second, sessions),
    ),
  )

export const table = (rows: readonly Compared[]): string => {
  const names = [...Object.keys(FIXED), OWN]
  const lines = rows.map(({ pair, base, excess, rules, right }) => {
    const figures = names.map((name) => (rules[name] ?? Number.NaN).toFixed(2))
    return `| ${[pair, `$${base.toFixed(3)}`, `$${excess.toFixed(4)}`, ...figures, `${(100 * right).toFixed(1)} %`].join(' | ')} |`
  })
  const head = ['first → second', 'without outages', "optimum's excess", ...names, 'tokens right']
  return [`| ${head.join(' | ')} |`, `|${head.map(() => '---').join('|')}|`, ...lines].join('\n')
}
