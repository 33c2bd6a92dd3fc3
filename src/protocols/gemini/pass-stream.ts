import { isContent } from '../../core/chat.ts'
import type { TextOrBytes } from '../../core/encoded-text.ts'
import type { AnswerContext, Frame, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { passFrame, singleFrames, writeFrame } from '../framing/sse.ts'
import { encodeStream, failureText, PING } from './encode-stream.ts'

/**
 * Passes an upstream's responses to a client of the same format, with their bytes. Errors become the gateway's, and what Google's
 * readers do not take is left out: comments, names of events, `[DONE]`.
 */
export const passStream = (context: AnswerContext): StreamWriter => new GeminiPassWriter(context)

class GeminiPassWriter implements StreamWriter {
  readonly #context: AnswerContext
  #hasContent = false
  #over = false
  #failed = ''
  /** Writes an answer that came whole although a stream was requested. */
  #encoder: StreamWriter | undefined

  constructor(context: AnswerContext) {
    this.#context = context
  }

  push(step: StreamStep): readonly TextOrBytes[] {
    if (this.#over) return []
    for (const event of step.events) {
      if (event.type === 'failure') {
        this.#over = true
        this.#failed = failureText(event.failure, this.#context, this.#hasContent)
        return [writeFrame(undefined, this.#failed)]
      }
      this.#hasContent ||= isContent(event)
    }
    const { frame } = step
    if (frame) return passed(frame)
    if (step.whole === undefined) return []
    this.#encoder ??= encodeStream(this.#context)
    return this.#encoder.push(step)
  }

  end(): readonly TextOrBytes[] {
    if (this.#over) return []
    this.#over = true
    return this.#encoder?.end() ?? []
  }

  keepAlive(): string {
    return this.#over ? '' : PING
  }

  apart(): string {
    return this.#failed
  }
}

const passed = (frame: Frame): readonly TextOrBytes[] => {
  const { raw, event } = frame
  if (raw instanceof Uint8Array && event === undefined) return [passFrame(frame)]
  return singleFrames(frame).flatMap((each) => {
    const { data } = each
    if (data === '' || data === '[DONE]') return []
    const isPlain = each.event === undefined && typeof each.raw === 'string' && each.raw.startsWith('data: ')
    // In valid JSON a line break is white space.
    return [isPlain && !data.includes('\n') ? passFrame(each) : writeFrame(undefined, data.replaceAll('\n', ' '))]
  })
}
