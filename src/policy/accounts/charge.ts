/** Which tokens an attempt is charged for, by how it ended, and the amount that budgets are charged. `costOf` prices tokens. */
import type { UsageSource } from '../../core/accounts.ts'
import type { Nano } from '../../core/money.ts'
import type { PricedUsage } from './cost.ts'

/**
 * How an attempt ended.
 * - `answered`: the answer is complete.
 * - `interrupted`: the upstream broke it off after content.
 * - `given_up`: the request was sent, and the gateway does not know what the upstream generated: it stopped reading (the client
 *   left, a timeout, a lost hedge, a revoked key), or the connection broke before content.
 * - `refused`: the upstream cannot have worked on it: connection failures, 4xx, 429, 5xx without content.
 * - `shared`: no upstream call was made for it: a cached, shared or idempotent response.
 */
export type ChargedEnd = 'answered' | 'interrupted' | 'given_up' | 'refused' | 'shared'

/** Token counts of an attempt. Estimates are computed only when they are needed. */
export type AttemptTokens = {
  /** The upstream's own count so far. */
  readonly reported?: PricedUsage | undefined
  readonly estimatedInput: () => number
  /** By the length of the text received so far. */
  readonly estimatedOutput: () => number
  /** UTF-16 code units of that text. */
  readonly textLength: () => number
  /** The least output tokens of an answer that was given up; see `owedOutput`. */
  readonly owedOutput: () => number
}

/** Tokens to charge. */
export type ChargedUsage = { readonly usage: PricedUsage; readonly source: UsageSource }

const NOTHING: ChargedUsage = { usage: { input: 0, output: 0 }, source: 'exact' }

/**
 * The amount that a budget is charged for an attempt: its cost, or its reservation if the cost is unknown, as after a crash. Every
 * counter and sum of budgets follows this rule; `CHARGED` in `src/usage/columns/usage-schema.ts` is the same in SQL.
 */
export const chargedCost = (cost: Nano | null, reserved: Nano): Nano => cost ?? reserved

/**
 * The tokens to charge for an attempt. One that was given up is charged at least the output that was reserved: upstreams bill what
 * they generate, and clients could otherwise use a budget without end by leaving just before their answers.
 */
export const chargedUsage = (end: ChargedEnd, estimate: AttemptTokens): ChargedUsage => {
  const { reported } = estimate
  const input = () => reported?.input || estimate.estimatedInput()
  switch (end) {
    case 'shared':
      return NOTHING
    case 'refused':
      return reported ? { usage: reported, source: 'exact' } : NOTHING
    case 'answered':
      if (reported) return completed(reported, estimate)
      return { usage: { input: input(), output: estimate.estimatedOutput() }, source: 'estimated' }
    case 'interrupted': {
      // Counts in the middle of a stream are those of its start: the input, and one token of output.
      const output = Math.max(reported?.output ?? 0, estimate.estimatedOutput())
      return { usage: { ...withoutCost(reported), input: input(), output }, source: 'estimated' }
    }
    case 'given_up': {
      const output = Math.max(reported?.output ?? 0, estimate.estimatedOutput(), estimate.owedOutput())
      return { usage: { ...withoutCost(reported), input: input(), output }, source: 'estimated' }
    }
    default:
      throw new Error(`unknown end ${JSON.stringify(end satisfies never)}`)
  }
}

/** UTF-16 code units of text that no token has on average: the longest are runs of 128 spaces. */
const MAX_TOKEN_LENGTH = 256

/**
 * The count of a complete answer. A side that was not reported is estimated, and so is one that cannot be right: no input, no
 * output for a text, one token for a page (some servers report each event's own tokens).
 */
export const completed = (
  reported: PricedUsage,
  estimate: Omit<AttemptTokens, 'reported' | 'owedOutput'>,
): ChargedUsage => {
  const length = estimate.textLength()
  if (isPlausible(reported, length)) return { usage: reported, source: 'exact' }
  const isTooShort = hasTooFewTokens(reported, length)
  const { unknown, ...usage } = reported
  const input = isInputKnown(reported) ? usage.input : Math.max(estimate.estimatedInput(), cachedIn(usage))
  const output = isTooShort || unknown === 'output' ? Math.max(usage.output, estimate.estimatedOutput()) : usage.output
  const isEqual = input === usage.input && output === usage.output && !unknown
  return { usage: { ...usage, input, output }, source: isEqual ? 'exact' : 'estimated' }
}

/** Whether the count of a complete answer with this much text needs no estimate: that of nearly every answer. */
export const isPlausible = (reported: PricedUsage, textLength: number): boolean =>
  reported.unknown === undefined && isInputKnown(reported) && !hasTooFewTokens(reported, textLength)

const isInputKnown = ({ input, unknown }: PricedUsage): boolean => input > 0 && unknown !== 'input'

const hasTooFewTokens = ({ output }: PricedUsage, textLength: number): boolean =>
  output === 0 ? textLength > 0 : textLength > MAX_TOKEN_LENGTH * (output + 1)

const cachedIn = ({ cacheRead = 0, cacheWrite = 0 }: PricedUsage): number => cacheRead + cacheWrite

/** The cost in the middle of an answer, and what is billed, are those of its beginning. */
const withoutCost = (reported: PricedUsage | undefined): Partial<PricedUsage> => {
  const { reportedCost: _, billed: __, unknown: ___, ...counts } = reported ?? {}
  return counts
}
