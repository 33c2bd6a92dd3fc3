/** Sessions of agents with their gaps, and the outages of the first target. The same for each seed. */
import { sessionRandom } from '../../src/policy/routing/stickiness.ts'

/** `gap`: ms from the end of its answer to the next request. `takes`: ms from the request to the end of its answer. */
export type Turn = {
  readonly input: number
  readonly output: number
  readonly takes: number
  readonly gap: number
  /** Turns of different generations share no beginning: the history was compacted between them. */
  readonly generation: number
}
/** `isStated`: each refusal states how long it lasts. */
export type Outage = { readonly from: number; readonly to: number; readonly isStated: boolean }
export type Session = {
  readonly name: string
  readonly turns: readonly Turn[]
  readonly outages: readonly Outage[]
}

const logNormal = (random: () => number, median: number, sigma: number): number =>
  median * Math.exp(sigma * Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random()))

/** Loops of tools, pauses of people, and breaks: 97 to 98 % of the gaps are below five minutes, as LiteLLM measured of real returns. */
const gapOf = (random: () => number): number => {
  const kind = random()
  if (kind < 0.82) return logNormal(random, 3_000, 1)
  if (kind < 0.99) return logNormal(random, 75_000, 1)
  return logNormal(random, 1_200_000, 0.7)
}

const COMPACT_ABOVE = 160_000

export const sessionOf = (seed: string): Session => {
  const random = sessionRandom(seed)
  const turns: Turn[] = []
  const count = 8 + Math.floor(random() * 50)
  let input = Math.min(60_000, logNormal(random, 22_000, 0.6))
  let generation = 0
  while (turns.length < count) {
    const output = Math.min(4_000, logNormal(random, 350, 0.8))
    turns.push({
      input: Math.round(input),
      output: Math.round(output),
      takes: 2_000 + 18 * output,
      gap: gapOf(random),
      generation,
    })
    input += output + Math.min(20_000, logNormal(random, 900, 1.2))
    if (input < COMPACT_ABOVE) continue
    input = 25_000
    generation++
  }
  const whole = turns.reduce((sum, { takes, gap }) => sum + takes + gap, 0)
  const outages = Array.from({ length: 1 + Math.floor(random() * 3) }, (): Outage => {
    const from = random() * whole
    const isStated = random() < 0.6
    const lasts = isStated ? -13_000 * Math.log(1 - random()) : logNormal(random, 240_000, 1)
    return { from, to: from + lasts, isStated }
  })
  return { name: seed, turns, outages: outages.sort((a, b) => a.from - b.from) }
}

/** The outage at this time; undefined: there is none. */
export const outageAt = ({ outages }: Session, at: number): Outage | undefined =>
  outages.find(({ from, to }) => from <= at && at < to)
