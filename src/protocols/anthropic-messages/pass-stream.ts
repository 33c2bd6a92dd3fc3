import type { TextOrBytes } from '../../core/encoded-text.ts'
import type { AnswerContext, Frame, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { passFrame, singleFrames, writeFrame } from '../framing/sse.ts'
import { BlockOrder } from './block-order.ts'
import { encodeStream, PING } from './encode-stream.ts'
import { errorEvent } from './errors.ts'

/**
 * Passes an upstream's messages stream to a client of the same format. The bytes stay unchanged, except: errors become the
 * gateway's, missing event names are added (the official SDKs skip events without one), blocks are numbered in order, and a
 * missing last event is added.
 */
export const passStream = (context: AnswerContext): StreamWriter => {
  let hasPassed = false
  let finished = false
  let over = false
  /** Writes a complete answer that an upstream returned although a stream was requested. */
  let encoder: StreamWriter | undefined
  const order = new BlockOrder()

  const pass = (step: StreamStep): readonly TextOrBytes[] => {
    for (const event of step.events) {
      if (event.type === 'failure') {
        over = true
        return [writeFrame('error', JSON.stringify(errorEvent(event.failure, context.requestId)))]
      }
      if (event.type === 'finish') finished = true
    }
    const { frame } = step
    if (!frame) {
      // Events without a frame are a complete answer. After frames they add nothing.
      if (hasPassed || step.events.length === 0) return []
      encoder ??= encodeStream(context)
      return encoder.push(step)
    }
    hasPassed = true
    const type = typeOf(frame)
    over ||= type === 'message_stop'
    if (frame.oversized) return []
    const replaced = order.replace(type, frame)
    if (replaced) return replaced
    if (frame.event !== undefined || type === undefined) return [passFrame(frame)]
    return singleFrames(frame).map((each) => `event: ${type}\n${passFrame(each)}`)
  }

  return {
    push: (step) => (over ? [] : pass(step)),
    end() {
      if (over) return []
      if (encoder) return encoder.end()
      over = true
      return finished ? [writeFrame('message_stop', '{"type":"message_stop"}')] : []
    },
    keepAlive: () => (over ? '' : PING),
  }
}

const TYPE = /^\s*\{\s*"type"\s*:\s*"([a-z_]+)"/
const ANYWHERE = /"type"\s*:\s*"(message_start|message_delta|message_stop|content_block_(?:start|delta|stop)|ping)"/

/** The event type, without parsing the event: `type` is the first member in all recordings. */
const typeOf = ({ event, data }: Frame): string | undefined => event ?? (TYPE.exec(data) ?? ANYWHERE.exec(data))?.[1]
