import type { EncodedText } from '../../core/encoded-text.ts'
import { atOnce, inTurns, type Steps, type TurnScheduler } from '../../core/steps.ts'

/** A large request body that is encoded only when it is about to be sent. */
export class LateBody {
  readonly #encode: () => Steps<EncodedText>
  #source: EncodedText | null = null

  constructor(encode: () => Steps<EncodedText>) {
    this.#encode = encode
  }

  /** Whether the body is encoded. */
  get isWritten(): boolean {
    return this.#source !== null
  }

  /** Encodes the body in steps. */
  *steps(): Steps<void> {
    this.#source = yield* this.#encode()
  }

  /** The encoded body. Encodes it first if needed. */
  get source(): EncodedText {
    this.#source ??= atOnce(this.#encode())
    return this.#source
  }
}

/** Encodes a body in turns of the event loop. Null: nothing to encode. */
export const writeInTurns = (late: LateBody | undefined, turn: TurnScheduler): Promise<void> | null =>
  late && !late.isWritten ? inTurns(late.steps(), turn) : null
