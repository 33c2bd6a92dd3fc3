/**
 * Closes the parts of a process at its end. No part can keep the process alive: each has a limit, and a part that is not closed
 * within it is named.
 */

/** ms from the end of a drain to the end of its process, at most: the shipped service files add it to the drain. */
export const LONGEST_END = 10_000

/** Parts that close at the same time, by name. */
export type ClosingStep = {
  /** ms. */
  readonly within: number
  readonly parts: Readonly<Record<string, () => unknown>>
}

/** Why a part is not closed. */
export type Unclosed = { readonly part: string; readonly problem: string }

/** Closes one step after the other, each within its limit. Never rejects. */
export const closeParts = async (
  steps: readonly ClosingStep[],
  report: (unclosed: Unclosed) => void,
): Promise<void> => {
  for (const { within, parts } of steps) {
    const closing = Object.entries(parts).map(async ([part, close]) => {
      const problem = await problemOf(close, within)
      if (problem !== null) report({ part, problem })
    })
    await Promise.all(closing)
  }
}

const problemOf = async (close: () => unknown, within: number): Promise<string | null> => {
  const { promise: late, resolve } = Promise.withResolvers<string>()
  const timer = setTimeout(resolve, within, `it did not close within ${within} ms`)
  const closed = async (): Promise<null> => {
    await close()
    return null
  }
  try {
    return await Promise.race([closed(), late])
  } catch (error) {
    return String(error)
  } finally {
    clearTimeout(timer)
  }
}
