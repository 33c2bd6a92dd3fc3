/** How much of a budget is used: amounts in nano-dollars, times in ms since 1970. */
export type SpendStanding = {
  readonly spent: number
  readonly amount: number
  /** As of the budget: `month`. */
  readonly period: string
  /** Null: never. */
  readonly resetsAt: number | null
  /** A budget that others use too: of a team, or of all. */
  readonly isShared: boolean
}

/** The used part: 1 is all. */
export const usedPart = ({ spent, amount }: Pick<SpendStanding, 'spent' | 'amount'>): number =>
  amount > 0 ? spent / amount : 1

/** The one that a person should know about: among those that are used up the one that resets last, otherwise the fullest. */
export const fullest = <Standing extends SpendStanding>(standings: readonly Standing[]): Standing | null =>
  standings.reduce<Standing | null>((last, one) => (last && !isAbove(one, last) ? last : one), null)

const isAbove = (one: SpendStanding, other: SpendStanding): boolean => {
  const [used, otherUsed] = [usedPart(one), usedPart(other)]
  if (used >= 1 && otherUsed >= 1) return resetOf(one) > resetOf(other)
  return used > otherUsed
}

const resetOf = ({ resetsAt }: SpendStanding): number => resetsAt ?? Number.POSITIVE_INFINITY
