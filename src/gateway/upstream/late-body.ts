import type { EncodedText } from '../../core/encoded-text.ts'
import { atOnce, inTurns, type Steps, type TurnScheduler } from '../../core/steps.ts'

/** A large request body. It is encoded by `encodeInTurns` before it is sent, otherwise when it is first read. */
export class LateBody implements EncodedText {
  readonly #encode: () => Steps<EncodedText>
  #encoded: EncodedText | null = null

  constructor(encode: () => Steps<EncodedText>) {
    this.#encode = encode
  }

  get text(): string {
    return this.#now().text
  }

  get bytes(): Uint8Array | undefined {
    return this.#now().bytes
  }

  #now(): EncodedText {
    this.#encoded ??= atOnce(this.#encode())
    return this.#encoded
  }

  /** Encodes the body in turns of the event loop. Null: it is already encoded. */
  inTurns(turn: TurnScheduler): Promise<void> | null {
    return this.#encoded ? null : inTurns(this.#steps(), turn)
  }

  *#steps(): Steps<void> {
    this.#encoded = yield* this.#encode()
  }
}

/** Encodes a large body in turns of the event loop. Null: nothing to encode. */
export const encodeInTurns = (body: EncodedText, turn: TurnScheduler): Promise<void> | null =>
  body instanceof LateBody ? body.inTurns(turn) : null
