/** One column of the playground: sends its request, and reports the answer as it arrives. */
import { parsed } from '../../../src/core/plain-json.ts'
import {
  type AnswerStyle,
  NO_ANSWER,
  type ShownAnswer,
  sseReader,
  wholeAnswer,
  withEvent,
} from '../../../src/core/shown-answer.ts'
import type { RequestEntry } from '../../../src/usage/reading/queries.ts'
import { callModel, problemIn } from '../api.ts'
import { lateRequest } from '../late-request.ts'
import type { BuiltRequest } from './request.ts'

/** Times are ms after the request was sent. */
export type Run = {
  readonly state: 'idle' | 'running' | 'done' | 'failed' | 'stopped'
  readonly answer: ShownAnswer
  readonly firstMs: number | null
  readonly totalMs: number | null
  /** ID of the request. */
  readonly id: string | null
  readonly status: number | null
  /** The error as a client receives it; null: there is none. */
  readonly error: string | null
  /** What the gateway has stored about it; null: nothing yet. */
  readonly record: RequestEntry | null
}

export const NO_RUN: Run = {
  state: 'idle',
  answer: NO_ANSWER,
  firstMs: null,
  totalMs: null,
  id: null,
  status: null,
  error: null,
  record: null,
}

const pretty = (text: string): string => {
  const value = parsed(text)
  return value === undefined ? text : JSON.stringify(value, null, 2)
}

/** The first content: what counts is text, reasoning or a call. */
const hasContent = ({ text, reasoning, calls }: ShownAnswer): boolean =>
  text !== '' || reasoning !== '' || Object.keys(calls).length > 0

/** Sends a request. `report` receives each change; the last one has another state than `running`. */
export const runRequest = async (
  style: AnswerStyle,
  { path, body }: BuiltRequest,
  signal: AbortSignal,
  report: (run: Run) => void,
): Promise<void> => {
  const began = performance.now()
  const since = () => performance.now() - began
  let run: Run = { ...NO_RUN, state: 'running' }
  const change = (next: Partial<Run>) => {
    run = { ...run, ...next }
    report(run)
  }
  change({})
  try {
    const response = await callModel(path, body, signal)
    const { status, headers } = response
    change({ status, id: headers.get('x-request-id') })
    if (!response.ok) change({ state: 'failed', totalMs: since(), error: pretty(await response.text()) })
    else if (headers.get('content-type')?.startsWith('text/event-stream') && response.body) {
      const next = sseReader()
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        const answer = next(read.value).reduce((before, data) => withEvent(style, before, data), run.answer)
        if (answer !== run.answer) change({ answer, firstMs: run.firstMs ?? (hasContent(answer) ? since() : null) })
      }
      const { error } = run.answer
      change({ state: error === null ? 'done' : 'failed', totalMs: since(), error })
    } else {
      const answer = wholeAnswer(style, await response.json())
      change({ state: 'done', answer, totalMs: since() })
    }
  } catch (error) {
    if (signal.aborted) change({ state: 'stopped', totalMs: since() })
    else change({ state: 'failed', totalMs: since(), error: problemIn(error).message })
  }
  if (run.id === null) return
  // The answer is complete without its cost.
  const record = await lateRequest(run.id).catch(() => null)
  if (record) change({ record })
}
