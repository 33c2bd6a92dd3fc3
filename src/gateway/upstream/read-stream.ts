import type { Frame, StreamDecoder, StreamReader, StreamStep, UpstreamProtocol } from '../../core/protocol.ts'
import type { Stage } from '../../core/stage.ts'
import * as anthropicMessages from '../../protocols/anthropic-messages/decode-stream.ts'
import { type DeltaForm, RepeatedDeltas } from '../../protocols/framing/repeated-deltas.ts'
import { sse } from '../../protocols/framing/sse.ts'
import * as openaiChat from '../../protocols/openai-chat/decode-stream.ts'
import * as openaiResponses from '../../protocols/openai-responses/decode-stream.ts'

/** The decoders of streams in which most events differ from the previous one only in their text. */
const DELTA_FORMS: ReadonlyMap<UpstreamProtocol['decodeStream'], DeltaForm> = new Map<
  UpstreamProtocol['decodeStream'],
  DeltaForm
>([
  [openaiChat.decodeStream, { textOf: openaiChat.deltaText }],
  [anthropicMessages.decodeStream, { textOf: anthropicMessages.deltaText }],
  [openaiResponses.decodeStream, { textOf: openaiResponses.deltaText, comparesText: true }],
])

/** Reads a provider's stream. `limit`: maximum size of a frame in bytes. */
export const readStream = (
  { framing = sse, decodeStream }: Pick<UpstreamProtocol, 'framing' | 'decodeStream'>,
  limit: number,
): StreamReader => {
  const frames = framing.frames(limit)
  const form = DELTA_FORMS.get(decodeStream)
  return form ? new RepeatedDeltas(frames, decodeStream(), form) : new FrameDecoder(frames, decodeStream())
}

/** Splits bytes into frames and decodes each. */
class FrameDecoder implements StreamReader {
  readonly #frames: Stage<Uint8Array, Frame>
  readonly #decoder: StreamDecoder

  constructor(frames: Stage<Uint8Array, Frame>, decoder: StreamDecoder) {
    this.#frames = frames
    this.#decoder = decoder
  }

  get done(): boolean {
    return this.#decoder.done === true
  }

  get mayBeDone(): boolean {
    return this.#decoder.mayBeDone === true
  }

  push(chunk: Uint8Array): readonly StreamStep[] {
    return this.#decode(this.#frames.push(chunk))
  }

  end(): readonly StreamStep[] {
    const steps = this.#decode(this.#frames.end())
    const events = this.#decoder.end()
    return events.length > 0 ? [...steps, { events }] : steps
  }

  #decode(frames: readonly Frame[]): readonly StreamStep[] {
    return frames.map((frame) => ({ frame, events: this.#decoder.push(frame) }))
  }
}
