/** The usage of several answers as one. */
import type { Usage } from '../../core/chat.ts'
import { MAX_COST } from '../../core/money.ts'
import type { SummedCost } from '../../core/price-source.ts'
import type { AttemptCost } from './cost.ts'

/** Counts that are added. */
const COUNTS = [
  'input',
  'output',
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

/** A sum with one more answer. `sum`: null: it is the first. `cost`: of the answer by itself. */
export const addAnswer = (sum: Usage | null, usage: Usage, cost: AttemptCost): Usage => {
  const counts = COUNTS.flatMap((name) => {
    const count = (sum?.[name] ?? 0) + (usage[name] ?? 0)
    return count === 0 ? [] : [[name, count] as const]
  })
  return { input: 0, output: 0, ...Object.fromEntries(counts), summed: addCost(sum, cost) }
}

const addCost = (sum: Usage | null, { nano, source, version }: AttemptCost): SummedCost | null => {
  const before = sum ? sum.summed : NOTHING
  if (nano === null || !before || before.nano + nano > MAX_COST) return null
  return { nano: before.nano + nano, source, version }
}

const NOTHING = { nano: 0 }
