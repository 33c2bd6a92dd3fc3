import { isContent } from '../../core/chat.ts'
import type { TextOrBytes } from '../../core/encoded-text.ts'
import { isList, object } from '../../core/json.ts'
import type { AnswerContext, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { passFrame, singleFrames, writeFrame } from '../framing/sse.ts'
import { withDeltas } from './content-filter.ts'
import { DONE, PING, writeFailure } from './encode-stream.ts'
import { withBothNames } from './reasoning-aliases.ts'

/**
 * Forwards chunks unchanged, with these exceptions: usage that was not requested, `id:` lines and everything after the end
 * are removed; errors are replaced by the gateway's; `reasoning` is copied to `reasoning_content`.
 */
export const passStream = (context: AnswerContext): StreamWriter => new PassWriter(context)

/** Keeps only these members of the context, since streams can stay open for long. */
class PassWriter implements StreamWriter {
  readonly #requestId: string | undefined
  readonly #id: AnswerContext['id']
  readonly #wantsUsage: boolean
  #over = false
  #hasContent = false
  #finished = false
  /** The data of the last repeated events that passed unchanged. Equal data needs no second check. */
  #unchanged: string | undefined

  constructor({ request, requestId, id }: AnswerContext) {
    this.#wantsUsage = request.settings.streamUsage?.value === true
    this.#requestId = requestId
    this.#id = id
  }

  push({ frame, events }: StreamStep): readonly TextOrBytes[] {
    if (this.#over) return []
    let usage = false
    let filtered = false
    for (const event of events) {
      if (event.type === 'failure') {
        this.#over = true
        const { failure } = event
        const context = { id: this.#id, ...(this.#requestId !== undefined && { requestId: this.#requestId }) }
        return [writeFailure(failure, context, this.#hasContent)]
      }
      this.#hasContent ||= isContent(event)
      this.#finished ||= event.type === 'finish'
      filtered ||= event.type === 'finish' && event.finish.kind === 'content-filter'
      usage ||= event.type === 'usage'
    }
    if (!frame) return []
    const { data } = frame
    if (data === '') return [passFrame(frame)]
    if (isDone(data)) {
      this.#over = true
      return [DONE]
    }
    if (usage && !this.#wantsUsage && isOnlyUsage(data)) return []
    if (data === this.#unchanged) return [passFrame(frame)]
    const adapted = (chunk: string) => withBothNames(filtered ? withDeltas(chunk) : chunk)
    // In valid JSON a line break is white space.
    if (adapted(data) !== data)
      return singleFrames(frame).map((each) => writeFrame(each.event, adapted(each.data).replaceAll('\n', ' ')))
    if (frame.raw instanceof Uint8Array) this.#unchanged = data
    return [passFrame(frame)]
  }

  end(): readonly string[] {
    if (this.#over || !this.#finished) return []
    this.#over = true
    return [DONE]
  }

  keepAlive(): string {
    return PING
  }
}

/** Extra white space is removed, since openai-node compares for equality. */
const isDone = (data: string): boolean => data === '[DONE]' || (data.length < 20 && data.trim() === '[DONE]')

/** The chunk that OpenAI adds for `include_usage`: usage without choices. */
const isOnlyUsage = (data: string): boolean => {
  try {
    const choices = object(JSON.parse(data))?.choices
    return isList(choices) && choices.length === 0
  } catch {
    // The decoder reports invalid JSON; here the chunk is forwarded like any other.
    return false
  }
}
