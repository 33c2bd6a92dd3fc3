/**
 * Finds whether an agent repeats itself, in the history that it sends with a request. No state is kept, so each gateway can judge
 * each request. Thresholds are numbers of turns.
 */
import { type FoundLoop, LOOP_DETECTORS, type LoopDetector } from '../../core/loops.ts'
import type { AgentTurn, ToolUse } from './agent-turns.ts'
import { UseTexts } from './use-texts.ts'

export type LoopOptions = {
  /** Whether calls of this tool wait for something, so that equal results are usual. */
  readonly isPolling: (tool: string) => boolean
  /** Characters of the whole request. */
  readonly size: number
}

type Threshold = { readonly suspect: number; readonly loop: number }

/** gemini-cli stops after 5 equal calls. */
const THRESHOLDS: { readonly [detector in LoopDetector]: Threshold } = {
  repeat: { suspect: 3, loop: 5 },
  cycle: { suspect: 3, loop: 4 },
  'same-error': { suspect: 4, loop: 6 },
  'no-news': { suspect: 8, loop: 12 },
  say: { suspect: 3, loop: 4 },
}

/** Turns that poll: agents wait for processes by equal calls with equal results. */
const POLLING = 20
/** Calls of the longest pattern of `cycle`. */
const LONGEST = 4
/** The part by which the request must have grown for `no-news`. */
const GROWN = 0.2

/** What the turns of an agent repeat; null: nothing. A loop comes before what is suspected. */
export const findLoop = (turns: readonly AgentTurn[], options: LoopOptions): FoundLoop | null => {
  if (turns.length < THRESHOLDS.repeat.suspect) return null
  const texts = new UseTexts()
  const last = turns.at(-1)
  const tool = last?.uses.at(-1)?.tool ?? ''
  let suspected: FoundLoop | null = null
  for (const detector of LOOP_DETECTORS) {
    const times = COUNT[detector](turns, texts, options)
    const { suspect, loop } = THRESHOLDS[detector]
    if (times >= loop) return { level: 'loop', detector, tool, times }
    if (times >= suspect) suspected ??= { level: 'suspect', detector, tool, times }
  }
  return suspected
}

type Count = (turns: readonly AgentTurn[], texts: UseTexts, options: LoopOptions) => number

/** Equal turns at the end. */
const repeated: Count = (turns, texts, options) => {
  const times = endingRun(turns, 1, texts) + 1
  return times === 1 || !isWaiting(turns.slice(-1), texts, options) ? times : asPolled(times, THRESHOLDS.repeat)
}

/** Rounds of a pattern at the end. */
const cycled: Count = (turns, texts, options) => {
  for (let length = 2; length <= LONGEST; length++) {
    const same = endingRun(turns, length, texts)
    const rounds = Math.floor((same + length) / length)
    if (rounds < THRESHOLDS.cycle.suspect) continue
    if (!isWaiting(turns.slice(-length), texts, options)) return rounds
    return asPolled(rounds * length, THRESHOLDS.cycle)
  }
  return 0
}

/** Turns of a number that is not reached by waiting: as many as there are, if they are more than waiting takes. */
const asPolled = (times: number, { suspect, loop }: Threshold): number =>
  times >= POLLING ? Math.max(times, loop) : Math.min(times, suspect - 1)

/** Turns at the end that are equal to those so many turns before them. */
const endingRun = (turns: readonly AgentTurn[], distance: number, texts: UseTexts): number => {
  let run = 0
  for (let at = turns.length - 1; at >= distance; at--) {
    const [one, other] = [turns[at], turns[at - distance]]
    if (!one || !other || !isSame(one, other, texts)) break
    run++
  }
  return run
}

/** Turns with the same calls and results. Those without calls are for `say`. */
const isSame = ({ uses }: AgentTurn, { uses: others }: AgentTurn, texts: UseTexts): boolean =>
  uses.length > 0 &&
  uses.length === others.length &&
  (matches(uses, others, texts) || (uses.length > 1 && matches(inOrder(uses), inOrder(others), texts)))

const matches = (uses: readonly ToolUse[], others: readonly ToolUse[], texts: UseTexts): boolean =>
  uses.every((use, at) => {
    const other = others[at]
    return other !== undefined && texts.isSameCall(use, other) && texts.isSameResult(use, other)
  })

/** Parallel calls come in any order. */
const inOrder = (uses: readonly ToolUse[]): readonly ToolUse[] =>
  uses.toSorted((one, other) => (`${one.tool} ${one.input}` < `${other.tool} ${other.input}` ? -1 : 1))

const isWaiting = (turns: readonly AgentTurn[], texts: UseTexts, { isPolling }: LoopOptions): boolean =>
  turns.some(({ uses }) => uses.some((use) => isPolling(use.tool) || texts.isSleep(use)))

/** Turns at the end whose results are all the same error, whatever was called. */
const sameErrors: Count = (turns, texts, options) => {
  const error = errorOf(turns.at(-1), texts)
  if (error === null) return 0
  let times = 0
  while (times < turns.length && errorOf(turns.at(-1 - times), texts) === error) times++
  return isWaiting(turns.slice(-1), texts, options) ? asPolled(times, THRESHOLDS['same-error']) : times
}

/** The error of all results of a turn; null: there is none, or several. */
const errorOf = (turn: AgentTurn | undefined, texts: UseTexts): string | null => {
  const [first, ...others] = turn?.uses ?? []
  if (!first?.isError) return null
  const error = texts.errorOf(first)
  return others.every((use) => use.isError && texts.errorOf(use) === error) ? error : null
}

/** Turns at the end without a result that is new among the turns that are read, while the request has grown. */
const withoutNews: Count = (turns, texts, options) => {
  let [times, grown] = [0, 0]
  for (let at = turns.length - 1; at > 0; at--) {
    const turn = turns[at]
    if (!turn || turn.uses.length === 0 || turn.uses.some((use) => isNews(use, turns.slice(0, at), texts))) break
    times++
    grown += turn.size
  }
  if (times < THRESHOLDS['no-news'].suspect) return 0
  if (isWaiting(turns.slice(-times), texts, options)) return asPolled(times, THRESHOLDS['no-news'])
  return grown >= GROWN * (options.size - grown) ? times : 0
}

/** A short result, such as `ok`, says nothing by itself: it is news of a call that was not made before. */
const SHORT = 200

const isNews = (use: ToolUse, earlier: readonly AgentTurn[], texts: UseTexts): boolean => {
  const isShort = use.result.length < SHORT
  return !earlier.some(({ uses }) =>
    uses.some((known) => texts.isSameResult(use, known) && (!isShort || texts.isSameCall(use, known))),
  )
}

/** Turns at the end that say the same and call nothing. */
const saidAgain: Count = (turns) => {
  const said = turns.at(-1)?.said ?? ''
  if (said === '') return 0
  let times = 0
  while (times < turns.length && turns.at(-1 - times)?.said === said) times++
  return times
}

const COUNT: { readonly [detector in LoopDetector]: Count } = {
  repeat: repeated,
  cycle: cycled,
  'same-error': sameErrors,
  'no-news': withoutNews,
  say: saidAgain,
}
