/** What the gateway does when an agent repeats itself. */

/** From the least strict to the strictest. `header`: the answer states it; `alert`: and an alert is sent; `block`: and a loop ends. */
export const LOOP_ACTIONS = ['off', 'header', 'alert', 'block'] as const
export type LoopAction = (typeof LOOP_ACTIONS)[number]

/** The strictest of these actions: a narrower scope only tightens. Absent: off. */
export const strictest = (...actions: readonly (LoopAction | null | undefined)[]): LoopAction => {
  let strict = 0
  for (const action of actions) if (action) strict = Math.max(strict, LOOP_ACTIONS.indexOf(action))
  return LOOP_ACTIONS[strict] ?? 'off'
}

/** The detectors, in the order in which they are reported. */
export const LOOP_DETECTORS = ['repeat', 'cycle', 'same-error', 'no-news', 'say'] as const
export type LoopDetector = (typeof LOOP_DETECTORS)[number]

/** `tool`: that of the last call; empty: it calls none. `times`: of `cycle` rounds, otherwise turns. */
export type FoundLoop = {
  readonly level: 'suspect' | 'loop'
  readonly detector: LoopDetector
  readonly tool: string
  readonly times: number
}

/** Tools whose calls wait for something, so that equal results are usual. */
export const POLLING_TOOLS = [
  ...['*wait*', '*sleep*', '*poll*', '*monitor*', '*status*', '*_output', 'bashoutput', 'taskoutput'],
  ...['write_stdin', 'task_list', 'tasklist', 'list_agents'],
]
