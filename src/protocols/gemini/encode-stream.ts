import { type ChatAnswer, type ChatEvent, type Finish, isContent, type Usage } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import type { AnswerContext, ClientChoices, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { writeFrame } from '../framing/sse.ts'
import { choicesOf } from '../shared/choices.ts'
import { EMPTY_PART, encodeChoice, responseHead } from './encode-answer.ts'
import { encodeFailure } from './errors.ts'
import { encodeBlocked, encodeUsage, isBlocked } from './finish-and-usage.ts'
import { GeminiPartWriter } from './part-writer.ts'

/**
 * A keep-alive: an empty line. Every reader of Google's SDKs skips it; a comment ends the Python SDK's stream, and an empty candidate
 * leaves its chat without the turn (measured with @google/genai 1.30 and 3.1, google-genai 3.3, 2026-11).
 */
export const PING = '\n\n'

/** The error that ends a stream. */
export const failureText = (
  failure: Failure,
  { requestId, id }: Pick<AnswerContext, 'requestId' | 'id'>,
  interrupted: boolean,
): string =>
  JSON.stringify(encodeFailure(failure, { requestId: requestId ?? id('req'), ...(interrupted && { interrupted }) }))

/** Writes each part as a response of its own, and the finish with the usage as the last one. */
export const encodeStream = (context: AnswerContext): StreamWriter<string> => new ResponsesWriter(context, 1)

/** Candidates of one response. Their parts arrive under their index. */
export const encodeChoices: ClientChoices = {
  whole: encodeChoice,
  stream: (context) => new ResponsesWriter(context, choicesOf(context.request)),
}

/** The members of one candidate. */
type WrittenCandidate = { readonly parts: GeminiPartWriter; finish: Finish | undefined }

class ResponsesWriter implements StreamWriter<string> {
  readonly #context: AnswerContext
  readonly #choices: readonly WrittenCandidate[]
  #head: Pick<ChatAnswer, 'id' | 'model'> = {}
  /** The JSON of `responseHead`, the same for every response of the stream. */
  #identity = ''
  #usage: Usage | undefined
  #hasContent = false
  #over = false
  /** The error that has ended the stream, as JSON. */
  #failed = ''

  constructor(context: AnswerContext, choices: number) {
    this.#context = context
    this.#choices = Array.from({ length: choices }, () => ({ parts: new GeminiPartWriter(context), finish: undefined }))
  }

  push({ events, choices }: StreamStep): readonly string[] {
    const out: string[] = []
    for (const event of events) {
      if (this.#over) break
      this.#hasContent ||= isContent(event)
      if (event.type === 'start') this.#head = event
      else if (event.type === 'usage') this.#usage = event.usage
      else if (event.type === 'failure') return [...out, this.#fail(event.failure)]
      else if (!choices) this.#write(0, event, out)
    }
    for (const choice of choices ?? [])
      for (const event of choice.events) if (!this.#over) this.#write(choice.index, event, out)
    return out
  }

  end(): readonly string[] {
    const finishes = this.#choices.map(({ finish }) => finish)
    if (this.#over || finishes.includes(undefined)) return []
    const unusable = finishes.find((finish) => finish?.kind === 'error' || finish?.kind === 'malformed')
    if (unusable)
      return [
        this.#fail(
          fail('error_in_stream', `The model ended its answer with an error (${unusable.raw ?? unusable.kind}).`),
        ),
      ]
    this.#over = true
    const candidates = this.#choices.flatMap(lastCandidate)
    const [finish] = finishes
    const body = candidates.length > 0 || !finish ? { candidates } : encodeBlocked(finish)
    return [this.#frame({ ...body, usageMetadata: encodeUsage(this.#usage) })]
  }

  keepAlive(): string {
    return this.#over ? '' : PING
  }

  /** Some readers raise an error in an event, others only one that arrives alone (measured, see `PING`). */
  apart(): string {
    return this.#failed
  }

  #write(index: number, event: ChatEvent, out: string[]): void {
    const choice = this.#choices[index]
    if (!choice) return
    if (event.type === 'finish') choice.finish = event.finish
    const parts = choice.parts.write(event)
    if (parts.length > 0) out.push(this.#frame({ candidates: [{ content: { parts, role: 'model' }, index }] }))
  }

  #frame(members: JsonObject): string {
    this.#identity ||= JSON.stringify(responseHead(this.#head, this.#context)).slice(1)
    return writeFrame(undefined, `${JSON.stringify(members).slice(0, -1)},${this.#identity}`)
  }

  #fail(failure: Failure): string {
    this.#over = true
    this.#failed = failureText(failure, this.#context, this.#hasContent)
    return writeFrame(undefined, this.#failed)
  }
}

/** The finished candidate. Empty: its prompt was blocked. */
const lastCandidate = ({ parts, finish }: WrittenCandidate, index: number): readonly JsonObject[] => {
  const rest = parts.end()
  if (!finish || (!parts.hasParts && isBlocked(finish))) return []
  return [{ content: { parts: rest.length > 0 ? rest : [EMPTY_PART], role: 'model' }, ...parts.ending(finish), index }]
}
