/** The usage of several answers as one. */
import type { Usage } from '../../core/chat.ts'
import { MAX_COST } from '../../core/money.ts'
import type { SummedCost } from '../../core/price-source.ts'
import type { AttemptCost } from './cost.ts'

/** Counts that are added beside input and output. */
const PARTS = [
  'cacheRead',
  'cacheWrite',
  'cacheWrite1h',
  'reasoning',
  'audioInput',
  'imageInput',
  'videoInput',
  'audioOutput',
  'imageOutput',
  'videoOutput',
] as const satisfies readonly (keyof Usage)[]

/**
 * The tokens of two answers. What each upstream reported about its own alone is omitted: its usage object, cost, service tier and tool
 * calls.
 */
export const addCounts = (first: Usage, second: Usage): Usage => {
  const parts = PARTS.filter((name) => first[name] !== undefined || second[name] !== undefined)
  return {
    input: first.input + second.input,
    output: first.output + second.output,
    ...Object.fromEntries(parts.map((name) => [name, (first[name] ?? 0) + (second[name] ?? 0)])),
  }
}

/** A sum with one more answer. `sum`: null: it is the first. `cost`: of the answer by itself. */
export const addAnswer = (sum: Usage | null, usage: Usage, cost: AttemptCost): Usage => ({
  ...addCounts(sum ?? NO_TOKENS, usage),
  summed: addCost(sum, cost),
})

const NO_TOKENS: Usage = { input: 0, output: 0 }

const addCost = (sum: Usage | null, { nano, source, version }: AttemptCost): SummedCost | null => {
  const before = sum ? sum.summed : NOTHING
  if (nano === null || !before || before.nano + nano > MAX_COST) return null
  return { nano: before.nano + nano, source, version }
}

const NOTHING = { nano: 0 }
