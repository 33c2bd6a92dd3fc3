/** Adds the cost to the end of a stream, for clients that request it by `x-headgate-metadata: body`. */
import { type TextOrBytes, textOf } from '../../core/encoded-text.ts'
import type { AnswerContext, ClientProtocol, StreamStep, StreamWriter } from '../../core/protocol.ts'
import type { RequestAccount } from '../accounts/request-account.ts'

/** How the client's format states a cost. */
type StatesCost = NonNullable<ClientProtocol['statesCost']>

export class CostWriter implements StreamWriter {
  readonly #writer: StreamWriter
  readonly #account: Pick<RequestAccount, 'statedCost'>
  readonly #statesCost: StatesCost
  readonly #context: AnswerContext
  #hasFailed = false
  #isStated = false

  constructor(
    writer: StreamWriter,
    account: Pick<RequestAccount, 'statedCost'>,
    { statesCost, context }: { readonly statesCost: StatesCost; readonly context: AnswerContext },
  ) {
    this.#writer = writer
    this.#account = account
    this.#statesCost = statesCost
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
    if (this.#isStated) return piece
    const stated = this.#statesCost(textOf(piece), () => this.#account.statedCost(), this.#context)
    if (stated === null) return piece
    this.#isStated = true
    return stated
  }
}
