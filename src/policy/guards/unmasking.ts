/** Restores masked texts in an answer. */
import type { Block, ChatEvent, Citation } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import type { Stage } from '../../core/stage.ts'
import { type Masks, releasableLength, type TextForm } from './masks.ts'

/** A replaced mask: its end in the text as received, and by how much the text became longer. */
type Shift = { readonly end: number; readonly by: number }

/**
 * Restores masks in texts, refusals, arguments of tools, citations and blocks of one format. Holds back what may be the beginning
 * of a mask, 32 characters at most. Reasoning stays, because its signature is valid for its text only.
 */
export class UnmaskingStage implements Stage<ChatEvent, ChatEvent> {
  readonly #masks: Masks
  /** Null: the open block is not changed. */
  #form: TextForm | null = 'plain'
  #held = ''
  /** Length of the block's text so far, as received. */
  #length = 0
  #shifts: Shift[] = []

  constructor(masks: Masks) {
    this.#masks = masks
  }

  push(event: ChatEvent): readonly ChatEvent[] {
    switch (event.type) {
      case 'open':
        return [...this.end(), { type: 'open', block: this.#opened(event.block) }]
      case 'delta':
        return this.#form === null ? [event] : this.#released(event, this.#form)
      case 'citation':
        return [{ type: 'citation', citation: this.#citation(event.citation) }]
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
    this.#length = 0
    this.#shifts = []
    this.#form = 'plain'
    if (block.type === 'reasoning') this.#form = null
    if (block.type === 'tool-call' && block.custom !== true) this.#form = 'json'
    return block.type === 'foreign' ? { ...block, raw: this.#object(block.raw) } : block
  }

  #released(event: ChatEvent & { type: 'delta' }, form: TextForm): readonly ChatEvent[] {
    const text = this.#held + event.text
    const length = releasableLength(text)
    const start = this.#length
    const released = this.#masks.restored(text.slice(0, length), form, (at, before, after) =>
      this.#shifts.push({ end: start + at + before, by: after - before }),
    )
    this.#held = text.slice(length)
    this.#length += length
    if (released === event.text) return [event]
    // Probabilities belong to the text as received.
    return released === '' ? [] : [{ type: 'delta', text: released }]
  }

  #citation(citation: Citation): Citation {
    const { url, title, start, end, raw } = citation
    return {
      ...citation,
      url: this.#masks.restored(url, 'plain'),
      ...(title !== undefined && { title: this.#masks.restored(title, 'plain') }),
      ...(start !== undefined && { start: this.#shifted(start) }),
      ...(end !== undefined && { end: this.#shifted(end) }),
      ...(raw !== undefined && { raw: this.#json(raw) }),
    }
  }

  #shifted(offset: number): number {
    return this.#shifts.reduce((moved, { end, by }) => (end <= offset ? moved + by : moved), offset)
  }

  #json(value: Json, name = ''): Json {
    // Arguments of a hosted tool are JSON within JSON.
    if (typeof value === 'string') return this.#masks.restored(value, name === 'arguments' ? 'json' : 'plain')
    if (typeof value === 'number') return name === 'start_index' || name === 'end_index' ? this.#shifted(value) : value
    if (isList(value)) return value.map((item) => this.#json(item, name))
    return isObject(value) ? this.#object(value) : value
  }

  #object(object: JsonObject): JsonObject {
    return Object.fromEntries(
      Object.entries(object).map(([name, value]) => [name, value === undefined ? value : this.#json(value, name)]),
    )
  }
}
