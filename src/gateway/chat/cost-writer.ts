/** Adds the cost to the end of a stream, for clients that request it by `x-headgate-metadata: body`. */
import { type TextOrBytes, textOf } from '../../core/encoded-text.ts'
import type { AnswerContext, StreamStep, StreamWriter } from '../../core/protocol.ts'
import type { RequestAccount } from '../accounts/request-account.ts'

/** The end of a chat completions stream, before which an event with the cost is written. */
const DONE = 'data: [DONE]'
/** The last event of a responses stream, which receives the cost as a member. */
const LAST_RESPONSE = /^data: \{.*"type":\s*"response\.(?:completed|incomplete)".*\}$/m

export class CostWriter implements StreamWriter {
  readonly #writer: StreamWriter
  readonly #account: Pick<RequestAccount, 'statedCost'>
  readonly #context: AnswerContext
  #hasFailed = false
  #isStated = false

  constructor(writer: StreamWriter, account: Pick<RequestAccount, 'statedCost'>, context: AnswerContext) {
    this.#writer = writer
    this.#account = account
    this.#context = context
  }

  push(step: StreamStep): readonly TextOrBytes[] {
    this.#hasFailed ||= step.events.some(({ type }) => type === 'failure')
    return this.#withCost(this.#writer.push(step))
  }

  end(): readonly TextOrBytes[] {
    return this.#withCost(this.#writer.end())
  }

  keepAlive(): string {
    return this.#writer.keepAlive()
  }

  #withCost(pieces: readonly TextOrBytes[]): readonly TextOrBytes[] {
    return this.#hasFailed || this.#isStated ? pieces : pieces.map((piece) => this.#added(piece))
  }

  #added(piece: TextOrBytes): TextOrBytes {
    const text = textOf(piece)
    const last = LAST_RESPONSE.exec(text)
    const done = text.startsWith(DONE) ? 0 : text.indexOf(`\n${DONE}`) + 1
    const isDone = text.startsWith(DONE) || done > 0
    if (this.#isStated || (!last && !isDone)) return piece
    this.#isStated = true
    const stated = this.#account.statedCost()
    if (!stated) return piece
    const headgate = JSON.stringify(stated)
    if (last) {
      const end = last.index + last[0].length - 1
      return `${text.slice(0, end)},"headgate":${headgate}${text.slice(end)}`
    }
    const { id, created, model } = this.#context
    const members = { id: id('chatcmpl'), object: 'chat.completion.chunk', created, model, choices: [] }
    const event = `data: ${JSON.stringify(members).slice(0, -1)},"headgate":${headgate}}\n\n`
    return text.slice(0, done) + event + text.slice(done)
  }
}
