import type { ChatEvent } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import { type Json, readJson } from '../../core/json.ts'
import type { Frame, StreamDecoder } from '../../core/protocol.ts'
import { malformed, oversizedEvent } from '../errors/answer-failures.ts'

/** The state of an answer that is being decoded. */
type DecodedAnswer = {
  /** The answer has ended or failed; further input is ignored. */
  readonly over: boolean
  readonly mayBeOver?: boolean
  fail(failure: Failure): readonly ChatEvent[]
  /** Ends the input; an unfinished answer is a `truncated` failure. */
  end(): readonly ChatEvent[]
}

/** Decodes a stream with one JSON value in each frame; `read` decodes a value. */
export const decodeJsonFrames = (
  answer: DecodedAnswer,
  read: (value: Json, frame: Frame) => readonly ChatEvent[],
): StreamDecoder => ({
  get done() {
    return answer.over
  },
  get mayBeDone() {
    return answer.mayBeOver === true
  },
  push(frame) {
    if (answer.over) return []
    if (frame.oversized) return answer.fail(oversizedEvent())
    if (frame.data === '') return [{ type: 'ping' }]
    if (frame.data === '[DONE]') return []
    const value = readJson(frame.data)
    return value === undefined ? answer.fail(malformed('an event is not JSON')) : read(value, frame)
  },
  end: () => answer.end(),
})
