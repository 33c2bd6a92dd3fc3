import type { Citation } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import { encodeCitation } from '../shared/openai-finish-and-usage.ts'

const NO_CITATIONS: readonly Citation[] = []

/** Counts the text of an answer for the offsets of its citations. */
export class CitedText {
  /** Length of the open text block, and of the text blocks before it. */
  #length = 0
  #before = 0
  /** Citations of the open text block without a range. */
  #cited = NO_CITATIONS

  begin(): void {
    this.#length = 0
  }

  add(text: string): void {
    this.#length += text.length
  }

  /** A citation without a range covers its whole text, which may follow (Claude), so it is written at the text's end. */
  cite(citation: Citation, isOpen: boolean): readonly JsonObject[] {
    if (!isOpen || (citation.start !== undefined && citation.end !== undefined)) return this.#annotations([citation])
    this.#cited = [...this.#cited, citation]
    return []
  }

  /** The end of a text block: returns its citations. */
  end(): readonly JsonObject[] {
    const cited = this.#annotations(this.#cited)
    this.#cited = NO_CITATIONS
    this.#before += this.#length
    return cited
  }

  #annotations(citations: readonly Citation[]): readonly JsonObject[] {
    return citations.map((citation) => encodeCitation(citation, this.#before, this.#length))
  }
}
