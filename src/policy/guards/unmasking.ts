/** Restores masked texts in an answer. */
import type { Block, ChatEvent } from '../../core/chat.ts'
import type { Stage } from '../../core/stage.ts'
import { type AnswerChange, changedCitation, changedObject, ShiftedOffsets, type TextForm } from './answer-values.ts'
import { type Masks, releasableLength } from './masks.ts'

/**
 * Restores masks in texts, refusals, arguments of tools, citations and blocks of one format. Holds back what may be the beginning
 * of a mask, 32 characters at most. Reasoning stays, because its signature is valid for its text only.
 */
export class UnmaskingStage implements Stage<ChatEvent, ChatEvent> {
  readonly #masks: Masks
  /** Null: the open block is not changed. */
  #form: TextForm | null = 'plain'
  #held = ''
  #offsets = new ShiftedOffsets()

  readonly #change: AnswerChange

  constructor(masks: Masks) {
    this.#masks = masks
    this.#change = {
      text: (text, form) => masks.restored(text, form),
      offset: (offset) => this.#offsets.moved(offset),
    }
  }

  push(event: ChatEvent): readonly ChatEvent[] {
    switch (event.type) {
      case 'open':
        return [...this.end(), { type: 'open', block: this.#opened(event.block) }]
      case 'delta':
        return this.#form === null ? [event] : this.#released(event, this.#form)
      case 'citation':
        return [{ type: 'citation', citation: changedCitation(event.citation, this.#change) }]
      case 'close':
      case 'finish':
        return [...this.end(), event]
      default:
        return [event]
    }
  }

  end(): readonly ChatEvent[] {
    const rest = this.#held
    this.#held = ''
    return rest === '' ? [] : [{ type: 'delta', text: rest }]
  }

  #opened(block: Block): Block {
    this.#offsets = new ShiftedOffsets()
    this.#form = 'plain'
    if (block.type === 'reasoning') this.#form = null
    if (block.type === 'tool-call' && block.custom !== true) this.#form = 'json'
    return block.type === 'foreign' ? { ...block, raw: changedObject(block.raw, this.#change) } : block
  }

  #released(event: ChatEvent & { type: 'delta' }, form: TextForm): readonly ChatEvent[] {
    const text = this.#held + event.text
    const length = releasableLength(text)
    const released = this.#masks.restored(text.slice(0, length), form, (at, before, after) =>
      this.#offsets.shift(at + before, after - before),
    )
    this.#held = text.slice(length)
    this.#offsets.add(length)
    if (released === event.text) return [event]
    // Probabilities belong to the text as received.
    return released === '' ? [] : [{ type: 'delta', text: released }]
  }
}
