/** The texts of an answer for services that check it as a whole, and its change by their verdict. */
import type { Block, ChatEvent, Citation } from '../../core/chat.ts'
import type { AnswerEdit, RequestText } from '../../core/guard.ts'
import type { Stage } from '../../core/stage.ts'
import { changedCitation } from './answer-values.ts'

/** A block of a choice. `number`: 0 before the first block is opened. */
type TextBlock = {
  readonly choice: number
  readonly number: number
  readonly kind: RequestText['kind']
  readonly canChange: boolean
  readonly parts: string[]
}

/** Collects the texts of an answer, by choice and block. */
export class AnswerTexts {
  readonly #blocks: TextBlock[] = []
  /** The open block of each choice. */
  readonly #open = new Map<number, TextBlock>()
  /** Characters so far. */
  length = 0

  push(choice: number, events: readonly ChatEvent[]): void {
    for (const event of events) {
      if (event.type === 'open') this.#begin(choice, event.block)
      if (event.type !== 'delta') continue
      const block = this.#open.get(choice) ?? this.#begin(choice, null)
      block.parts.push(event.text)
      this.length += event.text.length
    }
  }

  /** The texts so far; their order does not change. */
  list(): readonly RequestText[] {
    return this.#blocks.map(({ kind, parts }) => ({ text: parts.join(''), role: 'assistant', kind }))
  }

  /** The stage that makes these changes in a choice. Changes of texts that must stay are left out. */
  changed(edits: readonly AnswerEdit[], choice: number): Stage<ChatEvent, ChatEvent> {
    const own = new Map<number, { readonly text: string; readonly edits: readonly AnswerEdit[] }>()
    for (const [index, block] of this.#blocks.entries()) {
      if (block.choice !== choice || !block.canChange) continue
      const made = edits.filter((edit) => edit.index === index).toSorted((a, b) => a.start - b.start)
      if (made.length > 0) own.set(block.number, { text: edited(block.parts.join(''), made), edits: made })
    }
    return new EditedTexts(own)
  }

  #begin(choice: number, block: Block | null): TextBlock {
    const before = this.#open.get(choice)
    const number = block === null ? 0 : (before?.number ?? 0) + 1
    const made: TextBlock = { choice, number, parts: [], ...kindOf(block) }
    this.#open.set(choice, made)
    this.#blocks.push(made)
    // The block of one format is complete when it is opened.
    if (block?.type === 'foreign') {
      const text = JSON.stringify(block.raw)
      made.parts.push(text)
      this.length += text.length
    }
    return made
  }
}

/**
 * Reasoning stays, because its signature is valid for its text only; arguments stay, because clients execute them, and so do blocks
 * that the canonical form does not know.
 */
const kindOf = (block: Block | null): Pick<TextBlock, 'kind' | 'canChange'> => {
  switch (block?.type) {
    case 'tool-call':
      return { kind: 'arguments', canChange: false }
    case 'foreign':
      return { kind: 'result', canChange: false }
    case 'reasoning':
      return { kind: 'text', canChange: false }
    default:
      return { kind: 'text', canChange: true }
  }
}

/** Edits that overlap: the first one counts, up to the end of the last. */
const edited = (text: string, edits: readonly AnswerEdit[]): string => {
  let out = ''
  let from = 0
  for (const { start, end, text: instead } of edits) {
    if (start >= from) out += text.slice(from, start) + instead
    from = Math.max(from, end)
  }
  return out + text.slice(from)
}

/** Writes other texts in place of those of some blocks. Offsets of citations follow. */
class EditedTexts implements Stage<ChatEvent, ChatEvent> {
  readonly #blocks: ReadonlyMap<number, { readonly text: string; readonly edits: readonly AnswerEdit[] }>
  #number = 0
  #isWritten = false

  constructor(blocks: ReadonlyMap<number, { readonly text: string; readonly edits: readonly AnswerEdit[] }>) {
    this.#blocks = blocks
  }

  push(event: ChatEvent): readonly ChatEvent[] {
    if (event.type === 'open') {
      this.#number++
      this.#isWritten = false
      return [event]
    }
    const block = this.#blocks.get(this.#number)
    if (!block) return [event]
    if (event.type === 'citation') return [{ type: 'citation', citation: movedCitation(event.citation, block.edits) }]
    if (event.type !== 'delta') return [event]
    const isFirst = !this.#isWritten
    this.#isWritten = true
    return isFirst ? [{ type: 'delta', text: block.text }] : []
  }

  end(): readonly ChatEvent[] {
    return []
  }
}

const movedCitation = (citation: Citation, edits: readonly AnswerEdit[]): Citation => {
  const moved = (offset: number) =>
    edits.reduce((at, { start, end, text }) => (end <= offset ? at + text.length - (end - start) : at), offset)
  return changedCitation(citation, { text: (text) => text, offset: moved })
}
