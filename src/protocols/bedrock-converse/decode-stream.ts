import type { ChatEvent } from '../../core/chat.ts'
import { parseObject } from '../../core/json.ts'
import type { Frame } from '../../core/protocol.ts'
import type { Stage } from '../../core/stage.ts'
import { malformed, oversizedEvent } from '../errors/answer-failures.ts'
import { exceptionFailure } from '../errors/aws-error.ts'
import { ERROR, EXCEPTION } from '../framing/event-stream.ts'
import { ConverseAnswerReader } from './answer-reader.ts'

/** Decodes a ConverseStream answer. `metadata`, which has the usage, follows `messageStop`. */
export const decodeStream = (): Stage<Frame, ChatEvent> => {
  const reader = new ConverseAnswerReader()
  return {
    push({ event, data, oversized }) {
      if (oversized) return reader.fail(oversizedEvent())
      const payload = parseObject(data)
      const mark = [EXCEPTION, ERROR].find((prefix) => event?.startsWith(prefix))
      if (event !== undefined && mark !== undefined)
        return reader.fail(exceptionFailure(event.slice(mark.length), payload ?? {}))
      // `initial-response` is empty.
      if (data === '') return reader.ping()
      if (!payload) return reader.fail(malformed('an event is damaged or not a JSON object'))
      if (event === undefined) return reader.fail(malformed('an event without a name'))
      return reader.push(event, payload)
    },
    end: () => reader.end(),
  }
}
