import { type TextOrBytes, textOf } from '../../core/encoded-text.ts'
import type { StreamForm, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { sseFrames } from '../framing/sse.ts'
import { asksForList } from './request-path.ts'

/** Events alone: none of Google's readers takes a comment between them. */
const EVENTS: StreamForm = { comments: false }

/** One JSON list, as Google streams without `alt=sse`. */
const LIST: StreamForm = {
  comments: false,
  mediaType: 'application/json',
  shaped: (writer) => new ListWriter(writer),
}

export const streamForm = (query: string): StreamForm => (asksForList(query) ? LIST : EVENTS)

/** Writes the events of another writer as the elements of a list. */
class ListWriter implements StreamWriter<string> {
  readonly #writer: StreamWriter
  #length = 0
  #isOver = false

  constructor(writer: StreamWriter) {
    this.#writer = writer
  }

  push(step: StreamStep): readonly string[] {
    return this.#elements(this.#writer.push(step))
  }

  end(): readonly string[] {
    const last = this.#elements(this.#writer.end())
    if (this.#isOver) return last
    this.#isOver = true
    return [...last, this.#length === 0 ? '[]' : '\n]']
  }

  /** White space has no meaning in a list. */
  keepAlive(): string {
    return this.#isOver ? '' : '\n'
  }

  #elements(pieces: readonly TextOrBytes[]): readonly string[] {
    return pieces
      .flatMap((piece) => sseFrames(Number.POSITIVE_INFINITY).push(textOf(piece)))
      .map(({ data }) => `${this.#length++ === 0 ? '[' : ',\n'}${data}`)
  }
}
