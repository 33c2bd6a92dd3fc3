import type { EncodedText } from '../../core/encoded-text.ts'
import { atOnce, inTurns, type Turn } from '../../core/steps.ts'

/** A large body that is written in pieces, once it is to be sent. */
export class LateBody {
  readonly #write: () => Generator<undefined, EncodedText, undefined>
  #source: EncodedText | null = null

  constructor(write: () => Generator<undefined, EncodedText, undefined>) {
    this.#write = write
  }

  get isWritten(): boolean {
    return this.#source !== null
  }

  /** Writes it in pieces. */
  *steps(): Generator<undefined, void, undefined> {
    this.#source = yield* this.#write()
  }

  /** Writes it at once if that is not done yet. */
  get source(): EncodedText {
    this.#source ??= atOnce(this.#write())
    return this.#source
  }
}

/** Writes it in turns of the event loop; null: there is nothing to write. */
export const writeInTurns = (late: LateBody | undefined, turn: Turn): Promise<void> | null =>
  late && !late.isWritten ? inTurns(late.steps(), turn) : null
