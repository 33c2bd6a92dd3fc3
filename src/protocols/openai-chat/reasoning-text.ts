import type { ReasoningSignature } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { issuedSignature, writeDetails } from '../shared/reasoning-members.ts'

/** Collects the text of the open reasoning block for its signature, and separates the blocks. */
export class ReasoningText {
  #text = ''
  #blocks = 0
  #needsSeparator = false

  begin(): void {
    this.#text = ''
    this.#needsSeparator = this.#blocks > 0
    this.#blocks++
  }

  /** Returns the text as it is written. */
  add(text: string): string {
    const separated = this.#needsSeparator ? `\n\n${text}` : text
    this.#needsSeparator = false
    this.#text += text
    return separated
  }

  /** The whole text with its signature in one entry: clients that append lists keep it intact. */
  signed(signature: ReasoningSignature, isSummary: boolean, context: AnswerContext): JsonObject {
    const summary = isSummary ? { summary: true } : {}
    const signed = { text: this.#text, ...summary, signature: issuedSignature(signature, context) }
    return { reasoning_details: writeDetails(signed, Math.max(0, this.#blocks - 1)) }
  }
}
