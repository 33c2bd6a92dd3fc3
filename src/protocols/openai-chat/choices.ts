/** Encodes answers with several choices (`n`). They share one ID, one usage and one end. */
import { type ChatEvent, isContent } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object } from '../../core/json.ts'
import type { AnswerContext, ClientChoices, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { choicesOf } from '../shared/choices.ts'
import { encodeAnswer } from './encode-answer.ts'
import { choiceWriter, PING, writeFailure } from './encode-stream.ts'

const whole: ClientChoices['whole'] = (answers, context) => {
  const [first, ...others] = answers.map((answer) => encodeAnswer(answer, context))
  const choices = [first, ...others].flatMap((written) => list(written?.choices))
  return { ...first, choices: choices.map(withIndex) }
}

const withIndex = (choice: Json, index: number): JsonObject => ({ ...object(choice), index })

/** Writes the chunks of all choices with their index, then usage if requested, and `[DONE]`. */
class ChoicesWriter implements StreamWriter<string> {
  readonly #context: AnswerContext
  readonly #writers: readonly StreamWriter<string>[]
  #content = false
  #finished = false
  #over = false

  constructor(context: AnswerContext) {
    let answerId: string | undefined
    // Without an ID from the upstream, all choices share a generated one.
    const id = (prefix: string) => {
      if (prefix !== 'chatcmpl') return context.id(prefix)
      answerId ??= context.id(prefix)
      return answerId
    }
    this.#context = context
    const shared = { ...context, id }
    this.#writers = Array.from({ length: choicesOf(context.request) }, (_, index) => choiceWriter(shared, index))
  }

  push({ events, choices = [] }: StreamStep): readonly string[] {
    if (this.#over) return []
    const out: string[] = []
    for (const event of events) {
      this.#content ||= isContent(event)
      if (event.type === 'start') for (const writer of this.#writers) writer.push({ events: [event] })
      else if (event.type === 'usage') this.#writers[0]?.push({ events: [event] })
      else if (event.type === 'finish') this.#finished = true
      else if (event.type === 'failure') return [this.#fail(event)]
    }
    for (const { index, events } of choices) out.push(...(this.#writers[index]?.push({ events }) ?? []))
    return out
  }

  #fail({ failure }: ChatEvent & { readonly type: 'failure' }): string {
    this.#over = true
    return writeFailure(failure, this.#context, this.#content)
  }

  end(): readonly string[] {
    if (this.#over || !this.#finished) return []
    this.#over = true
    return this.#writers[0]?.end() ?? []
  }

  keepAlive(): string {
    return PING
  }
}

/** Encoders for several choices. */
export const encodeChoices: ClientChoices = { whole, stream: (context) => new ChoicesWriter(context) }
