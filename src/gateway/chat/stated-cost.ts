/** Adds the cost to the end of a stream, for clients that request it by `x-headgate-metadata: body`. */
import type { ChatEvent } from '../../core/chat.ts'
import { type TextOrBytes, textOf } from '../../core/encoded-text.ts'
import type { AnswerFollower, Guard } from '../../core/guard.ts'
import type { AnswerContext, ClientProtocol } from '../../core/protocol.ts'
import type { RequestAccount } from '../accounts/request-account.ts'

/** How the client's format states a cost. */
type StatesCost = NonNullable<ClientProtocol['statesCost']>

/** The member of the list for a call whose client requests the cost. The headers of other answers state it. */
export const costGuard = (statesCost: StatesCost, account: Pick<RequestAccount, 'statedCost'>): Guard => ({
  written: ({ stream }) => stream && new StatedCost(statesCost, account, stream),
})

class StatedCost implements AnswerFollower {
  readonly #statesCost: StatesCost
  readonly #account: Pick<RequestAccount, 'statedCost'>
  readonly #context: AnswerContext
  #hasFailed = false
  #isStated = false

  constructor(statesCost: StatesCost, account: Pick<RequestAccount, 'statedCost'>, context: AnswerContext) {
    this.#statesCost = statesCost
    this.#account = account
    this.#context = context
  }

  events(events: readonly ChatEvent[]): void {
    this.#hasFailed ||= events.some(({ type }) => type === 'failure')
  }

  piece(piece: TextOrBytes): TextOrBytes {
    if (this.#hasFailed || this.#isStated) return piece
    const stated = this.#statesCost(textOf(piece), () => this.#account.statedCost(), this.#context)
    if (stated === null) return piece
    this.#isStated = true
    return stated
  }

  complete(): void {}

  discard(): void {}
}
