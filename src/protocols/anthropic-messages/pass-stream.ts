import type { AnswerContext, Frame, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { EVENT_FIELD_BYTE, passFrame, writeFrame } from '../framing/sse.ts'
import { encodeStream, KEEP_ALIVE_COMMENT, PING } from './encode-stream.ts'
import { errorEvent } from './errors.ts'

/**
 * Passes an upstream's stream of this format on, byte for byte, save three things: its errors become ours, an event
 * without a name gets it (the official SDKs skip such events), and a forgotten last event is added.
 */
export const passStream = (context: AnswerContext): StreamWriter => {
  let passed = false
  let started = false
  let finished = false
  let over = false
  /** For an answer that came whole although a stream was asked for. */
  let writer: StreamWriter | undefined

  const pass = (step: StreamStep): readonly string[] => {
    for (const event of step.events) {
      if (event.type === 'failure') {
        over = true
        return [writeFrame('error', JSON.stringify(errorEvent(event.failure, context.requestId)))]
      }
      if (event.type === 'finish') finished = true
    }
    const { frame } = step
    if (!frame) {
      // Events without a frame are an answer that came whole; after frames there is nothing they could add.
      if (passed || step.events.length === 0) return []
      writer ??= encodeStream(context)
      return writer.push(step)
    }
    passed = true
    const type = typeOf(frame)
    started ||= type === 'message_start'
    over ||= type === 'message_stop'
    const named = frame.event === undefined && type !== undefined ? `event: ${type}\n` : ''
    return frame.oversized ? [] : [named + passFrame(frame)]
  }

  return {
    push: (step) => (over ? [] : pass(step)),
    passes(bytes) {
      // Frames without their name are given it.
      if (over || writer || bytes[0] !== EVENT_FIELD_BYTE) return false
      passed = true
      return true
    },
    end() {
      if (over) return []
      if (writer) return writer.end()
      over = true
      return finished ? [writeFrame('message_stop', '{"type":"message_stop"}')] : []
    },
    keepAlive: () => (over ? '' : (writer?.keepAlive() ?? (started ? PING : KEEP_ALIVE_COMMENT))),
  }
}

const TYPE = /^\s*\{\s*"type"\s*:\s*"([a-z_]+)"/
const ANYWHERE = /"type"\s*:\s*"(message_start|message_delta|message_stop|content_block_(?:start|delta|stop)|ping)"/

/** What an event is, without parsing it again: `type` stands first in all that has been recorded. */
const typeOf = ({ event, data }: Frame): string | undefined => event ?? (TYPE.exec(data) ?? ANYWHERE.exec(data))?.[1]
